/** The driver of local folders: what each method of the contract means on a disk. */
import { constants, type BigIntStats } from 'node:fs'
import { mkdir, readdir, realpath, stat, statfs } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { assertGoing } from '../../src/aborting.js'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  FileBundle,
  Identity,
  ListOptions,
  Look,
  OpenFile,
  OpenMode,
  OpenOptions,
  OwnFolders,
  Source,
  Thumbnail,
  ThumbnailKind,
  Traits,
  Upload,
  UploadPlan,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { folded, isWithin, nameOf, type Path } from '../../src/path.js'
import { copyBundle } from './bundle.js'
import { patientCalls } from './calls.js'
import { sizeOfTree } from './directory-size.js'
import { entryFrom, entryOf, revisionOf, systemTime, statusOf, type Status } from './entry.js'
import { translated } from './errors.js'
import { FileStream, streamOf } from './file-stream.js'
import { ReadHandle, UpdateHandle } from './handles.js'
import type { LocalOptions } from './index.js'
import { listFolder } from './listing.js'
import { assertFile, assertNotRoot, existing, Places, syncFile } from './places.js'
import { immediateBytes } from './receive.js'
import { RecycleBin, removeTree } from './removal.js'
import { isReserved, placeOnly, RefusedLink, RootFolder, type Place } from './root-folder.js'
import { Staging } from './staging.js'
import type { OpenedFile } from './thumbnails/images.js'
import { openThumbnails, type Thumbnails } from './thumbnails/thumbnails.js'
import { Writing } from './writing.js'

