/** Who may come in: credentials of every kind, and the principals that they give. */
import PQueue from 'p-queue'
import { GatewayError, isGatewayError } from '../errors.js'
import type { Log } from '../log.js'
import type { DoorName, Principal } from '../principal.js'
import type { Settings } from '../settings.js'
import type { AppPasswordRow, KeyRow, Store, UserRow } from '../store/rows.js'
import { AppPasswords } from './app-passwords.js'
import { Authorities, type Credential } from './authorities.js'
import { AccountDisabled, CodeRequired, disabledReason, noAuthority } from './errors.js'
import { Keys } from './keys.js'
import { PasswordCheck } from './password-check.js'
import { isSameText } from './same-text.js'
import { SessionTokens, type Claims } from './tokens.js'
import { Users } from './users.js'

export interface Credentials {
  readonly username: string
  /** The plain password, or the wire's static hash of it (64 lower-case hex characters). */
  readonly password: { readonly plain: string } | { readonly hash: string }
  /** The one-time code, where one was sent. */
  readonly code?: string | undefined
  /** The client's address without port. */
  readonly address: string
}

export interface AccountsOptions {
  readonly store: Store
  readonly settings: Pick<Settings, 'get' | 'onChange'>
  /** How long a sign-in lasts. */
  readonly tokenHours: number
  /** Hears of sign-ins that were refused. */
  readonly log?: Pick<Log, 'warn'>
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

/** Milliseconds between two looks for what expired. */
const sweepInterval = 3600_000
/** Seconds by which the clocks of two processes may differ. */
const clockSkew = 60

const roles = ['general', 'guest', 'admin'] as const

export class Accounts {
  readonly users: Users
  readonly keys: Keys
  readonly appPasswords: AppPasswords
  readonly #store: Store
  readonly #settings: AccountsOptions['settings']
  readonly #tokens: SessionTokens
  readonly #now: () => number
  readonly #log: AccountsOptions['log']
  readonly #authorities = new Authorities()
  readonly #passwords: PasswordCheck
  /** What touches the mirrors, one by one. */
  readonly #order = new PQueue({ concurrency: 1 })
  #revoked: ReadonlyMap<string, Date> = new Map()
  #permanentToken: string
  readonly #cleanUp: (() => void)[] = []

