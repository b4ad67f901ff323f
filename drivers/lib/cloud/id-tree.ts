/**
 * Paths on a backend that knows its entries by ids only. A path is found by walking: each folder on the way is listed,
 * unless the id of the next one is cached. An id that has become wrong is noticed when the backend does not find it;
 * the path is then walked once more.
 */
import { LRUCache } from 'lru-cache'
import { put } from '../../../src/base/bounded-tables.js'
import { untilAborted } from '../../../src/base/cancellation.js'
import type { ListOptions } from '../../../src/contract/call-options.js'
import type { ChangeElsewhere, DriverEnv } from '../../../src/contract/driver-env.js'
import { pageSize } from '../../../src/contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../../src/base/errors.js'
import { childOf, nameOf, parentOf, segmentsOf, under, within, type Path } from '../../../src/base/path.js'
import { IdCache, type KnownId } from './id-cache.js'
import { RecentChanges } from './recent-changes.js'
import { isNameById, itemNamed, shownItems, unescapeName, type IdItem } from './shown-names.js'

export interface IdTreeOptions<Item extends IdItem> {
  readonly rootId: string
  /** Lists a folder by its id. Rejects with `not_found` if no folder has it. */
  readonly list: (folderId: string, options: Pick<ListOptions, 'refresh' | 'signal'>) => AsyncIterable<readonly Item[]>
  /** Milliseconds for which a listing may not show a change: the trait `listingLag`. */
  readonly lag?: number
  /**
   * Milliseconds for which a name counts as absent that a listing did not show, also where a look-up wants to know what
   * is there now: for servers that limit listings. Default: 0.
   */
  readonly absence?: number
  readonly env: Pick<DriverEnv, 'onChangeElsewhere' | 'report'>
  readonly cache?: ConstructorParameters<typeof IdCache>[1]
}

/** An entry at a path. */
export interface Located<Item extends IdItem> extends KnownId {
  /**
   * The entry as its folder listed it in this call, or as the caller of `added` described it; undefined if the id was
   * cached, and for the root.
   */
  readonly item: Item | undefined
}

/** The entry that an own change has made of a path. */
interface OwnChange<Item extends IdItem> {
  /** Undefined: nothing exists there. */
  readonly located: Located<Item> | undefined
}

/** An item, and the name by which it is shown. */
export interface ShownItem<Item extends IdItem> {
  readonly name: string
  readonly item: Item
}

interface Options {
  readonly signal?: AbortSignal | undefined
}

interface Listed<Item extends IdItem> {
  readonly items: readonly Item[]
  /** Number of own changes when the listing began. */
  readonly changes: number
}

/** A listing that several calls wait for. */
interface SharedListing<Item extends IdItem> {
  /** When it began, in milliseconds of `performance.now()`. */
  readonly since: number
  readonly listed: Promise<Listed<Item>>
  /** Own changes since it began, which it may not show. Undefined: nothing exists there. */
  readonly late: Map<Path, Located<Item> | undefined>
}

/** The items that a listing has shown, for the time in which names that it lacks count as absent. */
interface Absence<Item extends IdItem> extends Pick<SharedListing<Item>, 'late'> {
  readonly shown: ReadonlyMap<string, Item>
  /** Milliseconds of `performance.now()`. */
  readonly until: number
}

/** Maximum number of folders whose listings are remembered for a moment, for what is absent. */
const maxAbsences = 16

/** Maximum number of own changes that are laid over listings. */
const maxChanges = 10_000

/** Maximum number of folders whose duplicate names are reported. */
const maxReported = 100
/** Maximum number of folders that the report names. */
const maxNamed = 3

export class IdTree<Item extends IdItem> {
  readonly #cache: IdCache
  /** Folders that are being listed to find a path. */
  readonly #walks = new Map<string, SharedListing<Item>>()
  /** All that are running, also those that no further call may join. */
  readonly #running = new Set<SharedListing<Item>>()
  /** What the last listings of folders did not show, by the ids of the folders, for the time of `absence`. */
  readonly #absences = new LRUCache<string, Absence<Item>>({ max: maxAbsences })
  #forgetting: NodeJS.Timeout | undefined
  /** Number of own changes. A listing from before the last one may be wrong, and is not remembered. */
  #changes = 0
  /** Own changes, while listings may not show them yet. */
  readonly #recent: LRUCache<Path, OwnChange<Item>>
  /** Where own changes have put entries, and how they are named now, while listings may show otherwise. */
  readonly #placements: RecentChanges
  /** Folders with names that several entries have, and one of these names. */
  readonly #duplicates = new Map<Path, { readonly count: number; readonly name: string }>()

