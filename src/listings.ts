/**
 * The listings of one storage: sorted once, one load shared by all who wait for it, and kept as long as they hold: while the
 * folder's revision stands where the backend has them, else for the time that the storage's options give.
 */
import { untilAborted } from './aborting.js'
import type { CallOptions, Driver, Entry, ListOptions } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import { ListingCache, type ListingBudget } from './listing-cache.js'
import { nameOf, parentOf, within, type Path } from './path.js'
import {
  compilePatterns,
  CostlyPatternError,
  globSource,
  mostSteps,
  patternLines,
  stepsOf,
  type Pattern,
} from './patterns.js'
import { manyCalls } from './signals.js'
import { sorted, type Order } from './sorting.js'
import type { StorageRow } from './store/rows.js'

/** A folder's entries, sorted. */
export interface FolderListing {
  readonly entries: readonly Entry[]
  /** false: the names stand, their sizes and times may be older. Ask `refreshed` for those that are shown. */
  readonly settled: boolean
}

/** Milliseconds in which a folder's revision may stay the same though a name came or went. */
const revisionGrain = 2000

interface Load {
  readonly promise: Promise<readonly Entry[]>
  readonly controller: AbortController
  waiters: number
  stale: boolean
}

export interface ListingsParts {
  readonly row: StorageRow
  readonly driver: Pick<Driver, 'stat' | 'revision'>
  readonly budget: ListingBudget
  /** A folder's entries as the backend has them, in any order. */
  readonly pages: (path: Path, options: ListOptions) => AsyncIterable<readonly Entry[]>
  /** Told of each folder that was read whole, and has not changed meanwhile as far as we know. */
  readonly read: (path: Path, entries: readonly Entry[]) => void
}

export class Listings {
  readonly #parts: ListingsParts
  readonly #cache: ListingCache
  readonly #loads = new Map<Path, Load>()
  readonly #policies: CachePolicies

  constructor(parts: ListingsParts) {
    this.#parts = parts
    this.#cache = new ListingCache(parts.budget)
    this.#policies = storedPolicies(parts.row)
  }

  /** From the parent's cached listing; undefined where that cannot tell. */
  entry(path: Path): Entry | undefined {
    if (path === '/') return undefined
    const folder = parentOf(path)
    return this.#fresh(folder) && this.#cache.entry(folder, nameOf(path))
  }