  private constructor({ store, settings, log, now = Date.now }: AccountsOptions, tokens: SessionTokens) {
    this.#store = store
    this.#settings = settings
    this.#tokens = tokens
    this.#now = now
    this.#log = log
    this.#permanentToken = settings.get('token')
    this.users = new Users(store, this.#order, (before, after) => this.#userChanged(before, after), now)
    this.keys = new Keys(store, this.#order, (key) => this.#keyEnded(key), now)
    this.appPasswords = new AppPasswords(store, this.#order, (row) => this.#appPasswordEnded(row), now)
    this.#passwords = new PasswordCheck({
      get: (id) => this.users.get(id),
      byName: (username) => this.users.byName(username),
      useOtpStep: (id, step) => store.users.useOtpStep(id, step),
      now,
    })
  }

  static async open(options: AccountsOptions): Promise<Accounts> {
    const { store, settings, tokenHours, now = Date.now } = options
    const accounts = new Accounts(options, await SessionTokens.open(store, tokenHours, now))
    await accounts.reload()
    accounts.#cleanUp.push(
      store.onForeignChange(() => accounts.reload()),
      settings.onChange(() => accounts.#settingsChanged()),
    )
    const timer = setInterval(() => void accounts.#sweep(), sweepInterval).unref()
    accounts.#cleanUp.push(() => clearInterval(timer))
    return accounts
  }

  /** Changes of other processes are no longer noticed. Resolves when what was under way is stored. */
  async close(): Promise<void> {
    for (const end of this.#cleanUp.splice(0)) end()
    await this.#order.onIdle()
  }

  /**
   * A token for the HTTP door. Rejects with `WrongCredentials` (unknown name or wrong password: same words, same time),
   * `throttled` (with retryAfter), `CodeRequired` where the account has two-step verification, `AccountDisabled`.
   */
  async signIn(credentials: Credentials): Promise<string> {
    return this.#logged(credentials, 'http', () => this.#signIn(credentials))
  }

  async #signIn(credentials: Credentials): Promise<string> {
    const user = await this.#passwords.password(credentials, { remembered: false })
    if (user.disabled) throw new AccountDisabled()
    if (user.otpSecret !== '') await this.#checkCode(user, credentials)
    this.#passwords.succeeded(credentials, user, { remember: false })
    return this.#tokens.issue(user)
  }

  /** A session token or the permanent token as a principal; `unauthenticated` with the words that clients know. */
  async byToken(token: string, door: DoorName): Promise<Principal> {
    if (this.#isPermanentToken(token)) {
      const admin = this.users.single(2)
      if (admin === undefined) throw noAuthority('failed find user: record not found')
      return this.#principal(admin, 'permanent', door)
    }
    const claims = this.#tokens.read(token)
    const { user, jti, exp } = this.#judge(claims)
    return this.#principal(user, `token:${jti}`, door, exp * 1000)
  }

  /** The guest, or `unauthenticated` with `Guest user is disabled, login please`. */
  guest(door: DoorName): Principal {
    const guest = this.users.single(1)
    if (guest === undefined || guest.disabled) throw noAuthority('Guest user is disabled, login please')
    return this.#principal(guest, 'guest', door)
  }

  /** Ends a session token for good. The permanent token and dead ones are left alone. */
  async signOut(token: string): Promise<void> {
    const claims = this.#tokens.read(token)
    const expires = new Date((claims?.exp ?? 0) * 1000)
    if (claims === undefined || expires.getTime() <= this.#now()) return
    await this.#order.add(async () => {
      await this.#store.revokedTokens.insert(claims.jti, expires)
      this.#revoked = new Map([...this.#revoked, [claims.jti, expires]])
      this.#authorities.end(Number(claims.sub), 'token is invalidated', (other) => other === `token:${claims.jti}`)
    })
  }

  /**
   * Basic authentication and SFTP passwords: verified ones are remembered for minutes under a keyed digest. Rejects as
   * `signIn` does; `CodeRequired` has the code `denied` where the account has two-step verification and no code came along (a
   * plain password opens neither WebDAV nor SFTP then). App passwords are good for the doors they were made for, whatever
   * else the account asks for.
   */
  async byPassword(credentials: Credentials, door: DoorName): Promise<Principal> {
    return this.#logged(credentials, door, () => this.#byPassword(credentials, door))
  }

  /** A refusal is told with the address that it came from; a name only where there is such an account, lest it be a password. */
  async #logged<T>({ username, address }: Credentials, door: DoorName, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (isGatewayError(error) && !(error instanceof CodeRequired)) {
        const account = this.users.byName(username)?.username
        this.#log?.warn({ door, address, account, reason: error.reason }, 'a sign-in was refused')
      }
      throw error
    }
  }

  async #byPassword(credentials: Credentials, door: DoorName): Promise<Principal> {
    const appPassword = await this.#byAppPassword(credentials, door)
    if (appPassword !== undefined) return appPassword
    const user = await this.#passwords.password(credentials, { remembered: true })
    if (user.disabled) throw new AccountDisabled()
    const remember = user.otpSecret === ''
    if (!remember) {
      if (credentials.code === undefined) throw new CodeRequired('denied')
      await this.#checkCode(user, credentials)
    }
    this.#passwords.succeeded(credentials, user, { remember })
    return this.#principal(user, 'password', door)
  }

  /**
   * From now on this account signs in with codes of this secret, in base32; the code that proves that somebody's app has it is
   * used up. `invalid` for a wrong one, `throttled` after too many. `address`: the client's, without port.
   */
  async turnOnTwoStep(
    userId: number,
    proof: { readonly secret: string; readonly code: string; readonly address: string },
  ): Promise<void> {
    if (!(await this.#passwords.newCode(userId, proof)))
      throw new GatewayError('invalid', { reason: 'Invalid 2FA code' })
    await this.users.update(userId, { otpSecret: proof.secret })
  }

  /** Whether this key is one that `username` may use: nothing is recorded. */
  findKey(username: string, blob: Buffer): KeyRow | undefined {
    const user = this.users.byName(username)
    return user === undefined || user.disabled ? undefined : this.keys.find(user.id, blob)
  }

  /** Once the signature is proved: sets the time of last use. The principal ends when the key is deleted. */
  async byKey(key: KeyRow, door: DoorName): Promise<Principal> {
    const touched = await this.keys.touch(key)
    const user = this.users.get(touched.userId)
    if (user === undefined || this.keys.get(touched.id) === undefined) throw noAuthority('the key has been deleted')
    if (user.disabled) throw new AccountDisabled()
    return this.#principal(user, `key:${touched.id}`, door)
  }

  /**
   * Nobody guesses one, so no lock stands before it. Undefined for what is none: it is checked, and counted, as any other
   * password.
   */
  async #byAppPassword({ username, password }: Credentials, door: DoorName): Promise<Principal | undefined> {
    const row = 'plain' in password ? this.appPasswords.find(password.plain) : undefined
    const user = row && this.users.get(row.userId)
    if (row === undefined || user?.username !== username) return undefined
    if (user.disabled) throw new AccountDisabled()
    if (!row.doors.some((each) => each === door)) {
      throw new GatewayError('denied', { op: 'sign in', reason: 'this app password is for another door' })
    }
    await this.appPasswords.touch(row)
    if (this.appPasswords.get(row.id) === undefined) throw noAuthority('the app password has been deleted')
    return { ...this.#principal(user, `app:${row.id}`, door), readOnly: row.readOnly }
  }

  async #checkCode(user: UserRow, credentials: Credentials): Promise<void> {
    await this.#passwords.code(user, credentials)
    // Rows are replaced, never changed; what was judged so far was another one.
    if (this.users.get(user.id) !== user) throw noAuthority('the account has just changed, sign in again')
  }

  /**
   * For work that an account asked for and that outlives what was presented then: the account as it is now. `unauthenticated`
   * where it is gone or disabled.
   */
  forTask(userId: number): Principal {
    const user = this.users.get(userId)
    if (user === undefined) throw noAuthority('failed find user: record not found')
    if (user.disabled) throw noAuthority(disabledReason)
    return this.#principal(user, 'task', 'http')
  }

  /** The account behind the claims, as long as they give authority. */
  #judge(claims: Claims | undefined): Claims & { readonly user: UserRow } {
    if (claims === undefined || this.#revoked.has(claims.jti)) throw noAuthority('token is invalidated')
    const seconds = this.#now() / 1000
    if (claims.exp <= seconds) throw noAuthority('token is expired')
    if (claims.nbf > seconds + clockSkew) throw noAuthority('token not active yet')
    const user = this.users.get(Number(claims.sub))
    if (user?.username !== claims.username) throw noAuthority('failed find user: record not found')
    if (user.disabled) throw noAuthority(disabledReason)
    if (user.passwordTime !== claims.pwd_ts) throw noAuthority('Password has been changed, login please')
    return { ...claims, user }
  }

  #isPermanentToken(token: string): boolean {
    return this.#permanentToken !== '' && isSameText(token, this.#permanentToken)
  }

  #principal(user: UserRow, credential: Credential, door: DoorName, until?: number): Principal {
    return {
      userId: user.id,
      username: user.username,
      role: roles[user.role],
      permissions: user.permission,
      base: user.basePath,
      door,
      signal: this.#authorities.signal(user.id, credential, until),
    }
  }

  /** Takes up at once what another process stored; it is noticed without this, too, a little later. */
  async reload(): Promise<void> {
    await this.#order.add(async () => {
      await this.users.reload()
      await this.keys.reload()
      await this.appPasswords.reload()
      const before = this.#revoked
      this.#revoked = await this.#store.revokedTokens.all()
      for (const id of this.#revoked.keys()) {
        if (!before.has(id)) this.#authorities.endCredential(`token:${id}`, 'token is invalidated')
      }
    })
  }

  /** A principal holds its rights for as long as it lasts: where those changed, it ends. */
  #userChanged(before: UserRow, after: UserRow | undefined): void {
    const { id } = before
    if (after === undefined) {
      this.keys.forget(id)
      this.appPasswords.forget(id)
      this.#authorities.end(id, 'failed find user: record not found')
    } else if (after.disabled) {
      this.#authorities.end(id, disabledReason)
    } else if (
      after.username !== before.username ||
      after.permission !== before.permission ||
      after.basePath !== before.basePath ||
      after.role !== before.role
    ) {
      this.#authorities.end(id, 'the rights of this account have changed')
    } else if (after.passwordTime !== before.passwordTime || after.passwordHash !== before.passwordHash) {
      const reason = 'Password has been changed, login please'
      this.#authorities.end(id, reason, (credential) => credential === 'password' || credential.startsWith('token:'))
    } else if (after.otpSecret !== before.otpSecret) {
      const reason = 'two-step verification was switched on or off'
      this.#authorities.end(id, reason, (credential) => credential === 'password')
    }
  }

  #keyEnded(key: KeyRow): void {
    this.#authorities.end(key.userId, 'the key has been deleted', (credential) => credential === `key:${key.id}`)
  }

  #appPasswordEnded({ id, userId }: AppPasswordRow): void {
    this.#authorities.end(userId, 'the app password has been deleted', (credential) => credential === `app:${id}`)
  }

  #settingsChanged(): void {
    const token = this.#settings.get('token')
    if (token === this.#permanentToken) return
    this.#permanentToken = token
    this.#authorities.endCredential('permanent', 'token is invalidated')
  }

  async #sweep(): Promise<void> {
    const now = this.#now()
    this.#authorities.sweep(now)
    try {
      await this.#order.add(async () => {
        await this.#store.revokedTokens.sweep(new Date(now))
        this.#revoked = new Map([...this.#revoked].filter(([, expires]) => expires.getTime() > now))
      })
    } catch {
      // They are swept at the next look: nothing but room depends on it.
    }
  }
}
