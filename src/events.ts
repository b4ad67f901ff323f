/**
 * The one seam through which the rest of the program hears that the tree changed: listing caches drop
 * what they hold, an index follows. Listeners run before the change is answered to whoever asked for it.
 */
import type { Entry } from './driver.js'
import type { Path } from './path.js'

/** Paths are of the whole tree. */
export type TreeEvent =
  /** The content or the attributes of one file, or the file itself, are new. */
  | { readonly kind: 'written'; readonly path: Path }
  | { readonly kind: 'folder made'; readonly path: Path }
  /** With everything below. */
  | { readonly kind: 'removed'; readonly path: Path }
  | { readonly kind: 'moved'; readonly from: Path; readonly path: Path }

export type ListingListener = (folder: Path, entries: readonly Entry[]) => void

export class Events {
  readonly #listeners = new Set<(event: TreeEvent) => void>()
  readonly #listingListeners = new Set<ListingListener>()

  /** Returns what ends the subscription. */
  on(listener: (event: TreeEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  emit(event: TreeEvent): void {
    for (const listener of this.#listeners) listener(event)
  }

  /** Tells of the whole content of folders that a backend was asked for, by their paths in the whole tree. */
  onListing(listener: ListingListener): () => void {
    this.#listingListeners.add(listener)
    return () => this.#listingListeners.delete(listener)
  }

  /** To be told only while nothing has changed in the folder since it was read. */
  tellListing(folder: Path, entries: readonly Entry[]): void {
    for (const listener of this.#listingListeners) listener(folder, entries)
  }
}
