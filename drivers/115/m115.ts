/**
 * The envelope of some calls of 115's web API ("m115"): JSON is mixed with a table and random bytes, and encrypted with
 * the public key of the server. Answers are decrypted with the same public key.
 */
import { constants, createPublicKey, publicDecrypt, publicEncrypt, randomBytes, type KeyObject } from 'node:crypto'
import { protocolViolation } from './errors.js'

/** Modulus of the server's public key of 1024 bits. */
const serverModulus =
  '8686980c0f5a24c4b9d43020cd2c22703ff3f450756529058b1cf88f09b86021' +
  '36477198a6e2683149659bd122c33592fdb5ad47944ad1ea4d36c6b172aad633' +
  '8c3bb6ac6227502d010993ac967d1aef00f0c8e038de2e4d3bc2ec368af2e9f1' +
  '0a6f1eda4f7262f136420c07c331b871bf139f74f3010e3c4fe57df3afb71683'
const table = Buffer.from(
  'f0e569aebfdcbf8a1a45e8be7da673b8de8fe7c445da86c49b648b146ab4f1aa' +
    '3801359e26692c86006b4fa5363462a62a966818f24afdbd6b978f4d8f8913b7' +
    '6c8e93ed0e0d483ed72f88d8fefe7e8650954fd1eb832634db667b9c7e9d7a81' +
    '32eab633de3aa95934663baaba816048b9d5819cf86c8477ff5478265fbee81e' +
    '369f34805c452c9b76d51b8fccc3b8f5',
  'hex',
)
const clientKey = Buffer.from('7806ad4c33865d184c013f46', 'hex')
/** Bytes of the random key at the beginning of a message. */
const keyLength = 16
/** Bytes of an encrypted block, and of a message in it (RFC 8017 §7.2.1: at least 11 bytes of padding). */
const [blockLength, pieceLength] = [128, 117]
/** Maximum bytes of an encrypted answer: it is decrypted at once. */
const maxEnvelope = 256 * 1024

/** A request in the envelope. Its answer can be opened with it only. */
export class M115 {
  readonly #publicKey: KeyObject

  /** `key`: 16 random bytes. `modulus`: hexadecimal, that of a test double. */
  constructor(
    private readonly key: Buffer = randomBytes(keyLength),
    modulus: string = process.env.TIDEGATE_115_RSA_MODULUS ?? serverModulus,
  ) {
    const n = Buffer.from(modulus, 'hex').toString('base64url')
    this.#publicKey = createPublicKey({ key: { kty: 'RSA', n, e: 'AQAB' }, format: 'jwk' })
  }

  /** The value of the form field `data` for this payload. */
  seal(payload: object): string {
    const message = this.mixed(Buffer.from(JSON.stringify(payload)))
    const blocks: Buffer[] = []
    for (let at = 0; at < message.length; at += pieceLength) {
      const piece = message.subarray(at, at + pieceLength)
      blocks.push(publicEncrypt({ key: this.#publicKey, padding: constants.RSA_PKCS1_PADDING }, piece))
    }
    return Buffer.concat(blocks).toString('base64')
  }

  /** What is encrypted of a text: the key, and the text mixed with it. */
  mixed(plain: Buffer): Buffer {
    const inner = xored(plain, derivedKey(this.key, 4)).reverse()
    return Buffer.concat([this.key, xored(inner, clientKey)])
  }

  /** The text of an answer. Throws `unavailable` if it is none. */
  open(sealed: string): string {
    const encrypted = Buffer.from(sealed, 'base64')
    if (encrypted.length === 0 || encrypted.length > maxEnvelope || encrypted.length % blockLength !== 0)
      throw protocolViolation('sent a broken envelope')
    const pieces: Buffer[] = []
    for (let at = 0; at < encrypted.length; at += blockLength) {
      pieces.push(withoutPadding(this.#decrypted(encrypted.subarray(at, at + blockLength))))
    }
    const message = Buffer.concat(pieces)
    if (message.length < keyLength) throw protocolViolation('sent a broken envelope')
    const inner = xored(message.subarray(keyLength), derivedKey(message.subarray(0, keyLength), 12)).reverse()
    return xored(inner, derivedKey(this.key, 4)).toString()
  }

  #decrypted(block: Buffer): Buffer {
    try {
      return publicDecrypt({ key: this.#publicKey, padding: constants.RSA_NO_PADDING }, block)
    } catch {
      throw protocolViolation('sent a broken envelope')
    }
  }
}

/** The bytes after the padding, which ends with the first zero byte after the first one. */
function withoutPadding(block: Buffer): Buffer {
  const end = block.indexOf(0, 1)
  return end < 0 ? Buffer.alloc(0) : block.subarray(end + 1)
}

/** A key of `length` bytes from the first bytes of a seed. */
export function derivedKey(seed: Buffer, length: number): Buffer {
  const at = (index: number) => table[index] ?? 0
  return Buffer.from(
    Array.from(seed.subarray(0, length), (byte, index) => {
      const sum = (byte + at(length * index)) & 0xff
      return sum ^ at(length * (length - 1 - index))
    }),
  )
}

/** The bytes of `data` combined with the key, which begins anew after the first `data.length % 4` bytes. */
function xored(data: Buffer, key: Buffer): Buffer {
  const head = data.length % 4
  const result = Buffer.alloc(data.length)
  for (const [index, byte] of data.entries()) {
    result[index] = byte ^ (key[(index < head ? index : index - head) % key.length] ?? 0)
  }
  return result
}
