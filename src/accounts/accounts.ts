/** Opens the parts of the accounts, and ends what a change of an account ends. Callers ask the parts. */
import type { KeyObject } from 'node:crypto'
import type { Audit } from '../audit/audit.js'
import type { Log } from '../base/log.js'
import type { Settings } from '../settings/settings.js'
import type { AppPasswordRow, KeyRow, UserRow } from '../database/tables/accounts.js'
import type { OfOthers, Store } from '../database/tables.js'
import { AppPasswords } from './app-passwords.js'
import { ConsoleSessions } from './console-sessions.js'
import { Admission, lacksTwoStep } from './admission.js'
import { appPasswordDeleted, keyDeleted } from './errors.js'
import { FairQueue } from './fair-queue.js'
import { Groups } from './groups.js'
import { Identities, type IdentityRow } from './identities.js'
import { limitersInMemory, type Limiters } from './limiter.js'
import { LockedSignIns } from './locked-sign-ins.js'
import { SshKeys } from './ssh-keys.js'
import { PasswordCheck } from './password-check.js'
import type { PasswordDirectory } from './password-directory.js'
import { Principals } from './principals.js'
import { RecoveryCodes } from './recovery-codes.js'
import { Sessions } from './sessions.js'
import { SignIn } from './sign-in.js'
import { SignInRecords } from './sign-in-records.js'
import { signingKey, Tokens } from './tokens.js'
import { TwoStep } from './two-step.js'
import { Users } from './users.js'
import PQueue from 'p-queue'

interface AccountsCluster {
  /** Throws `unavailable` while what this process mirrors may be outdated. */
  assertCurrent(): void
  readonly ofOthers: OfOthers
  readonly limiters: Limiters
}

interface AccountsOptions {
  readonly store: Store
  readonly settings: Pick<Settings, 'get' | 'number' | 'onChange'>
  /** Lifetime of session tokens and console sessions, in hours. */
  readonly tokenHours: number
  /** Gets a warning for each failed sign-in; of those that are throttled, one for each network in five minutes. */
  readonly log?: Pick<Log, 'warn'>
  /** Gets each sign-in, and each that is refused. */
  readonly audit?: Pick<Audit, 'record'> | undefined
  /** The other processes that use the same accounts. By default there are none. */
  readonly cluster?: AccountsCluster | undefined
  /** The time in milliseconds since 1970. */
  readonly now?: () => number
}

/** Milliseconds between two removals of expired tokens and console sessions. */
const sweepInterval = 3600_000

export class Accounts {
  readonly users: Users
  readonly groups: Groups
  readonly identities: Identities
  readonly admission: Admission
  readonly principals: Principals
  readonly signIn: SignIn
  readonly tokens: Tokens
  readonly keys: SshKeys
  readonly appPasswords: AppPasswords
  readonly consoleSessions: ConsoleSessions
  readonly recoveryCodes: RecoveryCodes
  readonly twoStep: TwoStep
  readonly lockedSignIns: LockedSignIns
  readonly #store: Store
  readonly #now: () => number
  readonly #limiters: Limiters
  readonly #sessions: Sessions
  /** Serializes reads and changes of the cached rows. */
  readonly #queue = new PQueue({ concurrency: 1 })
  readonly #disposers: (() => void)[] = []
  #directory: PasswordDirectory | undefined

