/** Listings that one storage keeps, bounded in bytes; the oldest used go first. */
import type { Entry } from './driver.js'
import { isWithin, type Path } from './path.js'

export interface KeptListing {
  readonly entries: readonly Entry[]
  /** The folder's revision before it was read, where the backend has them. */
  readonly revision: string | undefined
  /** Milliseconds since the epoch. */
  readonly readAt: number
}

interface Kept extends KeptListing {
  readonly bytes: number
  /** Made when the first name is asked for. */
  byName: ReadonlyMap<string, Entry> | undefined
}

/** A rough measure of an entry in memory, with its place in the map of names. */
const entryBytes = 280

export class ListingCache {
  readonly #kept = new Map<Path, Kept>()
  #bytes = 0

  constructor(readonly limit: number = 32 * 1024 * 1024) {}

  get(folder: Path): KeptListing | undefined {
    const kept = this.#kept.get(folder)
    if (kept) {
      this.#kept.delete(folder)
      this.#kept.set(folder, kept)
    }
    return kept
  }

  /** One entry of a kept listing, whatever the size of the folder. */
  entry(folder: Path, name: string): Entry | undefined {
    const kept = this.#kept.get(folder)
    if (!kept) return undefined
    kept.byName ??= new Map(kept.entries.map((entry) => [entry.name, entry]))
    return kept.byName.get(name)
  }

  keep(folder: Path, listing: KeptListing): void {
    this.drop(folder)
    let bytes = 200
    for (const entry of listing.entries) bytes += entryBytes + 2 * entry.name.length
    if (bytes > this.limit) return
    this.#kept.set(folder, { ...listing, bytes, byName: undefined })
    this.#bytes += bytes
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= this.limit) break
      this.drop(oldest)
    }
  }

  drop(folder: Path): void {
    const kept = this.#kept.get(folder)
    if (!kept) return
    this.#bytes -= kept.bytes
    this.#kept.delete(folder)
  }

  dropWithin(path: Path): void {
    for (const folder of [...this.#kept.keys()]) if (isWithin(path, folder)) this.drop(folder)
  }

  clear(): void {
    this.#kept.clear()
    this.#bytes = 0
  }
}
