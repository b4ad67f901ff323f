/** Signatures of public key authentication, restored from the form in which ssh2 passes them. */
import type { PublicKeyAuthContext } from 'ssh2'
import { verifySignature } from '../../src/accounts/signatures.js'

/** Length of the flags and counter after the signature of a security key, in bytes. */
const securityKeySuffixLength = 5

/** The fields of a public key authentication request. */
export type KeyRequest = Pick<PublicKeyAuthContext, 'key' | 'hashAlgo' | 'blob' | 'signature'>

/** The signature algorithm of the request. Undefined for an insecure one: RSA without a SHA-2 hash (RFC 8332). */
export function algorithmOf({ key, hashAlgo }: Pick<KeyRequest, 'key' | 'hashAlgo'>): string | undefined {
  if (key.algo !== 'ssh-rsa') return hashAlgo === undefined ? key.algo : undefined
  return hashAlgo === 'sha256' ? 'rsa-sha2-256' : hashAlgo === 'sha512' ? 'rsa-sha2-512' : undefined
}

/** Whether the request has a valid signature by its key (RFC 4252 §7). */
export function hasValidSignature(context: KeyRequest): boolean {
  const algorithm = algorithmOf(context)
  const { blob, signature, key } = context
  if (algorithm === undefined || !blob || !signature) return false
  const encoded = encodeSignature(algorithm, signature)
  return encoded !== undefined && verifySignature(key.data, blob, encoded)
}

/**
 * Encodes a signature as in RFC 4253 §6.6. ssh2 strips the algorithm and the length, and converts ECDSA signatures to
 * DER (ssh2: lib/protocol/handlers.misc.js). Returns undefined for a malformed signature.
 */
export function encodeSignature(algorithm: string, signature: Buffer): Buffer | undefined {
  if (algorithm.startsWith('sk-')) {
    const end = signature.length - securityKeySuffixLength
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

/** The integers r and s of a DER-encoded ECDSA signature. */
function derNumbers(der: Buffer): [Buffer, Buffer] | undefined {
  const sequence = derElement(der, 0, 0x30)
  const r = sequence && derElement(sequence.content, 0, 0x02)
  const s = r && derElement(sequence.content, r.end, 0x02)
  return s?.end === sequence?.content.length && s ? [r.content, s.content] : undefined
}

/** The DER element with `tag` at offset `at`. Supports lengths up to 255, which is enough for signatures. */
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