  private constructor(options: AccountsOptions, key: KeyObject) {
    const { store, settings, log, audit, now = Date.now } = options
    this.#sessions = new Sessions(now)
    this.#store = store
    this.#now = now
    const alone = { assertCurrent: () => undefined, ofOthers: () => undefined, limiters: limitersInMemory(now) }
    const { cluster = alone } = options
    this.#limiters = cluster.limiters
    const hashes = new FairQueue()
    this.identities = new Identities({
      ...{ store, settings, queue: this.#queue, now },
      onEnded: (id) => this.#endOverdue(id),
    })
    this.users = new Users({
      store,
      queue: this.#queue,
      hashes,
      groups: () => this.groups,
      identities: this.identities,
      onChanged: (before, after) => this.#userChanged(before, after),
      now,
    })
    this.groups = new Groups({
      store,
      queue: this.#queue,
      user: (id) => this.users.get(id),
      onTwoStepRequired: (id) => this.#twoStepRequired(id),
    })
    const records = new SignInRecords({ users: this.users, log, audit, now })
    const admission = new Admission(this.users, this.groups, this.identities, now)
    const assertCurrent = () => cluster.assertCurrent()
    const principals = new Principals(this.users, this.groups, admission, this.#sessions, assertCurrent)
    const rows = { store, queue: this.#queue, sessions: this.#sessions, hours: options.tokenHours }
    const shared = { users: this.users, admission, principals, records, now }
    this.tokens = new Tokens(key, { ...rows, ...shared, settings, assertCurrent })
    this.consoleSessions = new ConsoleSessions({ ...rows, ...shared, ofOthers: cluster.ofOthers })
    this.keys = new SshKeys(store, this.#queue, (row) => this.#keyRemoved(row), now)
    this.appPasswords = new AppPasswords(store, this.#queue, (row) => this.#appPasswordRemoved(row), now)
    this.recoveryCodes = new RecoveryCodes(store)
    this.lockedSignIns = new LockedSignIns(cluster.limiters.lockedOut, this.users, this.identities, now)
    const passwords = new PasswordCheck({
      get: (id) => this.users.get(id),
      byName: (username) => this.users.byName(username),
      useOtpStep: (id, step) => store.users.useOtpStep(id, step),
      useRecoveryCode: (user, code) => this.recoveryCodes.use(user, code),
      replaceHash: (id, old, hash) => this.users.replaceHash(id, old, hash),
      directory: () => (this.#directory?.isOn === true ? this.#directory : undefined),
      limiter: cluster.limiters.signIns,
      codeLimiter: cluster.limiters.codes,
      directoryLimiter: cluster.limiters.directory,
      hashes,
      now,
    })
    this.twoStep = new TwoStep(this.users, admission, passwords, this.recoveryCodes, records)
    const { keys, appPasswords, tokens, consoleSessions, twoStep } = this
    this.signIn = new SignIn({ ...shared, keys, appPasswords, passwords, tokens, consoleSessions, twoStep })
    this.admission = admission
    this.principals = principals
  }

  static async open(options: AccountsOptions): Promise<Accounts> {
    const { store, settings } = options
    const accounts = new Accounts(options, await signingKey(store))
    await accounts.reload()
    accounts.#disposers.push(
      store.onForeignChange('accounts', () => accounts.reload()),
      store.onForeignChange('groups', () => accounts.reload()),
      settings.onChange(() => accounts.tokens.followSetting()),
    )
    const timer = setInterval(() => {
      accounts.#sweep().catch((error: unknown) => {
        // The next sweep tries again. Expired rows only take space.
        options.log?.warn({ err: error }, 'expired tokens and sessions were not removed')
      })
    }, sweepInterval).unref()
    accounts.#disposers.push(() => clearInterval(timer))
    return accounts
  }

  /** From now on, the directory is asked for passwords that no account here has. */
  useDirectory(directory: PasswordDirectory): void {
    this.#directory = directory
  }

  /** Stops following changes of other processes. Resolves when pending changes are stored. */
  async close(): Promise<void> {
    for (const dispose of this.#disposers.splice(0)) dispose()
    this.#sessions.close()
    await this.#queue.onIdle()
  }

  /**
   * Reloads the stored accounts. Not required for changes of other processes, but takes effect without the polling
   * delay.
   */
  async reload(): Promise<void> {
    // Another process may have unlocked an address.
    this.#limiters.signIns.forgetLocks()
    await this.#queue.add(async () => {
      await this.users.reload()
      await this.groups.reload()
      await this.keys.reload()
      await this.appPasswords.reload()
      await this.identities.reload()
      await this.consoleSessions.reload()
      await this.tokens.reload()
    })
  }

  /**
   * Records that the account of an identity has ended at its provider or directory, unless that is known. Before that
   * is stored, ends all sessions of its user, who may have been an admin, if it has to sign in there before anything
   * else can be used. If one of both rejects, nothing is recorded.
   */
  async ended({ id, userId }: Pick<IdentityRow, 'id' | 'userId'>): Promise<void> {
    const identity = this.identities.get(id)
    if (identity === undefined || identity.checked.getTime() === 0) return
    await this.identities.lookedUp(identity, false, async () => {
      if (this.#isOverdue(userId)) await this.users.endSessions(userId)
    })
  }

  /**
   * Revokes the sessions that a change of the account affects. A principal keeps the account's own permissions for its
   * lifetime, and asks for its groups at each use.
   */
  #userChanged(before: UserRow, after: UserRow | undefined): void {
    const { id } = before
    if (after === undefined) {
      this.keys.evictUser(id)
      this.appPasswords.evictUser(id)
      this.groups.evictUser(id)
      this.identities.evictUser(id)
      this.#sessions.end(id, { detail: 'account_missing' })
    } else if (after.disabled) {
      this.#sessions.end(id, { detail: 'account_disabled' })
    } else if (
      after.username !== before.username ||
      after.permission !== before.permission ||
      after.basePath !== before.basePath ||
      after.role !== before.role ||
      after.grantedOnly !== before.grantedOnly ||
      after.expires?.getTime() !== before.expires?.getTime() ||
      after.allowFrom.join() !== before.allowFrom.join()
    ) {
      this.#sessions.end(id, { reason: 'the rights of this account have changed' })
    } else if (after.otpSecret !== before.otpSecret && lacksTwoStep(after, this.groups.of(id))) {
      this.#twoStepRequired(id)
    } else if (after.passwordTime !== before.passwordTime || after.passwordHash !== before.passwordHash) {
      const hasNewPassword = after.passwordHash !== before.passwordHash
      const why = { detail: hasNewPassword ? 'password_changed' : 'token_revoked' } as const
      this.#sessions.end(id, why, (credential) => /^(?:password$|token:|console:)/.test(credential))
    } else if (after.otpSecret !== before.otpSecret) {
      const why = { reason: 'two-step verification was switched on or off' }
      this.#sessions.end(id, why, (credential) => credential === 'password')
    }
    if (after?.passwordTime !== before.passwordTime) this.consoleSessions.evictUser(id)
  }

  /** Ends what a user who has no two-step verification does, because a group requires it now. */
  #twoStepRequired(userId: number): void {
    const user = this.users.get(userId)
    if (user === undefined || !lacksTwoStep(user, this.groups.of(userId))) return
    this.#sessions.end(userId, { detail: 'two_step_set_up_required' })
  }

  #keyRemoved(key: KeyRow): void {
    this.#sessions.end(key.userId, keyDeleted, (credential) => credential === `key:${key.id}`)
  }