  constructor(private readonly options: IdTreeOptions<Item>) {
    this.#cache = new IdCache({ id: options.rootId, kind: 'folder' }, options.cache)
    this.#placements = new RecentChanges(options.lag ?? 0)
    this.#recent = new LRUCache({ maxSize: maxChanges, sizeCalculation: () => 1, ttl: options.lag ?? 0 })
    options.env.onChangeElsewhere((change) => this.#changedElsewhere(change))
  }

  /**
   * Calls `work` with the entry at `path`. If that rejects with `not_found` and the id was cached, the path is walked
   * once more; if it leads to another id then, `work` is called with that one. Rejects with `not_found` if nothing
   * exists there.
   */
  async with<T>(path: Path, work: (located: Located<Item>) => Promise<T>, options: Options = {}): Promise<T> {
    const located = await this.#find(path, options)
    try {
      return await work(located)
    } catch (error) {
      if (path === '/' || located.item || !isGatewayError(error, 'not_found')) throw error
      this.#cache.dropWithAncestors(path)
      const again = await this.#find(path, options)
      if (again.id === located.id) throw error
      return work(again)
    }
  }

  /** The entry at `path`; undefined if nothing exists there. */
  async find(path: Path, options: Options = {}): Promise<Located<Item> | undefined> {
    return undefinedIfMissing(this.#find(path, options))
  }

  /**
   * The entry at `path` as its folder lists it now: for backends that describe no entry by its id. For the root,
   * without an item.
   */
  async look(path: Path, options: Options = {}): Promise<Located<Item>> {
    if (path === '/') return this.#find(path, options)
    this.#cache.drop(path)
    return this.#find(path, options)
  }

  /** The folder at `path`. Rejects with `parent_missing` if nothing exists there, and with `not_folder`. */
  async folderOf(path: Path, options: Options = {}): Promise<Located<Item>> {
    const located = await this.find(path, options)
    if (!located) throw new GatewayError('parent_missing')
    if (located.kind !== 'folder') throw new GatewayError('not_folder')
    return located
  }

  /** Whether the id of the entry at `path` is known without asking the backend. It may have become wrong. */
  isKnown(path: Path): boolean {
    return this.#knownId(path) !== undefined
  }

  /** Pages of the items of a folder. Rejects with `not_found` and `not_folder` before the first page. */
  async *pages(path: Path, options: ListOptions = {}): AsyncGenerator<readonly ShownItem<Item>[]> {
    const { signal, refresh } = options
    const listed = await this.with(
      path,
      ({ id, kind }) => {
        if (kind !== 'folder') throw new GatewayError('not_folder')
        return this.#collect(id, { signal, refresh })
      },
      options,
    )
    const shown = this.#learn(path, listed)
    this.#absences.clear()
    let page: ShownItem<Item>[] = []
    for (const [name, item] of shown) {
      page.push({ name, item })
      if (page.length < pageSize) continue
      yield page
      page = []
    }
    if (page.length > 0) yield page
  }

  /** The name that the backend has to give a new entry at `path`. Throws `invalid`. */
  newName(path: Path): string {
    return unescapeName(nameOf(path))
  }

  // Own changes

  /** An entry was created, or took the place of another. `item`: as a listing will show it, if that is known. */
  added(path: Path, { id, kind }: KnownId, item?: Item): void {
    this.#gone(path)
    this.#placed(id, path)
    this.#takeRecent(path)
    this.#cache.drop(path)
    this.#cache.set(path, { id, kind })
    this.#changed(path, { id, kind, item })
  }

  /** An entry was removed, with everything below it. */
  removed(path: Path): void {
    this.#gone(path)
    this.#takeRecent(path)
    this.#cache.drop(path)
    this.#changed(path, undefined)
    this.#forgetDuplicates(path)
  }

  /** An entry was moved, with everything below it. `item`: as a listing will show it, if that is known. */
  moved(from: Path, to: Path, item?: Item): void {
    this.#gone(to)
    const below = new Map(this.#takeRecent(from))
    const known = below.get('/' as Path)?.located ?? this.#cache.get(from)
    this.#takeRecent(to)
    this.#cache.move(from, to)
    for (const [relative, { located }] of below) this.#changed(under(to, relative), located)
    if (known) {
      this.#placed(known.id, to)
      this.#changed(to, { id: known.id, kind: known.kind, item })
    }
    this.#changed(from, undefined)
    this.#forgetDuplicates(from)
  }

  /** Forgets the id of a path, at which a change has failed with an unknown outcome. The next look-up lists again. */
  forget(path: Path): void {
    this.#takeRecent(path)
    this.#forgetListed(path)
  }

  #forgetListed(path: Path): void {
    this.#cache.drop(path)
    // A listing that is running may have begun before this change.
    this.#changes++
    this.#walks.clear()
    this.#absences.clear()
  }

  /** Listings may show it only later, as own changes. What they have shown until then is forgotten once more. */
  #changedElsewhere(change: ChangeElsewhere): void {
    const { kind, path } = change
    const gone = kind === 'moved' ? change.from : path
    const known = this.#knownId(gone)
    this.forget(gone)
    if (kind === 'moved') this.forget(path)
    if (kind !== 'changed') {
      this.#changed(gone, undefined)
      this.#forgetDuplicates(gone)
      if (known && kind === 'moved') this.#placed(known.id, path)
      else if (known) this.#placements.add(known.id, { isRemoved: true })
    }
    const { lag = 0 } = this.options
    if (lag > 0) setTimeout(() => this.#forgetListed(path), lag).unref()
  }

  /** Whether a folder has no members. Own changes count, also if the listing does not show them yet. */
  async isEmpty(path: Path, options: Options = {}): Promise<boolean> {
    const listed = await this.with(path, ({ id }) => this.#collect(id, options), options)
    return this.#members(path, shownItems(listed.items)).size === 0
  }

  #changed(path: Path, located: Located<Item> | undefined): void {
    this.#changes++
    for (const { late } of [...this.#running, ...this.#absences.values()]) late.set(path, located)
    const { lag = 0 } = this.options
    if (lag > 0) this.#recent.set(path, { located })
  }

  /** The entry at a path was removed or replaced, as far as its id is known. */
  #gone(path: Path): void {
    const known = this.#knownId(path)
    if (known) this.#placements.add(known.id, { isRemoved: true })
  }

  #placed(id: string, path: Path): void {
    const folderId = this.#knownId(parentOf(path))?.id
    this.#placements.add(id, { folderId, name: this.newName(path), isRemoved: false })
  }

  #knownId(path: Path): KnownId | undefined {
    return this.#recent.peek(path)?.located ?? this.#cache.get(path)
  }

  /** Removes and returns the own changes of a path and below it, by their paths relative to it. */
  #takeRecent(path: Path): readonly (readonly [Path, OwnChange<Item>])[] {
    return [...this.#recent].flatMap(([at, change]) => {
      const relative = within(path, at)
      if (relative === undefined) return []
      this.#recent.delete(at)
      return [[relative, change] as const]
    })
  }

  /** The ids of the members of a folder: as it was listed, with own changes that the listing may not show. */
  #members(folder: Path, shown: ReadonlyMap<string, Item>): ReadonlyMap<string, KnownId> {
    if (this.#recent.size === 0) return shown
    const members = new Map<string, KnownId>(shown)
    for (const path of this.#recent.keys()) {
      const change = parentOf(path) === folder ? this.#recent.peek(path) : undefined
      if (change?.located) members.set(nameOf(path), change.located)
      else if (change) members.delete(nameOf(path))
    }
    return members
  }

  async #find(path: Path, { signal }: Options): Promise<Located<Item>> {
    const { at, known } = this.#cache.deepest(path)
    try {
      return await this.#walk(path, at, known, signal)
    } catch (error) {
      if (at === '/' || !isGatewayError(error, 'not_found') || !(error instanceof StaleId)) throw error
      this.#cache.dropWithAncestors(at)
      return this.#walk(path, '/' as Path, this.#cache.deepest('/' as Path).known, signal)
    }
  }

  async #walk(path: Path, at: Path, known: KnownId, signal: AbortSignal | undefined): Promise<Located<Item>> {
    let current: Located<Item> = { id: known.id, kind: known.kind, item: undefined }
    let folder = at
    for (const name of segmentsOf(within(at, path) ?? path)) {
      if (current.kind !== 'folder') throw new GatewayError('not_found')
      const own = this.#recent.peek(childOf(folder, name))
      if (own) {
        if (!own.located) throw new GatewayError('not_found')
        folder = childOf(folder, name)
        current = own.located
        continue
      }
      if (this.#isAbsent(current.id, folder, name)) throw new GatewayError('not_found')
      const shared = this.#shared(current.id)
      let listed = await untilAborted(shared.listed, signal)
      const late = shared.late.get(childOf(folder, name))
      if (!late && shared.late.has(childOf(folder, name))) throw new GatewayError('not_found')
      if (late?.item) {
        folder = childOf(folder, name)
        current = late
        continue
      }
      // It exists, and what a listing shows of it is not known.
      if (late) listed = await this.#collect(current.id, { signal })
      const shown = this.#learn(folder, listed)
      this.#noteAbsences(current.id, shown, shared)
      const item = itemNamed(shown, listed.items, name)
      if (!item) throw new GatewayError('not_found')
      folder = childOf(folder, name)
      current = { id: item.id, kind: item.kind, item }
      if (listed.changes === this.#changes) this.#cache.set(folder, current)
    }
    return current
  }

  /** The items of a folder, in one listing for all that ask for them at the same time. Rejects with `StaleId`. */
  #shared(id: string): SharedListing<Item> {
    const walk = this.#walks.get(id)
    if (walk) return walk
    const listed = this.#collect(id, {})
      .catch((error: unknown) => {
        throw isGatewayError(error, 'not_found') ? new StaleId('not_found', { cause: error }) : error
      })
      .finally(() => {
        this.#running.delete(shared)
        if (this.#walks.get(id) === shared) this.#walks.delete(id)
      })
    const shared: SharedListing<Item> = { since: performance.now(), listed, late: new Map() }
    this.#walks.set(id, shared)
    this.#running.add(shared)
    return shared
  }

  #noteAbsences(id: string, shown: ReadonlyMap<string, Item>, { late, since }: SharedListing<Item>): void {
    const { absence = 0 } = this.options
    const until = since + absence
    if (until <= performance.now()) return
    this.#absences.set(id, { shown, late, until })
    clearTimeout(this.#forgetting)
    this.#forgetting = setTimeout(() => this.#absences.clear(), absence).unref()
  }

  /** Whether a listing has shown a moment ago that a folder has no such entry, and no own change has made one. */
  #isAbsent(id: string, folder: Path, name: string): boolean {
    const last = this.#absences.get(id)
    if (!last || last.until < performance.now() || isNameById(name)) return false
    return !last.shown.has(name) && !last.late.has(childOf(folder, name))
  }

  async #collect(id: string, options: Pick<ListOptions, 'refresh' | 'signal'>): Promise<Listed<Item>> {
    const changes = this.#changes
    const items: Item[] = []
    try {
      for await (const page of this.options.list(id, options)) for (const item of page) items.push(item)
    } catch (error) {
      throw id === this.options.rootId ? missingRoot(error) : error
    }
    return { items: this.#placements.applyTo(items, id), changes }
  }

  /** Remembers the members of a folder, and reports names that several of them have. */
  #learn(folder: Path, { items, changes }: Listed<Item>): ReadonlyMap<string, Item> {
    const shown = shownItems(items)
    if (changes === this.#changes) this.#cache.setMembers(folder, this.#members(folder, shown))
    const names = new Set<string>()
    const repeated = new Set<string>()
    for (const { name } of items) {
      if (names.has(name)) repeated.add(name)
      names.add(name)
    }
    const [name] = repeated
    if (name === undefined && !this.#duplicates.has(folder)) return shown
    if (name === undefined) this.#duplicates.delete(folder)
    else put(this.#duplicates, folder, { count: repeated.size, name }, maxReported)
    this.options.env.report(this.#warnings())
    return shown
  }

  #forgetDuplicates(path: Path): void {
    const folders = [...this.#duplicates.keys()].filter((folder) => within(path, folder) !== undefined)
    for (const folder of folders) this.#duplicates.delete(folder)
    if (folders.length > 0) this.options.env.report(this.#warnings())
  }

  #warnings(): readonly string[] {
    const named = [...this.#duplicates].slice(-maxNamed).map(([folder, { count, name }]) => {
      const names = count === 1 ? `the name "${name}"` : `${count} names, such as "${name}",`
      return `several entries of ${folder} have ${names} and are shown as name~id`
    })
    const further = this.#duplicates.size - named.length
    return further > 0 ? [...named, `${further} more folders have such names`] : named
  }
}

/**
 * Awaits a call about the root folder, which asks the backend each time, because this is how a storage is checked.
 * Rejects with `unavailable` if the root does not exist: it must not look like a missing path, or like an empty
 * storage.
 */
export async function rootExists(call: Promise<unknown>): Promise<void> {
  await call.catch((error: unknown) => {
    throw missingRoot(error)
  })
}

function missingRoot(error: unknown): unknown {
  if (!isGatewayError(error, 'not_found')) return error
  return new GatewayError('unavailable', { reason: 'the root folder of the storage does not exist', cause: error })
}

/** The id of a folder on the way is not known to the backend. */
class StaleId extends GatewayError {}
