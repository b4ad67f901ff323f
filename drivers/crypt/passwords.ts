/**
 * Passwords as they are stored, and the keys that are made of them. Obscured text is that of `rclone obscure`: it keeps a
 * password from the eye and from nobody else, for the key is the same everywhere.
 */
import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto'
import { GatewayError } from '../../src/errors.js'

/** What a stored option starts with that is obscured. */
const prefix = '___Obfuscated___'

const obscuringKey = Buffer.from('9c935b48730a554d6bfd7c63c886a92bd390198eb8128afbf4de162b8b95f638', 'hex')
const ivSize = 16

/** What rclone takes where no salt is given. */
const defaultSalt = Buffer.from('a80df43a8fbd0308a7cab83e581f86b1', 'hex')

export interface Keys {
  /** Of contents, 32 bytes. */
  readonly data: Buffer
  /** Of names, 32 bytes. */
  readonly name: Buffer
  /** Of the wide-block mode in which names are encrypted, 16 bytes. */
  readonly tweak: Buffer
}

/** AES-256-CTR under the known key, base64url of IV and cipher text. */
export function obscure(plain: string, iv: Buffer = randomBytes(ivSize)): string {
  const cipher = createCipheriv('aes-256-ctr', obscuringKey, iv)
  return Buffer.concat([iv, cipher.update(plain, 'utf8'), cipher.final()]).toString('base64url')
}

/** Rejects with `invalid` where that was never obscured. */
export function reveal(obscured: string): string {
  const bytes = Buffer.from(obscured, 'base64url')
  if (bytes.length < ivSize || bytes.toString('base64url') !== obscured) {
    throw new GatewayError('invalid', { reason: 'a password that is marked as obscured is not' })
  }
  const cipher = createDecipheriv('aes-256-ctr', obscuringKey, bytes.subarray(0, ivSize))
  return Buffer.concat([cipher.update(bytes.subarray(ivSize)), cipher.final()]).toString('utf8')
}

/** A password from its option, which may be as it is or obscured. */
export function passwordOf(option: string): string {
  return option.startsWith(prefix) ? reveal(option.slice(prefix.length)) : option
}

/** How an option is to be stored; undefined where it is stored like that already. */
export function storedForm(option: string): string | undefined {
  return option === '' || option.startsWith(prefix) ? undefined : prefix + obscure(option)
}

/** 80 bytes of scrypt; all of them zero for an empty password. */
export async function keysOf(password: string, salt: string): Promise<Keys> {
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
