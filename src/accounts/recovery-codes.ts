/**
 * Recovery codes of two-step verification: each is accepted once in place of a one-time code, for users who have lost
 * the authenticator. They have 80 random bits, which nobody can guess, so that a fast hash suffices, as for app
 * passwords (docs/decisions/0008). The key of the hash is the secret of two-step verification: codes end with their
 * secret, and equal codes of two users have different hashes.
 */
import { createHmac } from 'node:crypto'
import { GatewayError } from '../base/errors.js'
import type { UserRow } from '../database/tables/accounts.js'
import type { Store } from '../database/tables.js'
import { alphabet, random } from './random-secrets.js'

const codesPerUser = 10
/** Characters of a code, five random bits each, shown in groups. */
const codeLength = 16
const groups = /.{4}(?=.)/g
const shape = new RegExp(`^[${alphabet}]{${codeLength}}$`)

export class RecoveryCodes {
  constructor(private readonly store: Pick<Store, 'recoveryCodes'>) {}

  /** The number of codes that the user has not used. */
  async count(userId: number): Promise<number> {
    return this.store.recoveryCodes.count(userId)
  }

  /**
   * Replaces all codes of the user. Resolves to the new ones, which cannot be retrieved later. Rejects with `invalid`
   * if two-step verification is off.
   */
  async renew({ id, otpSecret }: Pick<UserRow, 'id' | 'otpSecret'>): Promise<string[]> {
    const codes = Array.from({ length: codesPerUser }, () => random(codeLength))
    const digests = codes.map((code) => digestOf(otpSecret, code))
    if (otpSecret === '' || !(await this.store.recoveryCodes.replace(id, otpSecret, digests))) {
      throw new GatewayError('invalid', { reason: 'two-step verification is off: set it up first' })
    }
    return codes.map((code) => code.replace(groups, '$&-'))
  }

  /**
   * Marks a code as used. False if it is none of the user's, or was used before. Case, spaces and hyphens are ignored.
   */
  async use({ id, otpSecret }: Pick<UserRow, 'id' | 'otpSecret'>, presented: string): Promise<boolean> {
    const code = presented.replaceAll(/[\s-]/g, '').toLowerCase()
    return shape.test(code) && (await this.store.recoveryCodes.use(id, digestOf(otpSecret, code)))
  }
}

/** HMAC-SHA-256 in hexadecimal. */
function digestOf(otpSecret: string, code: string): string {
  return createHmac('sha256', otpSecret).update(code).digest('hex')
}
