/**
 * The whole tree without authorization: the spelling and the symlinks of its paths, the entries of the storages, and
 * the mount points.
 */
import type { LookupResult } from '../contract/capabilities.js'
import type { CallOptions } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, isWithoutStorage, toGatewayError, undefinedIfMissing } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { childOf, foldCase, nameOf, parentOf, root, segmentsOf, within, type Path } from '../base/path.js'
import type { FolderListing, ListingOptions } from '../storage/listings.js'
import type { Mounts, MountedPath } from './mounts.js'
import { sortedInTurns } from '../storage/sorting.js'
import type { FreshStatOptions, Storage } from '../storage/storage.js'

/** `preferred`: of several storages at one mount point, the one that the operation uses already. */
export interface EntryOptions extends CallOptions {
  readonly preferred?: Storage | undefined
}

export class MountedTree {
  constructor(
    private readonly mounts: Mounts,
    private readonly log: Log,
  ) {}

  /**
   * Returns `path` in the storages' spelling: on a backend that ignores case or Unicode normalization, that which the
   * backend returns. Paths are converted before authorization, locking and cache lookups, so that another spelling does
   * not bypass a rule or a lock. Segments that do not exist are not changed. Rejects if a storage cannot be read.
   */
  async canonicalPath(path: Path, options: CallOptions = {}): Promise<Path> {
    const location = this.mounts.caseInsensitivePath(path)
    if (!location) return path
    const { storage } = location
    const names = segmentsOf(location.inner)
    let canonical = storage.mountPoint
    for (const [index, name] of names.entries()) {
      const mounted = this.mounts.foldersIn(canonical).find((entry) => foldCase(entry.name) === foldCase(name))
      const existing = mounted ?? (await this.#memberOf(location, canonical, name, options))
      const rest = names.slice(existing ? index + 1 : index)
      if (!existing) return rest.reduce(childOf, canonical)
      canonical = childOf(canonical, existing.name)
      // The rest of the path belongs to another storage.
      if (this.mounts.isMountPoint(canonical)) return this.canonicalPath(rest.reduce(childOf, canonical), options)
    }
    return canonical
  }

  async #memberOf({ storage }: MountedPath, folder: Path, name: string, options: CallOptions) {
    try {
      return await storage.stat(childOf(within(storage.mountPoint, folder) ?? root, name), options)
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'parent_missing', 'not_folder')) return undefined
      throw error
    }
  }

  /**
   * Returns the canonical path, as `canonicalPath` does, of the target of a move of `source`. If the target is another
   * spelling of `source` itself, its last segment is not changed, because it is the new name.
   */
  async canonicalTarget(target: Path, source: Path, options: CallOptions = {}): Promise<Path> {
    const canonical = await this.canonicalPath(target, options)
    const isCaseRename = canonical === source && canonical !== target
    return isCaseRename ? childOf(parentOf(canonical), nameOf(target)) : canonical
  }

  /**
   * Resolves the symlinks in `path`, except one in the last segment; with `last`, that one too. Rejects with `denied`
   * if the real path belongs to another mount point, or if storages that share the mount point resolve it differently.
   */
  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    const mountPoint = this.mounts.mountPointOf(path)
    if (mountPoint === undefined) return path
    const inner = within(mountPoint, path) ?? root
    let found: Path | undefined
    for (const storage of this.mounts.storagesAt(mountPoint)) {
      const real = storage.treePath(await storage.realPath(inner, options))
      if (this.mounts.mountPointOf(real) !== mountPoint)
        throw new GatewayError('denied', { reason: 'a symlink leads into another storage' })
      if (found !== undefined && real !== found)
        throw new GatewayError('denied', { reason: 'storages do not agree where a symlink leads' })
      found = real
    }
    return found ?? path
  }

  /**
   * The result of `realPath` with `last`, and the entry there. Undefined if one call of the backend does not return
   * both, or if a mount point is involved of which the storage does not know.
   */
  async look(path: Path, options: CallOptions = {}): Promise<LookupResult | undefined> {
    const storage = this.mounts.onlyStorageOf(path)
    if (!storage || this.mounts.isMountFolder(path)) return undefined
    const { mountPoint } = storage
    const look = await storage.look(within(mountPoint, path) ?? root, options)
    const real = storage.treePath(look.path)
    const isThere = real === path || (this.mounts.mountPointOf(real) === mountPoint && !this.mounts.isMountFolder(real))
    return isThere ? { path: real, entry: look.entry } : undefined
  }

  /** The entry at `at`. `ofSymlink`: of a symlink itself, not of its target. Rejects with `not_found`. */
  async entry(at: Path, options: EntryOptions & FreshStatOptions): Promise<Entry> {
    const { signal, ofSymlink, preferred, refresh } = options
    if (this.mounts.isMountPoint(at) || at === '/') {
      const entry = await this.#mountRoot(at, options)
      if (entry) return { ...entry, name: nameOf(at) }
    } else {
      try {
        const { storage, inner } = this.mounts.find(at, preferred)
        return await storage.stat(inner, { signal, ofSymlink, refresh })
      } catch (error) {
        if (!isGatewayError(error, 'not_found', 'unavailable') || !this.mounts.isMountAncestor(at)) throw error
      }
    }
    const mountFolder = this.mounts.mountFolderEntry(at)
    if (!mountFolder) throw new GatewayError('not_found', { detail: 'no_storage', path: at })
    return { ...mountFolder, name: nameOf(at) }
  }

  /** The entry of a mount point. Undefined if its storage fails: it is then shown as `Mounts.mountFolderEntry`. */
  async #mountRoot(at: Path, { signal, preferred }: EntryOptions): Promise<Entry | undefined> {
    try {
      const { storage, inner } = this.mounts.find(at, preferred)
      return await storage.stat(inner, { signal })
    } catch (error) {
      if (isGatewayError(error, 'aborted')) throw error
      return undefined
    }
  }

  /**
   * The entry at `at`; undefined if it does not exist. Rejects if no storage is mounted at or above `at`.
   */
  async entryOrUndefined(
    at: Path,
    { signal, preferred, refresh }: EntryOptions & FreshStatOptions,
  ): Promise<Entry | undefined> {
    return undefinedIfMissing(this.entry(at, { signal, preferred, refresh }))
  }

  /**
   * A folder's entries, including mount points. If the storage fails, returns the mount points alone. `storage`: the
   * one that was listed; undefined if only mount points were.
   */
  async list(at: Path, options: ListingOptions): Promise<FolderListing & { readonly storage: Storage | undefined }> {
    const { order } = options
    const inOrder = (entries: readonly Entry[]) => (order === undefined ? entries : sortedInTurns(entries, order))
    const mounted = this.mounts.foldersIn(at)
    const location = this.#findUnlessMountFolder(at)
    const mountPoints = {
      entries: await inOrder(mounted),
      hasReserved: false,
      current: true,
      serialized: undefined,
      storage: undefined,
    }
    if (!location) return mountPoints
    try {
      const { storage, inner } = location
      const listing = await storage.list(inner, options)
      const { entries, hasReserved, current, serialized, places } = listing
      if (mounted.length === 0) return { entries, hasReserved, current, serialized, places, storage }
      return {
        ...mountPoints,
        entries: await inOrder(withMountPoints(entries, mounted)),
        hasReserved,
        current,
        storage,
      }
    } catch (error) {
      await this.#assertExists(at, error, options)
      this.#assertHasMounts(at, mounted.length, error)
      return mountPoints
    }
  }

  /**
   * Reloads some entries of a listing that was not `current`, from the storage that was listed. Entries that no longer
   * exist are omitted.
   */
  async refreshed(at: Path, entries: readonly Entry[], { signal, preferred }: EntryOptions): Promise<readonly Entry[]> {
    const { storage, inner } = this.mounts.find(at, preferred)
    const mounted = new Set(this.mounts.foldersIn(at).map((entry) => entry.name))
    if (mounted.size === 0) return storage.refreshed(inner, entries, { signal })
    const reloaded = await storage.refreshed(
      inner,
      entries.filter((entry) => !mounted.has(entry.name)),
      { signal },
    )
    const fresh = new Map(reloaded.map((entry) => [entry.name, entry]))
    return entries.flatMap((entry) => (mounted.has(entry.name) ? [entry] : (fresh.get(entry.name) ?? [])))
  }

  /**
   * The entries that `list` returns, in pages and in any order. `complete`: as the storage is now, not as it was listed
   * before; rejects also where the storage fails and there are mount points to return.
   */
  async *pages(
    at: Path,
    { signal, complete }: CallOptions & { readonly complete?: boolean | undefined },
  ): AsyncGenerator<readonly Entry[]> {
    const mounted = new Map(this.mounts.foldersIn(at).map((entry) => [entry.name, entry]))
    const location = this.#findUnlessMountFolder(at, complete)
    let hasYielded = false
    try {
      for await (const page of location?.storage.pages(location.inner, { signal, refresh: complete === true }) ?? []) {
        hasYielded = true
        if (mounted.size === 0) {
          yield page
          continue
        }
        // A mount point covers a file of the same name.
        yield page.filter(({ name, kind }) => kind === 'folder' || !mounted.has(name))
        for (const { name, kind } of page) if (kind === 'folder') mounted.delete(name)
      }
    } catch (error) {
      // An incomplete listing must not look complete.
      if (hasYielded || complete === true) throw error
      await this.#assertExists(at, error, { signal })
      this.#assertHasMounts(at, mounted.size, error)
    }
    if (mounted.size > 0) yield [...mounted.values()]
  }

  /**
   * Like `Mounts.find`. Undefined for a folder above a mount point if no storage runs there; with `complete`, only if
   * none is mounted.
   */
  #findUnlessMountFolder(at: Path, complete = false): MountedPath | undefined {
    if (!this.mounts.isMountAncestor(at)) return this.mounts.find(at)
    try {
      return this.mounts.find(at)
    } catch (error) {
      if (isWithoutStorage(error) || (!complete && isGatewayError(error, 'unavailable'))) return undefined
      throw error
    }
  }

  /**
   * After `not_folder`: rejects if nothing exists at `at`. Some backends return `not_folder` also for a path below a
   * file.
   */
  async #assertExists(at: Path, error: unknown, { signal }: CallOptions): Promise<void> {
    if (isGatewayError(error, 'not_folder')) await this.entry(at, { signal })
  }

  /** Throws the error of a listing unless there are mount points to return instead. */
  #assertHasMounts(at: Path, mounted: number, error: unknown): void {
    if (mounted === 0 || isGatewayError(toGatewayError(error), 'aborted', 'unauthenticated')) throw error
    this.log.warn({ err: error, path: at }, 'folder listing failed; returned the mount points only')
  }
}

/** The entries of a folder, and the mount points in it. A mount point covers a file of its name. */
export function withMountPoints(entries: readonly Entry[], mountPoints: readonly Entry[]): Entry[] {
  const folders = new Set(entries.filter(({ kind }) => kind === 'folder').map(({ name }) => name))
  const covering = new Set(mountPoints.map(({ name }) => name))
  return [
    ...entries.filter(({ name, kind }) => kind === 'folder' || !covering.has(name)),
    ...mountPoints.filter(({ name }) => !folders.has(name)),
  ]
}
