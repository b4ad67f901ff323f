/** What each database engine does in its own way. */
import type { Database } from './database.js'
import type { Topic } from './rows.js'

/** An open database of an engine, with the newest schema. */
export interface Engine {
  /** Its commits survive a power failure. */
  readonly durable: Database
  /** The same database: a power failure may lose the commits after the latest one of `durable`. */
  readonly relaxed: Database
  /** Whether only this process inserts rows: knowledge about a table can then be kept in memory. */
  readonly isExclusive: boolean
  readonly foreignCommits: ForeignCommits
  /** Closes all connections. */
  close(): Promise<void>
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
