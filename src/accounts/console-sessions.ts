/**
 * Sessions of the console: each is the sign-in of one browser, which has the secret in a cookie. They are stored,
 * unlike session tokens, so that users can list them and end them one by one; see docs/decisions/0035.
 */
import type PQueue from 'p-queue'
import { GatewayError } from '../base/errors.js'
import type { ConsoleSessionRow, UserRow } from '../database/tables/accounts.js'
import type { OfOthers, Store } from '../database/tables.js'
import type { Admission, SessionRequest } from './admission.js'
import { sessionRevoked } from './errors.js'
import type { Principal, ProtocolFacts } from './principal.js'
import type { Principals } from './principals.js'
import { RandomSecrets } from './random-secrets.js'
import type { Sessions } from './sessions.js'
import type { SignInRecords } from './sign-in-records.js'

export type { ConsoleSessionRow } from '../database/tables/accounts.js'

/** The browser that opens a session. */
export interface Browser {
  /** The address of the browser without port. */
  readonly address: string
  /** The header User-Agent of the browser; empty if there is none. */
  readonly userAgent: string
}

/** Maximum per account; bounds the memory. One more ends the session that was not used for the longest time. */
const maxPerUser = 100
/** Maximum characters that are stored of a User-Agent. */
const maxUserAgentLength = 255
/** Minimum milliseconds between two recorded uses: a page sends many requests. */
const touchInterval = 5 * 60_000

const secrets = new RandomSecrets('tgs')

interface ConsoleSessionsOptions {
  readonly store: Store
  /** Serializes reads and changes of the cached rows. */
  readonly queue: PQueue
  /** Lifetime of a session, in hours. */
  readonly hours: number
  readonly sessions: Sessions
  readonly admission: Admission
  readonly principals: Principals
  readonly records: SignInRecords
  readonly ofOthers: OfOthers
  /** The time in milliseconds since 1970. */
  readonly now: () => number
}

export class ConsoleSessions {
  #byId = new Map<number, ConsoleSessionRow>()
  #byPrefix = new Map<string, ConsoleSessionRow>()
  #reading: Promise<void> | undefined

  constructor(private readonly options: ConsoleSessionsOptions) {}

  /** The user's sessions that have not expired, ordered by id. */
  list(userId: number): readonly ConsoleSessionRow[] {
    const now = this.options.now()
    return this.#of(userId)
      .filter(({ expires }) => expires.getTime() > now)
      .sort((one, other) => one.id - other.id)
  }

