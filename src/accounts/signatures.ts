/** Signatures of SSH user authentication, for all key types that are accepted. */
import { createHash, verify } from 'node:crypto'
import { isGatewayError } from '../errors.js'
import { curves, parseKeyBlob, type CurveName, type PublicKey } from './public-keys.js'
import { WireError, WireReader } from './ssh-wire.js'

export interface SignatureOptions {
  /** What a security key must have been made for; else any will do. */
  readonly application?: string | undefined
}

/**
 * Whether `signature` (algorithm and signature, as RFC 4253 §6.6 encodes it) is one of `data` by the key of `blob`. RSA
 * signs with SHA-2 alone (RFC 8332); security keys must have been touched. False, never an error, for whatever is no key
 * or no signature.
 */
export function verifySignature(
  blob: Buffer,
  data: Buffer,
  signature: Buffer,
  { application }: SignatureOptions = {},
): boolean {
  try {
    const key = parseKeyBlob(blob)
    if (application !== undefined && key.application !== undefined && key.application !== application) return false
    const reader = new WireReader(signature)
    const algorithm = reader.text()
    const proof = reader.string()
    const proved = isProof(key, algorithm, proof, data, reader)
    reader.end()
    return proved
  } catch (error) {
    if (error instanceof WireError || isGatewayError(error, 'invalid')) return false
    throw error
  }
}

function isProof(key: PublicKey, algorithm: string, proof: Buffer, data: Buffer, reader: WireReader): boolean {
  switch (key.type) {
    case 'ssh-rsa':
      return isRsaProof(key, algorithm, proof, data)
    case 'ssh-ed25519':
      return algorithm === key.type && isEd25519Proof(key, proof, data)
    case 'ecdsa-sha2-nistp256':
      return algorithm === key.type && isEcdsaProof(key, 'nistp256', proof, data)
    case 'ecdsa-sha2-nistp384':
      return algorithm === key.type && isEcdsaProof(key, 'nistp384', proof, data)
    case 'ecdsa-sha2-nistp521':
      return algorithm === key.type && isEcdsaProof(key, 'nistp521', proof, data)
    case 'sk-ssh-ed25519@openssh.com': {
      const { signed, present } = readTouch(key, data, reader)
      return present && algorithm === key.type && isEd25519Proof(key, proof, signed)
    }
    case 'sk-ecdsa-sha2-nistp256@openssh.com': {
      const { signed, present } = readTouch(key, data, reader)
      return present && algorithm === key.type && isEcdsaProof(key, 'nistp256', proof, signed)
    }
  }
}

/** RFC 8332 §3. */
function isRsaProof({ key }: PublicKey, algorithm: string, proof: Buffer, data: Buffer): boolean {
  const hash = algorithm === 'rsa-sha2-256' ? 'sha256' : algorithm === 'rsa-sha2-512' ? 'sha512' : undefined
  const length = Math.ceil((key.asymmetricKeyDetails?.modulusLength ?? 0) / 8)
  if (hash === undefined || proof.length > length) return false
  // Some clients leave out leading zeros.
  const padded = Buffer.concat([Buffer.alloc(length - proof.length), proof])
  return verify(hash, data, key, padded)
}

/** RFC 8709 §6. */
function isEd25519Proof({ key }: PublicKey, proof: Buffer, data: Buffer): boolean {
  return proof.length === 64 && verify(null, data, key, proof)
}

/** RFC 5656 §3.1.2: two numbers. */
function isEcdsaProof({ key }: PublicKey, curve: CurveName, proof: Buffer, data: Buffer): boolean {
  const { bytes, hash } = curves[curve]
  const reader = new WireReader(proof)
  const [r, s] = [reader.positive(), reader.positive()]
  reader.end()
  if (r.length > bytes || s.length > bytes) return false
  const fixed = Buffer.alloc(2 * bytes)
  r.copy(fixed, bytes - r.length)
  s.copy(fixed, 2 * bytes - s.length)
  return verify(hash, data, { key, dsaEncoding: 'ieee-p1363' }, fixed)
}

const userPresent = 0x01

/** PROTOCOL.u2f of OpenSSH, "SSH U2F signatures": what a security key really signs, and whether somebody touched it. */
function readTouch(
  { application = '' }: PublicKey,
  data: Buffer,
  reader: WireReader,
): { readonly signed: Buffer; readonly present: boolean } {
  const flags = reader.byte()
  const counter = Buffer.alloc(4)
  counter.writeUInt32BE(reader.uint32())
  const digest = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest()
  const signed = Buffer.concat([digest(application), Buffer.of(flags), counter, digest(data)])
  return { signed, present: (flags & userPresent) !== 0 }
}
