/**
 * Signs users in. Whatever proves who somebody is, the account is admitted here, gets its token, session or principal,
 * and the sign-in is recorded.
 */
import { outcomeOf } from '../audit/event.js'
import { GatewayError } from '../base/errors.js'
import type { KeyRow, UserRow } from '../database/tables/accounts.js'
import type { Admission, AdmissionRequest } from './admission.js'
import type { AppPasswords } from './app-passwords.js'
import type { Browser, ConsoleSessionRow, ConsoleSessions } from './console-sessions.js'
import { appPasswordDeleted, codeRequired, keyDeleted, sessionRevoked } from './errors.js'
import type { Credentials, PasswordCheck } from './password-check.js'
import type { Principal, ProtocolFacts } from './principal.js'
import type { Principals } from './principals.js'
import type { MadeSession, SignInProof, Proved } from './proof.js'
import type { SignInRecords } from './sign-in-records.js'
import type { SshKeys } from './ssh-keys.js'
import type { Tokens } from './tokens.js'
import type { TwoStep } from './two-step.js'
import type { Users } from './users.js'

/** Throws for a principal that is refused. */
type PrincipalCheck = (principal: Principal) => void

/** Milliseconds after a sign-in within which it allows changes of credentials (docs/decisions/0042). */
const recentTime = 10 * 60_000

/** An account that was proved, and by whom, if it was not this server. */
interface ProvenUser extends Proved {
  readonly kind: SignInProof['kind'] | undefined
}

interface SignInOptions {
  readonly users: Pick<Users, 'byName' | 'get'>
  readonly keys: SshKeys
  readonly appPasswords: AppPasswords
  readonly passwords: PasswordCheck
  readonly twoStep: TwoStep
  readonly admission: Admission
  readonly principals: Principals
  readonly tokens: Tokens
  readonly consoleSessions: ConsoleSessions
  readonly records: SignInRecords
  /** The time in milliseconds since 1970. */
  readonly now: () => number
}

export class SignIn {
  constructor(private readonly options: SignInOptions) {}

