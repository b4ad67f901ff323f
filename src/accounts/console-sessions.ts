/**
 * Sessions of the console: each is the sign-in of one browser, which has the secret in a cookie. They are stored,
 * unlike session tokens, so that users can list them and end them one by one; see docs/decisions/0035.
 */
import type PQueue from 'p-queue'
import { GatewayError } from '../base/errors.js'
import type { ConsoleSessionRow, UserRow } from '../database/rows.js'
import type { Store } from '../database/tables.js'
import { RandomSecrets } from './random-secrets.js'

export type { ConsoleSessionRow } from '../database/rows.js'

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
  /** Called for each session that ends before it expires. */
  readonly onRemoved: (row: ConsoleSessionRow) => void
  /** Lifetime of a session, in hours. */
  readonly hours: number
  /** The time in milliseconds since 1970. */
  readonly now: () => number
}

export class ConsoleSessions {
  #byId = new Map<number, ConsoleSessionRow>()
  #byPrefix = new Map<string, ConsoleSessionRow>()

  constructor(private readonly options: ConsoleSessionsOptions) {}

  /** The user's sessions that have not expired, ordered by id. */
  list(userId: number): readonly ConsoleSessionRow[] {
    const now = this.options.now()
    return this.#of(userId)
      .filter(({ expires }) => expires.getTime() > now)
      .sort((one, other) => one.id - other.id)
  }

  get(id: number): ConsoleSessionRow | undefined {
    return this.#byId.get(id)
  }

  /** The session of a presented secret, also an expired one; undefined if there is none. */
  find(presented: string): ConsoleSessionRow | undefined {
    return secrets.find(presented, (prefix) => this.#byPrefix.get(prefix))
  }

  /** Opens a session. Resolves to the row and the secret, which cannot be retrieved later. */
  async open(
    user: UserRow,
    { address, userAgent }: Browser,
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
      }
      const { row, ended } = await store.consoleSessions.add(opened, maxPerUser)
      for (const known of ended.map((id) => this.#byId.get(id))) if (known !== undefined) this.#forget(known)
      this.#put(row)
      return { row, secret }
    })
  }

  /** Records that its user has just proved who it is. False if the session has ended. */
  async confirm(id: number): Promise<boolean> {
    const { store, queue, now } = this.options
    return queue.add(async () => {
      const confirmed = new Date(now())
      const row = this.#byId.get(id)
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

  /** Ends a session. `not_found` if it does not exist or belongs to another user. */
  async delete(userId: number, id: number): Promise<void> {
    await this.options.queue.add(async () => {
      const row = this.#byId.get(id)
      if (row?.userId !== userId) throw new GatewayError('not_found', { reason: 'session not found' })
      await this.#delete(row)
    })
  }

  /** Ends the session of a presented secret. Does nothing if there is none. */
  async close(presented: string): Promise<void> {
    await this.options.queue.add(async () => {
      const row = this.find(presented)
      if (row !== undefined) await this.#delete(row)
    })
  }

  /** Sets the time of last use, at most every five minutes. */
  async touch({ id }: ConsoleSessionRow): Promise<void> {
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
    const { store, onRemoved, now } = this.options
    const before = this.#byId
    const rows = await store.consoleSessions.all()
    this.#byId = new Map(rows.map((row) => [row.id, row]))
    this.#byPrefix = new Map(rows.map((row) => [row.prefix, row]))
    for (const row of before.values()) {
      // Running requests may outlive a session that expires.
      if (!this.#byId.has(row.id) && row.expires.getTime() > now()) onRemoved(row)
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

  async #delete(row: ConsoleSessionRow): Promise<void> {
    await this.options.store.consoleSessions.delete(row.id)
    this.#forget(row)
  }

  #put(row: ConsoleSessionRow): void {
    this.#byId.set(row.id, row)
    this.#byPrefix.set(row.prefix, row)
  }

  #forget(row: ConsoleSessionRow): void {
    this.#byId.delete(row.id)
    this.#byPrefix.delete(row.prefix)
    this.options.onRemoved(row)
  }
}
