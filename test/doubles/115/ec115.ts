/** The server's side of the encryption of 115's upload API, with its own key on the curve P-224. */
import { createCipheriv, createDecipheriv, createECDH, type ECDH } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { compressBlock } from './lz4.js'

const salt = '^j>WD3Kr?J2gLFjD4W2y@'
const tokenSize = 48
const keyTextSize = 30
const secretSize = 28
const maxPlain = 8192

/** What the query parameter `k_ec` says. */
export interface EcToken {
  /** `1D` and the compressed public key of the client. */
  readonly clientKey: Buffer
  /** The low 32 bits of the client's time in milliseconds. */
  readonly time: number
}

/** A token or a body that could not be decoded. */
export class BadToken extends Error {}

/** Throws `BadToken`. */
export function decodeToken(text: string): EcToken {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length !== tokenSize) throw new BadToken('wrong length')
  const checked = Buffer.concat([Buffer.from(salt), bytes.subarray(0, 44)])
  if (crc32(checked) !== bytes.readUInt32LE(44)) throw new BadToken('wrong checksum')
  const [first = 0, second = 0] = [bytes[15], bytes[39]]
  const plain = Buffer.from(
    bytes.map((byte, at) => (at === 15 || at === 39 ? byte : byte ^ (at < 24 ? first : second))),
  )
  if (plain.readUInt32LE(16) !== 115 || plain.readUInt32LE(40) !== 1) throw new BadToken('wrong constants')
  return {
    clientKey: Buffer.concat([plain.subarray(0, 15), plain.subarray(24, 39)]),
    time: plain.readUInt32LE(20),
  }
}

/** Encrypts and decrypts with a shared secret of 28 bytes. */
export class EcCipher {
  readonly #key: Buffer
  readonly #iv: Buffer

  constructor(secret: Buffer) {
    this.#key = secret.subarray(0, 16)
    this.#iv = secret.subarray(-16)
  }

  /** The text of a request. Throws `BadToken`. */
  decrypt(bytes: Buffer): string {
    const cipher = createDecipheriv('aes-128-cbc', this.#key, this.#iv)
    try {
      return Buffer.concat([cipher.update(bytes), cipher.final()]).toString()
    } catch (error) {
      throw new BadToken(String(error))
    }
  }

  /** An answer: its length and the compressed text, filled up to whole blocks, and some bytes that mean nothing. */
  encrypt(text: string): Buffer {
    const plain = Buffer.from(text)
    if (plain.length > maxPlain) throw new Error('the answer is too long for this encryption')
    const block = compressBlock(plain)
    const length = Buffer.alloc(2)
    length.writeUInt16LE(block.length)
    const filled = Buffer.alloc(Math.ceil((block.length + 2) / 16) * 16)
    Buffer.concat([length, block]).copy(filled)
    const cipher = createCipheriv('aes-128-cbc', this.#key, this.#iv).setAutoPadding(false)
    return Buffer.concat([cipher.update(filled), cipher.final(), Buffer.from('the end')])
  }
}

export class Ec115Server {
  readonly #ecdh: ECDH = createECDH('secp224r1')
  /** The public key, uncompressed, in hexadecimal. */
  readonly publicKey = this.#ecdh.generateKeys('hex', 'uncompressed')

  /** The cipher for a client with this token. Throws `BadToken`. */
  cipherFor({ clientKey }: EcToken): EcCipher {
    if (clientKey.length !== keyTextSize || clientKey[0] !== 0x1d) throw new BadToken('wrong client key')
    try {
      return new EcCipher(fullSecret(this.#ecdh.computeSecret(clientKey.subarray(1))))
    } catch (error) {
      throw new BadToken(String(error))
    }
  }
}

/** The x coordinate in 28 bytes, whatever its leading zeros. */
function fullSecret(secret: Buffer): Buffer {
  return Buffer.concat([Buffer.alloc(secretSize - secret.length), secret])
}
