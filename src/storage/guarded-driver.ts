/**
 * The driver of a storage, behind what surrounds each of its calls. From the outside to the inside: the rules that
 * follow from paths alone, own changes where listings lag, empty folders where the backend has none, the end of writes,
 * the limit of bandwidth, a slot of the limit of concurrent calls, and the log of failures.
 */
import type { Readable } from 'node:stream'
import type {
  Attributes,
  DirectUrl,
  DirectUrlOptions,
  FileBundle,
  LookupResult,
  OpenFile,
  OpenMode,
  OpenOptions,
  RemoteDownload,
  RemoteDownloadQuery,
  RemoveDownloadOptions,
  Thumbnail,
  ThumbnailKind,
  ThumbnailOptions,
  Upload,
  UploadPlan,
  Usage,
} from '../contract/capabilities.js'
import type {
  ByteRange,
  CallOptions,
  ListOptions,
  ReadOptions,
  Source,
  StatOptions,
  WriteOptions,
} from '../contract/call-options.js'
import type { Driver } from '../contract/driver.js'
import type { Entry, FileIdentity } from '../contract/entry.js'
import type { Traits } from '../contract/traits.js'
import { GatewayError, undefinedIfMissing, type OperationName } from '../base/errors.js'
import type { DriverLog } from '../base/log.js'
import { childOf, foldCase, isWithin, nameOf, root, type Path } from '../base/path.js'
import type { FileRecords } from '../database/tables.js'
import type { Bandwidth } from './bandwidth.js'
import { ConcurrencyLimiter } from './concurrency-limiter.js'
import { EndingWrites } from './ending-writes.js'
import { FailureLog } from './failure-log.js'
import { EmptyFolders } from './fallbacks/empty-folders.js'
import { passedFile, type HandleChanges } from './edge.js'
import { OwnChanges } from './listing-lag.js'

/** A method of a driver. */
export type DriverMethod = Exclude<keyof Driver, 'traits'>

/** The reasons, for users, of the `unsupported` of methods that a driver lacks and nothing replaces. */
const lacks: Readonly<Partial<Record<DriverMethod, string>>> = {
  write: 'the storage is read-only',
  mkdir: 'this storage cannot make folders',
  remove: 'this storage cannot remove anything',
  readSymlink: 'this storage has no symlinks',
  symlink: 'this storage has no symlinks',
  setSymlinkTime: 'this storage does not set the time of a symlink',
  hardLink: 'this storage has no hard links',
  usage: 'this storage does not tell its size',
  addDownload: 'this storage downloads nothing by itself',
  findDownload: 'this storage downloads nothing by itself',
  removeDownload: 'this storage downloads nothing by itself',
}

type DriverWith<Method extends DriverMethod> = Driver & Required<Pick<Driver, Method>>

interface GuardedDriverDependencies {
  readonly driver: Driver
  readonly traits: Pick<Traits, 'parallel' | 'listingLag' | 'emptyFolders' | 'caseSensitive'>
  /** The storage's path in the whole tree. */
  readonly mountPoint: Path
  readonly folders: FileRecords['folders']
  /** Undefined for a backend that is not reached over a network. */
  readonly bandwidth: Bandwidth | undefined
  readonly log: DriverLog
  /** Called after each call that the backend has answered without an error. */
  readonly answered?: (() => void) | undefined
}

/** Every method of a driver. One that the driver lacks rejects with `unsupported`. */
export class GuardedDriver implements Required<Omit<Driver, 'traits'>> {
  /** The driver as it was opened. Another driver of its type gets it for `copyFiles`. */
  readonly driver: Driver
  readonly #caseSensitive: boolean
  readonly #ownChanges: OwnChanges | undefined
  readonly #emptyFolders: EmptyFolders | undefined
  readonly #writes = new EndingWrites()
  readonly #bandwidth: Bandwidth | undefined
  /** Undefined for a driver whose calls are not limited. */
  readonly #limiter: ConcurrencyLimiter | undefined
  readonly #log: FailureLog

