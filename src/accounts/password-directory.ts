/** A directory of another server that checks passwords, as the accounts see it. */
import type { UserRow } from '../database/tables/accounts.js'
import type { Requester } from './fair-queue.js'

export interface PasswordDirectory {
  /** Whether it is used. */
  readonly isOn: boolean
  /** Minimum milliseconds until a password is refused, so that the time does not tell which accounts exist. */
  readonly refusalTime: number
  /**
   * Asks for a password that is not that of an account here. Resolves to the account, which is made if there is none;
   * undefined if the password is wrong there too, or not for the account of this name. Rejects with `unavailable` if
   * there is no answer, with `throttled` if too many wait, with `aborted`, and with `denied` if the password is right
   * but the person may not sign in. `guess` is called once before the password is compared there, with the subject of
   * the person if the directory has exactly one of this name. What it rejects with is passed on.
   */
  check(
    name: string,
    password: string,
    requester: Requester,
    guess: (subject: string | undefined) => Promise<void>,
  ): Promise<UserRow | undefined>
}
