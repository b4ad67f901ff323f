/** The whole tree, whoever asks: what the storages hold, with the mount points among it. Nothing is judged here. */
import type { Reached } from './access.js'
import type { Ask } from './change.js'
import type { Entry } from './driver.js'
import { isGatewayError, NoStorageError, toGatewayError } from './errors.js'
import type { Log } from './log.js'
import type { Mounts, Place } from './mounts.js'
import { nameOf, type Path } from './path.js'
import type { FolderListing } from './listings.js'

export class WholeTree {
  constructor(
    private readonly mounts: Mounts,
    private readonly log: Log,
  ) {}

  /** Rejects as `Mounts.find` does. */
  place(at: Path): Place {
    return this.mounts.find(at)
  }

  /** What stands there. `link`: of a link, not of its target. */
  async entry(at: Path, ask: Ask & { readonly link?: boolean | undefined }): Promise<Entry> {
    if (this.mounts.isMountPoint(at) || at === '/') {
      const entry = await this.#mountRoot(at, ask)
      if (entry) return { ...entry, name: nameOf(at) }
    } else {
      try {
        const { storage, inner } = this.place(at)
        return await storage.stat(inner, ask)
      } catch (error) {
        if (!isGatewayError(error, 'not_found', 'unavailable') || !this.mounts.hasMountsBelow(at)) throw error
      }
    }
    const virtual = this.mounts.virtualEntry(at)
    if (!virtual) throw new NoStorageError(at, false)
    return { ...virtual, name: nameOf(at) }
  }

  /** The root of a mount; undefined where its storage does not answer: it stays visible as a folder. */
  async #mountRoot(at: Path, ask: Ask): Promise<Entry | undefined> {
    try {
      const { storage, inner } = this.place(at)
      return await storage.stat(inner, { signal: ask.signal })
    } catch (error) {
      if (isGatewayError(error, 'aborted')) throw error
      return undefined
    }
  }

  /** The same of a path that was reached: what was seen there, or a look at it. */
  async standing({ at, seen }: Reached, ask: Ask): Promise<Entry | undefined> {
    return seen ? seen.entry : this.existing(at, ask)
  }

  /** What stands there; undefined for nothing. Rejects where no storage could hold it. */
  async existing(at: Path, ask: Ask): Promise<Entry | undefined> {
    try {
      return await this.entry(at, { signal: ask.signal })
    } catch (error) {
      if (isGatewayError(error, 'not_found') && !(error instanceof NoStorageError)) return undefined
      throw error
    }
  }

  /** A folder's entries with the mounts below it. Where the storage fails, its mounts are still shown. */
  async listing(
    at: Path,
    ask: Ask & { readonly refresh?: boolean | undefined; readonly limit?: number | undefined },
  ): Promise<FolderListing> {
    const mounted = this.mounts.foldersIn(at)
    const place = this.#placeUnlessVirtual(at)
    if (!place) return { entries: mounted, settled: true }
    try {
      const { signal, refresh = false, limit } = ask
      const options = limit === undefined ? { refresh } : { refresh, part: limit }
      const own = await place.storage.listing(place.inner, signal ? { ...options, signal } : options)
      if (mounted.length === 0) return own
      const names = new Set(own.entries.map((entry) => entry.name))
      return { ...own, entries: [...own.entries, ...mounted.filter((entry) => !names.has(entry.name))] }
    } catch (error) {
      await this.#assertThere(at, error, ask)
      this.#assertMountsCount(at, mounted.length, error)
      return { entries: mounted, settled: true }
    }
  }

  /** These entries of a listing that was not settled, as the backend tells them now; those that are gone are left out. */
  async refreshed(at: Path, entries: readonly Entry[], ask: Ask): Promise<readonly Entry[]> {
    const { storage, inner } = this.place(at)
    const mounted = new Set(this.mounts.foldersIn(at).map((entry) => entry.name))
    if (mounted.size === 0) return storage.refreshed(inner, entries, ask)
    const own = await storage.refreshed(
      inner,
      entries.filter((entry) => !mounted.has(entry.name)),
      ask,
    )
    const fresh = new Map(own.map((entry) => [entry.name, entry]))
    return entries.flatMap((entry) => (mounted.has(entry.name) ? [entry] : (fresh.get(entry.name) ?? [])))
  }

  /** The same entries as `listing` has, in pages and in any order. */
  async *pages(at: Path, ask: Ask): AsyncGenerator<readonly Entry[]> {
    const mounted = new Map(this.mounts.foldersIn(at).map((entry) => [entry.name, entry]))
    const place = this.#placeUnlessVirtual(at)
    let begun = false
    try {
      for await (const page of place?.storage.pages(place.inner, ask) ?? []) {
        begun = true
        if (mounted.size > 0) for (const entry of page) mounted.delete(entry.name)
        yield page
      }
    } catch (error) {
      // Half a folder must not look like all of it.
      if (begun) throw error
      await this.#assertThere(at, error, ask)
      this.#assertMountsCount(at, mounted.size, error)
    }
    if (mounted.size > 0) yield [...mounted.values()]
  }

  /** The storage's place, or undefined for a folder that leads to mounts and has none, or one that did not start. */
  #placeUnlessVirtual(at: Path): Place | undefined {
    try {
      return this.place(at)
    } catch (error) {
      const isMissing = error instanceof NoStorageError || isGatewayError(error, 'unavailable')
      if (isMissing && this.mounts.hasMountsBelow(at)) return undefined
      throw error
    }
  }

  /** Below a file is nothing, which not every backend tells from the file itself: both are no folder to it. */
  async #assertThere(at: Path, error: unknown, { signal }: Ask): Promise<void> {
    if (isGatewayError(error, 'not_dir')) await this.entry(at, { signal })
  }

  /** Where mounts are to be shown, a storage that fails does not stop that. */
  #assertMountsCount(at: Path, mounted: number, error: unknown): void {
    if (mounted === 0 || isGatewayError(toGatewayError(error), 'aborted', 'unauthenticated')) throw error
    this.log.warn({ err: error, path: at }, 'a folder could not be listed; its mounts are shown')
  }
}
