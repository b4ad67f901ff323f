/** The Local driver: implements `Driver` on a folder of this machine. */
import { constants, type BigIntStats } from 'node:fs'
import { readdir, realpath, stat, statfs } from 'node:fs/promises'
import { resolve } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type {
  Attributes,
  FileBundle,
  LookupResult,
  OpenFile,
  OpenMode,
  OpenOptions,
  Thumbnail,
  ThumbnailKind,
  ThumbnailOptions,
  Upload,
  UploadPlan,
  Usage,
} from '../../src/contract/capabilities.js'
import type {
  ByteRange,
  CallOptions,
  ListOptions,
  Source,
  StatOptions,
  WriteOptions,
  Awaitable,
} from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry, FileIdentity } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, isGatewayError, undefinedIfMissing, type ErrorCode } from '../../src/base/errors.js'
import { makeFolders } from '../../src/base/make-folders.js'
import { settableMode } from '../../src/contract/modes.js'
import { foldCase, nameOf, type Path } from '../../src/base/path.js'
import { holdsGatewayFolders } from '../lib/gateway-folders.js'
import { copyBundle } from './bundle.js'
import { sizeOfTree } from './folder-size.js'
import { entryFrom, entryOf, globalRevisionOf, revisionOf, systemTime, statusOf, type FileStatus } from './entry.js'
import { translateError } from './errors.js'
import { checkFolderMarker } from './folder-marker.js'
import type { Folder } from './folder.js'
import { ReadHandle, UpdateHandle, FileStream, bufferStream } from './handles.js'
import type { LocalOptions } from './index.js'
import { listFolder } from './listing.js'
import { maxSyncBytes } from './receive-body.js'
import { RecycleBin, removeTree } from './removal.js'
import { assertFile, O_PATH, requireExisting, RootFolder, symlinkOutside, type Location } from './root-folder.js'
import { LocalStaging } from './staging.js'
import { asyncSyscalls, syncFile } from './syscalls.js'
import type { OpenedFile } from './thumbnails/images.js'
import { openThumbnails, type Thumbnails } from './thumbnails/thumbnails.js'
import { Writing } from './writing.js'

