import type { UserRow } from '../store/rows.js'
import type { Credentials } from './accounts.js'
import { CodeRequired, WrongCredentials } from './errors.js'
import { CodeLimiter, SignInLimiter } from './limiter.js'
import { networkOf } from './networks.js'
import { otpStep } from './otp.js'
import { impossiblePassword, isPassword, staticHash } from './passwords.js'
import { RememberedPasswords } from './remembered-passwords.js'
import { Turns } from './turns.js'

export interface PasswordCheckOptions {
  readonly get: (id: number) => UserRow | undefined
  readonly byName: (username: string) => UserRow | undefined
  /** Uses up the code of a time step: false where it was used before. */
  readonly useOtpStep: (userId: number, step: number) => Promise<boolean>
  readonly now: () => number
}

/** What was presented, as it is counted and compared. */
interface Presented {
  readonly network: string
  readonly name: string
  readonly hash: string
  readonly digest: string
}

/** Passwords and one-time codes of all doors, with what keeps guessers out. */
export class PasswordCheck {
  readonly #limiter: SignInLimiter
  readonly #codes: CodeLimiter
  readonly #remembered: RememberedPasswords
  readonly #turns = new Turns()
  /** Checks under way, by what was presented: a client with eight connections asks for one. */
  readonly #running = new Map<string, Promise<UserRow>>()
  readonly #seen = new WeakMap<Credentials, Presented>()
  /** Unknown names are checked against this, so that they take as long as any other. */
  readonly #impossible = impossiblePassword()

  constructor(private readonly options: PasswordCheckOptions) {
    this.#limiter = new SignInLimiter(options.now)
    this.#codes = new CodeLimiter(options.now)
    this.#remembered = new RememberedPasswords(options.get, options.now)
  }

  /**
   * The account, which may be disabled or ask for a code still. `WrongCredentials`, or `throttled`. `remembered`: what was
   * verified lately need not be again.
   */
  async password(credentials: Credentials, { remembered }: { readonly remembered: boolean }): Promise<UserRow> {
    const presented = this.#presented(credentials)
    const { network, name, digest } = presented
    this.#limiter.refuseGuesser(network, name)
    // Also for an address that is locked, by somebody else: guesses at this account from there end above.
    const known = remembered ? this.#remembered.get(digest) : undefined
    if (known !== undefined) return known
    this.#limiter.refuseLocked(network, name)
    const place = `${network} ${digest}`
    const running = this.#running.get(place)
    if (running !== undefined) return running
    const check = this.#turns
      .run(network, this.#limiter.delay(network, name), () => this.#compare(presented))
      .finally(() => this.#running.delete(place))
    this.#running.set(place, check)
    return check
  }

  /**
   * The second step of an account that has one, after the password. `CodeRequired` where the code is missing, which does not
   * count as a failed try, or where it is wrong or was used before, which does. `throttled` where the address has failed too
   * often, or the account with codes from anywhere.
   */
  async code(user: UserRow, credentials: Credentials): Promise<void> {
    const { network, name } = this.#presented(credentials)
    if (credentials.code === undefined || credentials.code === '') throw new CodeRequired()
    // Requests that shared one check of the password arrive here together.
    this.#limiter.refuseGuesser(network, name)
    this.#limiter.refuseLocked(network, name)
    const confirm = this.#codes.count(user.id, network)
    const step = otpStep(user.otpSecret, credentials.code, this.options.now())
    if (step !== undefined && (await this.options.useOtpStep(user.id, step))) {
      confirm()
      return
    }
    this.#limiter.failed(network, name)
    throw new CodeRequired()
  }

  /**
   * Whether the code is one of `secret`, which the account is about to take; a right one is used up. `throttled` where the
   * account has had too many wrong codes.
   */
  async newCode(
    userId: number,
    { secret, code, address }: { readonly secret: string; readonly code: string; readonly address: string },
  ): Promise<boolean> {
    const confirm = this.#codes.count(userId, networkOf(address))
    const step = otpStep(secret, code, this.options.now())
    if (step === undefined) return false
    await this.options.useOtpStep(userId, step)
    confirm()
    return true
  }

  /** Everything that was asked for has been shown. `remember`: the password alone opens the door again. */
  succeeded(credentials: Credentials, user: UserRow, { remember }: { readonly remember: boolean }): void {
    const { network, name, digest } = this.#presented(credentials)
    this.#limiter.succeeded(network, name)
    if (remember) this.#remembered.add(digest, user)
  }

  #presented(credentials: Credentials): Presented {
    const known = this.#seen.get(credentials)
    if (known !== undefined) return known
    const { username, password, address } = credentials
    // No account has such a long name; the tables shall not hold it.
    const name = username.length > 255 ? '' : username
    const hash = 'plain' in password ? staticHash(password.plain) : password.hash
    // What is no static hash fits no account, and takes its time.
    const checked = /^[0-9a-f]{64}$/.test(hash) ? hash : ''
    const digest = this.#remembered.digest(name, checked)
    const presented = { network: networkOf(address), name, hash: checked, digest }
    this.#seen.set(credentials, presented)
    return presented
  }

  async #compare({ network, name, hash }: Presented): Promise<UserRow> {
    // Others of this address may have failed while this one waited.
    this.#limiter.refuseGuesser(network, name)
    this.#limiter.refuseLocked(network, name)
    const user = this.options.byName(name)
    const right = await isPassword(hash, user?.passwordHash ?? this.#impossible)
    // The account may have changed while the hash was computed.
    const current = this.options.byName(name)
    if (right && current !== undefined && current.passwordHash === user?.passwordHash) return current
    this.#limiter.failed(network, name)
    throw new WrongCredentials()
  }
}
