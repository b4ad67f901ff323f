/** Two-step verification of accounts: what its users change of it, and the codes that prove it. */
import { GatewayError } from '../base/errors.js'
import type { UserRow } from '../database/tables/accounts.js'
import type { Admission } from './admission.js'
import { sessionRevoked } from './errors.js'
import type { Credentials, NewSecret, PasswordCheck } from './password-check.js'
import type { Principal } from './principal.js'
import type { RecoveryCodes } from './recovery-codes.js'
import type { SignInRecords } from './sign-in-records.js'
import type { Users } from './users.js'

export class TwoStep {
  constructor(
    private readonly users: Pick<Users, 'get' | 'update'>,
    private readonly admission: Admission,
    private readonly passwords: PasswordCheck,
    private readonly recoveryCodes: RecoveryCodes,
    private readonly records: SignInRecords,
  ) {}

  /**
   * Switches it on with this base32 secret, or replaces the secret that the account has. Rejects with the detail
   * `code_required` for a wrong code, and with `throttled` after too many.
   */
  async enable(userId: number, proof: NewSecret): Promise<void> {
    const user = this.admission.later(userId)
    if (!(await this.passwords.checkNewSecret(user, proof))) {
      throw new GatewayError('invalid', { detail: 'code_required' })
    }
    this.admission.assertUnchanged(user)
    await this.users.update(userId, { otpSecret: proof.secret })
  }

  /**
   * Before something is added to an account that signs in without its code. Of an account with two-step verification,
   * checks a code, unless its session began with a proof that counts as two steps. Rejects as `checkCode`.
   */
  async assertSecondStep(
    principal: Pick<Principal, 'userId' | 'hasTwoStep'>,
    proof: Pick<Credentials, 'code' | 'address'>,
  ): Promise<void> {
    const user = this.admission.later(principal.userId)
    if (this.needsSecondStep(principal)) await this.checkCode(user, proof)
  }

  /** Whether `assertSecondStep` checks a code. */
  needsSecondStep({ userId, hasTwoStep }: Pick<Principal, 'userId' | 'hasTwoStep'>): boolean {
    return !hasTwoStep && (this.users.get(userId)?.otpSecret ?? '') !== ''
  }

  /** Turns off the two-step verification of a user, who has sent a code of it. Rejects as `enable` does. */
  async disable(userId: number, proof: Pick<Credentials, 'code' | 'address'>): Promise<void> {
    const user = this.admission.later(userId)
    if (user.otpSecret === '') return
    await this.checkCode(user, proof)
    await this.users.update(userId, { otpSecret: '' })
  }

  /**
   * Replaces the recovery codes of a user who is signed in and sends the password again. Resolves to the new ones,
   * which cannot be retrieved later. Rejects with `invalid` if two-step verification is off, with the detail
   * `wrong_credentials`, with `throttled` after too many failed sign-ins, and with `aborted`.
   */
  async renewRecoveryCodes(
    userId: number,
    proof: Pick<Credentials, 'password' | 'address' | 'signal'>,
  ): Promise<string[]> {
    const user = this.users.get(userId)
    if (user === undefined) throw sessionRevoked({ detail: 'account_missing' })
    const credentials = { ...proof, username: user.username }
    const { codes } = await this.records.during(credentials, 'http', async () => {
      await this.passwords.checkPassword(credentials, { remembered: false })
      this.admission.assertUnchanged(user)
      return { user: undefined, codes: await this.recoveryCodes.renew(user) }
    })
    return codes
  }

  /**
   * Checks the code of an account with two-step verification, at a sign-in or before a change. Rejects as
   * `PasswordCheck.checkCode` does, and with `unauthenticated` if the account has just changed.
   */
  async checkCode(user: UserRow, proof: Pick<Credentials, 'code' | 'address'>): Promise<void> {
    await this.passwords.checkCode(user, proof)
    this.admission.assertUnchanged(user)
  }
}
