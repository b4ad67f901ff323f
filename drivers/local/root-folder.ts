/**
 * Maps paths of the storage to paths of the host, and confines every access to the root folder. No other file of this
 * driver does either.
 *
 * Symlinks are resolved here, one by one, and only while they stay inside the root. The result is a handle to the
 * folder that contains the name, verified after it was opened. A symlink that is swapped in above it later has no
 * effect. On Linux, names are used relative to that handle (`/proc/self/fd/N/name`). Other systems have no equivalent:
 * there the real path of the folder is compared and then used.
 */
import { constants, type BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import { GatewayError, hasDetail, isGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { childOf, segmentsOf, nameOf, parentOf, type Path } from '../../src/base/path.js'
import type { Awaitable } from '../../src/contract/call-options.js'
import { systemCode } from './errors.js'
import { FolderHandleCache } from './folder-handle-cache.js'
import { HandleFolder, joined, PlainFolder, type Folder } from './folder.js'
import { MountTable } from './mount-table.js'
import { SyncAsyncPolicy, asyncSyscalls, syncFile, type Syscalls } from './syscalls.js'

/** Prefix of the names of all staged files and folders. Callers cannot see or use names with this prefix. */
export const reservedName = '.tidegate-staging'

/**
 * `O_PATH` of Linux (open(2)), which Node does not define: opens a location without opening the file. Needs no read
 * permission and never blocks on a device.
 */
export const O_PATH = 0o10000000
/** Maximum number of symlinks in one path, as in Linux (path_resolution(7)). */
const maxSymlinks = 40
/** Maximum number of attempts to open a path that changes between lookup and open. */
const maxAttempts = 5
const usesHandles = process.platform === 'linux'
const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

export function isReserved(name: string): boolean {
  return name.startsWith('.') && name.toLowerCase().startsWith(reservedName)
}

/**
 * Whether a segment of the path is reserved. Callers pass clean paths: throws `invalid` if `..` or NUL would reach the
 * system.
 */
function hasReserved(path: Path): boolean {
  if (path.includes('\0')) throw new GatewayError('invalid', { reason: 'a path cannot hold a NUL character' })
  if (!path.includes('/.')) return false
  const names = segmentsOf(path)
  if (names.some((name) => name === '.' || name === '..')) {
    throw new GatewayError('invalid', { reason: 'not a clean path' })
  }
  return names.some(isReserved)
}

/** The error for a symlink that leads outside of the root. */
export function symlinkOutside(): GatewayError {
  return new GatewayError('denied', { reason: 'a symlink that leads outside of the storage' })
}

/** The error for a name that does not exist. */
function missingName(fromSymlink: boolean): GatewayError {
  return new GatewayError('not_found', { detail: fromSymlink ? 'dangling_symlink' : undefined })
}

/** A name in an open folder, with its status at the time of the lookup. The name `.` is the root itself. */
export interface Location {
  readonly folder: Folder
  readonly name: string
  /** Path of the host: the folder's real path, joined with the name. */
  readonly host: string
  /** The system calls to use for this name. */
  readonly calls: Syscalls
  /** The path to pass to system calls: relative to the folder handle where the system supports that. */
  readonly at: string
  readonly stats: BigIntStats | undefined
  /** Whether the requested path was a symlink to this location. */
  readonly viaSymlink: boolean
}

/** An open file. The caller closes it. */
interface Descriptor {
  readonly fd: number
  readonly calls: Syscalls
  readonly stats: BigIntStats
}

interface LocateOptions {
  /** Whether to resolve a symlink to its target. */
  readonly follow: boolean
  /**
   * Whether the caller may create an entry here. Changes the error code for a missing folder and for a reserved name.
   */
  readonly create?: boolean
}

export class RootFolder {
  readonly #mounts: MountTable
  readonly #policy = new SyncAsyncPolicy()
  readonly #handleCache = new FolderHandleCache()

  /** `real`: the absolute real path of the root. `sync`: changes are flushed to the medium before they succeed. */
  constructor(
    readonly real: string,
    readonly sync = false,
  ) {
    // A handle of a folder that something was mounted over refers to what is below.
    this.#mounts = new MountTable(real, undefined, () => this.#handleCache.close())
  }

  /** The system calls to use for this path of the host, and for a file or folder that is opened there now. */
  syscallsFor(host: string): Syscalls {
    return this.isLocal(host) ? this.#policy.calls : asyncSyscalls
  }

  /**
   * Whether the path is on a local disk and names are used relative to handles, so that a system call waits at most for
   * that disk.
   */
  isLocal(host: string): boolean {
    return usesHandles && this.#mounts.isLocal(host)
  }

  /** Whether the folder contains a mount point of a file system that may block. */
  hasForeignMountsIn(host: string): boolean {
    return this.#mounts.hasForeignMountsIn(host)
  }

  /**
   * Opens an existing folder and follows symlinks. The caller closes it. Fails with `not_found`, `not_folder` or
   * `denied`.
   */
  folder(path: Path): Awaitable<Folder> {
    if (hasReserved(path)) throw new GatewayError('not_found')
    return this.#cachedFolder(path) ?? this.#openFolder(path)
  }

  /** The folder from the handle cache, if it was not moved or replaced. It is not reserved. */
  #cachedFolder(path: Path): Folder | undefined {
    // Closes the cached handles if something was mounted. Each of the others is on a local disk.
    this.#mounts.refresh()
    if (!this.#policy.calls.immediate) return undefined
    return this.#handleCache.get(this.hostOf(path), this.#policy.turnNumber)
  }

  async #openFolder(path: Path): Promise<Folder> {
    // Opening the path is faster than checking each component. It is only done while no mounted file system may block.
    const direct = this.#mounts.mayBlock ? undefined : await this.#openAndCache(this.hostOf(path))
    if (direct) return direct
    for (let count = 0; count < maxAttempts; count++) {
      const { host, stats } = await this.#walk(this.real, segmentsOf(path))
      if (!stats.isDirectory()) throw new GatewayError('not_folder')
      const folder = await this.#openAndCache(host)
      if (folder) return folder
    }
    throw new GatewayError('busy', { reason: 'the folder keeps changing' })
  }

  /** Like `openRealPath`, for a folder of which more is likely to be used soon. */
  async #openAndCache(host: string): Promise<Folder | undefined> {
    // Before it is opened: it may be moved right after that.
    const turn = this.#policy.turnNumber
    const folder = await this.openRealPath(host)
    if (folder instanceof HandleFolder && folder.calls.immediate) this.#handleCache.add(folder, turn)
    return folder
  }

  /**
   * Runs `work` with the location of `path`. Its folder is open until `work` settles. Fails as `locate`, and with
   * `create` also with `parent_missing` if the folder is removed meanwhile.
   */
  async at<T>(path: Path, options: LocateOptions, work: (location: Location) => Awaitable<T>): Promise<T> {
    const located = this.locate(path, options)
    const location = located instanceof Promise ? await located : located
    try {
      return await work(location)
    } catch (error) {
      if (options.create === true && systemCode(error) === 'ENOENT') {
        throw new GatewayError('parent_missing', { cause: error })
      }
      throw error
    } finally {
      location.folder.close()
    }
  }

  /**
   * Opens a regular file. Anything else is rejected: opening a device can have side effects, and opening a pipe can
   * block.
   */
  openFile(path: Path, flags: number): Promise<Descriptor> {
    return this.at(path, { follow: true }, async ({ stats: located, calls, at }) => {
      assertFile(located)
      const fd = await calls.open(at, flags | O_NOFOLLOW | O_NONBLOCK)
      try {
        const stats = await calls.fstat(fd)
        assertFile(stats)
        return { fd, calls, stats }
      } catch (error) {
        await calls.close(fd)
        throw error
      }
    })
  }

  /** With `sync`, flushes the entries of a folder, without which a new name is not durable. */
  syncFolder(folder: Folder): Awaitable<void> {
    return this.sync && process.platform !== 'win32' ? this.#flushFolder(folder) : undefined
  }

  async #flushFolder(folder: Folder): Promise<void> {
    const fd = await asyncSyscalls.open(folder.selfPath, O_RDONLY)
    try {
      await syncFile(fd)
    } finally {
      await asyncSyscalls.close(fd)
    }
  }

  /**
   * Locates a name in its open folder. The caller closes the folder. Fails with `not_found` if the folder is missing
   * (with `create`: `parent_missing` or `not_folder`), and with `denied` if the path, or with `follow` the name itself,
   * is a symlink that leads outside of the root. With `create` and `follow`, a dangling symlink is also `denied`:
   * nothing is created at its target.
   */
  locate(path: Path, options: LocateOptions): Awaitable<Location> {
    if (hasReserved(path)) {
      throw options.create === true
        ? new GatewayError('denied', { reason: 'this name is reserved' })
        : new GatewayError('not_found')
    }
    const folder = this.#cachedFolder(parentOf(path))
    const found = folder ? this.#locationIn(folder, leafOf(path)) : this.#locateUncached(path, options)
    const isSettled = !(found instanceof Promise) && found.stats?.isSymbolicLink() !== true
    return isSettled || !options.follow ? found : this.#followed(path, found, options)
  }

  /** The location itself, or the target of a symlink there. */
  async #followed(path: Path, found: Awaitable<Location>, options: LocateOptions): Promise<Location> {
    const location = await found
    if (location.stats?.isSymbolicLink() !== true) return location
    location.folder.close()
    for (let count = 0; count < maxAttempts; count++) {
      const host = await this.#resolveSymlink(path, options)
      const atRoot = host === this.real
      const folder = await this.openRealPath(atRoot ? host : dirname(host))
      if (!folder) continue
      const target = await this.#locationIn(folder, atRoot ? '.' : basename(host), true)
      if (target.stats && !target.stats.isSymbolicLink()) return target
      folder.close()
    }
    throw new GatewayError('busy', { reason: 'the symlink keeps changing' })
  }

  async #resolveSymlink(path: Path, { create }: LocateOptions): Promise<string> {
    try {
      return (await this.#walk(this.real, segmentsOf(path))).host
    } catch (error) {
      if (create !== true || !hasDetail(error, 'dangling_symlink')) throw error
      throw new GatewayError('denied', { detail: error.detail })
    }
  }

  /** Resolves symlinks, see `Driver.realPath`. `last`: also the last component. */
  async realPath(path: Path, last: boolean): Promise<Path> {
    if (path === '/') return path
    const parent = parentOf(path)
    const folder = hasReserved(path) ? undefined : (this.#cachedFolder(parent) ?? (await this.#openPlain(parent)))
    if (folder) {
      try {
        if (!last || (await folder.calls.lstat(folder.pathOf(nameOf(path))))?.isSymbolicLink() !== true) return path
      } finally {
        folder.close()
      }
    }
    const led = await undefinedIfMissing(this.#lead(this.real, segmentsOf(last ? path : parent)))
    const real = led && this.pathOf(led.host)
    if (real === undefined) return path
    return last ? real : childOf(real, nameOf(path))
  }

  /**
   * Locates a name if neither its path nor the name itself is reserved or contains a symlink, otherwise resolves to
   * undefined. The caller closes the folder.
   */
  locateWithoutSymlinks(path: Path): Awaitable<Location | undefined> {
    if (path === '/' || hasReserved(path)) return undefined
    const folder = this.#cachedFolder(parentOf(path))
    const found = folder ? this.#locationIn(folder, nameOf(path)) : this.#locatePlain(path)
    return found instanceof Promise ? found.then(unlessSymlink) : unlessSymlink(found)
  }

  async #locatePlain(path: Path): Promise<Location | undefined> {
    const folder = await this.#openPlain(parentOf(path))
    return folder && this.#locationIn(folder, nameOf(path))
  }

  /** Opens a folder; undefined if it does not exist, or if its path contains a symlink. */
  async #openPlain(path: Path): Promise<Folder | undefined> {
    // Opening the path would follow a symlink in it, which may lead to a file system that may block.
    if (this.#mounts.mayBlock && (await this.#target(path)) !== path) return undefined
    return this.#openAndCache(this.hostOf(path))
  }

  /** Resolves a path; undefined if it does not exist or is a dangling symlink. */
  async #target(path: Path): Promise<Path | undefined> {
    const target = await undefinedIfMissing(this.#walk(this.real, segmentsOf(path)), 'not_folder')
    return target && this.pathOf(target.host)
  }

  /**
   * Rejects with `denied` if a symlink in this folder with the text `target` would lead outside of the root. A
   * dangling target is allowed.
   */
  async assertInside(folder: Folder, target: string): Promise<void> {
    const start = target.startsWith('/') ? '/' : folder.host
    await undefinedIfMissing(this.#walk(start, target.split('/')), 'not_folder')
  }

  /** Opens a folder by its real path; undefined if there is no folder, or if the path contains a symlink. */
  async openRealPath(host: string): Promise<Folder | undefined> {
    const calls = this.syscallsFor(host)
    if (!usesHandles) {
      const real = await undefinedOn(() => calls.realpath(host), 'ENOENT', 'ENOTDIR', 'ELOOP')
      return real === host && (await calls.lstat(host))?.isDirectory() === true
        ? new PlainFolder(host, calls)
        : undefined
    }
    const flags = O_PATH | O_DIRECTORY | O_NOFOLLOW
    const fd = await undefinedOn(() => calls.open(host, flags), 'ENOENT', 'ENOTDIR', 'ELOOP')
    if (fd === undefined) return undefined
    const folder = new HandleFolder(host, calls, fd)
    if (folder.isUnmoved()) return folder
    folder.close()
    return undefined
  }

  /** Closes the cached folder handles. */
  close(): void {
    this.#handleCache.close()
  }

  hostOf(path: Path): string {
    return path === '/' ? this.real : this.real === '/' ? path : this.real + path
  }

  /** The path of the storage; undefined outside of the root. */
  pathOf(host: string): Path | undefined {
    if (host === this.real) return '/' as Path
    if (!this.#contains(host)) return undefined
    return host.slice(this.real === '/' ? 0 : this.real.length) as Path
  }

  async #locateUncached(path: Path, { create }: LocateOptions): Promise<Location> {
    try {
      return await this.#locationIn(await this.#openFolder(parentOf(path)), leafOf(path))
    } catch (error) {
      if (create === true && isGatewayError(error, 'not_found')) {
        throw new GatewayError('parent_missing', { cause: error })
      }
      if (create !== true && isGatewayError(error, 'not_folder')) {
        throw new GatewayError('not_found', { cause: error })
      }
      throw error
    }
  }

  /** Closes the folder if it throws or rejects. */
  #locationIn(folder: Folder, name: string, viaSymlink = false): Awaitable<Location> {
    const host = name === '.' ? folder.host : joined(folder.host, name)
    const calls = this.#mounts.isForeignPoint(host) ? asyncSyscalls : folder.calls
    const at = folder.pathOf(name)
    const location = { folder, name, host, calls, at, viaSymlink, stats: undefined as BigIntStats | undefined }
    const fail = (error: unknown): never => {
      folder.close()
      throw error
    }
    try {
      const found = calls.immediate ? this.#policy.lookUp(host, at) : calls.lstat(at)
      if (found instanceof Promise) return found.then((stats) => ({ ...location, stats })).catch(fail)
      location.stats = found
      return location
    } catch (error) {
      return fail(error)
    }
  }

  #contains(host: string): boolean {
    return this.real === '/' || host === this.real || host.startsWith(`${this.real}/`)
  }

  /** Like `#lead`. Rejects with `not_found` or `not_folder` if nothing is there. */
  async #walk(start: string, names: readonly string[]): Promise<{ host: string; stats: BigIntStats }> {
    const led = await this.#lead(start, names)
    if (led.missing) throw led.missing
    const stats = led.stats ?? (await this.syscallsFor(led.host).lstat(led.host))
    if (!stats) throw new GatewayError('not_found')
    return { host: led.host, stats }
  }

  /**
   * Resolves `names` from `start`, which is a folder of the root without symlinks, or `/` for an absolute symlink.
   * Folders above the root are passed without a lookup on the way back into the root. What follows a name that does not
   * exist is resolved by its names alone; `missing` is the error for that name. Rejects with `not_found` for a loop of
   * symlinks.
   */
  async #lead(start: string, names: readonly string[]): Promise<Led> {
    let symlinks = 0
    let host = start
    let stats: BigIntStats | undefined
    let missing: GatewayError | undefined
    const remaining = names.map((name) => ({ name, fromSymlink: false })).reverse()
    for (let step = remaining.pop(); step; step = remaining.pop()) {
      const { name, fromSymlink } = step
      if (name === '' || name === '.') continue
      if (name === '..') {
        host = dirname(host)
        stats = undefined
        continue
      }
      if (stats?.isDirectory() === false) {
        missing = fromSymlink ? missingName(true) : new GatewayError('not_folder')
        stats = undefined
      }
      const next = joined(host, name)
      if (!this.#contains(next) && this.real !== next && !this.real.startsWith(`${next}/`)) throw symlinkOutside()
      if (!missing && this.#contains(next)) {
        const calls = this.syscallsFor(next)
        stats = isReserved(name) ? undefined : await undefinedOn(() => calls.lstat(next), 'ENOTDIR')
        if (!stats) missing = missingName(fromSymlink)
        if (stats?.isSymbolicLink() === true) {
          if (++symlinks > maxSymlinks) throw missingName(true)
          const target = await calls.readlink(next)
          if (target === undefined) throw missingName(true)
          if (target.startsWith('/')) host = '/'
          stats = undefined
          remaining.push(
            ...target
              .split('/')
              .map((part) => ({ name: part, fromSymlink: true }))
              .reverse(),
          )
          continue
        }
      }
      host = next
    }
    if (!this.#contains(host)) throw symlinkOutside()
    return { host, stats, missing }
  }
}

