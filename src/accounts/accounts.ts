/** Authenticates credentials of all kinds, and makes principals. */
import { LRUCache } from 'lru-cache'
import PQueue from 'p-queue'
import type { Audit } from '../audit/audit.js'
import { outcomeOf, type Actor } from '../audit/event.js'
import { GatewayError, hasDetail, isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { root, spelledAsIn, under, within, type Path } from '../base/path.js'
import type { Settings } from '../settings/settings.js'
import type { AppPasswordRow, ConsoleSessionRow, KeyRow, UserRow } from '../database/rows.js'
import type { OfOthers, Store } from '../database/tables.js'
import { AppPasswords } from './app-passwords.js'
import { ConsoleSessions, type Browser } from './console-sessions.js'
import {
  admissionRefusal,
  checkNetworks,
  lacksTwoStep,
  type AdmissionRefusal,
  type AdmissionRequest,
} from './admission.js'
import { codeRequired, notAdmitted, sessionRevoked, type Revocation } from './errors.js'
import { FairQueue } from './fair-queue.js'
import { Groups } from './groups.js'
import { networkOf } from '../net/addresses.js'
import { limitersInMemory, lockout, type Limiters, type LockedParty } from './limiter.js'
import { put } from '../base/bounded-tables.js'
import { SshKeys } from './ssh-keys.js'
import { PasswordCheck, type NewSecret } from './password-check.js'
import { Principal, type PrincipalFacts, type ProtocolFacts, type ShareScope } from './principal.js'
import { RecoveryCodes } from './recovery-codes.js'
import { Sessions, type Credential, type Lifetime } from './sessions.js'
import { timingSafeEqualText } from './timing-safe-text.js'
import { TokenCache } from './token-cache.js'
import { SessionTokens, type Claims } from './tokens.js'
import { Users, type UserChanges } from './users.js'

export interface Credentials {
  readonly username: string
  /** The plain password, or its static hash as clients send it (64 lower-case hexadecimal characters). */
  readonly password: { readonly plain: string } | { readonly hash: string }
  /** The one-time code or recovery code, if one was sent. */
  readonly code?: string | undefined
  /** The client's address without port. */
  readonly address: string
  /** Aborts when the client has gone: what still waits for its turn then is not compared. */
  readonly signal?: AbortSignal | undefined
}

/** The request that has a credential. */
export interface Visit {
  /** The client's address without port. Undefined: unknown, so that an account with allowed networks is refused. */
  readonly address?: string | undefined
  /** The request is one that a user needs to set up two-step verification. */
  readonly setsUpTwoStep?: boolean | undefined
}

/** Whose attempts to sign in are refused. */
export interface LockedSignIn extends Pick<LockedParty, 'kind' | 'failures'> {
  /** As of `networkOf`. Undefined: from everywhere. */
  readonly network: string | undefined
  /** Undefined if all names are refused, and for a name that no account has: it can be a mistyped password. */
  readonly username: string | undefined
  /** When an attempt is accepted again, unless another one fails before. */
  readonly until: Date
}

interface AccountsCluster {
  /** Throws `unavailable` while what this process mirrors may be outdated. */
  assertCurrent(): void
  readonly ofOthers: OfOthers
  readonly limiters: Limiters
}

interface AccountsOptions {
  readonly store: Store
  readonly settings: Pick<Settings, 'get' | 'onChange'>
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
/** Seconds that the clocks of two processes may differ. */
const clockSkew = 60
/** Sign-ins by protocols that repeat them, and milliseconds until one that goes on is recorded again. */
const repeated = { max: 10_000, ttl: 3600_000 }
/** Milliseconds after a sign-in within which it allows changes of credentials (docs/decisions/0042). */
const recentTime = 10 * 60_000

function requestOf({ address, setsUpTwoStep = false }: Visit): Omit<AdmissionRequest, 'now'> {
  return { address, purpose: setsUpTwoStep ? 'set-up' : 'use' }
}

/** Clients drop a session on `unauthenticated`: one whose user can set up two-step verification is needed for that. */
function refusedSession(detail: AdmissionRefusal): GatewayError {
  return detail === 'two_step_set_up_required' ? notAdmitted(detail) : sessionRevoked({ detail })
}

const keyDeleted = { reason: 'the key has been deleted' }
const appPasswordDeleted = { reason: 'the app password has been deleted' }

/** What a principal has by its credential. `signal`: in place of that of its account's sessions. */
type CredentialFacts = Pick<
  PrincipalFacts,
  'protocol' | 'folder' | 'readOnly' | 'share' | 'holder' | 'address' | 'signedIn'
> &
  Partial<Pick<PrincipalFacts, 'signal'>>

/** Who has signed in, and by what. */
interface SignedIn {
  readonly user?: Pick<UserRow, 'id' | 'username'> | undefined
  readonly credential?: string | undefined
}

export class Accounts {
  readonly users: Users
  readonly groups: Groups
  readonly keys: SshKeys
  readonly appPasswords: AppPasswords
  readonly consoleSessions: ConsoleSessions
  readonly recoveryCodes: RecoveryCodes
  readonly #store: Store
  readonly #settings: AccountsOptions['settings']
  readonly #tokens: SessionTokens
  readonly #tokenCache: TokenCache
  readonly #now: () => number
  readonly #log: AccountsOptions['log']
  readonly #audit: AccountsOptions['audit']
  /** Sign-ins that were recorded, and that their clients repeat with each request. */
  readonly #repeated = new LRUCache<string, true>(repeated)
  readonly #cluster: AccountsCluster
  readonly #sessions: Sessions
  readonly #passwords: PasswordCheck
  /** When a throttled sign-in of a network was logged last, and the number of those since. */
  readonly #throttled = new Map<string, { readonly at: number; suppressed: number }>()
  /** Serializes reads and changes of the cached rows. */
  readonly #queue = new PQueue({ concurrency: 1 })
  #revoked: ReadonlyMap<string, Date> = new Map()
  #permanentToken: string
  #readingSessions: Promise<void> | undefined
  readonly #disposers: (() => void)[] = []

  private constructor(options: AccountsOptions, tokens: SessionTokens) {
    const { store, settings, log, now = Date.now } = options
    this.#store = store
    this.#settings = settings
    this.#tokens = tokens
    this.#tokenCache = new TokenCache(now)
    this.#sessions = new Sessions(now)
    this.#now = now
    this.#log = log
    this.#audit = options.audit
    this.#cluster = options.cluster ?? {
      assertCurrent: () => undefined,
      ofOthers: () => undefined,
      limiters: limitersInMemory(now),
    }
    this.#permanentToken = settings.get('token')
    const hashes = new FairQueue()
    this.users = new Users({
      store,
      queue: this.#queue,
      hashes,
      groups: () => this.groups,
      onChanged: (before, after) => this.#userChanged(before, after),
      now,
    })
    this.groups = new Groups({
      store,
      queue: this.#queue,
      user: (id) => this.users.get(id),
      onTwoStepRequired: (id) => this.#twoStepRequired(id),
    })
    this.keys = new SshKeys(store, this.#queue, (key) => this.#keyRemoved(key), now)
    this.appPasswords = new AppPasswords(store, this.#queue, (row) => this.#appPasswordRemoved(row), now)
    this.consoleSessions = new ConsoleSessions({
      store,
      queue: this.#queue,
      onRemoved: (row) => this.#consoleSessionRemoved(row),
      hours: options.tokenHours,
      now,
    })
    this.recoveryCodes = new RecoveryCodes(store)
    this.#passwords = new PasswordCheck({
      get: (id) => this.users.get(id),
      byName: (username) => this.users.byName(username),
      useOtpStep: (id, step) => store.users.useOtpStep(id, step),
      useRecoveryCode: (user, code) => this.recoveryCodes.use(user, code),
      replaceHash: (id, old, hash) => this.users.replaceHash(id, old, hash),
      limiter: this.#cluster.limiters.signIns,
      codeLimiter: this.#cluster.limiters.codes,
      hashes,
      now,
    })
  }

  static async open(options: AccountsOptions): Promise<Accounts> {
    const { store, settings, tokenHours, now = Date.now } = options
    const accounts = new Accounts(options, await SessionTokens.open(store, tokenHours, now))
    await accounts.reload()
    accounts.#disposers.push(
      store.onForeignChange('accounts', () => accounts.reload()),
      store.onForeignChange('groups', () => accounts.reload()),
      settings.onChange(() => accounts.#settingsChanged()),
    )
    const timer = setInterval(() => void accounts.#sweep(), sweepInterval).unref()
    accounts.#disposers.push(() => clearInterval(timer))
    return accounts
  }

  /** Stops following changes of other processes. Resolves when pending changes are stored. */
  async close(): Promise<void> {
    for (const dispose of this.#disposers.splice(0)) dispose()
    this.#sessions.close()
    await this.#queue.onIdle()
  }

  /**
   * Resolves to a session token for the HTTP protocol. Rejects with the detail `wrong_credentials` (for an unknown name
   * and a wrong password alike, in the same time), `sign_in_throttled` (with `retryAfter`), `code_required` if the
   * account has two-step verification and the code is missing or wrong, or an `AdmissionRefusal`. One who must set up
   * two-step verification first can sign in for that.
   */
  async signIn(credentials: Credentials): Promise<string> {
    const { token } = await this.#logged(credentials, 'http', async () => {
      const user = await this.#signIn(credentials)
      return { user, token: this.#tokens.issue(user) }
    })
    return token
  }

  /**
   * Opens a session of the console. Resolves to its row, and to its secret, which cannot be retrieved later. Rejects as
   * `signIn` does. `userAgent`: the browser's header.
   */
  async signInToConsole(
    credentials: Credentials,
    { userAgent }: Pick<Browser, 'userAgent'>,
  ): ReturnType<ConsoleSessions['open']> {
    return this.#logged(credentials, 'http', async () => {
      const user = await this.#signIn(credentials)
      const opened = await this.consoleSessions.open(user, { address: credentials.address, userAgent })
      return { ...opened, user, credential: `console:${opened.row.id}` as const }
    })
  }

  /** The account whose password, and code if it has two-step verification, are correct. */
  async #signIn(credentials: Credentials): Promise<UserRow> {
    const user = await this.#passwords.checkPassword(credentials, { remembered: false })
    this.#assertMayEnter(user, { address: credentials.address, purpose: 'set-up' })
    if (user.otpSecret !== '') await this.#checkCode(user, credentials)
    this.#passwords.recordSuccess(credentials, user, { remember: false })
    return user
  }

  /** Why the account cannot be used for this request now. */
  #refusal(user: UserRow, request: Omit<AdmissionRequest, 'now'>): AdmissionRefusal | undefined {
    return admissionRefusal(user, this.groups.of(user.id), { ...request, now: this.#now() })
  }

  /** Throws `denied` if the account, whose credential is correct, cannot be used. */
  #assertMayEnter(user: UserRow, request: Omit<AdmissionRequest, 'now'>): void {
    const refusal = this.#refusal(user, request)
    if (refusal !== undefined) throw notAdmitted(refusal)
  }

  /**
   * The principal of a session token or of the permanent token. Rejects with `unauthenticated`, or with `denied` and
   * the detail `two_step_set_up_required`. The permanent token is one of the installation, and not of an account whose
   * networks or two-step verification could be asked.
   */
  async byToken(token: string, protocol: ProtocolFacts, visit: Visit = {}): Promise<Principal> {
    this.#cluster.assertCurrent()
    const cached = this.#tokenCache.get(token, protocol)
    if (cached !== undefined) {
      const user = this.users.get(cached.userId)
      const refusal = user && this.#refusal(user, requestOf(visit))
      if (refusal !== undefined && !this.isPermanentToken(token)) throw refusedSession(refusal)
      return cached
    }
    if (this.isPermanentToken(token)) {
      const admin = this.users.byUniqueRole('admin')
      if (admin === undefined) throw sessionRevoked({ detail: 'account_missing' })
      const principal = this.#principal(admin, 'permanent', { protocol, signedIn: () => Infinity })
      this.#tokenCache.add(token, principal, Infinity)
      return principal
    }
    const { user, jti, iat, exp } = this.#validate(this.#tokens.read(token), visit)
    const by = { protocol, signedIn: () => iat * 1000 }
    const principal = this.#principal(user, `token:${jti}`, by, { tokenExpires: exp * 1000 })
    this.#tokenCache.add(token, principal, exp * 1000)
    return principal
  }

  /** The principal of a console session. `secret`: the value of its cookie. Rejects as `byToken`. */
  async byConsoleSession(secret: string, protocol: ProtocolFacts, visit: Visit = {}): Promise<Principal> {
    const row = this.consoleSessions.find(secret) ?? (await this.#newSession(secret))
    if (row === undefined) throw sessionRevoked({ detail: 'token_revoked' })
    const { id, userId, passwordTime } = row
    const expires = row.expires.getTime()
    if (expires <= this.#now()) throw sessionRevoked({ detail: 'token_expired' })
    await this.#recordUse(this.consoleSessions.touch(row))
    const user = this.#activeUser(visit, userId, passwordTime)
    if (this.consoleSessions.get(id) === undefined) throw sessionRevoked({ detail: 'token_revoked' })
    const signedIn = () => this.consoleSessions.signedIn(id)
    return this.#principal(user, `console:${id}`, { protocol, signedIn }, { tokenExpires: expires })
  }

  /** The session if another node has opened it just now. */
  async #newSession(secret: string): Promise<ConsoleSessionRow | undefined> {
    await this.#readSessionsOfOthers()
    return this.consoleSessions.find(secret)
  }

  /** Reads what other nodes have just stored of console sessions. */
  async #readSessionsOfOthers(): Promise<void> {
    await this.#cluster.ofOthers(() => {
      // Concurrent requests share a query.
      this.#readingSessions ??= this.#queue
        .add(() => this.consoleSessions.reload())
        .finally(() => (this.#readingSessions = undefined))
      return this.#readingSessions
    })
  }

  /**
   * Checks password and code of the user of a console session once more, and records the time as that of its sign-in.
   * `secret`: the value of the cookie. Rejects as `signIn` does, and with `unauthenticated` if the session has ended.
   */
  async confirmConsoleSession(secret: string, proof: Omit<Credentials, 'username'>): Promise<void> {
    const row = this.consoleSessions.find(secret)
    const user = row && this.users.get(row.userId)
    if (row === undefined || user === undefined) throw sessionRevoked({ detail: 'token_revoked' })
    const credentials = { ...proof, username: user.username }
    await this.#logged(credentials, 'http', async () => {
      const confirmed = await this.#signIn(credentials)
      const isSame = confirmed.id === row.userId && confirmed.passwordTime === row.passwordTime
      if (!isSame || !(await this.consoleSessions.confirm(row.id))) throw sessionRevoked({ detail: 'token_revoked' })
      return { user, credential: `console:${row.id}` as const }
    })
  }

  /**
   * Whether the principal may change credentials: it is that of the permanent token, or of a session whose user has
   * signed in, or confirmed it, within the last ten minutes.
   */
  async hasRecentSignIn({ signedIn }: Principal): Promise<boolean> {
    if (signedIn === undefined) return false
    const isRecent = () => (signedIn() ?? -Infinity) > this.#now() - recentTime
    if (isRecent()) return true
    // Another node may have confirmed the session just now.
    await this.#readSessionsOfOthers()
    return isRecent()
  }

  /** Whose attempts to sign in are refused now, on all nodes. */
  async lockedSignIns(): Promise<readonly LockedSignIn[]> {
    const locked = await this.#cluster.limiters.lockedOut.list()
    return locked.map(({ kind, network, account = '', failures, left }) => {
      const user = kind === 'codes' ? this.users.get(Number(account)) : this.users.byName(account)
      return { kind, network, username: user?.username, failures, until: new Date(this.#now() + left) }
    })
  }

  /** Forgets the failed sign-ins of an address, or of a network as `lockedSignIns` names it, on all nodes. */
  async unlockNetwork(network: string): Promise<void> {
    await this.#cluster.limiters.lockedOut.unlockNetwork(networkOf(network))
  }

  /** Forgets the failed sign-ins and wrong codes of a user. Rejects with `not_found`. */
  async unlockUser(username: string): Promise<void> {
    const user = this.users.byName(username)
    if (user === undefined) throw new GatewayError('not_found', { detail: 'account_missing' })
    await this.#cluster.limiters.lockedOut.unlockAccount(user)
  }

  /**
   * Throws `invalid` if a user who makes this change of its own account, from this address, could not undo it: it would
   * lock itself out.
   */
  assertStaysIn(userId: number, changes: Pick<UserChanges, 'allowFrom' | 'expires'>, address: string): void {
    const user = this.users.get(userId)
    if (user === undefined) return
    const allowFrom = checkNetworks(changes.allowFrom ?? user.allowFrom)
    const expires = changes.expires === undefined ? user.expires : (changes.expires ?? undefined)
    const refusal = this.#refusal({ ...user, allowFrom, expires }, { address, purpose: 'set-up' })
    const why = {
      network_refused: 'this would lock you out: the address of this request is not in these networks',
      account_expired: 'this would lock you out: the end is in the past',
    }
    if (refusal === 'network_refused' || refusal === 'account_expired') {
      throw new GatewayError('invalid', { reason: why[refusal] })
    }
  }

  /** Whether the user is an admin, and no admin, by role or group, can be used from everywhere and without an end. */
  isLastAdminBound(changed: UserRow): boolean {
    const isAdmin = ({ id, role }: UserRow) => role === 'admin' || this.groups.of(id).isAdmin
    const isUnbound = ({ disabled, expires, allowFrom }: UserRow) =>
      !disabled && expires === undefined && allowFrom.length === 0
    return isAdmin(changed) && !this.users.list().some((user) => isAdmin(user) && isUnbound(user))
  }

  isPermanentToken(token: string): boolean {
    return this.#permanentToken !== '' && timingSafeEqualText(token, this.#permanentToken)
  }

  /**
   * The guest's principal. Throws `unauthenticated`, as for a disabled guest, if the account cannot be used. `address`:
   * that of the client.
   */
  guest(protocol: ProtocolFacts, address: string): Principal {
    const guest = this.users.byUniqueRole('guest')
    if (guest === undefined || this.#refusal(guest, { address, purpose: 'use' }) !== undefined) {
      throw sessionRevoked({ detail: 'guest_disabled' })
    }
    return this.#principal(guest, 'guest', { protocol, holder: networkOf(address), address })
  }

  /** Whether this is the name of the guest, which is enabled and has not expired. */
  isGuestName(username: string): boolean {
    const user = this.users.byName(username)
    if (user === undefined || user !== this.users.byUniqueRole('guest')) return false
    return this.#refusal(user, { purpose: 'later' }) === undefined
  }

  /**
   * Revokes a session token. Does nothing for the permanent token and for invalid or expired ones. `address`: that of
   * the client.
   */
  async signOut(token: string, address?: string): Promise<void> {
    const claims = this.#tokens.read(token)
    const expires = new Date((claims?.exp ?? 0) * 1000)
    if (claims === undefined || expires.getTime() <= this.#now()) return
    await this.#queue.add(async () => {
      await this.#store.revokedTokens.insert(claims.jti, expires)
      this.#revoked = new Map([...this.#revoked, [claims.jti, expires]])
      this.#sessions.end(Number(claims.sub), { detail: 'token_revoked' }, (other) => other === `token:${claims.jti}`)
    })
    await this.#recordSignOut(Number(claims.sub), `token:${claims.jti}`, address)
  }

  /** Ends the session of the console whose cookie has this value. Does nothing if there is none. */
  async signOutOfConsole(secret: string, address?: string): Promise<void> {
    const row = this.consoleSessions.find(secret)
    await this.consoleSessions.close(secret)
    if (row) await this.#recordSignOut(row.userId, `console:${row.id}`, address)
  }

  async #recordSignOut(userId: number, credential: Credential, address?: string): Promise<void> {
    const name = this.users.get(userId)?.username ?? ''
    const actor: Actor = { userId, name, protocol: 'http', address, credential }
    await this.#audit?.record({ kind: 'signout', actor, result: 'done' })
  }

  /**
   * The principal for a user name and a password, sent with a request or a connection. Verified passwords are cached
   * for minutes under a keyed digest. Rejects as `signIn` does; if the account has two-step verification and no code
   * was sent, the code is `denied`. App passwords are valid for their protocols, also for accounts with two-step
   * verification.
   */
  async byPassword(credentials: Credentials, protocol: ProtocolFacts): Promise<Principal> {
    const { principal } = await this.#logged(credentials, protocol.name, async () => {
      const signedIn = await this.#byPassword(credentials, protocol)
      const { userId, username, credential } = signedIn
      const isKnown = protocol.repeatsCredentials === true && this.#isRepeated(signedIn, credentials.address)
      return { principal: signedIn, ...(!isKnown && { user: { id: userId, username }, credential }) }
    })
    return principal
  }

  /** Whether the sign-in goes on, and was recorded. From now on it is. */
  #isRepeated({ userId, credential, protocol }: Principal, address: string): boolean {
    const key = `${userId} ${credential} ${protocol.name} ${address}`
    if (this.#repeated.has(key)) return true
    this.#repeated.set(key, true)
    return false
  }

  /**
   * Logs a failed sign-in with its address. Logs the name only if the account exists, because it could be a mistyped
   * password. Of throttled sign-ins, logs one of each network within the time of a lockout, with the number of those
   * that were not logged before it. Records every sign-in in the audit. `work` resolves to who has signed in, and by
   * what if it is not the password; without a user, to nothing that is recorded.
   */
  async #logged<T extends SignedIn>(
    { username, code, address }: Pick<Credentials, 'username' | 'code' | 'address'>,
    protocol: string,
    work: () => Promise<T>,
  ): Promise<T> {
    try {
      const result = await work()
      const { user, credential = 'password' } = result
      if (user) {
        const actor: Actor = { userId: user.id, name: user.username, protocol, address, credential }
        await this.#audit?.record({ kind: 'signin.ok', actor, result: 'done' })
      }
      return result
    } catch (error) {
      // Without a code, the client asks its user for one.
      if (isGatewayError(error) && !(hasDetail(error, 'code_required') && code === undefined)) {
        const user = this.users.byName(username)
        const actor: Actor = { userId: user?.id, name: user?.username ?? '', protocol, address }
        await this.#audit?.record({ kind: 'signin.refused', actor, ...outcomeOf(error) })
      }
      if (isGatewayError(error) && !hasDetail(error, 'code_required')) {
        const account = this.users.byName(username)?.username
        const facts = { protocol, address, account, reason: error.reason }
        if (error.code !== 'throttled') this.#log?.warn(facts, 'sign-in refused')
        else this.#logThrottled(networkOf(address), facts)
      }
      throw error
    }
  }

  #logThrottled(network: string, facts: object): void {
    const last = this.#throttled.get(network)
    if (last !== undefined && this.#now() - last.at < lockout.time) {
      last.suppressed++
      return
    }
    put(this.#throttled, network, { at: this.#now(), suppressed: 0 })
    this.#log?.warn({ ...facts, suppressed: last?.suppressed }, 'sign-in refused')
  }

  async #byPassword(credentials: Credentials, protocol: ProtocolFacts): Promise<Principal> {
    const appPassword = await this.#byAppPassword(credentials, protocol)
    if (appPassword !== undefined) return appPassword
    const user = await this.#passwords.checkPassword(credentials, { remembered: true })
    this.#assertMayEnter(user, { address: credentials.address, purpose: 'use' })
    const remember = user.otpSecret === ''
    if (!remember) {
      if (credentials.code === undefined) throw codeRequired('denied')
      await this.#checkCode(user, credentials)
    }
    this.#passwords.recordSuccess(credentials, user, { remember })
    return this.#principal(user, 'password', { protocol })
  }

  /**
   * Enables two-step verification with this base32 secret, or replaces the secret that the account has. Rejects with
   * the detail `code_required` for a wrong code, and with `throttled` after too many.
   */
  async enableTwoStep(userId: number, proof: NewSecret): Promise<void> {
    const user = this.#lasting(userId)
    if (!(await this.#passwords.checkNewSecret(user, proof))) {
      throw new GatewayError('invalid', { detail: 'code_required' })
    }
    this.#assertUnchanged(user)
    await this.users.update(userId, { otpSecret: proof.secret })
  }

  /** Turns off the two-step verification of a user, who has sent a code of it. Rejects as `enableTwoStep` does. */
  async disableTwoStep(userId: number, proof: Pick<Credentials, 'code' | 'address'>): Promise<void> {
    const user = this.#lasting(userId)
    if (user.otpSecret === '') return
    await this.#checkCode(user, proof)
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
    const { codes } = await this.#logged(credentials, 'http', async () => {
      await this.#passwords.checkPassword(credentials, { remembered: false })
      this.#assertUnchanged(user)
      return { user: undefined, codes: await this.recoveryCodes.renew(user) }
    })
    return codes
  }

  /**
   * The key of this blob if `username` has it. Records nothing, and does not ask whether the account can be used: who
   * knows a public key has proved nothing yet.
   */
  findKey(username: string, blob: Buffer): KeyRow | undefined {
    const user = this.users.byName(username)
    return user && this.keys.find(user.id, blob)
  }

  /**
   * The principal for a key whose signature was verified. Sets the time of last use. Revoked when the key is deleted.
   * Rejects with `denied` if the account cannot be used from this address.
   */
  async byKey(key: KeyRow, protocol: ProtocolFacts, address?: string): Promise<Principal> {
    const username = this.users.get(key.userId)?.username ?? ''
    const { principal } = await this.#logged({ username, address: address ?? '' }, protocol.name, async () => {
      this.#ownerOf(key, address)
      await this.#recordUse(this.keys.touch(key))
      const user = this.#ownerOf(key, address)
      const credential = `key:${key.id}` as const
      return { user, credential, principal: this.#principal(user, credential, { protocol }) }
    })
    return principal
  }

  /** The account of a key, if it can be used now. */
  #ownerOf({ id, userId }: KeyRow, address: string | undefined): UserRow {
    const user = this.users.get(userId)
    if (user === undefined || this.keys.get(id) === undefined) throw sessionRevoked(keyDeleted)
    this.#assertMayEnter(user, { address, purpose: 'use' })
    return user
  }

  /**
   * The principal for an app password; undefined if it is none, so that it is checked and counted like other passwords.
   * App passwords have too much entropy to guess, so the sign-in limiter does not apply.
   */
  async #byAppPassword(credentials: Credentials, protocol: ProtocolFacts): Promise<Principal | undefined> {
    const { username, password, address } = credentials
    const row = 'plain' in password ? this.appPasswords.find(password.plain) : undefined
    const user = row && this.users.get(row.userId)
    if (row === undefined || user?.username !== username) return undefined
    this.#assertMayEnter(user, { address, purpose: 'use' })
    if (row.expires !== undefined && row.expires.getTime() <= this.#now()) {
      const reason = 'this app password has expired'
      throw new GatewayError('denied', { op: 'sign in', detail: 'credential_expired', reason })
    }
    if (!protocol.appPasswords || !row.protocols.includes(protocol.name)) {
      throw new GatewayError('denied', { op: 'sign in', reason: 'this app password is for another protocol' })
    }
    await this.#recordUse(this.appPasswords.touch(row))
    this.#assertUnchanged(user)
    if (this.appPasswords.get(row.id) === undefined) throw sessionRevoked(appPasswordDeleted)
    const { folder, readOnly, expires: credentialEnds } = row
    return this.#principal(user, `app:${row.id}`, { protocol, folder, readOnly }, { credentialEnds })
  }

  async #checkCode(user: UserRow, proof: Pick<Credentials, 'code' | 'address'>): Promise<void> {
    await this.#passwords.checkCode(user, proof)
    this.#assertUnchanged(user)
  }

  /** Rejects if the account has changed since the row was read: rows are immutable, so it is another object then. */
  #assertUnchanged(user: UserRow): void {
    if (this.users.get(user.id) === user) return
    throw sessionRevoked({ reason: 'the account has just changed, sign in again' })
  }

  /** Waits until the time of last use is stored. A full disk must not keep those out who could delete files. */
  async #recordUse(recording: Promise<unknown>): Promise<void> {
    await recording.catch((error: unknown) => {
      this.#log?.warn({ err: error }, 'failed to store the time of last use of a credential')
    })
  }

  /**
   * The principal for a task, which may outlive the credential that started it: the account with its current
   * permissions. Throws `unauthenticated` if the account is deleted or disabled, or has expired. Networks and two-step
   * verification were asked at the request that started the task.
   */
  forTask(userId: number): Principal {
    return this.#principal(this.#lasting(userId), 'task', { protocol: { name: 'task', appPasswords: false } })
  }

  /**
   * The principal for a URL that was signed for this user: its account with its current permissions, to read only.
   * Throws as `forTask`. `address`: that of the client.
   */
  forSignature(userId: number, protocol: ProtocolFacts, address: string): Principal {
    const by = { protocol, readOnly: true, holder: networkOf(address), address }
    return this.#principal(this.#lasting(userId), 'task', by)
  }

  /**
   * The principal of a user whose credential is right, to explain decisions: nothing is done by it. It is revoked, with
   * the reason, where the account would be refused. `address`: that of a client; undefined for any. Throws `not_found`.
   */
  forExplanation(username: string, protocol: ProtocolFacts, address?: string): Principal {
    const user = this.users.byName(username)
    if (user === undefined) throw new GatewayError('not_found', { detail: 'account_missing' })
    const account = address === undefined ? { ...user, allowFrom: [] } : user
    const refusal = this.#refusal(account, { address, purpose: 'use' })
    const signal = refusal === undefined ? new AbortController().signal : AbortSignal.abort(refusedSession(refusal))
    return this.#principal(user, 'task', { protocol, signal })
  }

  /**
   * The principal of a visitor of a share: its creator's account with its current permissions, narrowed to the share.
   * `folds`: the storage of `path`, a file or folder of the share, ignores the case of names. `end`: of the share.
   * `address`: that of the visitor; undefined for a question about the share itself. Throws as `forTask`, and
   * `denied` if the path is outside the base folder of the creator.
   */
  forShare(
    creatorId: number,
    share: ShareScope,
    { path, folds, end }: { readonly path: Path; readonly folds: boolean; readonly end?: Date | undefined },
    protocol: ProtocolFacts,
    address?: string,
  ): Principal {
    const creator = this.#lasting(creatorId)
    const base = folds ? spelledAsIn(creator.basePath, path) : creator.basePath
    const folder = base && within(base, path)
    if (folder === undefined) throw new GatewayError('denied', { detail: 'share_refused', subject: path })
    const network = address === undefined ? undefined : networkOf(address)
    const by = { protocol, folder, share, address, ...(network !== undefined && { holder: network }) }
    return this.#principal(creator, `share:${share.id}`, by, { credentialEnds: end })
  }

  /** Ends the requests of visitors of a share. */
  endShare(creatorId: number, id: string, why: Revocation): void {
    this.#sessions.end(creatorId, why, (credential) => credential === `share:${id}`)
  }

  #lasting(userId: number): UserRow {
    const user = this.users.get(userId)
    if (user === undefined) throw sessionRevoked({ detail: 'account_missing' })
    const refusal = this.#refusal(user, { purpose: 'later' })
    if (refusal !== undefined) throw refusedSession(refusal)
    return user
  }

  /** Checks the claims against the account and the revoked tokens. Throws as `byToken` rejects. */
  #validate(claims: Claims | undefined, visit: Visit): Claims & { readonly user: UserRow } {
    if (claims === undefined || this.#revoked.has(claims.jti)) throw sessionRevoked({ detail: 'token_revoked' })
    const seconds = this.#now() / 1000
    if (claims.exp <= seconds) throw sessionRevoked({ detail: 'token_expired' })
    if (claims.nbf > seconds + clockSkew) throw sessionRevoked({ detail: 'token_not_active' })
    return { ...claims, user: this.#activeUser(visit, Number(claims.sub), claims.pwd_ts, claims.username) }
  }

  /**
   * The account of a sign-in at which it had this `passwordTime`, and name. Throws as `byToken` rejects, if it has
   * changed or cannot be used for this request.
   */
  #activeUser(visit: Visit, id: number, passwordTime: number, username?: string): UserRow {
    const user = this.users.get(id)
    if (user === undefined || (username !== undefined && user.username !== username)) {
      throw sessionRevoked({ detail: 'account_missing' })
    }
    const refusal = this.#refusal(user, requestOf(visit))
    // Disabling an account changes the time too.
    if (refusal !== 'account_disabled' && user.passwordTime !== passwordTime) {
      throw sessionRevoked({ detail: 'password_changed' })
    }
    if (refusal !== undefined) throw refusedSession(refusal)
    return user
  }

  #principal(
    user: UserRow,
    credential: Credential,
    { folder = root, ...by }: CredentialFacts,
    lifetime: Omit<Lifetime, 'accountEnds'> = {},
  ): Principal {
    this.#cluster.assertCurrent()
    return new Principal({
      userId: user.id,
      username: user.username,
      role: user.role,
      permissions: user.permission,
      groups: this.groups,
      grantedOnly: user.grantedOnly,
      base: under(user.basePath, folder),
      folder,
      credential,
      ...by,
      signal: by.signal ?? this.#sessions.signal(user.id, credential, { ...lifetime, accountEnds: user.expires }),
    })
  }

  /**
   * Reloads the stored accounts. Not required for changes of other processes, but takes effect without the polling
   * delay.
   */
  async reload(): Promise<void> {
    // Another process may have unlocked an address.
    this.#cluster.limiters.signIns.forgetLocks()
    await this.#queue.add(async () => {
      await this.users.reload()
      await this.groups.reload()
      await this.keys.reload()
      await this.appPasswords.reload()
      await this.consoleSessions.reload()
      const before = this.#revoked
      this.#revoked = await this.#store.revokedTokens.all()
      for (const id of this.#revoked.keys()) {
        if (!before.has(id)) this.#sessions.endCredential(`token:${id}`, { detail: 'token_revoked' })
      }
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

  #consoleSessionRemoved({ id, userId }: ConsoleSessionRow): void {
    this.#sessions.end(userId, { detail: 'token_revoked' }, (credential) => credential === `console:${id}`)
  }

  #settingsChanged(): void {
    const token = this.#settings.get('token')
    if (token === this.#permanentToken) return
    this.#permanentToken = token
    this.#sessions.endCredential('permanent', { detail: 'token_revoked' })
  }

  async #sweep(): Promise<void> {
    const now = this.#now()
    this.#sessions.sweep(now)
    try {
      await this.#cluster.limiters.sweep()
      await this.#queue.add(async () => {
        await this.consoleSessions.sweep(now)
        await this.#store.revokedTokens.sweep(new Date(now))
        this.#revoked = new Map([...this.#revoked].filter(([, expires]) => expires.getTime() > now))
      })
    } catch {
      // The next sweep tries again. Expired rows only take space.
    }
  }
}