const { O_RDONLY, O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants

/**
 * Opens the driver. Rejects with `invalid` if an option is invalid, the root folder does not exist, or the root folder
 * overlaps the data of the gateway.
 */
export async function openLocal(options: LocalOptions, env: DriverEnv): Promise<Driver> {
  const configured = resolve(env.own.data, options.root_folder_path)
  const real = await realFolder(configured).catch((error: unknown) => {
    const { code, reason } = translateError(error)
    const fault = rootFaults[code] ?? `cannot be used: ${reason}`
    throw new GatewayError('invalid', { reason: `root folder ${configured} ${fault}`, cause: error })
  })
  if (holdsGatewayFolders(real, env.own)) {
    throw new GatewayError('invalid', {
      reason: `root folder ${real} holds the gateway's own data: name a folder beside the data folder, or one in it`,
    })
  }
  if (!/^[0-7]{3,4}$/.test(options.mkdir_perm)) {
    throw new GatewayError('invalid', { reason: 'mkdir_perm must be three or four octal digits' })
  }
  await checkFolderMarker(real, options.root_folder_path, env)
  const folderMode = parseInt(options.mkdir_perm, 8)
  const root = new RootFolder(real, options.sync)
  const thumbnails = await openThumbnails(options, real, env)
  const staging = new LocalStaging(root, env.instance, env.log, () => env.assertCurrent())
  await staging.sweep(await env.resumableUploads())
  let bin: RecycleBin | undefined
  if (!['', 'delete permanently'].includes(options.recycle_bin_path)) {
    const host = resolve(env.own.data, options.recycle_bin_path)
    await makeFolders(host, folderMode).catch((error: unknown) => {
      throw new GatewayError('invalid', { reason: `cannot create recycle_bin_path ${host}`, cause: error })
    })
    bin = new RecycleBin(root, await realpath(host))
  }
  return new Local({ root, staging, bin, thumbnails, folderMode, options, env })
}

/** Clients compare the first text. */
const rootFaults: Readonly<Partial<Record<ErrorCode, string>>> = {
  not_found: 'not exists',
  not_folder: 'is not a folder',
}

/** The real path of a folder. Rejects with the error of the system, or with `not_folder`. */
async function realFolder(path: string): Promise<string> {
  const real = await realpath(path)
  if (!(await stat(real)).isDirectory()) throw new GatewayError('not_folder')
  return real
}

interface LocalDependencies {
  readonly root: RootFolder
  readonly staging: LocalStaging
  readonly bin: RecycleBin | undefined
  readonly thumbnails: Thumbnails | undefined
  readonly folderMode: number
  readonly options: LocalOptions
  readonly env: DriverEnv
}

class Local implements Driver {
  readonly #root: RootFolder
  readonly #writing: Writing

  readonly traits: Partial<Traits>
  readonly copyFiles?: NonNullable<Driver['copyFiles']>

  constructor(private readonly dependencies: LocalDependencies) {
    this.#root = dependencies.root
    this.#writing = new Writing(this.#root, dependencies.staging)
    this.traits = { thumbnails: dependencies.thumbnails?.kinds ?? [], durable: dependencies.options.sync }
    // With `sync`, the disk is the bottleneck, and concurrent single copies are faster than bundles.
    if (!dependencies.options.sync) this.copyFiles = (bundle, options) => this.#copyFiles(bundle, options)
  }

  async removeOrphans(): Promise<void> {
    const { staging, env } = this.dependencies
    await staging.sweep(await env.resumableUploads())
  }

  // Reading

  stat(path: Path, options: StatOptions = {}): Promise<Entry> {
    return this.#run(options.signal, () =>
      this.#root.at(path, { follow: false }, async (location) => {
        const stats = requireExisting(location)
        const name = await storedName(location, nameOf(path))
        return options.ofSymlink === true
          ? entryOf(name, stats)
          : this.#entry(path, name, statusOf(stats), options.signal)
      }),
    )
  }

  /** The entry of a listing: a symlink is shown as its target, or as a symlink if it cannot be followed. */
  #entry(path: Path, name: string, status: FileStatus, signal?: AbortSignal): Awaitable<Entry> {
    const entry = entryFrom(name, status)
    const isComplete = entry.kind === 'file' || (entry.kind === 'folder' && !this.dependencies.options.directory_size)
    return isComplete ? entry : this.#completed(path, name, entry, signal)
  }

  async #completed(path: Path, name: string, own: Entry, signal?: AbortSignal): Promise<Entry> {
    const { options, env } = this.dependencies
    let entry = own
    if (entry.kind === 'symlink') {
      try {
        entry = await this.#root.at(path, { follow: true }, async (target) =>
          entryOf(name, requireExisting(target), true),
        )
      } catch (error) {
        if (!isGatewayError(error, 'denied', 'not_found', 'not_folder')) throw error
      }
    }
    if (!options.directory_size || entry.kind !== 'folder' || entry.isSymlink === true) return entry
    return { ...entry, size: await sizeOfTree(this.#root, path, [env.signal, signal]) }
  }

  async *pages(path: Path, { signal, known }: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    throwIfAborted(signal)
    const { options } = this.dependencies
    try {
      yield* listFolder(this.#root, path, {
        showHidden: options.show_hidden,
        signal,
        known,
        resolvesFolders: options.directory_size,
        resolveEntry: async (child, name, status) => this.#entry(child, name, status, signal),
      })
    } catch (error) {
      throw translateError(error)
    }
  }

  read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    return this.#run(signal, async () => {
      const { fd, calls, stats } = await this.#root.openFile(path, O_RDONLY)
      const close = () => calls.close(fd)
      const size = Number(stats.size)
      const offset = Math.min(range?.offset ?? 0, size)
      const length = Math.min(range?.length ?? size, size - offset)
      if (!calls.immediate || length > maxSyncBytes) {
        const stream = new FileStream(fd, close, offset, length)
        return signal ? addAbortSignal(signal, stream) : stream
      }
      const bytes = Buffer.allocUnsafe(length)
      let filled = 0
      try {
        for (let last = -1; filled < length && last !== 0; filled += last) {
          last = await calls.read(fd, bytes, filled, length - filled, offset + filled)
        }
      } finally {
        await close()
      }
      return bufferStream(bytes.subarray(0, filled))
    })
  }

  open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    return this.#run(options.signal, async () => {
      if (mode === 'replace') return this.#writing.open(path, options)
      const { fd, calls, stats } = await this.#root.openFile(path, mode === 'read' ? O_RDONLY : O_RDWR)
      const Handle = mode === 'read' ? ReadHandle : UpdateHandle
      const syncs = mode === 'update' && this.dependencies.options.sync
      return new Handle(entryOf(nameOf(path), stats), fd, calls, async () => {
        try {
          if (syncs) await syncFile(fd)
        } finally {
          await calls.close(fd)
        }
      })
    })
  }

  thumbnail(path: Path, kind: ThumbnailKind, options: ThumbnailOptions = {}): Promise<Thumbnail> {
    return this.#run(options.signal, async () => {
      const { thumbnails } = this.dependencies
      if (!thumbnails) throw new GatewayError('unsupported', { reason: 'thumbnails are disabled for this storage' })
      const source = await this.#root.at(path, { follow: true }, async ({ stats }) => {
        assertFile(stats)
        return { revision: globalRevisionOf(stats), open: () => this.#openThumbnailSource(path) }
      })
      return thumbnails.of(source, kind, options)
    })
  }

  /** Opens a file that a decoder reads from start to end. The caller closes it. */
  async #openThumbnailSource(path: Path): Promise<OpenedFile> {
    const { fd, calls, stats } = await this.#root.openFile(path, O_RDONLY)
    const handle = new ReadHandle(entryOf(nameOf(path), stats), fd, asyncSyscalls, () => calls.close(fd))
    return {
      fd,
      size: Number(stats.size),
      read: (into, position) => handle.read(into, position),
      revision: async () => globalRevisionOf(await calls.fstat(fd)),
      close: () => handle.close(),
    }
  }

  folderRevision(path: Path, { signal }: CallOptions = {}): Promise<string> {
    return this.#run(signal, async () => {
      const folder = await this.#root.folder(path)
      try {
        const stats = await folder.status()
        if (!stats) throw new GatewayError('not_found')
        return revisionOf(stats)
      } finally {
        folder.close()
      }
    })
  }

  usage({ signal }: CallOptions = {}): Promise<Usage> {
    return this.#run(signal, async () => {
      const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(this.#root.real)
      const usage = { total: blocks * bsize, used: (blocks - bfree) * bsize, free: bavail * bsize }
      return files > 0 ? { ...usage, files: { total: files, free: ffree } } : usage
    })
  }

  // Writing

  write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    return this.#run(options.signal, () => this.#writing.write(path, source, options))
  }

  upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    return this.#run(options.signal, () => this.#writing.upload(path, plan, options))
  }

  dropUpload(token: string, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () => this.dependencies.staging.drop(token))
  }

  copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    return this.#run(options.signal, () => this.#writing.copy(from, to, options))
  }

  #copyFiles(bundle: FileBundle, options: CallOptions = {}): Promise<readonly (Entry | undefined)[]> {
    return this.#run(options.signal, async () => {
      const { source } = bundle
      if (!(source instanceof Local)) throw new GatewayError('unsupported')
      const roots = { source: source.#root, target: this.#root, staging: this.dependencies.staging }
      return copyBundle(roots, bundle, options)
    })
  }

  mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: false, create: true }, async ({ stats, calls, at, folder }) => {
        if (stats) throw new GatewayError('exists')
        await calls.mkdir(at, this.dependencies.folderMode)
        await this.#root.syncFolder(folder)
      }),
    )
  }

  remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: false }, async (location) => {
        const stats = requireExisting(location)
        this.dependencies.env.assertCurrent()
        if (stats.isDirectory()) await location.calls.rmdir(location.at)
        else if (!(await this.#recycle(location, path))) await location.calls.unlink(location.at)
        await this.#root.syncFolder(location.folder)
      }),
    )
  }

  removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: false }, async (location) => {
        const stats = requireExisting(location)
        this.dependencies.env.assertCurrent()
        if (!(await this.#recycle(location, path))) {
          if (stats.isDirectory()) {
            await removeTree(this.#root, location.host, signal)
            await location.calls.rmdir(location.at)
          } else {
            await location.calls.unlink(location.at)
          }
        }
        await this.#root.syncFolder(location.folder)
      }),
    )
  }

  async #recycle(location: Location, path: Path): Promise<boolean> {
    const { bin } = this.dependencies
    if (!bin || bin.contains(location.host)) return false
    await bin.recycle(location, path)
    return true
  }

  move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, async () => {
      await this.#root.at(from, { follow: false }, async (source) => {
        const sourceStats = requireExisting(source)
        await this.#root.at(to, { follow: false, create: true }, async (target) => {
          if (source.host === target.host) return
          await this.#assertMovable(sourceStats, to, target)
          await this.#rename(source, sourceStats, target)
          await this.#root.syncFolder(target.folder)
          await this.#root.syncFolder(source.folder)
        })
      })
    })
  }

  async #assertMovable(sourceStats: BigIntStats, to: Path, target: Location): Promise<void> {
    if (target.stats && !isSame(sourceStats, target.stats)) {
      const { kind } = await this.#entry(to, target.name, statusOf(target.stats))
      if (kind === 'folder') throw new GatewayError('is_folder')
      if (sourceStats.isDirectory()) throw new GatewayError('exists')
    }
    if ((await target.folder.device()) !== sourceStats.dev)
      throw new GatewayError('unsupported', { reason: 'another file system' })
  }

  async #rename(source: Location, sourceStats: BigIntStats, target: Location): Promise<void> {
    // If both names are hard links to one file, rename(2) does nothing, so the source is unlinked. A rename that
    // changes only the case refers to a single name.
    const areHardLinks =
      target.stats && isSame(sourceStats, target.stats) && sourceStats.nlink > 1n && !sourceStats.isDirectory()
    this.dependencies.env.assertCurrent()
    if (areHardLinks && !isCaseRename(source, target)) await source.calls.unlink(source.at)
    else await source.calls.rename(source.at, target.at)
  }

  setAttributes(path: Path, to: Attributes, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: true }, async (location) => {
        const stats = requireExisting(location)
        const { calls } = location
        if (to.mode === undefined) {
          // Does not follow a symlink that has taken the name meanwhile. chmod(2) would.
          if (to.modified) await setTime(location, stats, to.modified)
          return
        }
        const isLinux = process.platform === 'linux'
        // The descriptor refers to the file itself, even if it is renamed. On Linux it needs no read permission.
        const fd = await calls.open(location.at, isLinux ? O_PATH | O_NOFOLLOW : O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        try {
          const at = isLinux ? `/proc/self/fd/${fd}` : location.at
          const before = await calls.fstat(fd)
          // First the time, which the file system may be unable to store.
          if (to.modified !== undefined) {
            const set = (modified: Date | bigint) => calls.utimes(at, systemTime(before.atimeNs), systemTime(modified))
            await setStorableTime(set, to.modified, before, () => calls.fstat(fd))
          }
          await calls.chmod(at, settableMode(entryOf('', before), to.mode))
        } finally {
          await calls.close(fd)
        }
      }),
    )
  }

  // Symlinks and hard links

  setSymlinkTime(path: Path, modified: Date, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: false }, async (location) => {
        const stats = requireExisting(location)
        if (!stats.isSymbolicLink()) throw new GatewayError('invalid', { reason: 'not a symlink' })
        await setTime(location, stats, modified)
      }),
    )
  }

  readSymlink(path: Path, { signal }: CallOptions = {}): Promise<string> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: false }, async (location) => {
        if (!requireExisting(location).isSymbolicLink()) throw new GatewayError('invalid', { reason: 'not a symlink' })
        const target = await location.calls.readlink(location.at)
        if (target === undefined)
          throw new GatewayError('invalid', { reason: 'the target of the symlink is not UTF-8' })
        await this.#root.assertInside(location.folder, target)
        if (!target.startsWith('/')) return target
        const inside = this.#root.pathOf(target)
        if (inside === undefined) throw symlinkOutside()
        return inside
      }),
    )
  }

  realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    return this.#run(options.signal, () => this.#root.realPath(path, options.last === true))
  }

  look(path: Path, { signal }: CallOptions = {}): Promise<LookupResult> {
    return this.#run(signal, async () => {
      const located = this.#root.locateWithoutSymlinks(path)
      const location = located instanceof Promise ? await located : located
      if (!location) {
        const real = await this.#root.realPath(path, true)
        return { path: real, entry: await undefinedIfMissing(this.stat(real, { signal })) }
      }
      try {
        if (!location.stats) return { path, entry: undefined }
        const stored = storedName(location, nameOf(path))
        const name = stored instanceof Promise ? await stored : stored
        const entry = this.#entry(path, name, statusOf(location.stats), signal)
        return { path, entry: entry instanceof Promise ? await entry : entry }
      } finally {
        location.folder.close()
      }
    })
  }

  identities(path: Path, { signal }: CallOptions = {}): Promise<readonly FileIdentity[]> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: true }, async (location) => {
        const { dev, ino } = requireExisting(location)
        return [{ namespace: `device ${dev}`, name: String(ino) }]
      }),
    )
  }

  symlink(path: Path, target: string, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#root.at(path, { follow: false, create: true }, async ({ stats, folder, calls, at }) => {
        if (stats) throw new GatewayError('exists')
        if (target === '' || target.includes('\0'))
          throw new GatewayError('invalid', { reason: 'not a symlink target' })
        // An absolute target is a path of this storage, so that callers cannot name paths of the host.
        const text = target.startsWith('/') ? this.#root.hostOf(target as Path) : target
        await this.#root.assertInside(folder, text)
        await calls.symlink(text, at)
        await this.#root.syncFolder(folder)
      }),
    )
  }

  hardLink(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#root.at(from, { follow: true }, async (source) => {
        assertFile(source.stats)
        await this.#root.at(to, { follow: false, create: true }, async (target) => {
          if (target.stats) throw new GatewayError('exists')
          await source.calls.link(source.at, target.at)
          await this.#root.syncFolder(target.folder)
        })
      }),
    )
  }

  close(): Promise<void> {
    return this.#run(undefined, async () => {
      const { staging, thumbnails } = this.dependencies
      await Promise.all([staging.close(), thumbnails?.close()])
      this.#root.close()
    })
  }

  async #run<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    throwIfAborted(signal)
    try {
      return await work()
    } catch (error) {
      throw translateError(error)
    }
  }
}

