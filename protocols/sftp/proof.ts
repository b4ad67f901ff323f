/** The proof that a client holds a key, taken back from the pieces that ssh2 makes of it. */
import { verifySignature } from '../../src/accounts/signatures.js'
import type { PublicKeyAuthContext } from 'ssh2'

/** Bytes after the signature proper of a security key: flags and counter. */
const touchLength = 5

/** What a request to sign in by a key holds. */
export type KeyRequest = Pick<PublicKeyAuthContext, 'key' | 'hashAlgo' | 'blob' | 'signature'>

/** The algorithm that the client named, unless it is one that proves nothing today: RSA without a SHA-2 hash (RFC 8332). */
export function algorithmOf({ key, hashAlgo }: Pick<KeyRequest, 'key' | 'hashAlgo'>): string | undefined {
  if (key.algo !== 'ssh-rsa') return hashAlgo === undefined ? key.algo : undefined
  return hashAlgo === 'sha256' ? 'rsa-sha2-256' : hashAlgo === 'sha512' ? 'rsa-sha2-512' : undefined
}

/** Whether the request is signed by the key that it names (RFC 4252 §7). */
export function isProved(context: KeyRequest): boolean {
  const algorithm = algorithmOf(context)
  const { blob, signature, key } = context
  if (algorithm === undefined || !blob || !signature) return false
  const whole = wholeSignature(algorithm, signature)
  return whole !== undefined && verifySignature(key.data, blob, whole)
}

/**
 * ssh2 hands over a signature without its algorithm and length, that of an ECDSA key as DER; here it is again as RFC 4253
 * §6.6 has it. Undefined where it cannot be one.
 */
export function wholeSignature(algorithm: string, signature: Buffer): Buffer | undefined {
  if (algorithm.startsWith('sk-')) {
    const end = signature.length - touchLength
    if (end < 0) return undefined
    return Buffer.concat([string(algorithm), string(signature.subarray(0, end)), signature.subarray(end)])
  }
  if (!algorithm.startsWith('ecdsa-')) return Buffer.concat([string(algorithm), string(signature)])
  const numbers = derNumbers(signature)
  return numbers && Buffer.concat([string(algorithm), string(Buffer.concat(numbers.map(string)))])
}

function string(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** r and s of a DER sequence of two integers. */
function derNumbers(der: Buffer): [Buffer, Buffer] | undefined {
  const sequence = derElement(der, 0, 0x30)
  const r = sequence && derElement(sequence.content, 0, 0x02)
  const s = r && derElement(sequence.content, r.end, 0x02)
  return s?.end === sequence?.content.length && s ? [r.content, s.content] : undefined
}

/** No signature needs more than one byte of length beside the short form. */
function derElement(der: Buffer, at: number, tag: number): { content: Buffer; end: number } | undefined {
  if (der[at] !== tag) return undefined
  const short = der[at + 1] ?? 0
  const long = short === 0x81
  const start = at + (long ? 3 : 2)
  const length = long ? (der[at + 2] ?? 0) : short
  if (!long && short >= 0x80) return undefined
  const end = start + length
  return end <= der.length ? { content: der.subarray(start, end), end } : undefined
}
