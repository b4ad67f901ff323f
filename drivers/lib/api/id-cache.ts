/** The ids of paths, as listings and own changes have shown them: bounded, and for a limited time. */
import type { EntryKind } from '../../../src/contract/entry.js'
import { nameOf, parentOf, selfAndAncestors, under, within, type Path } from '../../../src/contract/path.js'

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
  /** The members of folders, the least recently used folder first. */
  readonly #folders = new Map<Path, Map<string, CachedId>>()
  #count = 0

  constructor(
    private readonly root: KnownId,
    { limit = 20_000, maxAge = 5 * 60_000 }: IdCacheOptions = {},
  ) {
    this.#limit = limit
    this.#maxAge = maxAge
  }

  get size(): number {
    return this.#count
  }

  get(path: Path): KnownId | undefined {
    if (path === '/') return this.root
    const folder = parentOf(path)
    const members = this.#folders.get(folder)
    const known = members?.get(nameOf(path))
    if (!members || !known || performance.now() - known.since > this.#maxAge) return undefined
    this.#folders.delete(folder)
    this.#folders.set(folder, members)
    return known
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
    this.#folders.delete(folder)
    this.#folders.set(folder, members)
    if (!members.has(nameOf(path))) this.#count++
    members.set(nameOf(path), { id, kind, since: performance.now() })
    this.#trim(folder)
  }

  /** Replaces what is known of the members of a folder. Of too many, the first ones are kept. */
  setMembers(folder: Path, members: Iterable<readonly [name: string, known: KnownId]>): void {
    this.#dropFolder(folder)
    const since = performance.now()
    const cached = new Map<string, CachedId>()
    for (const [name, { id, kind }] of members) {
      if (cached.size >= this.#limit) break
      cached.set(name, { id, kind, since })
    }
    this.#folders.set(folder, cached)
    this.#count += cached.size
    this.#trim(folder)
  }

  /** Drops the id of a path, and those below it. */
  drop(path: Path): void {
    const members = this.#folders.get(parentOf(path))
    if (path !== '/' && members?.delete(nameOf(path)) === true) this.#count--
    for (const folder of [...this.#folders.keys()]) if (within(path, folder) !== undefined) this.#dropFolder(folder)
  }

  /** Drops the ids of a path and of all folders above it, and those below it: one of them is wrong. */
  dropWithAncestors(path: Path): void {
    this.drop(path)
    for (const at of selfAndAncestors(path)) {
      if (at !== '/' && this.#folders.get(parentOf(at))?.delete(nameOf(at)) === true) this.#count--
    }
  }

  /** An entry was moved with everything below it. Ids do not change by that. */
  move(from: Path, to: Path): void {
    const known = this.get(from)
    const below = [...this.#folders].flatMap(([folder, members]) => {
      const relative = within(from, folder)
      return relative === undefined ? [] : [[relative, members] as const]
    })
    this.drop(from)
    this.drop(to)
    if (known) this.set(to, known)
    for (const [relative, members] of below) {
      this.#folders.set(under(to, relative), members)
      this.#count += members.size
    }
  }

  #dropFolder(folder: Path): void {
    this.#count -= this.#folders.get(folder)?.size ?? 0
    this.#folders.delete(folder)
  }

  /** Drops the folders that were not used for longest, except this one, while there are too many ids. */
  #trim(current: Path): void {
    for (const folder of this.#folders.keys()) {
      if (this.#count <= this.#limit) return
      if (folder !== current) this.#dropFolder(folder)
    }
    const members = this.#folders.get(current)
    for (const name of members?.keys() ?? []) {
      if (this.#count <= this.#limit) return
      members?.delete(name)
      this.#count--
    }
  }
}