/** The place that a path leads to. */
interface Led {
  readonly host: string
  /** Undefined if it was not asked. */
  readonly stats: BigIntStats | undefined
  readonly missing: GatewayError | undefined
}

/** Closes the folder of a symlink. */
function unlessSymlink(location: Location | undefined): Location | undefined {
  if (location?.stats?.isSymbolicLink() !== true) return location
  location.folder.close()
  return undefined
}

/** The name of the last component. */
function leafOf(path: Path): string {
  return path === '/' ? '.' : nameOf(path)
}

async function undefinedOn<T>(call: () => T | Promise<T>, ...codes: readonly string[]): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (codes.includes(systemCode(error) ?? '')) return undefined
    throw error
  }
}

export function requireExisting({ stats, name }: Location): BigIntStats {
  if (!stats || isReserved(name)) throw new GatewayError('not_found')
  return stats
}

export function assertFile(stats: BigIntStats | undefined): asserts stats is BigIntStats {
  if (!stats) throw new GatewayError('not_found')
  if (stats.isDirectory()) throw new GatewayError('is_folder')
  if (!stats.isFile()) throw new GatewayError('denied', { reason: 'not a regular file' })
}

export function assertReplaceable({ stats }: Location, createOnly: boolean): void {
  if (stats?.isDirectory() === true) throw new GatewayError('is_folder')
  if (stats && createOnly) throw new GatewayError('exists')
}