  constructor({ driver, traits, mountPoint, folders, bandwidth, log, answered }: GuardedDriverDependencies) {
    this.driver = driver
    this.#bandwidth = bandwidth
    this.#caseSensitive = traits.caseSensitive
    if (Number.isFinite(traits.parallel)) this.#limiter = new ConcurrencyLimiter(traits.parallel)
    this.#log = new FailureLog(log, mountPoint, answered)
    if (!traits.emptyFolders) {
      const stat: Driver['stat'] = (path, options) => this.#statOfDriver(path, options)
      const pages: Driver['pages'] = (path, options) => this.#pagesOfDriver(path, options)
      this.#emptyFolders = new EmptyFolders({ stat, pages }, folders, mountPoint)
    }
    if (traits.listingLag > 0) this.#ownChanges = new OwnChanges(traits.listingLag)
  }

  /** Whether the driver has this method now. A call of it may nevertheless reject with `unsupported`. */
  can(method: DriverMethod): boolean {
    return this.driver[method] !== undefined
  }

  /** Throws `unsupported` if the driver lacks this method. */
  assertCan(method: DriverMethod): void {
    if (!this.can(method)) throw unsupported(method)
  }

  /** Calls the driver, with a slot, and logs its failure. Rejects with `unsupported` if it lacks the method. */
  #call<Method extends DriverMethod, T>(
    method: Method,
    op: OperationName,
    path: Path,
    options: CallOptions | undefined,
    call: (driver: DriverWith<Method>) => Promise<T>,
  ): Promise<T> {
    const { driver } = this
    if (!has(driver, method)) return Promise.reject(unsupported(method))
    return this.#run(op, path, options?.signal, () => call(driver))
  }

  #run<T>(op: OperationName, path: Path, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
    const limiter = this.#limiter
    return limiter ? limiter.call(() => this.#log.watch(op, path, call), signal) : this.#log.watch(op, path, call)
  }

  // Reading

  stat(path: Path, options?: StatOptions): Promise<Entry> {
    const changes = this.#ownChanges
    return changes ? changes.stat(path, () => this.#reported(path, options)) : this.#reported(path, options)
  }

  /** The entry without the own changes that the backend does not report yet. */
  #reported(path: Path, options?: StatOptions): Promise<Entry> {
    return this.#emptyFolders ? this.#emptyFolders.stat(path, options) : this.#statOfDriver(path, options)
  }

  #statOfDriver(path: Path, options?: StatOptions): Promise<Entry> {
    return this.#call('stat', 'stat', path, options, (driver) => driver.stat(path, options))
  }

  pages(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]> {
    const pages = this.#emptyFolders ? this.#emptyFolders.pages(path, options) : this.#pagesOfDriver(path, options)
    return this.#ownChanges ? this.#ownChanges.pages(path, pages) : pages
  }

  #pagesOfDriver(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]> {
    const pages = () => this.#log.pages(path, this.driver.pages(path, options))
    return this.#limiter ? this.#limiter.pages(pages, options) : pages()
  }

  async read(path: Path, range?: ByteRange, options?: ReadOptions): Promise<Readable> {
    assertNotRoot(path)
    const read = () => this.#log.stream(path, () => this.driver.read(path, range, options))
    const bytes = await (this.#limiter ? this.#limiter.stream(read, options) : read())
    return this.#bandwidth ? this.#bandwidth.fromBackends.stream(bytes) : bytes
  }

  readSymlink(path: Path, options?: CallOptions): Promise<string> {
    return this.#call('readSymlink', 'read symlink', path, options, (driver) => driver.readSymlink(path, options))
  }

  realPath(path: Path, options?: CallOptions & { readonly last?: boolean | undefined }): Promise<Path> {
    return this.#call('realPath', 'resolve symlinks', path, options, (driver) => driver.realPath(path, options))
  }

  look(path: Path, options?: CallOptions): Promise<LookupResult> {
    return this.#call('look', 'resolve symlinks', path, options, (driver) => driver.look(path, options))
  }

  identities(path: Path, options?: CallOptions): Promise<readonly FileIdentity[]> {
    return this.#call('identities', 'identify', path, options, (driver) => driver.identities(path, options))
  }

  folderRevision(path: Path, options?: CallOptions): Promise<string> {
    return this.#call('folderRevision', 'read revision', path, options, (driver) =>
      driver.folderRevision(path, options),
    )
  }

  directUrl(path: Path, options?: DirectUrlOptions): Promise<DirectUrl> {
    return this.#call('directUrl', 'direct URL', path, options, (driver) => driver.directUrl(path, options))
  }

  thumbnail(path: Path, kind: ThumbnailKind, options?: ThumbnailOptions): Promise<Thumbnail> {
    return this.#call('thumbnail', 'make thumbnail', path, options, (driver) => driver.thumbnail(path, kind, options))
  }

  usage(options?: CallOptions): Promise<Usage> {
    return this.#call('usage', 'usage', root, options, (driver) => driver.usage(options))
  }

  // Writing

  async write(path: Path, source: Source, options?: WriteOptions): Promise<Entry> {
    assertNotRoot(path)
    if (this.#emptyFolders) await this.#emptyFolders.assertFile(path, options)
    const sent = this.#log.ofSender(this.#bandwidth ? this.#bandwidth.toBackends.source(source) : source)
    const entry = await this.#writes.run(options, (own) => {
      const write = () => this.#call('write', 'write', path, own, (driver) => driver.write(path, sent, own))
      return this.withWriteSlot(write, own)
    })
    return this.#ownChanges ? this.#ownChanges.written(path, entry) : entry
  }

  /** Runs the calls that write one file, with one slot for all of them; see `ConcurrencyLimiter`. */
  withWriteSlot<T>(work: () => Promise<T>, options?: CallOptions): Promise<T> {
    return this.#limiter ? this.#limiter.write(work, options) : work()
  }

  async upload(path: Path, plan: UploadPlan, options?: WriteOptions): Promise<Upload> {
    assertNotRoot(path)
    if (this.#emptyFolders) await this.#emptyFolders.assertFile(path, options)
    const limit = this.#bandwidth?.toBackends
    const limited = limit && plan.source ? { ...plan, source: limit.source(plan.source) } : plan
    const { upload, ended } = await this.#writes.upload(options, (own) =>
      this.#call('upload', 'write', path, own, (driver) => driver.upload(path, limited, own)),
    )
    const call = <T>(work: () => Promise<T>) => this.#run('write', path, undefined, work)
    return {
      token: upload.token,
      committedOffset: upload.committedOffset,
      write: (from) => call(() => upload.write(this.#log.bodyOfSender(limit ? limit.stream(from) : from))),
      commit: async () => {
        const entry = await call(() => upload.commit())
        return this.#ownChanges ? this.#ownChanges.written(path, entry) : entry
      },
      close: () => call(() => upload.close()).finally(ended),
    }
  }

  async dropUpload(token: string, options?: CallOptions): Promise<void> {
    const drop = this.#call('dropUpload', 'drop upload', root, options, (driver) => driver.dropUpload(token, options))
    // Also while the storage is closed: this removes what a write has staged.
    await this.#writes.hold(drop)
  }

  /** `changes`: follows what the handle changes. */
  async open(path: Path, mode: OpenMode, options?: OpenOptions, changes?: HandleChanges): Promise<OpenFile> {
    assertNotRoot(path)
    const isStaged = mode === 'replace'
    if (isStaged && this.#emptyFolders) await this.#emptyFolders.assertFile(path, options)
    if (isStaged) this.#writes.assertOpen()
    const opening = this.#call('open', 'open', path, options, (driver) => driver.open(path, mode, options))
    // Opening is not aborted: a driver may then remove in the background what it has staged.
    const file = await (isStaged ? this.#writes.hold(opening) : opening)
    const bandwidth = this.#bandwidth
    const limiter = this.#limiter
    return passedFile(file, {
      limits: bandwidth && {
        reading: bandwidth.fromBackends,
        writing: bandwidth.toBackends,
        signals: [options?.signal],
      },
      call: async (op, work) => {
        try {
          return await (limiter ? limiter.call(work) : work())
        } catch (error) {
          throw this.#log.failure(op, path, error)
        }
      },
      staged: isStaged ? (close) => this.#writes.handle(close) : undefined,
      changing: changes?.changing,
      committing: changes?.committing,
      committed: (stored, attributes) => {
        this.#ownChanges?.written(path, stored)
        return changes ? changes.committed(stored, attributes) : stored
      },
      ended: changes?.ended,
    })
  }

  // Changing

  async mkdir(path: Path, options?: CallOptions): Promise<void> {
    if (path === root) throw new GatewayError('exists')
    if (this.#emptyFolders) await this.#emptyFolders.assertFree(path, options)
    await this.#call('mkdir', 'make folder', path, options, (driver) => driver.mkdir(path, options))
    await this.#emptyFolders?.add(path)
    await this.#made(path, 'folder', options)
  }

  async remove(path: Path, options?: CallOptions): Promise<void> {
    assertMovable(path)
    const remove = () => this.#call('remove', 'remove', path, options, (driver) => driver.remove(path, options))
    await (this.#emptyFolders ? this.#emptyFolders.remove(path, options, remove) : remove())
    this.#ownChanges?.removed(path)
  }

  async removeTree(path: Path, options?: CallOptions): Promise<void> {
    this.assertCan('removeTree')
    assertMovable(path)
    const remove = () => this.#call('removeTree', 'remove', path, options, (driver) => driver.removeTree(path, options))
    await (this.#emptyFolders ? this.#emptyFolders.removeTree(path, options, remove) : remove())
    this.#ownChanges?.removed(path)
  }

  async move(from: Path, to: Path, options?: CallOptions): Promise<void> {
    this.assertCan('move')
    assertMovable(from)
    assertNotRoot(to)
    if (from === to) {
      await this.#statItself(from, options)
      return
    }
    if (this.#isBelow(from, to)) {
      const { kind } = await this.#statItself(from, options)
      throw kind === 'folder' ? new GatewayError('invalid', { detail: 'into_itself' }) : new GatewayError('not_folder')
    }
    const entry = this.#ownChanges && (await this.#statItself(from, options))
    if (this.#emptyFolders) await this.#emptyFolders.beforeMove(from, to, options)
    await this.#call('move', 'move', from, options, (driver) => driver.move(from, to, options))
    if (entry) this.#ownChanges.moved(from, to, { ...entry, name: nameOf(to) })
  }

  /** The entry, also of a symlink. */
  #statItself(path: Path, options: CallOptions | undefined): Promise<Entry> {
    return this.stat(path, { ...options, ofSymlink: true })
  }

  #isBelow(folder: Path, path: Path): boolean {
    const [one, other] = this.#caseSensitive ? [folder, path] : [foldCase(folder), foldCase(path)]
    return one !== other && isWithin(one, other)
  }

  async copy(from: Path, to: Path, options?: WriteOptions): Promise<void> {
    this.assertCan('copy')
    assertNotRoot(to)
    const changes = this.#ownChanges
    const asked = { signal: options?.signal }
    const entry = changes && (await this.stat(from, asked))
    await this.#emptyFolders?.assertFile(to, options)
    await this.#writes.run(options, (own) =>
      this.#call('copy', 'copy', from, own, (driver) => driver.copy(from, to, own)),
    )
    if (!entry) return
    const made = await undefinedIfMissing(this.#reported(to, asked))
    changes.written(to, made ?? { ...entry, name: nameOf(to) })
  }

  async copyFiles(bundle: FileBundle, options?: CallOptions): Promise<readonly (Entry | undefined)[]> {
    const copies = await this.#writes.run(options, (own) =>
      this.#call('copyFiles', 'copy', bundle.to, own, (driver) => driver.copyFiles(bundle, own)),
    )
    for (const copy of copies) if (copy) this.#ownChanges?.written(childOf(bundle.to, copy.name), copy)
    return copies
  }

  async setAttributes(path: Path, to: Attributes, options?: CallOptions): Promise<void> {
    this.assertCan('setAttributes')
    const set = () =>
      this.#call('setAttributes', 'set attributes', path, options, (driver) => driver.setAttributes(path, to, options))
    await (this.#emptyFolders ? this.#emptyFolders.setAttributes(path, to, options, set) : set())
    if (!this.#ownChanges) return
    const entry = await undefinedIfMissing(this.stat(path, options))
    if (entry) this.#ownChanges.written(path, { ...entry, ...(to.modified && { modified: to.modified }) })
  }

  setSymlinkTime(path: Path, modified: Date, options?: CallOptions): Promise<void> {
    return this.#call('setSymlinkTime', 'set attributes', path, options, (driver) =>
      driver.setSymlinkTime(path, modified, options),
    )
  }

  async symlink(path: Path, target: string, options?: CallOptions): Promise<void> {
    await this.#call('symlink', 'make symlink', path, options, (driver) => driver.symlink(path, target, options))
    await this.#made(path, 'symlink', options)
  }

  async hardLink(from: Path, to: Path, options?: CallOptions): Promise<void> {
    const entry = this.#ownChanges && (await this.#statItself(from, options))
    await this.#call('hardLink', 'make hard link', from, options, (driver) => driver.hardLink(from, to, options))
    if (entry) this.#ownChanges.written(to, { ...entry, name: nameOf(to) })
  }

  /** Remembers an entry that was made, where listings lag. */
  async #made(path: Path, kind: Entry['kind'], options: CallOptions | undefined): Promise<void> {
    if (!this.#ownChanges) return
    const made = await undefinedIfMissing(this.#reported(path, { ...options, ofSymlink: true }))
    this.#ownChanges.written(path, made ?? { name: nameOf(path), kind, size: 0, modified: new Date() })
  }

  // Downloads that the backend makes by itself

  addDownload(folder: Path, address: string, options?: CallOptions): Promise<string> {
    return this.#call('addDownload', 'add download', folder, options, (driver) =>
      driver.addDownload(folder, address, options),
    )
  }

  findDownload(folder: Path, query: RemoteDownloadQuery, options?: CallOptions): Promise<RemoteDownload | undefined> {
    return this.#call('findDownload', 'find download', folder, options, (driver) =>
      driver.findDownload(folder, query, options),
    )
  }

  removeDownload(folder: Path, id: string, options?: RemoveDownloadOptions): Promise<void> {
    return this.#call('removeDownload', 'remove download', folder, options, (driver) =>
      driver.removeDownload(folder, id, options),
    )
  }

  // The end

  async removeOrphans(): Promise<void> {
    await this.#call('removeOrphans', 'remove orphans', root, undefined, (driver) => driver.removeOrphans())
  }

  /** Aborts all writes, and resolves when they have removed what they have staged, or after some seconds. */
  endWrites(): Promise<void> {
    return this.#writes.end()
  }

  /** Takes no slot, because it must be able to cancel running calls. */
  async close(): Promise<void> {
    this.#ownChanges?.clear()
    await this.driver.close?.()
  }
}

function has<Method extends DriverMethod>(driver: Driver, method: Method): driver is DriverWith<Method> {
  return driver[method] !== undefined
}

function unsupported(method: DriverMethod): GatewayError {
  return new GatewayError('unsupported', { reason: lacks[method] })
}

function assertNotRoot(path: Path): void {
  if (path === root) throw new GatewayError('is_folder')
}

function assertMovable(path: Path): void {
  if (path === root) throw new GatewayError('denied', { reason: 'the root folder cannot be removed or moved' })
}
