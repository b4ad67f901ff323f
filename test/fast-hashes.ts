/**
 * Makes new hashes of passwords, and comparisons with them, fast in this process, for tests that create many users.
 * They name the parameters of the product, but are computed with the lowest N of scrypt: to no other process, the
 * passwords are right.
 */
import crypto, { type ScryptOptions } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

type Done = (error: Error | null, derived: Buffer) => void

const { scrypt } = crypto

function fastScrypt(password: string, salt: Buffer, length: number, options: ScryptOptions, done: Done): void {
  scrypt(password, salt, length, { ...options, N: 2 }, done)
}

Object.assign(crypto, { scrypt: fastScrypt })
syncBuiltinESMExports()