  #fresh(folder: Path) {
    const kept = this.#cache.get(folder)
    if (!kept) return undefined
    return Date.now() < kept.readAt + this.#lifetime(folder) ? kept : undefined
  }

  /** Milliseconds for which a listing of `folder` is kept where the backend cannot tell whether it still stands. */
  #lifetime(folder: Path): number {
    return this.#policies.lifetime(folder) ?? this.#parts.row.cacheExpiration * 60_000
  }

  /** The whole folder, sorted by the storage's options. `part`: only so many entries are shown. */
  async list(
    path: Path,
    options: CallOptions & { readonly refresh?: boolean; readonly part?: number } = {},
  ): Promise<FolderListing> {
    const kept = options.refresh === true ? undefined : this.#cache.get(path)
    if (kept) {
      if (kept.revision === undefined) {
        if (this.#fresh(path)) return { entries: kept.entries, settled: true }
      } else if (options.part !== undefined && options.part * 4 < kept.entries.length) {
        const revision = await this.#revision(path, options)
        if (revision === kept.revision) return { entries: kept.entries, settled: false }
      }
    }
    return { entries: await this.#load(path, options.signal, options.refresh === true), settled: true }
  }

  async #revision(path: Path, options: CallOptions): Promise<string | undefined> {
    try {
      return await this.#parts.driver.revision?.(path, options)
    } catch (error) {
      if (isGatewayError(error, 'unsupported')) return undefined
      throw error
    }
  }

  /** One load for all who wait for it; it stops when the last of them leaves. */
  async #load(path: Path, signal: AbortSignal | undefined, anew: boolean): Promise<readonly Entry[]> {
    if (signal?.aborted) throw new GatewayError('aborted')
    let load = this.#loads.get(path)
    if (anew && load) {
      load.stale = true
      load = undefined
    }
    if (!load) {
      const controller = manyCalls()
      const begun: Load = {
        promise: this.#collect(path, controller.signal, () => begun.stale),
        controller,
        waiters: 0,
        stale: false,
      }
      begun.promise
        .catch(() => undefined)
        .finally(() => this.#loads.get(path) === begun && this.#loads.delete(path))
        .catch(() => undefined)
      this.#loads.set(path, begun)
      load = begun
    }
    const shared = load
    shared.waiters++
    try {
      return await untilAborted(shared.promise, signal)
    } finally {
      if (--shared.waiters === 0) {
        shared.controller.abort()
        // Who comes now begins anew instead of sharing the end of this one.
        if (this.#loads.get(path) === shared) this.#loads.delete(path)
      }
    }
  }

  async #collect(path: Path, signal: AbortSignal, isStale: () => boolean): Promise<readonly Entry[]> {
    const revision = await this.#revision(path, { signal })
    const readAt = Date.now()
    const all: Entry[] = []
    const known = this.#cache.known(path)
    for await (const page of this.#parts.pages(path, { signal, known })) for (const entry of page) all.push(entry)
    const { entries, told } = this.#cache.same(path, all) ?? { entries: sorted(all, this.#order), told: all }
    if (!isStale()) this.#parts.read(path, entries)
    if (
      !isStale() &&
      (revision === undefined ? this.#lifetime(path) > 0 : await this.#holds(path, revision, readAt, signal))
    ) {
      this.#cache.keep(path, { entries, told, revision, readAt })
    }
    return entries
  }

  get #order(): Order {
    const { orderBy: by, orderDirection: direction, extractFolder: folders } = this.#parts.row
    return { by, direction, folders }
  }

  /** Whether a listing just read may be kept: nothing came or went meanwhile, nor so lately that the revision could not tell. */
  async #holds(path: Path, revision: string, readAt: number, signal: AbortSignal): Promise<boolean> {
    const folder = await this.#parts.driver.stat(path, { signal })
    return folder.modified.getTime() < readAt - revisionGrain && (await this.#revision(path, { signal })) === revision
  }

  /** Drops the listings that a change at `path` makes old, also those being read right now. */
  forget(path: Path, withBelow: boolean): void {
    const old = (folder: Path) => folder === parentOf(path) || (withBelow && within(path, folder) !== undefined)
    this.#cache.drop(parentOf(path))
    if (withBelow) this.#cache.dropWithin(path)
    for (const [folder, load] of this.#loads) {
      if (!old(folder)) continue
      load.stale = true
      this.#loads.delete(folder)
    }
  }

  close(): void {
    this.#cache.close()
    for (const load of this.#loads.values()) load.controller.abort()
  }
}

/** How long listings of single folders are kept: lines `glob:minutes`, the first that matches counts; others are passed over. */
export class CachePolicies {
  readonly #patterns: readonly Pattern[]
  readonly #minutes: readonly number[]
  readonly #cost: number

  /** Rejects with CostlyPatternError. */
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

  /** In milliseconds; undefined where no policy matches, or to find one would take too long. */
  lifetime(folder: Path): number | undefined {
    if (stepsOf(this.#cost, folder.length) > mostSteps) return undefined
    const minutes = this.#minutes[this.#patterns.findIndex((pattern) => pattern.test(folder))]
    return minutes === undefined ? undefined : minutes * 60_000
  }
}

/** Those of a row that was stored before there was a limit may cost too much: then there are none. */
function storedPolicies({ customCachePolicies }: StorageRow): CachePolicies {
  try {
    return new CachePolicies(customCachePolicies)
  } catch (error) {
    if (error instanceof CostlyPatternError) return new CachePolicies('')
    throw error
  }
}
