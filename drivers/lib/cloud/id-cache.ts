/** The ids of paths, as listings and own changes have shown them: bounded, and for a limited time. */
import { LRUCache } from 'lru-cache'
import type { EntryKind } from '../../../src/contract/entry.js'
import { put } from '../../../src/base/bounded-tables.js'
import { nameOf, parentOf, selfAndAncestors, under, within, type Path } from '../../../src/base/path.js'

export interface KnownId {
  readonly id: string
  readonly kind: Exclude<EntryKind, 'symlink'>
}

interface CachedId extends KnownId {
  /** Milliseconds of `performance.now()`. */
  readonly since: number
}

interface IdCacheOptions {
  /** Maximum number of ids. */
  readonly limit?: number
  /** Milliseconds for which an id is used: another program may have moved it. */
  readonly maxAge?: number
}

export class IdCache {
  readonly #limit: number
  readonly #maxAge: number
  /** The members of folders, none of which is empty. */
  readonly #folders: LRUCache<Path, Map<string, CachedId>>

  constructor(
    private readonly root: KnownId,
    { limit = 20_000, maxAge = 5 * 60_000 }: IdCacheOptions = {},
  ) {
    this.#limit = limit
    this.#maxAge = maxAge
    this.#folders = new LRUCache({ maxSize: limit, sizeCalculation: ({ size }) => size })
  }

  get size(): number {
    return this.#folders.calculatedSize
  }

  get(path: Path): KnownId | undefined {
    if (path === '/') return this.root
    const known = this.#folders.get(parentOf(path))?.get(nameOf(path))
    return known && performance.now() - known.since <= this.#maxAge ? known : undefined
  }

  /** The deepest path among `path` and its ancestors whose id is known. */
  deepest(path: Path): { readonly at: Path; readonly known: KnownId } {
    for (const at of selfAndAncestors(path)) {
      const known = this.get(at)
      if (known) return { at, known }
    }
    return { at: '/' as Path, known: this.root }
  }

  set(path: Path, { id, kind }: KnownId): void {
    if (path === '/') return
    const folder = parentOf(path)
    const members = this.#folders.get(folder) ?? new Map<string, CachedId>()
    put(members, nameOf(path), { id, kind, since: performance.now() }, this.#limit)
    this.#keep(folder, members)
  }

  /** Replaces what is known of the members of a folder. Of too many, the first ones are kept. */
  setMembers(folder: Path, members: Iterable<readonly [name: string, known: KnownId]>): void {
    const since = performance.now()
    const cached = new Map<string, CachedId>()
    for (const [name, { id, kind }] of members) {
      if (cached.size >= this.#limit) break
      cached.set(name, { id, kind, since })
    }
    this.#keep(folder, cached)
  }

  /** Drops the id of a path, and those below it. */
  drop(path: Path): void {
    if (path !== '/') this.#dropMember(path)
    for (const folder of [...this.#folders.keys()]) if (within(path, folder) !== undefined) this.#folders.delete(folder)
  }

  /** Drops the ids of a path and of all folders above it, and those below it: one of them is wrong. */
  dropWithAncestors(path: Path): void {
    this.drop(path)
    for (const at of selfAndAncestors(path)) if (at !== '/') this.#dropMember(at)
  }

  /** An entry was moved with everything below it. Ids do not change by that. */
  move(from: Path, to: Path): void {
    const known = this.get(from)
    const below = [...this.#folders].reverse().flatMap(([folder, members]) => {
      const relative = within(from, folder)
      return relative === undefined ? [] : [[relative, members] as const]
    })
    this.drop(from)
    this.drop(to)
    if (known) this.set(to, known)
    for (const [relative, members] of below) this.#folders.set(under(to, relative), members)
  }

  #dropMember(path: Path): void {
    const members = this.#folders.peek(parentOf(path))
    if (members?.delete(nameOf(path)) === true) this.#keep(parentOf(path), members)
  }

  #keep(folder: Path, members: Map<string, CachedId>): void {
    // Without this, the size of the same map would not be calculated again.
    this.#folders.delete(folder)
    if (members.size > 0) this.#folders.set(folder, members)
  }
}
