/** The intent log of operations on backends. */
import type { Path } from '../../base/path.js'

/**
 * An entry of the intent log, deleted with the storage. Paths are relative to the storage where nothing else is said.
 */
export interface Intent {
  readonly id: number
  readonly storageId: number
  readonly kind: IntentKind
  readonly from: Path
  readonly to: Path
}

/**
 * - 'move': `from` is renamed to `to`.
 * - 'backup': the entry at `from` was renamed to `to`, and is held there until its replacement is published or it is
 *   restored.
 * - 'spare backup': a backup that may be deleted if anything is at `from`: its replacement is published there, or the
 *   original has not been removed yet.
 * - 'new target': a move, item by item, of the folder `from` is making the folder `to`, a path of the whole tree.
 * - 'removal': that folder was made or existed, and what was copied to it is being removed from `from`.
 */
export type IntentKind = 'move' | 'backup' | 'spare backup' | 'new target' | 'removal'

/**
 * The intent log: operations of a backend that the rows may not reflect yet. An intent is written before the
 * operation and deleted after it. Those that remain are resolved when their storage starts. Each belongs to a node,
 * which alone changes it.
 */
export interface IntentRows {
  /** The intents of all nodes. */
  all(): Promise<Intent[]>
  /** The intents of this node on a storage. */
  ofStorage(storageId: number): Promise<Intent[]>
  /** The removals and new targets of folders on this storage, of all nodes. */
  removals(storageId: number): Promise<Intent[]>
  /**
   * Deletes the removals and new targets, of all nodes, whose target is `to`, a path of the whole tree, or below it,
   * and those of the folder `from` and of folders below it.
   */
  endRemovals(to: Path, from?: Pick<Intent, 'storageId' | 'from'>): Promise<void>
  /**
   * The intents of other nodes that may change what exists at the path or below it: moves to it, and backups of what
   * was there.
   */
  ofOthersAt(storageId: number, path: Path): Promise<Intent[]>
  /** Makes this node the owner of an intent. */
  take(id: number): Promise<void>
  /** Makes a backup, also one of another node, one that is never restored. */
  supersede(id: number): Promise<void>
  /** Undefined also for an intent of another node. */
  get(id: number): Promise<Intent | undefined>
  insert(intent: Omit<Intent, 'id'>): Promise<number>
  /** Rejects with `unavailable` if this node does not own the intent any more. */
  setKind(id: number, kind: 'backup' | 'spare backup'): Promise<void>
  /**
   * Applies an intent of kind 'move' in one transaction: moves rules, properties and attributes, deletes the intent,
   * and makes the backup of its target a spare one. Does nothing if the intent no longer exists. `mountPoint`: where
   * the storage is mounted.
   */
  apply(id: number, mountPoint: Path): Promise<void>
  drop(id: number): Promise<void>
}
