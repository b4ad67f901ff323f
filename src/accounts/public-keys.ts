/** SSH public keys: blobs of RFC 4253 §6.6 and lines of authorized_keys files, parsed strictly. */
import { createHash, createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { GatewayError } from '../base/errors.js'
import { SshWireError, WireReader } from './ssh-wire.js'

const keyTypes = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'ssh-rsa',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
] as const
type KeyType = (typeof keyTypes)[number]

export interface PublicKey {
  readonly type: KeyType
  readonly blob: Buffer
  readonly key: KeyObject
  /** Application of a security key (`sk-` types), such as `ssh:`. */
  readonly application?: string | undefined
}

/** Limits of an RSA modulus, in bits. Refuses larger ones, because they take memory and time, and are not safer. */
const rsaBits = { min: 2048, max: 8192 }

const maxLineLength = 32 * 1024

export const curves = {
  nistp256: { jwk: 'P-256', bytes: 32, hash: 'sha256' },
  nistp384: { jwk: 'P-384', bytes: 48, hash: 'sha384' },
  nistp521: { jwk: 'P-521', bytes: 66, hash: 'sha512' },
} as const
export type CurveName = keyof typeof curves

/** The parts of a key that identify it. */
export interface KeyFingerprint {
  /** The type of the key as in an authorized_keys file, such as `ssh-ed25519`. */
  readonly type: string
  /** The fingerprint of the key as OpenSSH shows it. */
  readonly fingerprint: string
}

/** `SHA256:` and unpadded base64, as `ssh-keygen -l` prints it. */
export function fingerprintOf(blob: Buffer): string {
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`
}

/**
 * The first key of `text`, lines of an authorized_keys file (sshd(8)). Comment lines and leading options are skipped.
 * Throws `invalid` with a reason if it is not an accepted key.
 */
export function parseKeyLine(text: string): PublicKey {
  if (text.length > maxLineLength) throw refused('the text is too long')
  const line = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .find((line) => line !== '' && !line.startsWith('#'))
  if (line === undefined) throw refused('it contains no key')
  if (line.startsWith('-----') || line.startsWith('PuTTY-')) {
    throw refused('use the line of the .pub file, not a key file')
  }
  const { type, base64 } = fieldsOf(line)
  if (type === 'ssh-dss') throw refused('DSA keys are not accepted any more: make an ed25519 key')
  if (type.includes('-cert-v')) throw refused('certificates are not accepted: give the public key itself')
  if (!isKeyType(type)) throw refused('the key type is unknown')
  const blob = Buffer.from(base64, 'base64')
  if (base64 === '' || blob.toString('base64') !== base64) throw refused('the key is not valid base64')
  const key = parseKeyBlob(blob)
  if (key.type !== type) throw refused('the key is of another type than its line says')
  return key
}

/** Parses a public key blob, as clients send it. Throws `invalid` with a reason if it is not an accepted key. */
export function parseKeyBlob(blob: Buffer): PublicKey {
  try {
    const reader = new WireReader(blob)
    const type = reader.text()
    if (!isKeyType(type)) throw refused('the key type is unknown')
    const key = { type, blob, ...readKey(type, reader) }
    reader.expectEnd()
    return key
  } catch (error) {
    if (error instanceof SshWireError) throw refused(error.message)
    throw error
  }
}

function isKeyType(type: string): type is KeyType {
  return (keyTypes as readonly string[]).includes(type)
}

function refused(why: string): GatewayError {
  return new GatewayError('invalid', { reason: `provided key invalid: ${why}` })
}

/** A quoted string, in which `\"` is a quote. Unambiguous, so that matching takes linear time. */
const quoted = /"(?:\\"|[^"\\]|\\(?!"))*"/
/** Options before the key type, without blanks outside of quotes. */
const optionsPattern = new RegExp(`^(?:${quoted.source}|[^\\s"])+(?=[ \\t])`)

function fieldsOf(line: string): { readonly type: string; readonly base64: string } {
  const [first = '', second = ''] = line.split(/[ \t]+/, 2)
  if (looksLikeType(first)) return { type: first, base64: second }
  const options = optionsPattern.exec(line)?.[0]
  if (options === undefined) throw refused('it is not a line of an authorized_keys file')
  if (/^(?:.*,)?cert-authority(?:,|$)/i.test(options.replaceAll(new RegExp(quoted, 'g'), '""'))) {
    throw refused('certificate authorities are not accepted')
  }
  const [type = '', base64 = ''] = line
    .slice(options.length)
    .trimStart()
    .split(/[ \t]+/, 2)
  return { type, base64 }
}

function looksLikeType(word: string): boolean {
  return /^(?:sk-|webauthn-sk-)?(?:ssh|ecdsa)-[\w@.-]+$/.test(word)
}

type Parsed = Pick<PublicKey, 'key' | 'application'>

