/**
 * Listings cached in memory. Each storage has its own cache. All caches share one limit in bytes; when it is exceeded,
 * the least recently used listings are removed.
 */
import type { Entry } from '../contract/entry.js'
import { isWithin, type Path } from '../contract/path.js'

export interface CachedListing {
  readonly entries: readonly Entry[]
  /** The same entries in the order of the backend. */
  readonly backendOrder: readonly Entry[]
  /** The folder's revision before the listing was read; undefined if the backend has no folder revisions. */
  readonly revision: string | undefined
  /** Milliseconds since the epoch. */
  readonly readAt: number
}

interface CacheItem extends CachedListing {
  readonly bytes: number
  /** Removes the item from its cache. */
  readonly drop: () => void
  /** The index of each name in the backend's order. Created on the first lookup. */
  indexes: ReadonlyMap<string, number> | undefined
}

/** Estimated memory of a listing, and of an entry including its item in the map of names. */
const listingBytes = 200
const entryBytes = 288

function bytesOf({ entries }: CachedListing): number {
  let bytes = listingBytes
  for (const entry of entries) bytes += entryBytes + 2 * entry.name.length
  return bytes
}

/** The limit that the caches of all storages share. */
export class ListingBudget {
  /** Least recently used first. */
  readonly #items = new Set<CacheItem>()
  #bytes = 0

  /** `limit`: bytes. */
  constructor(readonly limit: number = 64 * 1024 * 1024) {}

  /** The estimated size of all cached listings. */
  get bytes(): number {
    return this.#bytes
  }

  /** Adds an item, and drops the least recently used ones while the limit is exceeded. */
  add(item: CacheItem): void {
    this.#items.add(item)
    this.#bytes += item.bytes
    for (const oldest of this.#items) {
      if (this.#bytes <= this.limit) break
      oldest.drop()
    }
  }

  /** Marks an item as the most recently used one. */
  touch(item: CacheItem): void {
    this.#items.delete(item)
    this.#items.add(item)
  }

  remove(item: CacheItem): void {
    if (this.#items.delete(item)) this.#bytes -= item.bytes
  }
}

export class ListingCache {
  readonly #items = new Map<Path, CacheItem>()
  #closed = false

  constructor(private readonly budget: ListingBudget) {}

  get(folder: Path): CachedListing | undefined {
    const item = this.#items.get(folder)
    if (item) this.budget.touch(item)
    return item
  }

  /** One entry of a cached listing, found in constant time. */
  entry(folder: Path, name: string): Entry | undefined {
    const item = this.#items.get(folder)
    return item?.backendOrder[indexOf(item, name) ?? -1]
  }

  /**
   * Returns a lookup for many names of one folder. It is fastest if names are looked up in about the order of the
   * cached listing, which is the order in which most backends list a folder again.
   */
  lookup(folder: Path): (name: string) => Entry | undefined {
    const item = this.#items.get(folder)
    if (!item) return () => undefined
    let next = 0
    return (name) => {
      const index = item.backendOrder[next]?.name === name ? next : indexOf(item, name)
      if (index === undefined) return undefined
      next = index + 1
      return item.backendOrder[index]
    }
  }

  /** The cached listing if it consists of the same `Entry` objects; undefined otherwise. */
  unchanged(folder: Path, entries: readonly Entry[]): CachedListing | undefined {
    const item = this.#items.get(folder)
    if (item?.backendOrder.length !== entries.length) return undefined
    const known = this.lookup(folder)
    return entries.every((entry) => known(entry.name) === entry) ? item : undefined
  }

  /** Replaces the folder's cached listing. A listing that is larger than the limit is not cached. */
  set(folder: Path, listing: CachedListing): void {
    const previous = this.#items.get(folder)
    this.drop(folder)
    // The listing was read again without a change: its size and indexes are still valid.
    const same = previous?.entries === listing.entries ? previous : undefined
    const bytes = same?.bytes ?? bytesOf(listing)
    if (bytes > this.budget.limit || this.#closed) return
    const item: CacheItem = { ...listing, bytes, drop: () => this.drop(folder), indexes: same?.indexes }
    this.#items.set(folder, item)
    this.budget.add(item)
  }

  drop(folder: Path): void {
    const item = this.#items.get(folder)
    if (!item) return
    this.#items.delete(folder)
    this.budget.remove(item)
  }

  dropWithin(path: Path): void {
    for (const folder of [...this.#items.keys()]) if (isWithin(path, folder)) this.drop(folder)
  }

  /** Drops all listings, and caches none from then on: a load may still be running. */
  close(): void {
    this.#closed = true
    for (const folder of [...this.#items.keys()]) this.drop(folder)
  }
}

function indexOf(item: CacheItem, name: string): number | undefined {
  item.indexes ??= new Map(item.backendOrder.map((entry, index) => [entry.name, index]))
  return item.indexes.get(name)
}
