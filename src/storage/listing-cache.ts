/**
 * Listings cached in memory. Each storage has its own cache. All caches share one limit in bytes; when it is exceeded,
 * the least recently used listings are removed. The limit of an `LRUCache` is its own, and not one for several.
 */
import type { Entry } from '../contract/entry.js'
import { isWithin, type Path } from '../base/path.js'
import { sortedInTurns, type Order } from './sorting.js'

/** A listing as it was read. */
export interface ReadListing {
  readonly entries: readonly Entry[]
  /** The entries in the order of the backend. */
  readonly backendOrder: readonly Entry[]
  /** Whether a name begins with the prefix that the gateway reserves for itself. Such entries are never shown. */
  readonly hasReserved: boolean
  /** The folder's revision before the listing was read; undefined if the backend has no folder revisions. */
  readonly revision: string | undefined
  /** When it was read, in milliseconds since the epoch. */
  readonly readAt: number
}

/** A part of a listing in a serialized form. */
export interface SerializedPart {
  readonly bytes: Buffer
  /**
   * The offset in `bytes` of each entry and of one after the last, with one byte between two of them; undefined until
   * single entries are asked for.
   */
  readonly offsets?: Uint32Array | undefined
}

/**
 * A cached listing in one serialized form, part by part, for a protocol. The parts are dropped with the listing and
 * count towards the limit.
 */
export interface SerializedParts {
  /** The part that begins with the entry `from`; undefined if it is not cached. */
  get(from: number): SerializedPart | undefined
  /** Caches a part, or replaces it, unless it exceeds the limit or the listing is no longer cached. */
  set(from: number, part: SerializedPart): void
}

/**
 * Estimated memory of a listing, of an entry including its item in the map of names, of its place in an order, and of
 * its item in the map of places.
 */
const listingBytes = 200
const entryBytes = 288
const placeBytes = 8
const namedPlaceBytes = 48

function bytesOf({ entries }: ReadListing): number {
  let bytes = listingBytes
  for (const entry of entries) bytes += entryBytes + 2 * entry.name.length
  return bytes
}

function bytesOfPart(part: SerializedPart | undefined): number {
  return part === undefined ? 0 : part.bytes.length + (part.offsets?.byteLength ?? 0)
}

/** The limit that the caches of all storages share. */
export class ListingBudget {
  /** The cached listings, least recently used first. */
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

