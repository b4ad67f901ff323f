/**
 * A mounted driver with its gaps filled (`fallbacks.ts`): operations that the backend lacks are composed of others,
 * attributes that it cannot store are stored in the database, listings are cached, and changes emit events. Paths are
 * the driver's own.
 */
import { Readable } from 'node:stream'
import { untilAborted } from '../base/cancellation.js'
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
  Usage,
  WritableFile,
} from '../contract/capabilities.js'
import type {
  ByteRange,
  CallOptions,
  ListOptions,
  ReadOptions,
  Source,
  StatOptions,
  WriteOptions,
  Awaitable,
} from '../contract/call-options.js'
import type { Driver } from '../contract/driver.js'
import { defaultTraits, type Traits } from '../contract/traits.js'
import { inPages, isRealFolder, type Entry, type FileIdentity } from '../contract/entry.js'
import type { Holder } from '../base/fair-share.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../base/errors.js'
import type { DriverLog } from '../base/log.js'
import { settableMode, withPermissions } from '../contract/modes.js'
import { childOf, nameOf, parentOf, root, under, type Path } from '../base/path.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { FileRecords, Store } from '../database/tables.js'
import { AttributeOverlay } from './fallbacks/attribute-overlay.js'
import { GuardedDriver } from './guarded-driver.js'
import type { Bandwidth } from './bandwidth.js'
import { DirectUrlCache } from './direct-url-cache.js'
import type { Events } from './events.js'
import {
  copyByStreams,
  identityByPath,
  isSupported,
  lookBySteps,
  undefinedIfUnsupported,
  withAllWrites,
} from './fallbacks/fallbacks.js'
import { openToRead } from './fallbacks/open-to-read.js'
import { openToWrite } from './fallbacks/open-to-write.js'
import { ContinuedRead, ofSameContent, streamRange } from './fallbacks/read.js'
import { removeItems } from './fallbacks/remove-tree.js'
import { ListableNames, type SkippedNames } from './listable-names.js'
import type { ListingBudget } from './listing-cache.js'
import { Listings, type FolderListing, type ListingOptions } from './listings.js'
import { writeResumable, type ResumableUpload } from './fallbacks/resumable-write.js'
import { sendAsNeeded, type Spool } from './fallbacks/spool.js'
import { StorageChanges } from './storage-changes.js'
import { UsageProbe } from './fallbacks/usage-probe.js'

interface StorageDependencies {
  readonly row: StorageRow
  /** The path of the tree where the storage appears. */
  readonly mountPoint: Path
  readonly driver: Driver
  readonly traits: Partial<Traits> | undefined
  readonly events: Events
  readonly spool: Spool
  readonly bandwidth: Bandwidth
  readonly store: FileRecords & Pick<Store, 'relaxed'>
  readonly log: DriverLog
  /** Room for listings, shared by all storages. */
  readonly listings: ListingBudget
  /** Whether `stat` may answer from a cached listing: no other process changes an entry. */
  readonly knowsEntries: boolean
  /** Called after each call that the backend has answered without an error. */
  readonly answered?: (() => void) | undefined
  /** Whether the tree shows a folder at this path only because a storage is mounted below it. */
  readonly isMountAncestor: (treePath: Path) => boolean
}

interface StorageWriteOptions extends WriteOptions {
  /** The upload of a large file can be resumed by a later run, if the driver supports that. */
  readonly resumable?: ResumableUpload | undefined
}

export interface StorageCopyOptions extends StorageWriteOptions {
  /** Read instead of the file at `from` if the backend cannot copy. */
  readonly source?: Source | undefined
}

export interface FreshStatOptions extends StatOptions {
  /** Does not use the cached listing: another program may have changed the entry since. */
  readonly refresh?: boolean | undefined
}

interface RemoveTreeOptions extends CallOptions {
  /** Receives every removed path, also on failure; of a completely removed folder only the folder itself. */
  readonly removed?: Path[] | undefined
}

