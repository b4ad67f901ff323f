/** Message signing (MS-SMB2 §3.1.4.1): 16 bytes in the header, which are zero while the signature is computed. */
import { createCipheriv, createHmac, timingSafeEqual } from 'node:crypto'
import { signatureOffset } from './header.js'

export const signingAlgorithms = { hmacSha256: 0, aesCmac: 1, aesGmac: 2 } as const
export type SigningAlgorithm = (typeof signingAlgorithms)[keyof typeof signingAlgorithms]

export class Signer {
  readonly #mac: (message: readonly Buffer[], fromServer: boolean) => Buffer

  constructor(algorithm: SigningAlgorithm, key: Buffer) {
    if (algorithm === signingAlgorithms.hmacSha256) {
      this.#mac = (message) => hmacSha256(key, message)
    } else if (algorithm === signingAlgorithms.aesCmac) {
      const subkeys = cmacSubkeys(key)
      this.#mac = (message) => cmac(key, subkeys, message)
    } else {
      this.#mac = (message, fromServer) => gmac(key, message, fromServer)
    }
  }

  /** Writes the signature into the header at the start of `message`. */
  sign(message: readonly [Buffer, ...Buffer[]]): void {
    const field = message[0].subarray(signatureOffset, signatureOffset + 16)
    field.fill(0)
    this.#mac(message, false).copy(field)
  }

  /** Whether the server's signature is valid. */
  verify(message: Buffer): boolean {
    const field = message.subarray(signatureOffset, signatureOffset + 16)
    const received = Buffer.from(field)
    field.fill(0)
    const expected = this.#mac([message], true)
    received.copy(field)
    return timingSafeEqual(received, expected)
  }
}

function hmacSha256(key: Buffer, message: readonly Buffer[]): Buffer {
  const hmac = createHmac('sha256', key)
  for (const part of message) hmac.update(part)
  return hmac.digest().subarray(0, 16)
}

/** AES-128-GMAC: GCM without plaintext, with the message as additional authenticated data. */
function gmac(key: Buffer, message: readonly Buffer[], fromServer: boolean): Buffer {
  const nonce = Buffer.alloc(12)
  message[0]?.copy(nonce, 0, 24, 32) // message id
  if (fromServer) nonce[8] = 1
  const cipher = createCipheriv('aes-128-gcm', key, nonce)
  for (const part of message) cipher.setAAD(part)
  cipher.final()
  return cipher.getAuthTag()
}

const block = 16

/** AES-CMAC (RFC 4493). `subkeys`: from `cmacSubkeys(key)`. */
export function cmac(key: Buffer, subkeys: readonly [Buffer, Buffer], message: readonly Buffer[]): Buffer {
  const cipher = createCipheriv('aes-128-cbc', key, Buffer.alloc(block)).setAutoPadding(false)
  const length = message.reduce((sum, part) => sum + part.length, 0)
  const isWhole = length > 0 && length % block === 0
  const last = Buffer.alloc(block)
  const lastLength = isWhole ? block : length % block
  let remaining = length - lastLength
  let filled = 0
  for (const part of message) {
    const before = Math.min(remaining, part.length)
    if (before > 0) cipher.update(part.subarray(0, before))
    remaining -= before
    filled += part.copy(last, filled, before)
  }
  if (!isWhole) last[lastLength] = 0x80
  const subkey = subkeys[isWhole ? 0 : 1]
  for (let index = 0; index < block; index++) last[index] = (last[index] ?? 0) ^ (subkey[index] ?? 0)
  return cipher.update(last)
}

/** The subkeys K1 and K2 (RFC 4493 §2.3). */
export function cmacSubkeys(key: Buffer): [Buffer, Buffer] {
  const cipher = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false)
  const first = doubled(cipher.update(Buffer.alloc(block)))
  return [first, doubled(first)]
}

/** Multiplies by x in GF(2^128). */
function doubled(value: Buffer): Buffer {
  const result = Buffer.alloc(block)
  for (let index = 0; index < block; index++) {
    result[index] = ((value[index] ?? 0) << 1) | ((value[index + 1] ?? 0) >> 7)
  }
  if ((value[0] ?? 0) & 0x80) result[block - 1] = (result[block - 1] ?? 0) ^ 0x87
  return result
}
