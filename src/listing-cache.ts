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

/** A rough measure of an entry in memory. */
const entryBytes = 240

export class ListingCache {
  readonly #kept = new Map<Path, KeptListing & { readonly bytes: number }>()
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

  keep(folder: Path, listing: KeptListing): void {
    this.drop(folder)
    let bytes = 200
    for (const entry of listing.entries) bytes += entryBytes + 2 * entry.name.length
    if (bytes > this.limit) return
    this.#kept.set(folder, { ...listing, bytes })
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