  #appPasswordRemoved({ id, userId }: AppPasswordRow): void {
    this.#sessions.end(userId, appPasswordDeleted, (credential) => credential === `app:${id}`)
  }

  /** Whether a user has to sign in at its provider first. */
  #isOverdue(userId: number): boolean {
    const user = this.users.get(userId)
    const refusal = user && this.admission.refusal(user, { purpose: 'later', credential: 'device' })
    return refusal === 'provider_sign_in_due'
  }

  /** Ends what such a user does by passwords, app passwords and keys in connections that stay open. */
  #endOverdue(userId: number): void {
    if (!this.#isOverdue(userId)) return
    const why = { detail: 'provider_sign_in_due' } as const
    this.#sessions.end(userId, why, (credential) => /^(?:password$|key:|app:)/.test(credential))
  }

  async #sweep(): Promise<void> {
    const now = this.#now()
    this.#sessions.sweep(now)
    for (const userId of this.identities.userIds()) this.#endOverdue(userId)
    await this.#limiters.sweep()
    await this.#queue.add(async () => {
      await this.consoleSessions.sweep(now)
      await this.#store.providerSessions.sweep(new Date(now))
      await this.#store.pendingSignIns.sweep(new Date(now))
      await this.tokens.sweep(now)
    })
  }
}
