/**
 * Loads, sorts and caches the folder listings of one storage. Concurrent requests for a folder share one load. If the
 * backend has folder revisions, a cached listing is valid while the revision is unchanged; else for the time set in the
 * storage's options.
 */
import { untilAborted, sharedController } from '../base/cancellation.js'
import type { CallOptions, ListOptions } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, hasDetail } from '../base/errors.js'
import type { DriverLog } from '../base/log.js'
import { nameOf, parentOf, reservedPrefix, within, type Path } from '../base/path.js'
import { compilePatterns, globSource, maxSteps, patternLines, stepsOf, type Pattern } from '../base/patterns.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { GuardedDriver } from './guarded-driver.js'
import { undefinedIfUnsupported } from './fallbacks/fallbacks.js'
import { ListingCache, type CacheItem, type ListingBudget, type ReadListing } from './listing-cache.js'
import { sortedInTurns, type Order } from './sorting.js'

/**
 * `refresh`: ignores the cache. `part`: the number of entries that the caller will use. `order`: another order than the
 * storage's.
 */
export interface ListingOptions extends CallOptions {
  readonly refresh?: boolean | undefined
  readonly part?: number | undefined
  readonly order?: Order | undefined
  /**
   * Stops reading a folder that is not cached once it has more entries than this. The listing lacks the others then.
   */
  readonly atMost?: number | undefined
}

/** A folder's entries, sorted. */
export interface FolderListing extends Pick<ReadListing, 'entries' | 'hasReserved'> {
  /**
   * The JSON of the entries, as `CacheItem.serialized`. Undefined unless the entries are cached, in the storage's
   * order.
   */
  readonly serialized: CacheItem['serialized'] | undefined
  /**
   * The places of the entries, as `CacheItem.places`. Undefined unless the entries are cached, in the storage's order.
   */
  readonly places?: CacheItem['places'] | undefined
  /**
   * false: the names are current, but sizes and times may be outdated. Call `refreshed` for the entries that are
   * returned.
   */
  readonly current: boolean
  /** The folder has more entries, beyond the `atMost` of the request. */
  readonly isPartial?: boolean
}

/**
 * Milliseconds for which a folder may be shown in an order of sizes or times that another program has changed since.
 */
const orderLifetime = 60_000

/** Resolution of folder revisions in milliseconds: two changes within this time may result in the same revision. */
const revisionResolution = 2000

interface Load {
  readonly promise: Promise<FolderListing>
  readonly controller: AbortController
  waiters: number
  stale: boolean
  hasEnded: boolean
  /** The largest `atMost` of its callers. */
  atMost: number
}

interface ListingsDependencies {
  readonly row: StorageRow
  readonly driver: Pick<GuardedDriver, 'can' | 'stat' | 'folderRevision'>
  /** See `Traits`. */
  readonly listsInOrder: boolean
  readonly budget: ListingBudget
  readonly log: DriverLog
  /** Lists a folder of the backend, in any order. */
  readonly pages: (path: Path, options: ListOptions) => AsyncIterable<readonly Entry[]>
  /** Called with each complete listing, unless the listing was invalidated during the load. */
  readonly read: (path: Path, entries: readonly Entry[]) => void
}

export class Listings {
  readonly #dependencies: ListingsDependencies
  readonly #cache: ListingCache
  readonly #loads = new Map<Path, Load>()
  readonly #policies: CachePolicies

  constructor(dependencies: ListingsDependencies) {
    this.#dependencies = dependencies
    this.#cache = new ListingCache(dependencies.budget)
    this.#policies = storedPolicies(dependencies)
  }

  /**
   * The entry at `path` from the parent's cached listing; undefined if none is cached or the listing does not contain
   * it.
   */
  cachedEntry(path: Path): Entry | undefined {
    if (path === '/') return undefined
    const folder = parentOf(path)
    return this.#fresh(folder) && this.#cache.entry(folder, nameOf(path))
  }