const { O_RDONLY, O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants

/** Rejects with `invalid` where an option cannot be used. */
export async function openLocal(options: LocalOptions, env: DriverEnv): Promise<Driver> {
  const wanted = resolve(env.own.data, options.root_folder_path)
  const real = await realpath(wanted).catch((error: unknown) => {
    throw new GatewayError('invalid', { reason: `root folder ${wanted} not exists`, cause: error })
  })
  if (!(await stat(real)).isDirectory())
    throw new GatewayError('invalid', { reason: `root folder ${wanted} is a file` })
  assertNotOurs(real, env.own)
  if (!/^[0-7]{3,4}$/.test(options.mkdir_perm)) {
    throw new GatewayError('invalid', { reason: 'mkdir_perm must be three or four octal digits' })
  }
  const folderMode = parseInt(options.mkdir_perm, 8)
  const root = new RootFolder(real)
  const thumbnails = await openThumbnails(options, real, env)
  const staging = new Staging(root, env.instance, env.log)
  await staging.sweep(await env.uploads())
  let bin: RecycleBin | undefined
  if (!['', 'delete permanently'].includes(options.recycle_bin_path)) {
    const host = resolve(env.own.data, options.recycle_bin_path)
    await mkdir(host, { recursive: true, mode: folderMode })
    bin = new RecycleBin(root, await realpath(host))
  }
  return new Local({ root, staging, bin, thumbnails, folderMode, options, env })
}

/** The gateway's own keys and database are nobody's files. */
function assertNotOurs(real: string, { closed }: OwnFolders): void {
  const holds = (folder: string, other: string) => other === folder || other.startsWith(join(folder, '/'))
  if (closed.some((folder) => holds(folder, real) || holds(real, folder))) {
    throw new GatewayError('invalid', {
      reason: `root folder ${real} holds the gateway's own data: name a folder beside the data folder, or one in it`,
    })
  }
}

interface LocalParts {
  readonly root: RootFolder
  readonly staging: Staging
  readonly bin: RecycleBin | undefined
  readonly thumbnails: Thumbnails | undefined
  readonly folderMode: number
  readonly options: LocalOptions
  readonly env: DriverEnv
}

class Local implements Driver {
  readonly #places: Places
  readonly #writing: Writing

  readonly traits: Partial<Traits>
  readonly copyFiles?: NonNullable<Driver['copyFiles']>

  constructor(private readonly parts: LocalParts) {
    this.#places = new Places(parts.root, parts.options.sync)
    this.#writing = new Writing(this.#places, parts.staging)
    this.traits = { thumbnails: parts.thumbnails?.kinds ?? [], durable: parts.options.sync }
    // What is to be on the medium first takes its time one by one: several at once share it better.
    if (!parts.options.sync) this.copyFiles = (bundle, options) => this.#copyFiles(bundle, options)
  }

  // Reading

  stat(path: Path, options: CallOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.#run(options.signal, () =>
      this.#places.at(path, { follow: false }, async (place) => {
        const stats = existing(place)
        const name = await ownName(place, nameOf(path))
        return options.link === true ? entryOf(name, stats) : this.#entry(path, name, statusOf(stats), options.signal)
      }),
    )
  }

  /** What a listing shows: a link as its target, or as a link where it is refused. */
  async #entry(path: Path, name: string, status: Status, signal?: AbortSignal): Promise<Entry> {
    const { root, options, env } = this.parts
    let entry = entryFrom(name, status)
    if (entry.kind === 'link') {
      try {
        entry = await this.#places.at(path, { follow: true }, async (target) => entryOf(name, existing(target), true))
      } catch (error) {
        if (!isGatewayError(error, 'denied', 'not_found', 'not_dir')) throw error
      }
    }
    if (!options.directory_size || entry.kind !== 'folder' || entry.isLink === true) return entry
    return { ...entry, size: await sizeOfTree(root, path, [env.signal, signal]) }
  }

  async *list(path: Path, { signal, known }: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    assertGoing(signal)
    const { root, options } = this.parts
    try {
      yield* listFolder(root, path, {
        showHidden: options.show_hidden,
        signal,
        known,
        foldersToo: options.directory_size,
        entry: (child, name, status) => this.#entry(child, name, status, signal),
      })
    } catch (error) {
      throw translated(error)
    }
  }

  read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    return this.#run(signal, async () => {
      const { fd, calls, stats } = await this.#places.openFile(path, O_RDONLY)
      const close = () => calls.close(fd)
      try {
        const size = Number(stats.size)
        const offset = Math.min(range?.offset ?? 0, size)
        const length = Math.min(range?.length ?? size, size - offset)
        if (!calls.immediate || length > immediateBytes) {
          const stream = new FileStream(fd, close, offset, length)
          return signal ? addAbortSignal(signal, stream) : stream
        }
        const bytes = Buffer.allocUnsafe(length)
        let filled = 0
        for (let last = -1; filled < length && last !== 0; filled += last) {
          last = await calls.read(fd, bytes, filled, length - filled, offset + filled)
        }
        await close()
        return streamOf(bytes.subarray(0, filled))
      } catch (error) {
        await close()
        throw error
      }
    })
  }

  open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    return this.#run(options.signal, async () => {
      if (mode === 'replace') return this.#writing.open(path, options)
      const { fd, calls, stats } = await this.#places.openFile(path, mode === 'read' ? O_RDONLY : O_RDWR)
      const Handle = mode === 'read' ? ReadHandle : UpdateHandle
      const syncs = mode === 'update' && this.parts.options.sync
      return new Handle(entryOf(nameOf(path), stats), fd, calls, async () => {
        try {
          if (syncs) await syncFile(fd)
        } finally {
          await calls.close(fd)
        }
      })
    })
  }

  thumbnail(path: Path, kind: ThumbnailKind, { signal }: CallOptions = {}): Promise<Thumbnail> {
    return this.#run(signal, async () => {
      const { thumbnails } = this.parts
      if (!thumbnails) throw new GatewayError('unsupported', { reason: 'this storage makes no thumbnails' })
      const asked = await this.#places.at(path, { follow: true }, async ({ stats, host }) => {
        assertFile(stats)
        return { path: host, revision: revisionOf(stats), open: () => this.#openWhole(path) }
      })
      return thumbnails.of(asked, kind, signal)
    })
  }

  /** For somebody who reads all of it. */
  async #openWhole(path: Path): Promise<OpenedFile> {
    const { fd, calls, stats } = await this.#places.openFile(path, O_RDONLY)
    const handle = new ReadHandle(entryOf(nameOf(path), stats), fd, patientCalls, () => calls.close(fd))
    return {
      fd,
      size: Number(stats.size),
      read: (into, position) => handle.read(into, position),
      close: () => handle.close(),
    }
  }

  revision(path: Path, { signal }: CallOptions = {}): Promise<string> {
    return this.#run(signal, async () => {
      const folder = await this.parts.root.folder(path)
      try {
        const stats = await folder.calls.lstat(folder.at('.'))
        if (!stats) throw new GatewayError('not_found')
        return revisionOf(stats)
      } finally {
        folder.close()
      }
    })
  }

  usage({ signal }: CallOptions = {}): Promise<Usage> {
    return this.#run(signal, async () => {
      const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(this.parts.root.real)
      const usage = { total: blocks * bsize, used: (blocks - bfree) * bsize, free: bavail * bsize }
      return files > 0 ? { ...usage, files: { total: files, free: ffree } } : usage
    })
  }

  // Writing

  write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    return this.#run(options.signal, () => this.#writing.put(path, source, options))
  }

  upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    return this.#run(options.signal, () => this.#writing.upload(path, plan, options))
  }

  dropUpload(token: string, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () => this.parts.staging.drop(token))
  }

  copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    return this.#run(options.signal, () => this.#writing.copy(from, to, options))
  }

  #copyFiles(bundle: FileBundle, options: CallOptions = {}): Promise<readonly (Entry | undefined)[]> {
    return this.#run(options.signal, async () => {
      const { source } = bundle
      if (!(source instanceof Local)) throw new GatewayError('unsupported')
      const { root, staging } = this.parts
      return copyBundle({ source: source.parts.root, target: root, staging }, bundle, options)
    })
  }

  mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: false, create: true }, async ({ stats, calls, at, folder }) => {
        if (stats) throw new GatewayError('exists')
        await calls.mkdir(at, this.parts.folderMode)
        await this.#places.syncFolder(folder)
      }),
    )
  }

  remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: false }, async (place) => {
        const stats = existing(place)
        assertNotRoot(place)
        if (stats.isDirectory()) await place.calls.rmdir(place.at)
        else if (!(await this.#recycled(place, path))) await place.calls.unlink(place.at)
        await this.#places.syncFolder(place.folder)
      }),
    )
  }

  removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: false }, async (place) => {
        const stats = existing(place)
        assertNotRoot(place)
        if (!(await this.#recycled(place, path))) {
          if (stats.isDirectory()) {
            await removeTree(this.parts.root, place.host, signal)
            await place.calls.rmdir(place.at)
          } else {
            await place.calls.unlink(place.at)
          }
        }
        await this.#places.syncFolder(place.folder)
      }),
    )
  }

  async #recycled(place: Place, path: Path): Promise<boolean> {
    const { bin } = this.parts
    if (!bin || bin.holds(place.host)) return false
    await bin.take(place, path)
    return true
  }

  move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, async () => {
      if (from !== to && isWithin(from, to)) {
        throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
      }
      await this.#places.at(from, { follow: false }, async (source) => {
        const moving = existing(source)
        assertNotRoot(source)
        await this.#places.at(to, { follow: false, create: true }, async (target) => {
          if (source.host === target.host) return
          await this.#assertMovable(moving, to, target)
          await this.#rename(source, moving, target)
          await this.#places.syncFolder(target.folder)
          await this.#places.syncFolder(source.folder)
        })
      })
    })
  }

  async #assertMovable(moving: BigIntStats, to: Path, target: Place): Promise<void> {
    assertNotRoot(target)
    if (target.stats && !isSame(moving, target.stats)) {
      const { kind } = await this.#entry(to, target.name, statusOf(target.stats))
      if (kind === 'folder') throw new GatewayError('is_dir')
      if (moving.isDirectory()) throw new GatewayError('exists')
    }
    const folder = await target.folder.calls.lstat(target.folder.at('.'))
    if (folder?.dev !== moving.dev) throw new GatewayError('unsupported', { reason: 'another file system' })
  }

  async #rename(source: Place, moving: BigIntStats, target: Place): Promise<void> {
    // rename(2) leaves both of two names of one file, unless they are one name in two spellings.
    const twins = target.stats && isSame(moving, target.stats) && moving.nlink > 1n && !moving.isDirectory()
    if (twins && !isRespelled(source, target)) await source.calls.unlink(source.at)
    else await source.calls.rename(source.at, target.at)
  }

  setAttributes(path: Path, to: Attributes, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: true }, async (place) => {
        existing(place)
        const { calls } = place
        const linux = process.platform === 'linux'
        // The handle is on the file itself, whatever becomes of its name, and needs no right to read it.
        const fd = await calls.open(place.at, linux ? placeOnly | O_NOFOLLOW : O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        try {
          const at = linux ? `/proc/self/fd/${fd}` : place.at
          if (to.mode !== undefined) await calls.chmod(at, to.mode & 0o7777)
          if (to.modified !== undefined) {
            const { atimeNs } = await calls.fstat(fd)
            await calls.utimes(at, systemTime(atimeNs), systemTime(to.modified))
          }
        } finally {
          await calls.close(fd)
        }
      }),
    )
  }

  // Links

  setLinkTime(path: Path, modified: Date, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: false }, async (place) => {
        const stats = existing(place)
        if (!stats.isSymbolicLink()) throw new GatewayError('invalid', { reason: 'not a link' })
        await place.calls.lutimes(place.at, systemTime(stats.atimeNs), systemTime(modified))
      }),
    )
  }

  readLink(path: Path, { signal }: CallOptions = {}): Promise<string> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: false }, async (place) => {
        if (!existing(place).isSymbolicLink()) throw new GatewayError('invalid', { reason: 'not a link' })
        const target = await place.calls.readlink(place.at)
        await this.parts.root.assertInside(place.folder, target)
        if (!target.startsWith('/')) return target
        const inside = this.parts.root.pathOf(target)
        if (inside === undefined) throw new RefusedLink(true)
        return inside
      }),
    )
  }

  realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    return this.#run(options.signal, () => this.parts.root.realPath(path, options.last === true))
  }

  look(path: Path, { signal }: CallOptions = {}): Promise<Look> {
    return this.#run(signal, async () => {
      const { root } = this.parts
      const place = await root.plainPlace(path)
      if (!place) {
        const real = await root.realPath(path, true)
        return { path: real, entry: await this.#entryIfThere(real, signal) }
      }
      try {
        if (!place.stats || isReserved(place.name)) return { path, entry: undefined }
        const name = await ownName(place, nameOf(path))
        return { path, entry: await this.#entry(path, name, statusOf(place.stats), signal) }
      } finally {
        place.folder.close()
      }
    })
  }

  async #entryIfThere(path: Path, signal?: AbortSignal): Promise<Entry | undefined> {
    try {
      return await this.stat(path, { signal })
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    }
  }

  identities(path: Path, { signal }: CallOptions = {}): Promise<readonly Identity[]> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: true }, async (place) => {
        const { dev, ino } = existing(place)
        return [{ realm: `device ${dev}`, name: String(ino) }]
      }),
    )
  }

  symlink(path: Path, target: string, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#places.at(path, { follow: false, create: true }, async ({ stats, folder, calls, at }) => {
        if (stats) throw new GatewayError('exists')
        if (target === '' || target.includes('\0')) throw new GatewayError('invalid', { reason: 'not a link target' })
        const { root } = this.parts
        // An absolute target is one of this storage: the host's own paths are none of the caller's business.
        const text = target.startsWith('/') ? root.hostOf(target as Path) : target
        await root.assertInside(folder, text)
        await calls.symlink(text, at)
        await this.#places.syncFolder(folder)
      }),
    )
  }

  hardLink(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    return this.#run(signal, () =>
      this.#places.at(from, { follow: true }, async (source) => {
        assertFile(source.stats)
        await this.#places.at(to, { follow: false, create: true }, async (target) => {
          if (target.stats) throw new GatewayError('exists')
          await source.calls.link(source.at, target.at)
          await this.#places.syncFolder(target.folder)
        })
      }),
    )
  }

  close(): Promise<void> {
    return this.#run(undefined, async () => {
      const { root, staging, thumbnails } = this.parts
      await Promise.all([staging.close(), thumbnails?.close()])
      root.close()
    })
  }

  async #run<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    assertGoing(signal)
    try {
      return await work()
    } catch (error) {
      throw translated(error)
    }
  }
}

/** The name as the disk spells it. Those of Linux tell spellings apart. */
async function ownName({ name, folder }: Place, asked: string): Promise<string> {
  if (process.platform === 'linux' || name === '.') return asked
  const names = await readdir(folder.self)
  return names.includes(asked) ? asked : (names.find((each) => folded(each) === folded(asked)) ?? asked)
}

function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino
}

function isRespelled(one: Place, other: Place): boolean {
  return one.folder.host === other.folder.host && folded(one.name) === folded(other.name)
}
