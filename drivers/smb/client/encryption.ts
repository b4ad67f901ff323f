/** Message encryption (MS-SMB2 §2.2.41, §3.1.4.3): a transform header, followed by the encrypted message. */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import { ProtocolError } from './errors.js'
import type { SessionKeys } from './keys.js'

export const ciphers = { aes128Ccm: 1, aes128Gcm: 2, aes256Ccm: 3, aes256Gcm: 4 } as const
export type Cipher = (typeof ciphers)[keyof typeof ciphers]

/** The ciphers in the order of preference. */
export const allCiphers: readonly Cipher[] = [
  ciphers.aes128Gcm,
  ciphers.aes256Gcm,
  ciphers.aes128Ccm,
  ciphers.aes256Ccm,
]

const headerLength = 52
const encryptedProtocol = 0x424d53fd
const tagLength = 16

export function cipherKeyLength(cipher: Cipher): 16 | 32 {
  return cipher === ciphers.aes256Ccm || cipher === ciphers.aes256Gcm ? 32 : 16
}

export function isEncrypted(frame: Buffer): boolean {
  return frame.length >= 4 && frame.readUInt32LE(0) === encryptedProtocol
}

export class MessageEncryption {
  readonly #isGcm: boolean
  readonly #bits: 128 | 256
  /** Nonce counter. A nonce must not repeat under one key; a key is used on one connection only. */
  #count = 0n

  constructor(
    cipher: Cipher,
    private readonly keys: SessionKeys,
    private readonly sessionId: bigint,
  ) {
    this.#isGcm = cipher === ciphers.aes128Gcm || cipher === ciphers.aes256Gcm
    this.#bits = cipherKeyLength(cipher) === 16 ? 128 : 256
  }

  /** The encrypted form of `message`, with its transform header. Each call needs a new nonce. */
  encrypt(message: readonly Buffer[], nonce = this.#nextNonce()): Buffer[] {
    const size = message.reduce((sum, part) => sum + part.length, 0)
    const header = Buffer.alloc(headerLength)
    header.writeUInt32LE(encryptedProtocol, 0)
    nonce.copy(header, 20)
    header.writeUInt32LE(size, 36)
    header.writeUInt16LE(1, 42)
    header.writeBigUInt64LE(this.sessionId, 44)
    const additional = header.subarray(20)
    if (this.#isGcm) {
      const cipher = createCipheriv(`aes-${this.#bits}-gcm`, this.keys.encryption, nonce).setAAD(additional)
      const parts = message.map((part) => cipher.update(part))
      cipher.final()
      cipher.getAuthTag().copy(header, 4)
      return [header, ...parts]
    }
    const cipher = createCipheriv(`aes-${this.#bits}-ccm`, this.keys.encryption, nonce, { authTagLength: tagLength })
    cipher.setAAD(additional, { plaintextLength: size })
    // In CCM mode, `update` accepts only one call.
    const text = cipher.update(message.length === 1 && message[0] ? message[0] : Buffer.concat(message))
    cipher.final()
    cipher.getAuthTag().copy(header, 4)
    return [header, text]
  }

  /**
   * The decrypted messages of a frame. Throws a ProtocolError if it is malformed, of another session or not authentic.
   */
  decrypt(frame: Buffer): Buffer {
    if (frame.length < headerLength) throw new ProtocolError('truncated encrypted message')
    const header = frame.subarray(0, headerLength)
    const text = frame.subarray(headerLength)
    if (header.readUInt32LE(36) !== text.length || header.readBigUInt64LE(44) !== this.sessionId) {
      throw new ProtocolError('encrypted message with a wrong size or session id')
    }
    const tag = header.subarray(4, 20)
    const additional = header.subarray(20)
    try {
      if (this.#isGcm) {
        const decipher = createDecipheriv(`aes-${this.#bits}-gcm`, this.keys.decryption, header.subarray(20, 32), {
          authTagLength: tagLength,
        })
        decipher.setAAD(additional).setAuthTag(tag)
        const message = decipher.update(text)
        decipher.final()
        return message
      }
      const decipher = createDecipheriv(`aes-${this.#bits}-ccm`, this.keys.decryption, header.subarray(20, 31), {
        authTagLength: tagLength,
      })
      decipher.setAuthTag(tag).setAAD(additional, { plaintextLength: text.length })
      const message = decipher.update(text)
      decipher.final()
      return message
    } catch (error) {
      throw new ProtocolError('encrypted message failed authentication', { cause: error })
    }
  }

  #nextNonce(): Buffer {
    const nonce = Buffer.alloc(this.#isGcm ? 12 : 11)
    nonce.writeBigUInt64LE(++this.#count)
    return nonce
  }
}