  #fresh(folder: Path) {
    const cached = this.#cache.get(folder)
    if (!cached) return undefined
    return Date.now() < cached.readAt + this.#lifetime(folder) ? cached : undefined
  }

  /** Milliseconds for which a listing of `folder` is cached if the backend has no folder revisions. */
  #lifetime(folder: Path): number {
    return this.#policies.lifetime(folder) ?? this.#dependencies.row.cacheExpiration * 60_000
  }

  /**
   * Returns all entries of a folder, sorted by `order` or else by the storage's options. If `part` is a small part of
   * the folder, the listing may be returned with `current: false`. Rejects with `aborted`.
   */
  async list(path: Path, options: ListingOptions = {}): Promise<FolderListing> {
    const listing = await this.#list(path, options)
    const { order } = options
    if (order === undefined) return listing
    const cached = this.#cache.get(path)
    const entries = await (cached?.entries === listing.entries
      ? cached.inOrder(order)
      : sortedInTurns(listing.entries, order))
    return { ...listing, entries, serialized: undefined, places: undefined }
  }

  async #list(path: Path, options: ListingOptions): Promise<FolderListing> {
    const cached = options.refresh === true ? undefined : this.#cache.get(path)
    if (cached) {
      if (cached.revision === undefined) {
        if (this.#fresh(path)) return listingOf(cached)
      } else if (this.#isEnough(cached, options)) {
        const revision = await this.#folderRevision(path, options)
        if (revision === cached.revision) return listingOf(cached, false)
      }
    }
    return this.#load(path, options)
  }

  /** Whether the cached names of a folder are enough, as long as its revision is unchanged. */
  #isEnough({ entries, readAt }: CacheItem, { part, order }: ListingOptions): boolean {
    if (part === undefined || part * 4 >= entries.length) return false
    if (order === undefined) return this.#isOrderedByNames
    return order.by === 'name' || Date.now() < readAt + orderLifetime
  }

  async #folderRevision(path: Path, options: CallOptions): Promise<string | undefined> {
    const { driver } = this.#dependencies
    return undefinedIfUnsupported(driver.can('folderRevision') && driver.folderRevision(path, options))
  }

  /** Joins or starts the load of a folder. The load is canceled when its last caller has aborted. */
  async #load(path: Path, options: ListingOptions): Promise<FolderListing> {
    const { signal, refresh = false, atMost = Infinity } = options
    if (signal?.aborted) throw new GatewayError('aborted')
    let load = this.#loads.get(path)
    if (refresh && load) {
      load.stale = true
      load = undefined
    }
    if (load) load.atMost = Math.max(load.atMost, atMost)
    else {
      const controller = sharedController()
      const started: Load = {
        promise: this.#collect(path, controller.signal, refresh, () => started).finally(() => {
          started.hasEnded = true
          if (this.#loads.get(path) === started) this.#loads.delete(path)
        }),
        controller,
        waiters: 0,
        stale: false,
        hasEnded: false,
        atMost,
      }
      started.promise.catch(() => undefined)
      this.#loads.set(path, started)
      load = started
    }
    const shared = load
    shared.waiters++
    try {
      const listing = await untilAborted(shared.promise, signal)
      // It had stopped when this request joined.
      if (listing.isPartial === true && listing.entries.length <= atMost) return await this.#load(path, options)
      return listing
    } finally {
      // A later request must start a new load instead of joining a canceled one.
      if (--shared.waiters === 0 && this.#loads.get(path) === shared) this.#loads.delete(path)
      if (shared.waiters === 0 && !shared.hasEnded) shared.controller.abort()
    }
  }

  async #collect(path: Path, signal: AbortSignal, refresh: boolean, load: () => Load): Promise<FolderListing> {
    const isStale = () => load().stale
    const revision = await this.#folderRevision(path, { signal })
    const readAt = Date.now()
    const all: Entry[] = []
    const known = this.#cache.lookup(path)
    for await (const page of this.#dependencies.pages(path, { signal, known, refresh })) {
      for (const entry of page) all.push(entry)
      if (all.length > load().atMost) {
        return {
          entries: await sortedInTurns(all, this.#order),
          hasReserved: true,
          current: true,
          serialized: undefined,
          isPartial: true,
        }
      }
    }
    // Sorting is skipped if nothing has changed since the cached listing.
    const unchanged = this.#cache.unchanged(path, all)
    const { entries, backendOrder, hasReserved } = unchanged ?? {
      entries: await sortedInTurns(all, this.#order),
      backendOrder: all,
      hasReserved: all.some(({ name }) => name.startsWith(reservedPrefix)),
    }
    if (!isStale()) this.#dependencies.read(path, entries)
    if (unchanged && revision !== undefined && unchanged.revision === revision) {
      unchanged.readAt = readAt
      return listingOf(unchanged)
    }
    if (
      !isStale() &&
      (revision === undefined ? this.#lifetime(path) > 0 : await this.#isCacheable(path, revision, readAt, signal))
    ) {
      this.#cache.set(path, { entries, backendOrder, hasReserved, revision, readAt })
    }
    const cached = this.#cache.get(path)
    return cached?.entries === entries
      ? listingOf(cached)
      : { entries, hasReserved, current: true, serialized: undefined }
  }

  /** Whether the order stays right when files change in place, which does not change the revision of their folder. */
  get #isOrderedByNames(): boolean {
    return this.#order.by === '' || this.#order.by === 'name'
  }

  get #order(): Order {
    const { row, listsInOrder } = this.#dependencies
    const { orderBy, orderDirection: direction, extractFolder: folders } = row
    return { by: orderBy === '' && listsInOrder ? 'given' : orderBy, direction, folders }
  }

  /**
   * Whether a new listing may be cached: the folder did not change during the load, nor within the revision's
   * resolution before.
   */
  async #isCacheable(path: Path, revision: string, readAt: number, signal: AbortSignal): Promise<boolean> {
    const folder = await this.#dependencies.driver.stat(path, { signal })
    return (
      folder.modified.getTime() < readAt - revisionResolution &&
      (await this.#folderRevision(path, { signal })) === revision
    )
  }

  /** Drops the cached and pending listings that a change at `path` invalidates. `withBelow`: those below `path` too. */
  invalidate(path: Path, withBelow: boolean): void {
    const isInvalid = (folder: Path) => folder === parentOf(path) || (withBelow && within(path, folder) !== undefined)
    this.#cache.drop(parentOf(path))
    if (withBelow) this.#cache.dropWithin(path)
    for (const [folder, load] of this.#loads) {
      if (!isInvalid(folder)) continue
      load.stale = true
      this.#loads.delete(folder)
    }
  }

  close(): void {
    this.#cache.close()
    for (const load of this.#loads.values()) load.controller.abort()
  }
}