  /** The sessions of all users that have not expired, the last one that was used first. */
  all(): readonly ConsoleSessionRow[] {
    const now = this.options.now()
    return [...this.#byId.values()]
      .filter(({ expires }) => expires.getTime() > now)
      .sort((one, other) => other.lastUsed.getTime() - one.lastUsed.getTime() || other.id - one.id)
  }

  get(id: number): ConsoleSessionRow | undefined {
    return this.#byId.get(id)
  }

  /** The session of a presented secret, also an expired one; undefined if there is none. */
  find(presented: string): ConsoleSessionRow | undefined {
    return secrets.find(presented, (prefix) => this.#byPrefix.get(prefix))
  }

  /**
   * Opens a session. Resolves to the row and the secret, which cannot be retrieved later. `twoStep`: what proved the
   * user counts as two-step verification. `provedAt`: when that was, if it was earlier.
   */
  async open(
    user: UserRow,
    { address, userAgent }: Browser,
    twoStep = false,
    provedAt?: Date,
  ): Promise<{ readonly row: ConsoleSessionRow; readonly secret: string }> {
    const { store, queue, hours, now } = this.options
    return queue.add(async () => {
      const { secret, ...stored } = secrets.create((prefix) => this.#byPrefix.has(prefix))
      const created = new Date(now())
      const opened = {
        ...stored,
        userId: user.id,
        passwordTime: user.passwordTime,
        address,
        userAgent: userAgent.slice(0, maxUserAgentLength),
        created,
        lastUsed: created,
        expires: new Date(created.getTime() + hours * 3600_000),
        twoStep,
        ...(provedAt && { confirmed: new Date(Math.min(now(), provedAt.getTime())) }),
      }
      const { row, ended } = await store.consoleSessions.add(opened, maxPerUser)
      for (const known of ended.map((id) => this.#byId.get(id))) if (known !== undefined) this.#forget(known)
      this.#put(row)
      return { row, secret }
    })
  }

  /**
   * Records that its user has just proved who it is. `provedAt`: when that was, if it was earlier. False if the session
   * has ended.
   */
  async confirm(id: number, provedAt?: Date): Promise<boolean> {
    const { store, queue, now } = this.options
    return queue.add(async () => {
      const row = this.#byId.get(id)
      const at = Math.min(now(), provedAt?.getTime() ?? now())
      const confirmed = new Date(Math.max(at, this.signedIn(id) ?? 0))
      if (row === undefined || !(await store.consoleSessions.confirm(id, confirmed))) return false
      this.#put({ ...row, confirmed })
      return true
    })
  }

  /** When the user of a session last proved who it is, in milliseconds since 1970; undefined if it has ended. */
  signedIn(id: number): number | undefined {
    const row = this.#byId.get(id)
    return (row?.confirmed ?? row?.created)?.getTime()
  }

  /** The principal of a console session. `secret`: the value of its cookie. Rejects as `Tokens.principalOf`. */
  async principalOf(secret: string, protocol: ProtocolFacts, request: SessionRequest = {}): Promise<Principal> {
    let row = this.find(secret)
    if (row === undefined) {
      // Another node may have opened it just now.
      await this.readThoseOfOthers()
      row = this.find(secret)
    }
    if (row === undefined) throw sessionRevoked({ detail: 'token_revoked' })
    const { id, userId, passwordTime, twoStep: hasTwoStep } = row
    const expires = row.expires.getTime()
    if (expires <= this.options.now()) throw sessionRevoked({ detail: 'token_expired' })
    await this.options.records.used(this.#touch(row))
    const user = this.options.admission.ofSession({ ...request, hasTwoStep }, userId, passwordTime)
    if (this.get(id) === undefined) throw sessionRevoked({ detail: 'token_revoked' })
    const signedIn = () => this.signedIn(id)
    const by = { protocol, signedIn, hasTwoStep }
    return this.options.principals.of(user, `console:${id}`, by, { tokenExpires: expires })
  }

  /** Reads what other nodes have just stored of console sessions. */
  async readThoseOfOthers(): Promise<void> {
    await this.options.ofOthers(() => {
      // Concurrent requests share a query.
      this.#reading ??= this.options.queue.add(() => this.reload()).finally(() => (this.#reading = undefined))
      return this.#reading
    })
  }

  /** Ends a session. `not_found` if it does not exist or belongs to another user. */
  async delete(userId: number, id: number): Promise<void> {
    await this.options.queue.add(async () => {
      const row = this.#byId.get(id)
      if (row?.userId !== userId) throw new GatewayError('not_found', { reason: 'session not found' })
      await this.#delete(row)
    })
  }

  /** Ends a session of the user, also one that another node has just opened. Does nothing if there is none. */
  async end(userId: number, id: number): Promise<void> {
    await this.options.queue.add(() => this.#delete(this.#byId.get(id) ?? { id, userId, prefix: '' }))
  }

  /** Ends the session of a presented secret. Does nothing if there is none. */
  async close(presented: string): Promise<void> {
    await this.options.queue.add(async () => {
      const row = this.find(presented)
      if (row !== undefined) await this.#delete(row)
    })
  }

  /**
   * Closes the session as `close` does, because its user signs out, and records that in the audit. `address`: the
   * address of the client.
   */
  async signOut(secret: string, address?: string): Promise<void> {
    const row = this.find(secret)
    await this.close(secret)
    if (row) await this.options.records.signedOut(row.userId, `console:${row.id}`, address)
  }

  /** Sets the time of last use, at most every five minutes. */
  async #touch({ id }: ConsoleSessionRow): Promise<void> {
    const { store, queue, now } = this.options
    const row = this.#byId.get(id)
    if (row === undefined || now() - row.lastUsed.getTime() < touchInterval) return
    const lastUsed = new Date(now())
    // Set before the write completes, so that concurrent requests do not write it too.
    this.#put({ ...row, lastUsed })
    await queue.add(() => store.consoleSessions.touch(id, lastUsed))
  }

  /** Removes the rows of a user from memory; the database has deleted them. */
  evictUser(userId: number): void {
    for (const row of this.#of(userId)) this.#forget(row)
  }

  /** Reads the stored rows. Must be called through the queue. */
  async reload(): Promise<void> {
    const { store, now } = this.options
    const before = this.#byId
    const rows = await store.consoleSessions.all()
    this.#byId = new Map(rows.map((row) => [row.id, row]))
    this.#byPrefix = new Map(rows.map((row) => [row.prefix, row]))
    for (const row of before.values()) {
      // Running requests may outlive a session that expires.
      if (!this.#byId.has(row.id) && row.expires.getTime() > now()) this.#end(row)
    }
  }

  /** Deletes expired sessions. Must be called through the queue. */
  async sweep(now: number): Promise<void> {
    const expired = [...this.#byId.values()].filter(({ expires }) => expires.getTime() <= now)
    await this.options.store.consoleSessions.sweep(new Date(now))
    for (const { id, prefix } of expired) {
      this.#byId.delete(id)
      this.#byPrefix.delete(prefix)
    }
  }

  #of(userId: number): ConsoleSessionRow[] {
    return [...this.#byId.values()].filter((row) => row.userId === userId)
  }

  async #delete(row: Pick<ConsoleSessionRow, 'id' | 'userId' | 'prefix'>): Promise<void> {
    await this.options.store.consoleSessions.delete(row.id)
    this.#forget(row)
  }

  #put(row: ConsoleSessionRow): void {
    this.#byId.set(row.id, row)
    this.#byPrefix.set(row.prefix, row)
  }

  #forget(row: Pick<ConsoleSessionRow, 'id' | 'userId' | 'prefix'>): void {
    this.#byId.delete(row.id)
    this.#byPrefix.delete(row.prefix)
    this.#end(row)
  }

  #end({ id, userId }: Pick<ConsoleSessionRow, 'id' | 'userId'>): void {
    this.options.sessions.end(userId, { detail: 'token_revoked' }, (credential) => credential === `console:${id}`)
  }
}
