/** The options of operations on the tree, and the results of those that write. */
import type { Entry } from '../contract/entry.js'
import type { Preconditions } from './preconditions.js'

export interface AccessOptions {
  readonly signal?: AbortSignal | undefined
  /** The password for folders whose rule requires one. */
  readonly password?: string | undefined
  /** false: a write or a lock makes no file, and rejects with `not_found` where nothing exists. */
  readonly makesFile?: boolean | undefined
}

export interface TreeReadOptions extends AccessOptions {
  /** The file as the caller knows it: the stream goes on after the backend has cut it, while the file is the same. */
  readonly entry?: Entry | undefined
}

export interface ChangeOptions extends AccessOptions, Preconditions {
  /** Reject with `exists` if the name is taken. */
  readonly createOnly?: boolean | undefined
  /** Lock tokens that the caller presents. */
  readonly lockTokens?: readonly string[] | undefined
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
  /** Makes a folder by calling `make`. Called for each folder that is made, also for missing ones above the path. */
  readonly makingFolder?: ((make: () => Promise<void>) => Promise<void>) | undefined
}

/** The result of a copy or move: whether nothing existed at the target before. */
export interface TransferResult {
  readonly created: boolean
}

/** An empty file that was created to reserve its name. */
export interface Reservation {
  readonly entry: Entry
  /**
   * Removes the file if it is unchanged. Requires no permission, and works after the session is revoked: nothing is
   * removed but what the reservation has created.
   */
  release(): Promise<void>
}

/** The result of a write: the new entry, and whether nothing existed at the path before. */
export interface WriteResult extends TransferResult {
  readonly entry: Entry
}
