/** The whole tree without authorization: the entries of the storages, and the mount points. */
import type { LookupResult } from '../contract/capabilities.js'
import type { CallOptions } from '../contract/driver.js'
import type { Entry } from '../contract/entry.js'
import {
  GatewayError,
  isGatewayError,
  isWithoutStorage,
  toGatewayError,
  undefinedIfMissing,
} from '../contract/errors.js'
import type { Log } from '../contract/log.js'
import { nameOf, root, within, type Path } from '../contract/path.js'
import type { FolderListing } from './listings.js'
import type { Mounts, MountedPath } from './mounts.js'

/** A path of the whole tree that has been authorized and whose symlinks have been resolved. */
export interface ResolvedPath {
  readonly at: Path
  /** The entry found while resolving; undefined if resolving did not load it. */
  readonly look: LookupResult | undefined
}

export class MountedTree {
  constructor(
    private readonly mounts: Mounts,
    private readonly log: Log,
  ) {}

  /** Throws as `Mounts.find` does. */
  locate(at: Path): MountedPath {
    return this.mounts.find(at)
  }

  /**
   * Resolves the symlinks in `path`, except one in the last segment; with `last`, that one too. Rejects with `denied`
   * if the real path belongs to another mount point, or if storages that share the mount point resolve it differently.
   */
  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    const mountPoint = this.mounts.mountPointOf(path)
    if (mountPoint === undefined) return path
    const found = new Set<Path>()
    for (const storage of this.mounts.storagesAt(mountPoint)) {
      const real = storage.treePath(await storage.realPath(within(mountPoint, path) ?? root, options))
      if (this.mounts.mountPointOf(real) !== mountPoint)
        throw new GatewayError('denied', { reason: 'a link leads into another storage' })
      found.add(real)
    }
    const [real = path, other] = found
    if (other !== undefined) throw new GatewayError('denied', { reason: 'storages do not agree where a link leads' })
    return real
  }

  /**
   * The result of `realPath` with `last`, and the entry there. Undefined if one call of the backend does not return
   * both, or if a mount point is involved of which the storage does not know.
   */
  async look(path: Path, options: CallOptions = {}): Promise<LookupResult | undefined> {
    const mountPoint = this.mounts.mountPointOf(path)
    if (mountPoint === undefined || this.mounts.isVirtual(path)) return undefined
    const [storage, other] = this.mounts.storagesAt(mountPoint)
    if (!storage || other) return undefined
    const look = await storage.look(within(mountPoint, path) ?? root, options)
    const real = storage.treePath(look.path)
    return this.mounts.mountPointOf(real) === mountPoint && !this.mounts.isVirtual(real)
      ? { path: real, entry: look.entry }
      : undefined
  }

  /** The entry at `at`. `link`: of a symlink itself, not of its target. Rejects with `not_found`. */
  async entry(at: Path, options: CallOptions & { readonly link?: boolean | undefined }): Promise<Entry> {
    if (this.mounts.isMountPoint(at) || at === '/') {
      const entry = await this.#mountRoot(at, options)
      if (entry) return { ...entry, name: nameOf(at) }
    } else {
      try {
        const { storage, inner } = this.locate(at)
        return await storage.stat(inner, options)
      } catch (error) {
        if (!isGatewayError(error, 'not_found', 'unavailable') || !this.mounts.isMountAncestor(at)) throw error
      }
    }
    const virtual = this.mounts.virtualEntry(at)
    if (!virtual) throw new GatewayError('not_found', { detail: 'no_storage', path: at })
    return { ...virtual, name: nameOf(at) }
  }

  /** The entry of a mount point. Undefined if its storage fails: the mount point is then shown as a virtual folder. */
  async #mountRoot(at: Path, options: CallOptions): Promise<Entry | undefined> {
    try {
      const { storage, inner } = this.locate(at)
      return await storage.stat(inner, { signal: options.signal })
    } catch (error) {
      if (isGatewayError(error, 'aborted')) throw error
      return undefined
    }
  }

  /**
   * The entry at `at`; undefined if it does not exist. Rejects if no storage is mounted at or above `at`.
   */
  async entryOrUndefined(at: Path, options: CallOptions): Promise<Entry | undefined> {
    return undefinedIfMissing(this.entry(at, { signal: options.signal }))
  }

  /** A folder's entries, including mount points. If the storage fails, returns the mount points alone. */
  async listing(
    at: Path,
    options: CallOptions & { readonly refresh?: boolean | undefined; readonly limit?: number | undefined },
  ): Promise<FolderListing> {
    const mounted = this.mounts.foldersIn(at)
    const location = this.#locateUnlessVirtual(at)
    if (!location) return { entries: mounted, current: true }
    try {
      const { signal, refresh = false, limit } = options
      const request = limit === undefined ? { refresh } : { refresh, part: limit }
      const listing = await location.storage.listing(location.inner, signal ? { ...request, signal } : request)
      if (mounted.length === 0) return listing
      const names = new Set(listing.entries.map((entry) => entry.name))
      return { ...listing, entries: [...listing.entries, ...mounted.filter((entry) => !names.has(entry.name))] }
    } catch (error) {
      await this.#assertExists(at, error, options)
      this.#assertHasMounts(at, mounted.length, error)
      return { entries: mounted, current: true }
    }
  }

  /** Reloads some entries of a listing that was not `current`. Entries that no longer exist are omitted. */
  async refreshed(at: Path, entries: readonly Entry[], options: CallOptions): Promise<readonly Entry[]> {
    const { storage, inner } = this.locate(at)
    const mounted = new Set(this.mounts.foldersIn(at).map((entry) => entry.name))
    if (mounted.size === 0) return storage.refreshed(inner, entries, options)
    const reloaded = await storage.refreshed(
      inner,
      entries.filter((entry) => !mounted.has(entry.name)),
      options,
    )
    const fresh = new Map(reloaded.map((entry) => [entry.name, entry]))
    return entries.flatMap((entry) => (mounted.has(entry.name) ? [entry] : (fresh.get(entry.name) ?? [])))
  }

  /** The same entries as `listing`, in pages and in any order. */
  async *pages(at: Path, options: CallOptions): AsyncGenerator<readonly Entry[]> {
    const mounted = new Map(this.mounts.foldersIn(at).map((entry) => [entry.name, entry]))
    const location = this.#locateUnlessVirtual(at)
    let hasYielded = false
    try {
      for await (const page of location?.storage.list(location.inner, options) ?? []) {
        hasYielded = true
        if (mounted.size > 0) for (const entry of page) mounted.delete(entry.name)
        yield page
      }
    } catch (error) {
      // An incomplete listing must not look complete.
      if (hasYielded) throw error
      await this.#assertExists(at, error, options)
      this.#assertHasMounts(at, mounted.size, error)
    }
    if (mounted.size > 0) yield [...mounted.values()]
  }

  /**
   * The location of `at`. Undefined for a folder above a mount point that has no storage, or whose storage did not
   * start.
   */
  #locateUnlessVirtual(at: Path): MountedPath | undefined {
    try {
      return this.locate(at)
    } catch (error) {
      const isMissing = isWithoutStorage(error) || isGatewayError(error, 'unavailable')
      if (isMissing && this.mounts.isMountAncestor(at)) return undefined
      throw error
    }
  }

  /**
   * After `not_dir`: rejects if nothing exists at `at`. Some backends return `not_dir` also for a path below a file.
   */
  async #assertExists(at: Path, error: unknown, { signal }: CallOptions): Promise<void> {
    if (isGatewayError(error, 'not_dir')) await this.entry(at, { signal })
  }

  /** Throws the error of a listing unless there are mount points to return instead. */
  #assertHasMounts(at: Path, mounted: number, error: unknown): void {
    if (mounted === 0 || isGatewayError(toGatewayError(error), 'aborted', 'unauthenticated')) throw error
    this.log.warn({ err: error, path: at }, 'folder listing failed; returned the mount points only')
  }
}