function listingOf(cached: CacheItem, current = true): FolderListing {
  const { entries, hasReserved } = cached
  return {
    entries,
    hasReserved,
    current,
    serialized: (form) => cached.serialized(form),
    places: () => cached.places(),
  }
}

/** Cache lifetimes of single folders: lines `glob:minutes`, the first match applies. Malformed lines are ignored. */
export class CachePolicies {
  readonly #patterns: readonly Pattern[]
  readonly #minutes: readonly number[]
  readonly #cost: number

  /** Throws `costly_pattern`. */
  constructor(text: string) {
    const policies = patternLines(text).flatMap((line) => {
      const colon = line.lastIndexOf(':')
      const minutes = Number(line.slice(colon + 1))
      const glob = line.slice(0, Math.max(colon, 0)).trim()
      const isPolicy = glob !== '' && line.slice(colon + 1).trim() !== '' && Number.isFinite(minutes)
      return isPolicy ? [{ source: globSource(glob), minutes }] : []
    })
    this.#minutes = policies.map(({ minutes }) => minutes)
    this.#patterns = compilePatterns(
      policies.map(({ source }) => source),
      'ignored',
    )
    this.#cost = this.#patterns.reduce((sum, { cost }) => sum + cost, 0)
  }

  /** The lifetime in milliseconds; undefined if no policy matches, or if matching would take too long. */
  lifetime(folder: Path): number | undefined {
    if (stepsOf(this.#cost, folder.length) > maxSteps) return undefined
    const minutes = this.#minutes[this.#patterns.findIndex((pattern) => pattern.test(folder))]
    return minutes === undefined ? undefined : minutes * 60_000
  }
}

/** The policies of a row. Empty if they cost too much: the row may be older than the limit. */
function storedPolicies({ row, log }: ListingsDependencies): CachePolicies {
  try {
    return new CachePolicies(row.customCachePolicies)
  } catch (error) {
    if (!hasDetail(error, 'costly_pattern')) throw error
    log.warn({ err: error }, 'the cache policies of the storage exceed a limit and are ignored')
    return new CachePolicies('')
  }
}