  /** Drops the listings whose folders have revisions: their backends are asked at each use anyway. */
  dropRevised(): void {
    for (const item of this.#items) if (item.revision !== undefined) item.drop()
  }

  has(item: CacheItem): boolean {
    return this.#items.has(item)
  }

  /** Changes the size of an item, which becomes the most recently used one. */
  resize(item: CacheItem, bytes: number): void {
    this.remove(item)
    item.bytes = bytes
    this.add(item)
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

/** A cached listing. */
export class CacheItem implements ReadListing {
  readonly entries: readonly Entry[]
  readonly backendOrder: readonly Entry[]
  readonly hasReserved: boolean
  revision: string | undefined
  readAt: number
  /** Bytes of memory, including the serialized parts and the other orders. */
  bytes: number
  /** The index of each name in the backend's order. Created on the first lookup. */
  #indexes: ReadonlyMap<string, number> | undefined
  #places: ReadonlyMap<string, number> | undefined
  #form: string | undefined
  #parts = new Map<number, SerializedPart>()
  /** The entries in orders other than the storage's. */
  readonly #orders = new Map<string, readonly Entry[]>()
  /** Orders that are being made. */
  readonly #sorting = new Map<string, Promise<readonly Entry[]>>()

  /** `drop` removes the item from its cache. */
  constructor(
    listing: ReadListing,
    private readonly budget: ListingBudget,
    readonly drop: () => void,
  ) {
    this.entries = listing.entries
    this.backendOrder = listing.backendOrder
    this.hasReserved = listing.hasReserved
    this.revision = listing.revision
    this.readAt = listing.readAt
    this.bytes = bytesOf(listing)
  }

  indexOf(name: string): number | undefined {
    this.#indexes ??= new Map(this.backendOrder.map((entry, index) => [entry.name, index]))
    return this.#indexes.get(name)
  }

  /** `form`: all that the parts depend on besides the entries. Only the parts of the last form are cached. */
  serialized(form: string): SerializedParts {
    if (form !== this.#form) {
      let freed = 0
      for (const part of this.#parts.values()) freed += bytesOfPart(part)
      this.#form = form
      this.#parts = new Map()
      if (this.budget.has(this)) this.budget.resize(this, this.bytes - freed)
    }
    const parts = this.#parts
    return {
      get: (from) => parts.get(from),
      set: (from, part) => {
        const more = bytesOfPart(part) - bytesOfPart(parts.get(from))
        if (parts !== this.#parts || !this.#mayGrow(more)) return
        parts.set(from, part)
        this.budget.resize(this, this.bytes + more)
      },
    }
  }

  /** The index of each name in the storage's order; undefined if two are equal, or the map would exceed the limit. */
  places(): ReadonlyMap<string, number> | undefined {
    const bytes = namedPlaceBytes * this.entries.length
    if (!this.#places && this.#mayGrow(bytes)) {
      this.#places = new Map(this.entries.map(({ name }, index) => [name, index]))
      this.budget.resize(this, this.bytes + bytes)
    }
    return this.#places?.size === this.entries.length ? this.#places : undefined
  }

  /** The entries in another order than the storage's. Cached with the listing, unless it exceeds the limit. */
  async inOrder(order: Order): Promise<readonly Entry[]> {
    const key = JSON.stringify(order)
    const known = this.#orders.get(key) ?? this.#sorting.get(key)
    if (known) return known
    const sorting = this.#sort(key, order)
    this.#sorting.set(key, sorting)
    try {
      return await sorting
    } finally {
      this.#sorting.delete(key)
    }
  }

  async #sort(key: string, order: Order): Promise<readonly Entry[]> {
    const entries = await sortedInTurns(this.entries, order)
    const bytes = placeBytes * entries.length
    if (this.#mayGrow(bytes)) {
      this.#orders.set(key, entries)
      this.budget.resize(this, this.bytes + bytes)
    }
    return entries
  }

  /** Whether the listing is cached, and may take so many more bytes. */
  #mayGrow(bytes: number): boolean {
    return this.budget.has(this) && this.bytes + bytes <= this.budget.limit
  }
}

export class ListingCache {
  readonly #items = new Map<Path, CacheItem>()
  #closed = false

  constructor(private readonly budget: ListingBudget) {}

  get(folder: Path): CacheItem | undefined {
    const item = this.#items.get(folder)
    if (item) this.budget.touch(item)
    return item
  }

  /** One entry of a cached listing, found in constant time. */
  entry(folder: Path, name: string): Entry | undefined {
    const item = this.#items.get(folder)
    return item?.backendOrder[item.indexOf(name) ?? -1]
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
      const index = item.backendOrder[next]?.name === name ? next : item.indexOf(name)
      if (index === undefined) return undefined
      next = index + 1
      return item.backendOrder[index]
    }
  }

  /** The cached listing if it consists of the same `Entry` objects; undefined otherwise. */
  unchanged(folder: Path, entries: readonly Entry[]): CacheItem | undefined {
    const item = this.#items.get(folder)
    if (item?.backendOrder.length !== entries.length) return undefined
    const known = this.lookup(folder)
    return entries.every((entry) => known(entry.name) === entry) ? item : undefined
  }

  /** Replaces the folder's cached listing. A listing that is larger than the limit is not cached. */
  set(folder: Path, listing: ReadListing): void {
    const previous = this.#items.get(folder)
    if (previous?.entries === listing.entries) {
      // The listing was read again without a change: everything derived from it is still valid.
      previous.revision = listing.revision
      previous.readAt = listing.readAt
      return
    }
    this.drop(folder)
    const item = new CacheItem(listing, this.budget, () => this.drop(folder))
    if (item.bytes > this.budget.limit || this.#closed) return
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
