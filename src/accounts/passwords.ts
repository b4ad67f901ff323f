/**
 * Password hashing: a slow hash of the static hash that clients may send, so that both forms of sign-in can be checked.
 */
import { createHash, randomBytes, randomInt, scrypt, timingSafeEqual } from 'node:crypto'

/** Clients use it to compute the hash for the hashed form of sign-in, so it must never change. */
const staticSuffix = '-https://github.com/alist-org/alist'

/**
 * scrypt parameters for new hashes: N as a power of two, r, p. One of the equivalent sets that OWASP recommends; uses
 * 32 MiB and about 0.2 s of one core. With the set that uses 16 MiB, glibc would retain freed blocks of that size
 * (mallopt(3), M_MMAP_THRESHOLD): the process stayed 30 MiB larger after its first sign-in.
 */
const cost = { power: 15, blocks: 8, parallel: 3 }
const saltBytes = 16
const digestBytes = 32

/** The hash that clients may send in place of the password: 64 lower-case hexadecimal characters. */
export function staticHash(password: string): string {
  return createHash('sha256')
    .update(password + staticSuffix)
    .digest('hex')
}

/** The stored form of a password, from its static hash: scheme, parameters, salt and digest, separated by `$`. */
export async function hashPassword(hash: string): Promise<string> {
  const salt = randomBytes(saltBytes)
  return stored(salt, await derive(hash, salt, cost))
}

/** Whether `hash` is the static hash of the stored password; false if the latter is not a result of `hashPassword`. */
export async function isPassword(hash: string, storedPassword: string): Promise<boolean> {
  const [scheme, power, blocks, parallel, salt, digest] = storedPassword.split('$')
  if (scheme !== 'scrypt' || salt === undefined || digest === undefined) return false
  const expected = Buffer.from(digest, 'base64url')
  const parameters = { power: Number(power), blocks: Number(blocks), parallel: Number(parallel) }
  const derived = await derive(hash, Buffer.from(salt, 'base64url'), parameters)
  return expected.length === derived.length && timingSafeEqual(expected, derived)
}

/** A stored password that no password matches; checking it takes as long as any other. */
export function impossiblePassword(): string {
  return stored(randomBytes(saltBytes), randomBytes(digestBytes))
}

/** 31 letters and digits, without look-alikes: 20 of them have 99 bits. */
const readable = 'abcdefghjkmnpqrstuvwxyz23456789'

export function randomPassword(): string {
  return Array.from({ length: 20 }, () => readable.charAt(randomInt(readable.length))).join('')
}

function stored(salt: Buffer, digest: Buffer): string {
  const { power, blocks, parallel } = cost
  return ['scrypt', power, blocks, parallel, salt.toString('base64url'), digest.toString('base64url')].join('$')
}

function derive(hash: string, salt: Buffer, { power, blocks, parallel }: typeof cost): Promise<Buffer> {
  const N = 2 ** power
  const options = { N, r: blocks, p: parallel, maxmem: 128 * N * blocks + 128 * blocks * parallel + 1024 * 1024 }
  return new Promise((resolve, reject) => {
    scrypt(hash, salt, digestBytes, options, (error, derived) => {
      if (error === null) resolve(derived)
      else reject(error)
    })
  })
}
