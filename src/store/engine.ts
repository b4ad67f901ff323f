/** What each database engine does in its own way. */
import type { HeldLocks, LockMode } from './advisory-locks.js'
import type { Database } from './database.js'
import type { Topic } from './rows.js'

/** An open database of an engine, with the newest schema. */
export interface Engine {
  /** Its commits survive a power failure. */
  readonly durable: Database
  /** The same database: a power failure may lose the commits after the latest one of `durable`. */
  readonly relaxed: Database
  /** What nodes that share the database need. Undefined if only this process inserts rows. */
  readonly shared: SharedEngine | undefined
  readonly foreignCommits: ForeignCommits
  /** Closes all connections. */
  close(): Promise<void>
}

/** The longest notice, in bytes: PostgreSQL's limit of 8,000 without the name of the session. */
export const maxNotice = 7900

/** What only an engine has that several nodes can share. */
export interface SharedEngine {
  /** Acquires all locks in one round trip, against the other nodes. Rejects with `busy` and `unavailable`. */
  acquire(modes: ReadonlyMap<bigint, LockMode>): Promise<HeldLocks>
  /** Sends texts of at most `maxNotice` bytes to the other nodes that listen now. */
  notify(notices: readonly string[]): Promise<void>
  /** Calls `listener` with the texts that other nodes send, and with undefined if some were missed. Called once. */
  onNotice(listener: (notice: string | undefined) => void): void
}

/** The source of the topics that other processes have changed. */
export interface ForeignCommits {
  /**
   * Calls `changed` within about 250 ms after another process has committed a change of a topic, and for every topic if
   * commits may have been missed. Changes by this process may be included. Called once.
   */
  start(changed: (topics: ReadonlySet<Topic>) => void): void
  /** Resolves when `changed` is not called any more. */
  stop(): Promise<void>
}