function readKey(type: KeyType, reader: WireReader): Parsed {
  switch (type) {
    case 'ssh-ed25519':
      return { key: readEd25519(reader) }
    case 'sk-ssh-ed25519@openssh.com':
      return { key: readEd25519(reader), application: readApplication(reader) }
    case 'ecdsa-sha2-nistp256':
      return { key: readEcdsa(reader, 'nistp256') }
    case 'ecdsa-sha2-nistp384':
      return { key: readEcdsa(reader, 'nistp384') }
    case 'ecdsa-sha2-nistp521':
      return { key: readEcdsa(reader, 'nistp521') }
    case 'sk-ecdsa-sha2-nistp256@openssh.com':
      return { key: readEcdsa(reader, 'nistp256'), application: readApplication(reader) }
    case 'ssh-rsa':
      return { key: readRsa(reader) }
  }
}

/** RFC 8709 §4. */
function readEd25519(reader: WireReader): KeyObject {
  const point = reader.string()
  if (point.length !== 32) throw refused('an ed25519 key has 32 bytes')
  if (!isOnEd25519(point)) throw refused('the point is not on the curve')
  return imported({ kty: 'OKP', crv: 'Ed25519', x: point.toString('base64url') })
}

/** RFC 5656 §3.1. */
function readEcdsa(reader: WireReader, name: CurveName): KeyObject {
  if (reader.text() !== name) throw refused('the curve does not match the key type')
  const point = reader.string()
  const { bytes, jwk } = curves[name]
  if (point.length !== 1 + 2 * bytes || point[0] !== 4)
    throw refused('the point is not an uncompressed point of the curve')
  const x = point.subarray(1, 1 + bytes).toString('base64url')
  const y = point.subarray(1 + bytes).toString('base64url')
  return imported({ kty: 'EC', crv: jwk, x, y })
}

/** RFC 4253 §6.6. */
function readRsa(reader: WireReader): KeyObject {
  const exponent = reader.positiveMpint()
  const modulus = reader.positiveMpint()
  const bits = modulus.length * 8 - Math.clz32(modulus[0] ?? 0) + 24
  if (bits < rsaBits.min) throw refused(`an RSA key needs ${rsaBits.min} bits, this one has ${bits}`)
  if (bits > rsaBits.max) throw refused(`an RSA key of more than ${rsaBits.max} bits is not accepted`)
  const odd = (number: Buffer): boolean => ((number.at(-1) ?? 0) & 1) === 1
  if (exponent.length > 8 || (exponent.length === 1 && exponent[0] === 1) || !odd(exponent) || !odd(modulus)) {
    throw refused('the RSA parameters are not valid')
  }
  return imported({ kty: 'RSA', e: exponent.toString('base64url'), n: modulus.toString('base64url') })
}

/** PROTOCOL.u2f of OpenSSH. */
function readApplication(reader: WireReader): string {
  const application = reader.text()
  if (application === '') throw refused('a security key needs an application')
  return application
}

/** Imports the key. Also checks that an elliptic curve point is on its curve. */
function imported(key: JsonWebKey): KeyObject {
  try {
    return createPublicKey({ key, format: 'jwk' })
  } catch (cause) {
    throw new GatewayError('invalid', { reason: 'provided key invalid: the point is not on the curve', cause })
  }
}

/** The constants of the curve of Ed25519 (RFC 8032 §5.1): p, and d = −121665/121666. */
const p = 2n ** 255n - 19n
const d = 37095705934669439343138083508754565189542113879843219016388785533085940283555n

/**
 * Whether 32 bytes encode a point of the curve −x² + y² = 1 + d·x²·y² (RFC 8032 §5.1.3) that is not one of the eight
 * points of small order, for which signatures can be forged without a private key. Node.js imports any 32 bytes as a
 * public key, as OpenSSL does (openssl/openssl#23379).
 */
export function isOnEd25519(encoded: Buffer): boolean {
  // The most significant bit is the sign of x; either both x and −x are on the curve, or neither is.
  const y = BigInt(`0x${Buffer.from(encoded).reverse().toString('hex')}`) & (2n ** 255n - 1n)
  if (y >= p) return false
  const yy = (y * y) % p
  // x² is numerator / denominator, a square exactly where their product is one.
  const numerator = yy - 1n
  const denominator = d * yy + 1n
  const product = mod(numerator * denominator)
  // x = 0: the points of order 1 and 2. y = 0: those of order 4. x² = −y²: those of order 8, whose doubles have y = 0.
  if (product === 0n || y === 0n || mod(numerator + yy * denominator) === 0n) return false
  return power(product, (p - 1n) / 2n) === 1n
}

function mod(number: bigint): bigint {
  return ((number % p) + p) % p
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let square = base, rest = exponent; rest > 0n; rest >>= 1n, square = (square * square) % p) {
    if (rest & 1n) result = (result * square) % p
  }
  return result
}
