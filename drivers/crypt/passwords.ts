/**
 * Stored passwords, and key derivation. Obscured text has the format of `rclone obscure`. Obscuring is not a
 * protection, because its key is public.
 */
import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto'
import { GatewayError } from '../../src/base/errors.js'

/** Prefix of an obscured option. */
const prefix = '___Obfuscated___'

const obscuringKey = Buffer.from('9c935b48730a554d6bfd7c63c886a92bd390198eb8128afbf4de162b8b95f638', 'hex')
const ivSize = 16

/** The salt that rclone uses by default. */
const defaultSalt = Buffer.from('a80df43a8fbd0308a7cab83e581f86b1', 'hex')

export interface CryptKeys {
  /** Key for contents, 32 bytes. */
  readonly data: Buffer
  /** Key for names, 32 bytes. */
  readonly name: Buffer
  /** Tweak of the wide-block cipher for names, 16 bytes. */
  readonly tweak: Buffer
}

/** Encrypts with AES-256-CTR under the public key of rclone. Returns the IV and the ciphertext as base64url. */
export function obscure(plain: string, iv: Buffer = randomBytes(ivSize)): string {
  const cipher = createCipheriv('aes-256-ctr', obscuringKey, iv)
  return Buffer.concat([iv, cipher.update(plain, 'utf8'), cipher.final()]).toString('base64url')
}

/** Reverses `obscure`. Throws `invalid` if the text is malformed. */
export function reveal(obscured: string): string {
  const bytes = Buffer.from(obscured, 'base64url')
  if (bytes.length < ivSize || bytes.toString('base64url') !== obscured) {
    throw new GatewayError('invalid', { reason: 'malformed obscured password' })
  }
  const cipher = createDecipheriv('aes-256-ctr', obscuringKey, bytes.subarray(0, ivSize))
  return Buffer.concat([cipher.update(bytes.subarray(ivSize)), cipher.final()]).toString('utf8')
}

/** The plaintext of an option, which may be obscured or not. */
export function passwordOf(option: string): string {
  return option.startsWith(prefix) ? reveal(option.slice(prefix.length)) : option
}

/** The obscured form of an option; undefined if it is empty or already obscured. */
export function obscuredForm(option: string): string | undefined {
  return option === '' || option.startsWith(prefix) ? undefined : prefix + obscure(option)
}

/** Derives the keys with scrypt, as rclone does. For an empty password, all bytes are zero. */
export async function keysOf(password: string, salt: string): Promise<CryptKeys> {
  const bytes = password === '' ? Buffer.alloc(80) : await derive(password, salt === '' ? defaultSalt : salt)
  return { data: bytes.subarray(0, 32), name: bytes.subarray(32, 64), tweak: bytes.subarray(64, 80) }
}

function derive(password: string, salt: string | Buffer): Promise<Buffer> {
  const cost = { N: 16_384, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }
  return new Promise((resolve, reject) => {
    scrypt(password, salt, 80, cost, (error, key) => {
      if (error) reject(error)
      else resolve(key)
    })
  })
}