export class Storage {
  readonly row: StorageRow
  readonly mountPoint: Path
  readonly traits: Traits
  /** The records about its files, which are as durable as the files. */
  readonly records: FileRecords
  readonly #driver: GuardedDriver
  readonly #isMountAncestor: StorageDependencies['isMountAncestor']
  readonly #knowsEntries: boolean
  readonly #spool: Spool
  readonly #listings: Listings
  readonly #names: ListableNames
  readonly #attributes: AttributeOverlay
  readonly #changes: StorageChanges
  readonly #directUrls = new DirectUrlCache()
  readonly #usageProbe = new UsageProbe((signal) => this.usage({ signal }))

  constructor(dependencies: StorageDependencies) {
    this.row = dependencies.row
    this.mountPoint = dependencies.mountPoint
    this.traits = { ...defaultTraits, ...dependencies.traits, ...dependencies.driver.traits }
    this.records = this.traits.durable ? dependencies.store : dependencies.store.relaxed
    this.#driver = new GuardedDriver({
      ...dependencies,
      traits: this.traits,
      folders: this.records.folders,
      bandwidth: this.traits.remote ? dependencies.bandwidth : undefined,
    })
    this.#isMountAncestor = dependencies.isMountAncestor
    this.#knowsEntries = dependencies.knowsEntries
    this.#spool = dependencies.spool
    this.#names = new ListableNames(dependencies.log)
    const { timeStep, keeps } = this.traits
    const keepsNone = !this.#driver.can('setAttributes') || timeStep === Number.POSITIVE_INFINITY
    // The attributes of a read-only storage are never set, so none has to be stored.
    const kept = !this.writable ? defaultTraits.keeps : keepsNone ? [] : keeps
    this.#attributes = new AttributeOverlay(this.records.attributes, timeStep, kept)
    this.#listings = new Listings({
      row: dependencies.row,
      driver: this.#driver,
      listsInOrder: this.traits.listsInOrder,
      budget: dependencies.listings,
      log: dependencies.log,
      pages: (path, options) => this.#pagesOfDriver(path, options),
      read: (path, entries) => dependencies.events.emitListing(this.treePath(path), entries),
    })
    this.#changes = new StorageChanges(
      dependencies.mountPoint,
      dependencies.events,
      this.#attributes,
      (path, withBelow) => {
        this.#directUrls.invalidate(path, withBelow)
        this.#listings.invalidate(path, withBelow)
      },
    )
  }

  /** The storage's path in the whole tree. */
  treePath(path: Path): Path {
    return under(this.mountPoint, path)
  }

  get writable(): boolean {
    return this.#driver.can('write')
  }

  // Reading

  async stat(path: Path, options: FreshStatOptions = {}): Promise<Entry> {
    // Another node may have changed the entry: only listings may be late.
    const mustAsk = options.ofSymlink === true || options.refresh === true || !this.#knowsEntries
    const kept = this.#driver.can('folderRevision') || mustAsk ? undefined : this.#listings.cachedEntry(path)
    const entry = this.#names.check(path, kept ?? (await this.#driver.stat(path, options)))
    return this.#attributes.needed ? this.#attributes.apply(this.treePath(path), entry) : entry
  }

  /** Returns the entry at a path; undefined if nothing exists there. Rejects if no storage is mounted there. */
  async statOrUndefined(path: Path, options: FreshStatOptions = {}): Promise<Entry | undefined> {
    return undefinedIfMissing(this.stat(path, options))
  }

  /** Whether an entry with exactly this name exists. */
  async has(path: Path, options: CallOptions = {}): Promise<boolean> {
    try {
      const entry = await this.stat(path, { ...options, ofSymlink: true })
      return this.traits.caseSensitive || entry.name === nameOf(path)
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return false
      throw error
    }
  }

  /** The whole folder, sorted by the storage's options. `part`: the number of entries that the caller shows. */
  list(path: Path, options: ListingOptions = {}): Promise<FolderListing> {
    return this.#listings.list(path, options)
  }

  /** Reloads these entries of a folder. Omits those that no longer exist. */
  async refreshed(folder: Path, entries: readonly Entry[], options: CallOptions = {}): Promise<readonly Entry[]> {
    const fresh: Entry[] = []
    for (const entry of entries) {
      try {
        fresh.push(await this.stat(childOf(folder, entry.name), options))
      } catch (error) {
        if (!isGatewayError(error, 'not_found')) throw error
      }
    }
    return fresh
  }

  /**
   * The entries of a folder in pages, in any order. Memory use does not grow with the folder if the driver has
   * `folderRevision`. `refresh`: does not use the cached listing.
   */
  async *pages(
    path: Path,
    options: CallOptions & { readonly refresh?: boolean } = {},
  ): AsyncGenerator<readonly Entry[]> {
    if (this.#driver.can('folderRevision') || options.refresh === true) {
      yield* this.#pagesOfDriver(path, options)
      return
    }
    const { entries } = await this.list(path, options)
    yield* inPages(entries)
  }

  /** Names that the last listing of the folder omitted because no path can hold them; undefined if there are none. */
  skippedNames(folder: Path): SkippedNames | undefined {
    return this.#names.skippedIn(folder)
  }

  #pagesOfDriver(path: Path, options: ListOptions): AsyncIterable<readonly Entry[]> {
    const pages = this.#names.filterPages(path, this.#driver.pages(path, options))
    return this.#attributes.applyToPages(this.treePath(path), pages)
  }

  /**
   * Reads a file. With an `entry`, the stream is continued after the backend has cut it, while the file is the same.
   */
  async read(path: Path, range?: ByteRange, options: ReadOptions = {}): Promise<Readable> {
    if (range?.length === 0) {
      const entry = await this.stat(path, options)
      if (entry.kind === 'folder') throw new GatewayError('is_folder')
      return Readable.from([])
    }
    const { entry } = options
    const first = await this.#readOnce(path, range, options)
    if (!entry) return first
    const { offset: start = 0, length = Number.POSITIVE_INFINITY } = range ?? {}
    const open = async (rest: ByteRange, signal: AbortSignal) => {
      const stat = () => this.stat(path, { signal, refresh: true })
      return ofSameContent(await this.#readOnce(path, rest, { ...options, signal }), entry, stat)
    }
    return new ContinuedRead(first, { start, end: Math.min(entry.size, start + length), open, signal: options.signal })
  }

  async #readOnce(path: Path, range: ByteRange | undefined, options: ReadOptions): Promise<Readable> {
    const own = this.traits.ranges ? range : undefined
    const bytes = await this.#driver.read(path, own, options)
    return range === undefined || range === own ? bytes : streamRange(bytes, range)
  }

  /** A stored file as a source. `holder`: who its bytes are for. */
  source(path: Path, entry: Entry, holder?: Holder): Source {
    return {
      size: entry.size,
      modified: entry.modified,
      hashes: entry.hashes,
      rereadable: true,
      read: (range, options) => this.read(path, range, { holder, ...options, entry }),
    }
  }

  open(path: Path, mode: 'update' | 'replace', options?: OpenOptions): Promise<WritableFile>
  open(path: Path, mode: OpenMode, options?: OpenOptions): Promise<OpenFile>
  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    const own = await this.openOwn(path, mode, options)
    const file = own ?? (await this.#openByStreams(path, mode, options))
    return mode === 'read' ? file : withAllWrites(file)
  }

  #openByStreams(path: Path, mode: OpenMode, options: OpenOptions): Promise<OpenFile> {
    return mode === 'read' ? openToRead(this, path, options) : openToWrite(this, this.#spool, path, mode, options)
  }

  /** The backend's own handle; undefined if it has none. */
  async openOwn(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile | undefined> {
    if (mode !== 'read') {
      this.assertWritable()
      await this.#makeMountAncestor(path, options)
    }
    if (!this.#driver.can('open')) return undefined
    const changes = mode === 'read' ? undefined : this.#changes.ofHandle(path, mode, options)
    return undefinedIfUnsupported(this.#driver.open(path, mode, options, changes))
  }

  async readSymlink(path: Path, options: CallOptions = {}): Promise<string> {
    return this.#driver.readSymlink(path, options)
  }

  /** The path without symlinks; see `Driver.realPath`. */
  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    return this.#driver.can('realPath') ? this.#driver.realPath(path, options) : path
  }

  /** The path without symlinks, and the entry at it, in one call of the driver if possible. */
  async look(path: Path, options: CallOptions = {}): Promise<LookupResult> {
    const driver = this.#driver
    // Without `folderRevision`, `stat` may find the entry in a cached listing.
    const canLook = driver.can('folderRevision') && driver.can('look')
    const look = await undefinedIfUnsupported(canLook && driver.look(path, options))
    if (!look) return lookBySteps(this, path, options)
    if (!look.entry || !this.#attributes.needed) return look
    return { path: look.path, entry: await this.#attributes.apply(this.treePath(look.path), look.entry) }
  }

  /** The files and folders that a change of the entry at `path` would modify; see `Driver.identities`. */
  async identities(path: Path, options: CallOptions = {}): Promise<readonly FileIdentity[]> {
    const driver = this.#driver
    const own = await undefinedIfUnsupported(driver.can('identities') && driver.identities(path, options))
    return own ?? [identityByPath(this, path)]
  }

  /** Whether the backend has URLs of its own for files. */
  get hasDirectUrls(): boolean {
    return this.#driver.can('directUrl')
  }

  /** The backend's own URL of the file, for this client; undefined if it has none. */
  async directUrl(path: Path, options: DirectUrlOptions = {}): Promise<DirectUrl | undefined> {
    if (!this.hasDirectUrls) return undefined
    const client = Object.fromEntries(this.traits.urlsBoundTo.map((part) => [part, options[part]]))
    const ask = () => undefinedIfUnsupported(this.#driver.directUrl(path, client))
    return untilAborted(this.#directUrls.get(path, ask, client), options.signal)
  }

  /** Like `Driver.thumbnail`; undefined if none can be made of this file. */
  thumbnail(path: Path, kind: ThumbnailKind, options: ThumbnailOptions = {}): Promise<Thumbnail | undefined> {
    return undefinedIfUnsupported(this.#driver.thumbnail(path, kind, options))
  }

  async usage(options: CallOptions = {}): Promise<Usage> {
    return this.#driver.usage(options)
  }

  /** Returns the usage of the backend; undefined if the backend does not report it. */
  usageOrUndefined(options: CallOptions = {}): Promise<Usage | undefined> {
    return undefinedIfUnsupported(this.#driver.usage(options))
  }

  /** Returns the usage of the backend; undefined if the backend does not report it, or not in time. */
  usageWithTimeout(): Promise<Usage | undefined> {
    return this.#driver.can('usage') ? this.#usageProbe.usageWithTimeout() : Promise.resolve(undefined)
  }

  // Changing

  /** Rejects with `unsupported` if the driver is read-only. */
  assertWritable(): void {
    this.#driver.assertCan('write')
  }

  async write(path: Path, source: Source, options: StorageWriteOptions = {}): Promise<Entry> {
    this.assertWritable()
    const send = (sent: Source) => this.#send(path, sent, options)
    return sendAsNeeded(source, this.traits, this.#spool, options.signal, send)
  }

  async #send(path: Path, source: Source, { resumable, ...options }: StorageWriteOptions): Promise<Entry> {
    await this.#makeMountAncestor(path, options)
    const driver = this.#driver
    const write = async () => {
      const resume = resumable && (() => writeResumable(driver, this.row.id, [path, source], resumable, options))
      const entry = resume && (await driver.withWriteSlot(resume, options))
      return entry ?? driver.write(path, source, options)
    }
    return this.#changes.written(path, options, await this.#changes.attempt([path], write))
  }

  /** Discards a resumable upload; see `Driver.dropUpload`. */
  async dropUpload(token: string): Promise<void> {
    await isSupported(this.#driver.dropUpload(token))
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    this.#driver.assertCan('mkdir')
    await this.#makeMountAncestor(path, options)
    await this.#changes.attempt([path], () => this.#driver.mkdir(path, options))
    await this.#changes.folderMade(path)
  }

  /** Removes a file, a symlink or an empty folder. */
  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    this.#driver.assertCan('remove')
    await this.#changes.attempt([path], () => this.#driver.remove(path, options))
    await this.#changes.removed(path)
  }

  /**
   * Removes the file, symlink or tree at `path`, item by item if the backend cannot do it in one step. Symlinks are
   * removed, not followed. Rejects with TreeError if members could not be removed.
   */
  async removeTree(path: Path, { removed = [], ...options }: RemoveTreeOptions = {}): Promise<void> {
    this.assertWritable()
    const entry = await this.stat(path, { ...options, ofSymlink: true })
    if (!isRealFolder(entry)) await this.remove(path, options)
    else if (!(await this.#removeTreeByBackend(path, options))) return removeItems(this, path, removed, options)
    removed.push(path)
  }

  async #removeTreeByBackend(path: Path, options: CallOptions): Promise<boolean> {
    const remove = () => isSupported(this.#driver.removeTree(path, options))
    if (!(await this.#changes.attempt([path], remove))) return false
    await this.#changes.removed(path)
    return true
  }

  /**
   * Renames as `Driver.move`. Resolves to false, and changes nothing, if the backend cannot rename: `transfer/` then
   * copies and removes item by item.
   */
  async tryMove(from: Path, to: Path, options: CallOptions = {}): Promise<boolean> {
    this.assertWritable()
    if (!this.#driver.can('move')) return false
    await this.#makeMountAncestor(to, options)
    const move = () => isSupported(this.#driver.move(from, to, options))
    if (!(await this.#changes.attempt([from, to], move))) return false
    this.#changes.moved(from, to)
    return true
  }

  /**
   * Copies one file, through the gateway if the backend cannot copy. Rejects with `unsupported` for a folder or a
   * symlink, and with `busy` if the copy has another size than the source had.
   */
  async copy(from: Path, to: Path, { source, resumable, ...options }: StorageCopyOptions = {}): Promise<void> {
    this.assertWritable()
    await this.#makeMountAncestor(to, options)
    if (await this.#changes.attempt([to], () => isSupported(this.#driver.copy(from, to, options)))) {
      const { modified, mode } = options
      const isGiven = modified !== undefined || mode !== undefined
      const store = async () => isGiven && this.#storeMissing(to, { modified, mode }, withPermissions)
      return this.#changes.copied(from, to, store)
    }
    return copyByStreams(this, from, to, { source, resumable, ...options })
  }

  /** Whether `copyFiles` may be possible from that storage. */
  takesFilesOf({ row }: Storage): boolean {
    return this.#driver.can('copyFiles') && row.driver === this.row.driver
  }

  /** Copies small files of another storage, or of this one, into an existing folder; see `Driver.copyFiles`. */
  async copyFiles(
    bundle: Omit<FileBundle, 'source'> & { readonly source: Storage },
    options: CallOptions = {},
  ): Promise<readonly (Entry | undefined)[]> {
    this.assertWritable()
    const source = bundle.source.#driver.driver
    const copy = () => this.#driver.copyFiles({ ...bundle, source }, options)
    const copies = await this.#changes.attempt([bundle.to], copy)
    return Promise.all(
      copies.map(async (copy, index) => {
        const asked = bundle.files[index]
        if (!copy || !asked) return undefined
        return this.#changes.written(childOf(bundle.to, copy.name), asked, copy)
      }),
    )
  }

  /** Creates the parent of `path` if the tree shows it only because a storage is mounted below it. */
  #makeMountAncestor(path: Path, options: CallOptions): Awaitable<void> {
    const folder = parentOf(path)
    return folder !== root && this.#isMountAncestor(this.treePath(folder))
      ? this.#makeIfMissing(folder, options)
      : undefined
  }

  async #makeIfMissing(folder: Path, { signal }: CallOptions): Promise<void> {
    if (await this.has(folder, { signal })) return
    await this.mkdir(folder, { signal }).catch((error: unknown) => {
      // Another request has created it in the meantime.
      if (!isGatewayError(error, 'exists')) throw error
    })
  }

  /**
   * Attributes that the backend does not store are stored in the database. Rejects with `unsupported` if the driver
   * should store some of them, but cannot. What becomes of a mode, `settableMode` says; that of the root is not
   * changed.
   */
  async setAttributes(path: Path, asked: Attributes, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    const to = path === root ? { modified: asked.modified } : asked
    if (to.modified === undefined && to.mode === undefined) return
    const attributes = this.#attributes
    await this.#changes.attempt([path], async () => {
      const isSet = await isSupported(this.#driver.setAttributes(path, to, options))
      if (!isSet && attributes.kept.length > 0) {
        throw new GatewayError('unsupported', { reason: 'this storage cannot set attributes here' })
      }
      if (attributes.needed) await this.#storeMissing(path, to, settableMode, options)
    })
    this.#changes.changed(path)
  }

  /**
   * Stores in the database those of the attributes that the backend was asked to set, and does not show. `bits`: the
   * mode that the entry gets where one is asked for.
   */
  async #storeMissing(
    path: Path,
    { modified, mode: asked }: Attributes,
    bits: (existing: Entry, asked: number) => number,
    options: CallOptions = {},
  ): Promise<void> {
    if (!this.#attributes.needed) return
    const entry = await this.stat(path, { ...options, refresh: true })
    const mode = asked === undefined ? undefined : bits(entry, asked)
    await this.#attributes.afterSet(this.treePath(path), { modified, mode }, entry)
  }

  /** Sets the time of a symlink itself; see `Driver.setSymlinkTime`. */
  async setSymlinkTime(path: Path, modified: Date, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    this.#driver.assertCan('setSymlinkTime')
    await this.#changes.attempt([path], () => this.#driver.setSymlinkTime(path, modified, options))
    this.#changes.changed(path)
  }

  async symlink(path: Path, target: string, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    this.#driver.assertCan('symlink')
    await this.#makeMountAncestor(path, options)
    await this.#changes.attempt([path], () => this.#driver.symlink(path, target, options))
    this.#changes.changed(path)
  }

  async hardLink(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    this.#driver.assertCan('hardLink')
    await this.#makeMountAncestor(to, options)
    await this.#changes.attempt([to], () => this.#driver.hardLink(from, to, options))
    this.#changes.changed(to)
  }

  // Downloads that the backend makes by itself; see `Driver.addDownload`

  get hasDownloads(): boolean {
    return this.#driver.can('addDownload')
  }

  addDownload(folder: Path, address: string, options: CallOptions = {}): Promise<string> {
    return this.#driver.addDownload(folder, address, options)
  }

  /** Resolves to undefined also if the folder does not exist. */
  findDownload(
    folder: Path,
    query: RemoteDownloadQuery,
    options: CallOptions = {},
  ): Promise<RemoteDownload | undefined> {
    return undefinedIfMissing(this.#driver.findDownload(folder, query, options))
  }

  async removeDownload(folder: Path, id: string, options: RemoveDownloadOptions = {}): Promise<void> {
    await this.#driver.removeDownload(folder, id, options)
    if (options.withFiles === true) this.changedElsewhere(folder)
  }

  /** Another program has changed the entry at `path`, or something below it. */
  changedElsewhere(path: Path): void {
    this.#changes.changedElsewhere(path)
  }

  /** Removes what other nodes that have ended have staged. */
  async removeOrphans(): Promise<void> {
    await isSupported(this.#driver.removeOrphans())
  }

  /** Aborts all writes, and resolves when they have removed what they have staged, or after some seconds. */
  endWrites(): Promise<void> {
    return this.#driver.endWrites()
  }

  /** Ends all writes, and closes the driver. */
  async close(): Promise<void> {
    await this.endWrites()
    this.#changes.close()
    this.#listings.close()
    await this.#driver.close()
  }
}
