/** Session tokens, JSON Web Tokens that any process with the same database can verify; and the permanent token. */
import { createSecretKey, randomBytes, randomUUID, type KeyObject } from 'node:crypto'
import { z } from 'zod'
import type { UserRow } from '../database/tables/accounts.js'
import type { Store } from '../database/tables.js'
import type { Settings } from '../settings/settings.js'
import type { Admission, SessionRequest } from './admission.js'
import { refusedSession, sessionRevoked } from './errors.js'
import type { Principal, ProtocolFacts } from './principal.js'
import type { Principals } from './principals.js'
import type { Sessions } from './sessions.js'
import type { SignInRecords } from './sign-in-records.js'
import { timingSafeEqualText } from './timing-safe-text.js'
import { TokenCache } from './token-cache.js'
import type { Users } from './users.js'
import jwt from 'jsonwebtoken'
import type PQueue from 'p-queue'

const claimsSchema = z.object({
  /** The account's id: names can be reused. */
  sub: z.string(),
  username: z.string(),
  /** The account's `passwordTime` when the token was issued. */
  pwd_ts: z.number(),
  jti: z.string(),
  /** Seconds since 1970: the sign-in, because no token is issued without one. */
  iat: z.number(),
  nbf: z.number(),
  exp: z.number(),
  /** Whether what proved the user counts as two-step verification. */
  two_step: z.boolean().optional(),
  /** When the user proved who it is, if that was before the sign-in: seconds since 1970. */
  auth_time: z.number().optional(),
})
type Claims = z.infer<typeof claimsSchema>

const maxTokenLength = 4096
/** Seconds that the clocks of two processes may differ. */
const clockSkew = 60

interface TokensOptions {
  readonly store: Store
  readonly settings: Pick<Settings, 'get'>
  /** Serializes reads and changes of the cached rows. */
  readonly queue: PQueue
  /** Lifetime of a session token, in hours. */
  readonly hours: number
  readonly users: Pick<Users, 'byUniqueRole' | 'get'>
  readonly admission: Admission
  readonly principals: Principals
  readonly records: SignInRecords
  readonly sessions: Sessions
  /** Throws `unavailable` while what this process mirrors may be outdated. */
  readonly assertCurrent: () => void
  /** The time in milliseconds since 1970. */
  readonly now: () => number
}

/** The key of the session tokens. Reads it from the database; stores a random one if there is none. */
export async function signingKey(store: Store): Promise<KeyObject> {
  const secret = await store.secrets.obtain('session tokens', randomBytes(48).toString('base64url'))
  return createSecretKey(Buffer.from(secret))
}

export class Tokens {
  readonly #cache: TokenCache
  #revoked: ReadonlyMap<string, Date> = new Map()
  #permanent: string

  constructor(
    private readonly key: KeyObject,
    private readonly options: TokensOptions,
  ) {
    this.#cache = new TokenCache(options.now)
    this.#permanent = options.settings.get('token')
  }

  /** Milliseconds for which a session token is valid. */
  get lifetime(): number {
    return Math.round(this.options.hours * 3600) * 1000
  }

  /**
   * A new session token of an account that has signed in, and its id. `hasTwoStep`: what proved the user counts as
   * two-step verification. `provedAt`: when that was, if it was earlier.
   */
  issue(user: UserRow, hasTwoStep = false, provedAt?: Date): { readonly token: string; readonly id: string } {
    const seconds = Math.floor(this.options.now() / 1000)
    // Distinguishes tokens of the same second: each can be revoked on its own.
    const id = randomUUID()
    const claims = {
      ...{ username: user.username, pwd_ts: user.passwordTime, iat: seconds, nbf: seconds },
      ...(hasTwoStep && { two_step: true }),
      ...(provedAt && { auth_time: Math.min(seconds, Math.floor(provedAt.getTime() / 1000)) }),
    }
    const token = jwt.sign(claims, this.key, {
      algorithm: 'HS256',
      subject: String(user.id),
      jwtid: id,
      expiresIn: this.lifetime / 1000,
    })
    return { token, id }
  }

