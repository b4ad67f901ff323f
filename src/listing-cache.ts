/**
 * Listings in memory. Each storage has its own, by folder; all of them together are bounded in bytes, and of all of them the
 * oldest used go first.
 */
import type { Entry } from './driver.js'
import { isWithin, type Path } from './path.js'

export interface KeptListing {
  readonly entries: readonly Entry[]
  /** The same ones as the backend told them, one after the other. */
  readonly told: readonly Entry[]
  /** The folder's revision before it was read, where the backend has them. */
  readonly revision: string | undefined
  /** Milliseconds since the epoch. */
  readonly readAt: number
}

interface Kept extends KeptListing {
  readonly bytes: number
  /** Takes it out of the cache that holds it. */
  readonly drop: () => void
  /** Where each name was told. Made when the first one is asked for. */
  places: ReadonlyMap<string, number> | undefined
}

/** A rough measure of a listing and of an entry in memory, with its place in the map of names. */
const listingBytes = 200
const entryBytes = 288

function bytesOf({ entries }: KeptListing): number {
  let bytes = listingBytes
  for (const entry of entries) bytes += entryBytes + 2 * entry.name.length
  return bytes
}

/** The room that the caches of all storages share. */
export class ListingBudget {
  /** The oldest used first. */
  readonly #kept = new Set<Kept>()
  #bytes = 0

  constructor(readonly limit: number = 64 * 1024 * 1024) {}

  /** What is held now. */
  get bytes(): number {
    return this.#bytes
  }

  /** Makes room for it among the others. */
  add(kept: Kept): void {
    this.#kept.add(kept)
    this.#bytes += kept.bytes
    for (const oldest of this.#kept) {
      if (this.#bytes <= this.limit) break
      oldest.drop()
    }
  }

  used(kept: Kept): void {
    this.#kept.delete(kept)
    this.#kept.add(kept)
  }

  remove(kept: Kept): void {
    if (this.#kept.delete(kept)) this.#bytes -= kept.bytes
  }
}

export class ListingCache {
  readonly #kept = new Map<Path, Kept>()
  #closed = false

  constructor(private readonly budget: ListingBudget) {}

  get(folder: Path): KeptListing | undefined {
    const kept = this.#kept.get(folder)
    if (kept) this.budget.used(kept)
    return kept
  }

  /** One entry of a kept listing, whatever the size of the folder. */
  entry(folder: Path, name: string): Entry | undefined {
    const kept = this.#kept.get(folder)
    return kept?.told[placeOf(kept, name) ?? -1]
  }

  /** The same for one name after the other: backends tell them in about the order of the time before, which spares most of the search. */
  known(folder: Path): (name: string) => Entry | undefined {
    const kept = this.#kept.get(folder)
    if (!kept) return () => undefined
    let next = 0
    return (name) => {
      const place = kept.told[next]?.name === name ? next : placeOf(kept, name)
      if (place === undefined) return undefined
      next = place + 1
      return kept.told[place]
    }
  }

  /** The kept listing in its order, where it holds these very entries. */
  same(folder: Path, entries: readonly Entry[]): KeptListing | undefined {
    const kept = this.#kept.get(folder)
    if (kept?.told.length !== entries.length) return undefined
    const known = this.known(folder)
    return entries.every((entry) => known(entry.name) === entry) ? kept : undefined
  }

  /** In place of an older one of the folder. One that is larger than all the room is not kept. */
  keep(folder: Path, listing: KeptListing): void {
    const older = this.#kept.get(folder)
    this.drop(folder)
    // Read again and found to be as it was: what was worked out about it stands.
    const same = older?.entries === listing.entries ? older : undefined
    const bytes = same?.bytes ?? bytesOf(listing)
    if (bytes > this.budget.limit || this.#closed) return
    const kept: Kept = { ...listing, bytes, drop: () => this.drop(folder), places: same?.places }
    this.#kept.set(folder, kept)
    this.budget.add(kept)
  }

  drop(folder: Path): void {
    const kept = this.#kept.get(folder)
    if (!kept) return
    this.#kept.delete(folder)
    this.budget.remove(kept)
  }

  dropWithin(path: Path): void {
    for (const folder of [...this.#kept.keys()]) if (isWithin(path, folder)) this.drop(folder)
  }

  /** Gives its room back, and takes none any more: a folder may still be being read. */
  close(): void {
    this.#closed = true
    for (const folder of [...this.#kept.keys()]) this.drop(folder)
  }
}

function placeOf(kept: Kept, name: string): number | undefined {
  kept.places ??= new Map(kept.told.map((entry, place) => [entry.name, place]))
  return kept.places.get(name)
}