  /**
   * Resolves to a session token for the HTTP protocol. Rejects with the detail `wrong_credentials` (for an unknown name
   * and a wrong password alike, in the same time), `sign_in_throttled` (with `retryAfter`), `code_required` if the
   * account has two-step verification and the code is missing or wrong, or an `AdmissionRefusal`; and as `prove` of the
   * proof does. An account that must set up two-step verification first may sign in to do so.
   */
  async issueToken(by: Credentials | SignInProof): Promise<string> {
    const { tokens } = this.options
    const { token } = await this.#forSession(by, ({ user, hasTwoStep, at }) => {
      const { id, ...issued } = tokens.issue(user, hasTwoStep, at)
      return { ...issued, made: { credential: `token:${id}`, expires: new Date(this.options.now() + tokens.lifetime) } }
    })
    return token
  }

  /**
   * Opens a session of the console. Resolves to its row, and to its secret, which cannot be retrieved later. Rejects as
   * `issueToken` does. `userAgent`: the browser's header.
   */
  async openConsoleSession(
    by: Credentials | SignInProof,
    { userAgent }: Pick<Browser, 'userAgent'>,
  ): ReturnType<ConsoleSessions['open']> {
    return this.#forSession(by, async ({ user, hasTwoStep, at }) => {
      const browser = { address: by.address, userAgent }
      const opened = await this.options.consoleSessions.open(user, browser, hasTwoStep, at)
      const { id, expires } = opened.row
      const credential = `console:${id}` as const
      return { ...opened, credential, made: { credential, expires } }
    })
  }

  /**
   * Checks who the user of a console session is once more, and records the time as that of its sign-in. `session`: the
   * value of its cookie, or what is stored of it. Rejects as `issueToken` does, and with `unauthenticated` if the
   * session has ended, or another user was proved.
   */
  async confirmConsoleSession(
    session: string | ConsoleSessionRow,
    by: Omit<Credentials, 'username'> | SignInProof,
  ): Promise<void> {
    const { users, consoleSessions } = this.options
    const row = typeof session === 'string' ? consoleSessions.find(session) : session
    const user = row && users.get(row.userId)
    if (row === undefined || user === undefined) throw sessionRevoked({ detail: 'token_revoked' })
    await this.#forSession({ ...by, username: user.username }, async ({ user: { id, passwordTime }, at }) => {
      const isSame = id === row.userId && passwordTime === row.passwordTime
      if (!isSame || !(await consoleSessions.confirm(row.id, at))) throw sessionRevoked({ detail: 'token_revoked' })
      return { credential: `console:${row.id}` }
    })
  }

  /**
   * A sign-in for a session, which `make` makes or confirms. Records the `credential` that it resolves to, if any.
   */
  async #forSession<T extends { readonly credential?: string; readonly made?: MadeSession }>(
    by: Credentials | SignInProof,
    make: (proved: Proved) => T | Promise<T>,
  ): Promise<T & { readonly user: UserRow }> {
    return this.options.records.during(by, 'http', async () => {
      const proved: ProvenUser = 'prove' in by ? await this.#provenByOthers(by) : await this.#proven(by, 'set-up')
      const session = await make(proved)
      if (session.made !== undefined) await proved.onSession?.(session.made)
      return { ...session, user: proved.user, kind: proved.kind }
    })
  }

  /**
   * The account whose password is correct, here or in a directory, admitted. For sessions (`set-up`), no cached
   * verification is enough.
   */
  async #proven(credentials: Credentials, purpose: 'use' | 'set-up'): Promise<ProvenUser> {
    const { passwords } = this.options
    const mayRemember = purpose === 'use'
    const verified = await passwords.checkPassword(credentials, { remembered: mayRemember })
    const { user, inDirectory } = verified
    await this.#admit(user, credentials, { purpose, credential: inDirectory ? 'provider' : 'own' })
    passwords.recordSuccess(credentials, verified, { remember: mayRemember && user.otpSecret === '' })
    return { user, kind: inDirectory ? 'ldap' : undefined, hasTwoStep: false }
  }

  /** The account of a proof, admitted. */
  async #provenByOthers(by: SignInProof): Promise<ProvenUser> {
    const proved = await by.prove()
    const credential = by.kind === 'passkey' ? 'own' : 'provider'
    await this.#admit(proved.user, by, { purpose: 'set-up', credential, hasTwoStep: proved.hasTwoStep })
    this.options.admission.assertUnchanged(proved.user)
    return { ...proved, kind: by.kind }
  }

  /**
   * Admits an account that has proved who it is, by whatever proof: throws unless it can be used, and, if it has
   * two-step verification and the proof does not count as that, its code is correct.
   */
  async #admit(
    user: UserRow,
    { code, secondStep, address }: Pick<Credentials, 'code' | 'secondStep' | 'address'>,
    {
      purpose,
      credential,
      hasTwoStep = false,
    }: Pick<AdmissionRequest, 'credential'> & {
      readonly purpose: 'use' | 'set-up'
      readonly hasTwoStep?: boolean
    },
  ): Promise<void> {
    this.options.admission.assertMayEnter(user, { address, purpose, credential })
    if (user.otpSecret === '' || hasTwoStep) return
    if (secondStep !== undefined) {
      await secondStep(user)
      this.options.admission.assertUnchanged(user)
      return
    }
    // Not every protocol can ask its client for a code.
    if (code === undefined && purpose === 'use') throw codeRequired('denied')
    await this.options.twoStep.checkCode(user, { code, address })
  }

  /**
   * Whether the principal may change credentials: it is that of the permanent token, or of a session whose user has
   * signed in, or confirmed it, within the last ten minutes.
   */
  async isRecent({ signedIn }: Principal): Promise<boolean> {
    if (signedIn === undefined) return false
    const isRecent = () => (signedIn() ?? -Infinity) > this.options.now() - recentTime
    if (isRecent()) return true
    // Another node may have confirmed the session just now.
    await this.options.consoleSessions.readThoseOfOthers()
    return isRecent()
  }

  /**
   * The principal for a user name and a password, sent with a request or a connection. Verified passwords are cached
   * for minutes under a keyed digest. Rejects as `issueToken` does; if the account has two-step verification and no
   * code was sent, the code is `denied`. App passwords are valid for their protocols, also for accounts with two-step
   * verification. `check`: throws for a principal that is refused, before the sign-in is recorded as one.
   */
  async byPassword(credentials: Credentials, protocol: ProtocolFacts, check?: PrincipalCheck): Promise<Principal> {
    const { principal } = await this.options.records.during(credentials, protocol.name, async () => {
      const { signedIn, kind } = await this.#byPassword(credentials, protocol)
      check?.(signedIn)
      const { userId, username, credential } = signedIn
      const isKnown =
        protocol.repeatsCredentials === true && this.options.records.isRepeated(signedIn, credentials.address)
      return { principal: signedIn, ...(!isKnown && { user: { id: userId, username }, credential, kind }) }
    })
    return principal
  }

  async #byPassword(
    credentials: Credentials,
    protocol: ProtocolFacts,
  ): Promise<{ readonly signedIn: Principal; readonly kind?: ProvenUser['kind'] }> {
    const appPassword = await this.#byAppPassword(credentials, protocol)
    if (appPassword !== undefined) return { signedIn: appPassword }
    const { user, kind } = await this.#proven(credentials, 'use')
    return { signedIn: this.options.principals.of(user, 'password', { protocol }), kind }
  }

  /**
   * The key of this blob if `username` has it. Records nothing, and does not ask whether the account can be used: who
   * knows a public key has proved nothing yet.
   */
  findKey(username: string, blob: Buffer): KeyRow | undefined {
    const user = this.options.users.byName(username)
    return user && this.options.keys.find(user.id, blob)
  }

  /**
   * The principal for a key whose signature was verified. Sets the time of last use. Revoked when the key is deleted.
   * Rejects with `denied` if the account cannot be used from this address, or as `check` throws, as for `byPassword`.
   */
  async byKey(key: KeyRow, protocol: ProtocolFacts, address?: string, check?: PrincipalCheck): Promise<Principal> {
    const username = this.options.users.get(key.userId)?.username ?? ''
    const { principal } = await this.options.records.during(
      { username, address: address ?? '' },
      protocol.name,
      async () => {
        this.#ownerOf(key, address)
        await this.options.records.used(this.options.keys.touch(key))
        const user = this.#ownerOf(key, address)
        const credential = `key:${key.id}` as const
        const principal = this.options.principals.of(user, credential, { protocol })
        check?.(principal)
        return { user, credential, principal }
      },
    )
    return principal
  }

  /** Whether the sign-in that has failed with this error was recorded here. */
  hasRecorded(error: GatewayError): boolean {
    return this.options.records.hasRecorded(error)
  }

  /**
   * Records that a client has ended without a sign-in, for an error that was not recorded: of keys, it tries several.
   */
  async recordRefusal(
    client: Pick<Credentials, 'username' | 'address'>,
    protocol: ProtocolFacts,
    error: GatewayError,
  ): Promise<void> {
    await this.options.records.refused(client, protocol.name, outcomeOf(error))
  }

  /** The account of a key, if it can be used now. */
  #ownerOf({ id, userId }: KeyRow, address: string | undefined): UserRow {
    const user = this.options.users.get(userId)
    if (user === undefined || this.options.keys.get(id) === undefined) throw sessionRevoked(keyDeleted)
    this.options.admission.assertMayEnter(user, { address, purpose: 'use', credential: 'device' })
    return user
  }

  /**
   * The principal for an app password; undefined if it is none, so that it is checked and counted like other passwords.
   * App passwords have too much entropy to guess, so the sign-in limiter does not apply.
   */
  async #byAppPassword(credentials: Credentials, protocol: ProtocolFacts): Promise<Principal | undefined> {
    const { username, password, address } = credentials
    const row = 'plain' in password ? this.options.appPasswords.find(password.plain) : undefined
    const user = row && this.options.users.get(row.userId)
    if (row === undefined || user?.username !== username) return undefined
    this.options.admission.assertMayEnter(user, { address, purpose: 'use', credential: 'device' })
    if (row.expires !== undefined && row.expires.getTime() <= this.options.now()) {
      const reason = 'this app password has expired'
      throw new GatewayError('denied', { op: 'sign in', detail: 'credential_expired', reason })
    }
    if (!protocol.appPasswords || !row.protocols.includes(protocol.name)) {
      throw new GatewayError('denied', { op: 'sign in', reason: 'this app password is for another protocol' })
    }
    await this.options.records.used(this.options.appPasswords.touch(row))
    this.options.admission.assertUnchanged(user)
    if (this.options.appPasswords.get(row.id) === undefined) throw sessionRevoked(appPasswordDeleted)
    const { folder, readOnly, expires: credentialEnds } = row
    return this.options.principals.of(user, `app:${row.id}`, { protocol, folder, readOnly }, { credentialEnds })
  }
}
