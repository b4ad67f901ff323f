/** Signatures of SSH user authentication, for all key types that are accepted. */
import { createHash, verify } from 'node:crypto'
import { isGatewayError } from '../base/errors.js'
import { curves, parseKeyBlob, type CurveName, type PublicKey } from './public-keys.js'
import { SshWireError, WireReader } from './ssh-wire.js'

/**
 * Whether `signature` (algorithm and signature, encoded as in RFC 4253 §6.6) is a valid signature of `data` by the key
 * of `blob`. RSA requires SHA-2 (RFC 8332); security keys require user presence. Returns false, without an error, for a
 * malformed key or signature.
 */
export function verifySignature(blob: Buffer, data: Buffer, signature: Buffer): boolean {
  try {
    const key = parseKeyBlob(blob)
    const reader = new WireReader(signature)
    const algorithm = reader.text()
    const signatureBlob = reader.string()
    const isValid = isValidSignature(key, algorithm, signatureBlob, data, reader)
    reader.expectEnd()
    return isValid
  } catch (error) {
    if (error instanceof SshWireError || isGatewayError(error, 'invalid')) return false
    throw error
  }
}

function isValidSignature(
  key: PublicKey,
  algorithm: string,
  signature: Buffer,
  data: Buffer,
  reader: WireReader,
): boolean {
  switch (key.type) {
    case 'ssh-rsa':
      return isValidRsa(key, algorithm, signature, data)
    case 'ssh-ed25519':
      return algorithm === key.type && isValidEd25519(key, signature, data)
    case 'ecdsa-sha2-nistp256':
      return algorithm === key.type && isValidEcdsa(key, 'nistp256', signature, data)
    case 'ecdsa-sha2-nistp384':
      return algorithm === key.type && isValidEcdsa(key, 'nistp384', signature, data)
    case 'ecdsa-sha2-nistp521':
      return algorithm === key.type && isValidEcdsa(key, 'nistp521', signature, data)
    case 'sk-ssh-ed25519@openssh.com': {
      const { signed, present } = readSecurityKeyData(key, data, reader)
      return present && algorithm === key.type && isValidEd25519(key, signature, signed)
    }
    case 'sk-ecdsa-sha2-nistp256@openssh.com': {
      const { signed, present } = readSecurityKeyData(key, data, reader)
      return present && algorithm === key.type && isValidEcdsa(key, 'nistp256', signature, signed)
    }
  }
}

/** RFC 8332 §3. */
function isValidRsa({ key }: PublicKey, algorithm: string, signature: Buffer, data: Buffer): boolean {
  const hash = algorithm === 'rsa-sha2-256' ? 'sha256' : algorithm === 'rsa-sha2-512' ? 'sha512' : undefined
  const length = Math.ceil((key.asymmetricKeyDetails?.modulusLength ?? 0) / 8)
  if (hash === undefined || signature.length > length) return false
  // Some clients omit leading zeros.
  const padded = Buffer.concat([Buffer.alloc(length - signature.length), signature])
  return verify(hash, data, key, padded)
}

/** RFC 8709 §6. */
function isValidEd25519({ key }: PublicKey, signature: Buffer, data: Buffer): boolean {
  return signature.length === 64 && verify(null, data, key, signature)
}

/** RFC 5656 §3.1.2: the integers r and s. */
function isValidEcdsa({ key }: PublicKey, curve: CurveName, signature: Buffer, data: Buffer): boolean {
  const { bytes, hash } = curves[curve]
  const reader = new WireReader(signature)
  const [r, s] = [reader.positiveMpint(), reader.positiveMpint()]
  reader.expectEnd()
  if (r.length > bytes || s.length > bytes) return false
  const fixed = Buffer.alloc(2 * bytes)
  r.copy(fixed, bytes - r.length)
  s.copy(fixed, 2 * bytes - s.length)
  return verify(hash, data, { key, dsaEncoding: 'ieee-p1363' }, fixed)
}

const userPresent = 0x01

/** The data that a security key signs, and its user presence flag. OpenSSH PROTOCOL.u2f, "SSH U2F signatures". */
function readSecurityKeyData(
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