  /**
   * The principal of a session token or of the permanent token. Rejects with `unauthenticated`, or with `denied` and
   * the detail `two_step_set_up_required`. The permanent token is one of the installation, and not of an account whose
   * networks or two-step verification could be asked.
   */
  async principalOf(token: string, protocol: ProtocolFacts, request: SessionRequest = {}): Promise<Principal> {
    this.options.assertCurrent()
    const cached = this.#cache.get(token, protocol)
    if (cached !== undefined) {
      const user = this.options.users.get(cached.userId)
      const { hasTwoStep } = cached
      const refusal = user && this.options.admission.sessionRefusal(user, { ...request, hasTwoStep })
      if (refusal !== undefined && !this.isPermanent(token)) throw refusedSession(refusal)
      return cached
    }
    if (this.isPermanent(token)) {
      const admin = this.options.users.byUniqueRole('admin')
      if (admin === undefined) throw sessionRevoked({ detail: 'account_missing' })
      const principal = this.options.principals.of(admin, 'permanent', { protocol, signedIn: () => Infinity })
      this.#cache.add(token, principal, Infinity)
      return principal
    }
    const claims = this.#read(token)
    if (claims === undefined || this.#revoked.has(claims.jti)) {
      const username = claims === undefined ? '' : (this.options.users.get(Number(claims.sub))?.username ?? '')
      const error = claims === undefined ? 'token_unknown' : 'token_revoked'
      await this.options.records.refused({ username, address: request.address }, protocol.name, {
        result: 'refused',
        error,
      })
      throw sessionRevoked({ detail: 'token_revoked' })
    }
    const { user, jti, iat, exp, auth_time: provedAt = iat, two_step: hasTwoStep } = this.#validate(claims, request)
    const by = { protocol, signedIn: () => provedAt * 1000, hasTwoStep }
    const principal = this.options.principals.of(user, `token:${jti}`, by, { tokenExpires: exp * 1000 })
    this.#cache.add(token, principal, exp * 1000)
    return principal
  }

  isPermanent(token: string): boolean {
    return this.#permanent !== '' && timingSafeEqualText(token, this.#permanent)
  }

  /**
   * Revokes a session token. Does nothing for the permanent token and for invalid or expired ones. `address`: that of
   * the client.
   */
  async revoke(token: string, address?: string): Promise<void> {
    const claims = this.#read(token)
    const expires = new Date((claims?.exp ?? 0) * 1000)
    if (claims === undefined || expires.getTime() <= this.options.now()) return
    await this.revokeId(Number(claims.sub), claims.jti, expires)
    await this.options.records.signedOut(Number(claims.sub), `token:${claims.jti}`, address)
  }

  /** Revokes the session token of this id, of this user. `expires`: when it expires, or later. */
  async revokeId(userId: number, id: string, expires: Date): Promise<void> {
    await this.options.queue.add(async () => {
      await this.options.store.revokedTokens.insert(id, expires)
      this.#revoked = new Map([...this.#revoked, [id, expires]])
      this.options.sessions.end(userId, { detail: 'token_revoked' }, (other) => other === `token:${id}`)
    })
  }

  /** Checks the claims against the time and the account. Throws as `principalOf` rejects. */
  #validate(claims: Claims, request: SessionRequest): Claims & { readonly user: UserRow } {
    const seconds = this.options.now() / 1000
    if (claims.exp <= seconds) throw sessionRevoked({ detail: 'token_expired' })
    if (claims.nbf > seconds + clockSkew) throw sessionRevoked({ detail: 'token_not_active' })
    const { sub, pwd_ts: passwordTime, username, two_step: hasTwoStep } = claims
    const user = this.options.admission.ofSession({ ...request, hasTwoStep }, Number(sub), passwordTime, username)
    return { ...claims, user }
  }

  /** Reads the setting of the permanent token. A new one ends the sessions of the old one. */
  followSetting(): void {
    const token = this.options.settings.get('token')
    if (token === this.#permanent) return
    this.#permanent = token
    this.options.sessions.endCredential('permanent', { detail: 'token_revoked' })
  }

  /** Reads the stored revocations. Must be called through the queue. */
  async reload(): Promise<void> {
    const before = this.#revoked
    this.#revoked = await this.options.store.revokedTokens.all()
    for (const id of this.#revoked.keys()) {
      if (!before.has(id)) this.options.sessions.endCredential(`token:${id}`, { detail: 'token_revoked' })
    }
  }

  /** Deletes the revocations of expired tokens. Must be called through the queue. */
  async sweep(now: number): Promise<void> {
    await this.options.store.revokedTokens.sweep(new Date(now))
    this.#revoked = new Map([...this.#revoked].filter(([, expires]) => expires.getTime() > now))
  }

  /** The claims of a token with a valid signature, also of an expired one; undefined for any other text. */
  #read(token: string): Claims | undefined {
    if (token.length > maxTokenLength) return undefined
    try {
      const options = { algorithms: ['HS256' as const], ignoreExpiration: true, ignoreNotBefore: true }
      return claimsSchema.safeParse(jwt.verify(token, this.key, options)).data
    } catch {
      return undefined
    }
  }
}
