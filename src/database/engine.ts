/** The interface of the database engines. */
import type { Path } from '../base/path.js'
import type { Database } from './database.js'
import type { Topic } from './topics.js'

/** An open database of an engine, with the newest schema. */
export interface Engine {
  /** The database with commits that survive a power failure. */
  readonly durable: Database
  /** The database with commits that a power failure may lose, if they are after the latest one of `durable`. */
  readonly relaxed: Database
  /** The functions for nodes that share the database. Undefined if only this process inserts rows. */
  readonly shared: SharedEngine | undefined
  readonly foreignCommits: ForeignCommits
  /** Closes all connections. */
  close(): Promise<void>
}

/** The longest notice, in bytes: PostgreSQL's limit of 8,000 without the name of the session. */
export const maxNotice = 7900

/** A path that a change locks for itself. */
export interface PathClaim {
  readonly path: Path
  /** true: the claim includes everything below the path. */
  readonly tree: boolean
}

/** Locks that are held until they are released, or the connection is lost. */
export interface HeldLocks {
  /** The numbers of changes of each topic, when the locks were granted. */
  readonly counts: ReadonlyMap<Topic, number>
  /**
   * Sends the notices to the other nodes, and releases the locks. Resolves to whether the notices were sent. A lost
   * connection releases the locks too.
   */
  release(notices: readonly string[]): Promise<boolean>
}

export interface ClaimOptions {
  /** Called if the locks are lost before they are released. */
  readonly onLost?: (() => void) | undefined
  /**
   * The number of times that the same work has locked paths already: a storage that is based on others locks their
   * paths while it changes its own. Default: 0.
   */
  readonly level?: number
}

/** The functions of an engine whose database several nodes can share. */
export interface SharedEngine {
  /** Whether other machines can share the database. */
  readonly spansMachines: boolean
  /**
   * Excludes overlapping claims of the other nodes, in one round trip; claims of this process must not overlap. Rejects
   * with `busy` and `unavailable`.
   */
  acquire(claims: readonly PathClaim[], options?: ClaimOptions): Promise<HeldLocks>
  /** Sends texts of at most `maxNotice` bytes to the other nodes that listen now. */
  notify(notices: readonly string[]): Promise<void>
  /** Calls `listener` with the texts that other nodes send, and with undefined if some were missed. Called once. */
  onNotice(listener: (notice: string | undefined) => void): void
}

/** Locks and notices between processes of one machine, for an engine that has none. */
export interface ProcessChannel extends SharedEngine {
  /** Reports numbers of changes that this process has committed. Resolves when all locks are granted with them. */
  changed(counts: ReadonlyMap<Topic, number>): Promise<void>
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
