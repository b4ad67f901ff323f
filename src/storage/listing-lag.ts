/**
 * Own changes over listings that lag: some backends report a change only seconds after they have confirmed it. For that
 * time, what this storage has written, created, moved or removed itself is laid over listings and entries.
 */
import { contentVersion, type Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { nameOf, parentOf, selfAndAncestors, under, within, type Path } from '../base/path.js'

/** Maximum number of changes that are remembered; the oldest are forgotten first. */
const maxChanges = 10_000

interface OwnChange {
  /** Undefined if the entry was removed. */
  readonly entry: Entry | undefined
  /** Milliseconds of `performance.now()`. */
  readonly until: number
}

export class OwnChanges {
  /** The last change of each path, oldest first, by the folder and then by the name. */
  readonly #changes = new Map<Path, Map<string, OwnChange>>()
  #count = 0

  /** `lag`: milliseconds; see the trait `listingLag`. */
  constructor(private readonly lag: number) {}

  written(path: Path, entry: Entry): Entry {
    this.#add(path, entry)
    return entry
  }

  /** An entry was removed, with everything below it. */
  removed(path: Path): void {
    this.#takeBelow(path)
    this.#add(path, undefined)
  }

  moved(from: Path, to: Path, entry: Entry): void {
    const below = this.#takeBelow(from)
    this.#add(from, undefined)
    this.#add(to, entry)
    for (const [folder, members] of below) {
      this.#changes.set(under(to, folder), members)
      this.#count += members.size
    }
  }

  /** Removes and returns the changes in the folder at `path` and below it, by the folder relative to it. */
  #takeBelow(path: Path): readonly (readonly [Path, Map<string, OwnChange>])[] {
    return [...this.#changes].flatMap(([folder, members]) => {
      const relative = within(path, folder)
      if (relative === undefined) return []
      this.#drop(folder, members)
      return [[relative, members] as const]
    })
  }

  #forget(path: Path): void {
    const members = this.#changes.get(parentOf(path))
    if (members?.delete(nameOf(path)) !== true) return
    this.#count--
    if (members.size === 0) this.#changes.delete(parentOf(path))
  }

  clear(): void {
    this.#changes.clear()
    this.#count = 0
  }

  /** The entry as it was changed; otherwise as `stat` of the backend returns it. */
  async stat(path: Path, stat: () => Promise<Entry>): Promise<Entry> {
    if (this.#changes.size === 0) return stat()
    if (this.#isGone(path)) throw new GatewayError('not_found')
    const own = this.#changeOf(path)?.entry
    try {
      return current(own, await stat())
    } catch (error) {
      if (!own || !isGatewayError(error, 'not_found')) throw error
      return own
    }
  }

  /** Whether the entry was removed, or a folder above it. */
  #isGone(path: Path): boolean {
    for (const at of selfAndAncestors(path)) {
      const change = this.#changeOf(at)
      if (change) return change.entry === undefined
    }
    return false
  }

  #changeOf(path: Path): OwnChange | undefined {
    return path === '/' ? undefined : this.#membersOf(parentOf(path))?.get(nameOf(path))
  }

  async *pages(folder: Path, pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<readonly Entry[]> {
    if (this.#changes.size === 0) {
      yield* pages
      return
    }
    if (this.#isGone(folder)) throw new GatewayError('not_found')
    const changes = new Map(this.#membersOf(folder))
    const shown = (entry: Entry): readonly Entry[] => {
      const change = changes.get(entry.name)
      if (!change) return [entry]
      changes.delete(entry.name)
      return change.entry ? [current(change.entry, entry)] : []
    }
    try {
      for await (const page of pages) {
        const entries = page.flatMap(shown)
        if (entries.length > 0) yield entries
      }
    } catch (error) {
      // The folder itself may be new.
      if (!isGatewayError(error, 'not_found') || this.#changeOf(folder)?.entry?.kind !== 'folder') throw error
    }
    const missing = [...changes.values()].flatMap(({ entry }) => entry ?? [])
    if (missing.length > 0) yield missing
  }

  /** The changes in a folder that are not too old; undefined if there are none. */
  #membersOf(folder: Path): ReadonlyMap<string, OwnChange> | undefined {
    const members = this.#changes.get(folder)
    if (!members) return undefined
    const now = performance.now()
    for (const [name, { until }] of members) {
      if (until > now) break
      members.delete(name)
      this.#count--
    }
    if (members.size > 0) return members
    this.#changes.delete(folder)
    return undefined
  }

  #add(path: Path, entry: Entry | undefined): void {
    const folder = parentOf(path)
    this.#forget(path)
    const members = this.#changes.get(folder) ?? new Map<string, OwnChange>()
    // Moved to the end of the map: the last folder that changed.
    this.#changes.delete(folder)
    this.#changes.set(folder, members)
    members.set(nameOf(path), { entry, until: performance.now() + this.lag })
    this.#count++
    for (const [oldest, its] of this.#changes) {
      if (this.#count <= maxChanges || oldest === folder) break
      this.#drop(oldest, its)
    }
  }

  #drop(folder: Path, members: ReadonlyMap<string, OwnChange>): void {
    this.#changes.delete(folder)
    this.#count -= members.size
  }
}

/** The entry that the backend reports, unless it is older than the own one. */
function current(own: Entry | undefined, reported: Entry): Entry {
  if (!own) return reported
  const isSame =
    own.kind === reported.kind && (own.kind === 'folder' || contentVersion(own) === contentVersion(reported))
  return isSame ? reported : own
}
