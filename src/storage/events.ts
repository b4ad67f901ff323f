/**
 * Notifications about changes of the tree, for listing caches and the search index, and about transfers, for metrics.
 * Listeners are called synchronously, before the operation that made the change returns.
 */
import type { Entry } from '../contract/entry.js'
import { root, within, type Path } from '../base/path.js'
import type { TransferEvent } from './transfer-meter.js'

/** A change of the tree. Paths are of the whole tree. */
export type TreeChange =
  /** A file was created, or its content or attributes were changed. */
  | { readonly kind: 'written'; readonly path: Path }
  | { readonly kind: 'folder made'; readonly path: Path }
  /** The entry was removed, with everything below it. */
  | { readonly kind: 'removed'; readonly path: Path }
  | { readonly kind: 'moved'; readonly from: Path; readonly path: Path }
  /** Another program has changed the entry, or something below it: see `DriverEnv.changed`. */
  | { readonly kind: 'changed elsewhere'; readonly path: Path }

/**
 * The path within a storage at `mountPoint` that a change at `path` of the tree concerns: its root if that is above it.
 * Undefined if the change does not concern the storage.
 */
export function concernedPath(mountPoint: Path, path: Path): Path | undefined {
  return within(mountPoint, path) ?? (within(path, mountPoint) === undefined ? undefined : root)
}

/** `elsewhere`: another node has made the change. */
type ChangeOrigin = 'here' | 'elsewhere'

type ChangeListener = (change: TreeChange, origin: ChangeOrigin) => void
type ListingListener = (folder: Path, entries: readonly Entry[]) => void

export class Events {
  readonly #changeListeners = new Set<ChangeListener>()
  readonly #listingListeners = new Set<ListingListener>()
  /** The number of transfers that have not ended. Changed by `MeteredTransfer` alone. */
  openTransfers = 0
  readonly #transferListeners = new Set<(event: TransferEvent) => void>()

  /** Subscribes to changes. Returns a function that ends the subscription. */
  on(listener: ChangeListener): () => void {
    this.#changeListeners.add(listener)
    return () => this.#changeListeners.delete(listener)
  }

  emit(change: TreeChange, origin: ChangeOrigin = 'here'): void {
    for (const listener of this.#changeListeners) listener(change, origin)
  }

  /**
   * Subscribes to complete listings of folders, by their paths in the whole tree. Returns a function that ends the
   * subscription.
   */
  onListing(listener: ListingListener): () => void {
    this.#listingListeners.add(listener)
    return () => this.#listingListeners.delete(listener)
  }

  /** Notifies the listeners of a complete listing. Must not be called if the folder has changed since it was read. */
  emitListing(folder: Path, entries: readonly Entry[]): void {
    for (const listener of this.#listingListeners) listener(folder, entries)
  }

  /** Subscribes to transfers, each of which is reported when it ends. Returns a function that ends the subscription. */
  onTransfer(listener: (event: TransferEvent) => void): () => void {
    this.#transferListeners.add(listener)
    return () => this.#transferListeners.delete(listener)
  }

  /** Called by `MeteredTransfer` alone. */
  emitTransfer(event: TransferEvent): void {
    for (const listener of this.#transferListeners) listener(event)
  }
}
