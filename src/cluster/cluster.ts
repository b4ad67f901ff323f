/**
 * This process among all that serve the same tree (docs/decisions/0036). Whatever depends on whether there are others
 * is asked here, and the implementation answers: `Alone` for one process, and `Nodes` for several, which are workers of
 * one machine over SQLite, or daemons over PostgreSQL. These two differ in the `SharedEngine` of their database.
 */
import type { Limiters } from '../accounts/limiter.js'
import type { Log } from '../base/log.js'
import type { Instance } from '../contract/driver-env.js'
import type { Topic } from '../database/topics.js'
import type { OfOthers, Store } from '../database/tables.js'
import type { PathLocks } from '../locks/path-locks.js'
import type { Settings } from '../settings/settings.js'
import type { Events } from '../storage/events.js'
import { Alone } from './alone.js'
import type { Duty } from './duty.js'
import type { NodeStatus, NodeTimes } from './node-rows.js'
import { Nodes } from './nodes.js'
import type { Mirror } from './shared-path-locks.js'

export interface Cluster {
  // This process

  /** This process. Its name is the owner of the unfinished work that it adds. `isOver` knows all nodes. */
  readonly instance: Instance
  /** Whether the others take this process for living, so that what it mirrors is valid and it may change something. */
  readonly isCurrent: boolean
  /** Throws `unavailable` unless the process is current. */
  assertCurrent(): void
  /**
   * From now on this process takes over what ended ones owned. Throws `unavailable` if another one has ended it since
   * it joined.
   */
  start(handlers: ClusterHandlers): void
  /** Stores where this process accepts connections, by protocol. */
  publishAddresses(addresses: Readonly<Record<string, string>>): Promise<void>
  /** Ends this process as a node: others may take over what it owns. */
  leave(): Promise<void>

  // The others

  /** The number of living processes, as far as it is known; at least 1. */
  readonly count: number
  /** Calls `listener` when `count` has changed. Returns an unsubscriber. */
  onCountChange(listener: () => void): () => void
  readonly ofOthers: OfOthers
  /** Whether a cached entry may answer for the entry itself: no other process changes it. */
  readonly knowsEntries: boolean
  /** Whether some of the others may run on other machines. */
  readonly spansMachines: boolean
  /** All processes for admins, as of now. */
  status(): Promise<readonly NodeStatus[]>

  // What all have together

  /** The clock of the database, as far as it is known: milliseconds since 1970. */
  now(): number
  /** The settings, with this process's part of the limits that hold for all together. */
  limits(settings: Limits): Limits
  /** The limits of attempts to sign in, which all processes count together. */
  readonly limiters: Limiters
  /**
   * Locks that exclude the changes of all processes. `mirrors`: rows in memory that changes are checked against under
   * the locks, by topic.
   */
  pathLocks(mirrors: ReadonlyMap<Topic, Mirror>): PathLocks
  /**
   * Returns the duty of this name, which one process at a time does for all. Undefined if this process always does it.
   * Called once for each name.
   */
  duty(name: string): Duty | undefined
}

/** The settings that limit something. */
export type Limits = Pick<Settings, 'number' | 'onChange'>

export interface ClusterHandlers {
  /** Reads everything again that this process mirrors: changes of others may have been missed. */
  reload(): Promise<void>
  /** Continues or settles the work of nodes that have ended. This node owns their rows now. */
  takeOver(): Promise<void>
  /** The amounts of work of this node, for admins: numbers by name. */
  working(): Readonly<Record<string, number>>
  /** Another node has ended this one: nothing may continue under its id. Called once. */
  ended(): void
}

export interface JoinOptions {
  readonly store: Pick<Store, 'nodes' | 'leases' | 'signIns' | 'shared'>
  /** `runs`: whether the process of another node runs on this machine; undefined if that is unknown. */
  readonly instance: Instance & { readonly runs: (id: string) => boolean | undefined }
  /** Where the node runs, as admins read it. */
  readonly name: string
  readonly events: Events
  readonly log: Log
  /** The times of heartbeats. Tests choose shorter ones. */
  readonly times?: NodeTimes
}

/**
 * Adds this process to those that use the database. It becomes the owner of all unfinished work that no living one
 * owns.
 */
export async function joinCluster(options: JoinOptions): Promise<Cluster> {
  const { shared } = options.store
  return shared ? Nodes.join(options, shared) : Alone.join(options)
}
