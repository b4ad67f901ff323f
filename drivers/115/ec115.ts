/**
 * The encryption of 115's upload API ("ec115"): a key that is agreed upon with the server's key on the curve P-224,
 * which encrypts forms, and answers that are LZ4 blocks.
 */
import { createCipheriv, createDecipheriv, createECDH, ECDH, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { protocolViolation } from './errors.js'
import { decompressLz4Block } from './lz4-block.js'

const curve = 'secp224r1'
const serverKey =
  '0457a29257cd2320e5d6d143322fa4bb8a3cf9d3cc623ef5edac62b767' +
  '8a89c91a83ba800d6129f522d034c895dd2465243addc250953beeba'
const salt = '^j>WD3Kr?J2gLFjD4W2y@'
const cipher = 'aes-128-cbc'
/** Bytes of a block of AES. */
const blockLength = 16
/** Maximum bytes of a decrypted answer. */
const maxAnswer = 8192
/** Bytes of the client's key on each side of its text in a token. */
const half = 15

export class Ec115 {
  /** The client's public key, as the server expects it: its length, and the compressed point. */
  readonly keyText: Buffer
  readonly secret: Buffer

  /** `privateKey`: 28 bytes. `serverPoint`: hexadecimal, that of a test double. */
  constructor(privateKey?: Buffer, serverPoint: string = process.env.TIDEGATE_115_EC_PUBLIC ?? serverKey) {
    const own = createECDH(curve)
    if (privateKey) own.setPrivateKey(privateKey)
    else own.generateKeys()
    const point = ECDH.convertKey(own.getPublicKey(), curve, undefined, undefined, 'compressed') as Buffer
    this.keyText = Buffer.concat([Buffer.from([point.length]), point])
    this.secret = own.computeSecret(Buffer.from(serverPoint, 'hex'))
  }

  /** The query parameter `k_ec`. `time`: milliseconds since 1970. The masks are random bytes. */
  token(time: number, [first, second]: readonly [number, number] = [randomInt(256), randomInt(256)]): string {
    const masked = (bytes: Buffer, mask: number) => bytes.map((byte) => byte ^ mask)
    const body = Buffer.concat(
      [
        ...[masked(this.keyText.subarray(0, half), first), [first]],
        ...[masked(littleEndian(115), first), masked(littleEndian(time), first)],
        ...[masked(this.keyText.subarray(half), second), [second], masked(littleEndian(1), second)],
      ].map((part) => Buffer.from(part)),
    )
    const checksum = crc32(body, crc32(salt))
    return Buffer.concat([body, littleEndian(checksum)]).toString('base64')
  }

  encrypt(plain: string): Buffer {
    const encryption = createCipheriv(cipher, this.#key, this.#vector)
    return Buffer.concat([encryption.update(plain), encryption.final()])
  }

  /** The text of an answer. Throws `unavailable` if it is none. */
  decrypt(encrypted: Buffer): string {
    const whole = encrypted.subarray(0, encrypted.length - (encrypted.length % blockLength))
    const decryption = createDecipheriv(cipher, this.#key, this.#vector).setAutoPadding(false)
    const plain = Buffer.concat([decryption.update(whole), decryption.final()])
    const length = plain.length < 2 ? plain.length : plain.readUInt16LE()
    if (length + 2 > plain.length) throw protocolViolation('sent an answer that cannot be decrypted')
    try {
      return decompressLz4Block(plain.subarray(2, 2 + length), maxAnswer).toString()
    } catch {
      throw protocolViolation('sent an answer that cannot be decrypted')
    }
  }

  get #key(): Buffer {
    return this.secret.subarray(0, blockLength)
  }

  get #vector(): Buffer {
    return this.secret.subarray(-blockLength)
  }
}

/** The lowest 32 bits. */
function littleEndian(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value % 2 ** 32)
  return bytes
}