/** Like `setStorableTime`, of the entry at this location. A symlink is not followed. */
function setTime({ calls, at }: Location, before: BigIntStats, modified: Date): Promise<void> {
  const set = (time: Date | bigint) => calls.lutimes(at, systemTime(before.atimeNs), systemTime(time))
  return setStorableTime(set, modified, before, () => calls.lstat(at))
}

/**
 * Sets a modification time by `set`. File systems store the nearest time of their range: if `read` then finds another
 * time, that of `before` is restored, and the promise rejects with `unsupported`.
 */
async function setStorableTime(
  set: (time: Date | bigint) => Awaitable<void>,
  modified: Date,
  before: BigIntStats,
  read: () => Awaitable<BigIntStats | undefined>,
): Promise<void> {
  await set(modified)
  const stored = await read()
  if (!stored || Math.abs(Number(stored.mtimeNs / 1_000_000n) - modified.getTime()) < coarsestStep) return
  await set(before.mtimeNs)
  throw new GatewayError('unsupported', { reason: 'the file system cannot store this time' })
}

/** The coarsest resolution of the times of a file system, in milliseconds: that of FAT. */
const coarsestStep = 2000

/**
 * The name as the file system spells it. Linux file systems are treated as case-sensitive: the requested name is
 * returned.
 */
function storedName({ name, folder }: Location, requested: string): Awaitable<string> {
  return process.platform === 'linux' || name === '.' ? requested : spelledName(folder, requested)
}

async function spelledName(folder: Folder, requested: string): Promise<string> {
  const names = await readdir(folder.selfPath)
  return names.includes(requested)
    ? requested
    : (names.find((each) => foldCase(each) === foldCase(requested)) ?? requested)
}

function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino
}

function isCaseRename(one: Location, other: Location): boolean {
  return one.folder.host === other.folder.host && foldCase(one.name) === foldCase(other.name)
}
