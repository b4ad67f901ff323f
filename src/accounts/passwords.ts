/**
 * Password hashing: a slow hash of the static hash that clients may send, so that both forms of sign-in can be checked.
 */
import { createHash, randomBytes, randomInt, scrypt, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../base/errors.js'
import { bcryptMatches, isBcrypt } from './bcrypt.js'

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
/** The digest of accounts without a password: no password is known that has it. */
const impossibleDigest = Buffer.alloc(digestBytes)

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

/**
 * Whether `hash` is the static hash of the stored password; false if the latter is not a result of a function of this
 * file. `plain`: the password itself, if the client sent it: a hash of bcrypt matches nothing without it.
 */
export async function isPassword(hash: string, storedPassword: string, plain?: string): Promise<boolean> {
  if (isBcrypt(storedPassword)) {
    // The time of one slow hash at least, as for every other account.
    const compared = plain === undefined ? false : bcryptMatches(plain, storedPassword)
    const [isRight] = await Promise.all([compared, derive(hash, randomBytes(saltBytes), cost)])
    return isRight
  }
  if (storedPassword.startsWith(saltedScheme)) {
    const [salt = '', ...wrapped] = storedPassword.slice(saltedScheme.length).split('$')
    return isPassword(saltedHash(hash, Buffer.from(salt, 'base64url').toString()), wrapped.join('$'))
  }
  const [scheme, power, blocks, parallel, salt, digest] = storedPassword.split('$')
  if (scheme !== 'scrypt' || salt === undefined || digest === undefined) return false
  const expected = Buffer.from(digest, 'base64url')
  const parameters = { power: Number(power), blocks: Number(blocks), parallel: Number(parallel) }
  const derived = await derive(hash, Buffer.from(salt, 'base64url'), parameters)
  return expected.length === derived.length && timingSafeEqual(expected, derived)
}

/**
 * The stored form of a password of which AList or OpenList stores `saltedHash(static hash, salt)`. Rejects with
 * `invalid` if it is not such a hash.
 */
export async function wrapSaltedHash(salted: string, salt: string): Promise<string> {
  if (!/^[0-9a-f]{64}$/.test(salted) || salt.length > 255) {
    throw new GatewayError('invalid', { reason: 'the password is stored in an unknown form' })
  }
  return `${saltedScheme}${Buffer.from(salt).toString('base64url')}$${await hashPassword(salted)}`
}

/** The prefix of a stored password: a salt and the result of `hashPassword` follow. */
const saltedScheme = 'salted$'

function saltedHash(hash: string, salt: string): string {
  return createHash('sha256').update(`${hash}-${salt}`).digest('hex')
}

/** Whether the stored password is an imported one, which `hashPassword` replaces when the user has signed in. */
export function isImported(storedPassword: string): boolean {
  return isBcrypt(storedPassword) || storedPassword.startsWith(saltedScheme)
}

/** A stored password that no password matches; checking it takes as long as any other. */
export function impossiblePassword(): string {
  return stored(randomBytes(saltBytes), impossibleDigest)
}

/** Whether a password can match the stored one: false for the results of `impossiblePassword`. */
export function isPossible(storedPassword: string): boolean {
  return !storedPassword.endsWith(`$${impossibleDigest.toString('base64url')}`)
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
