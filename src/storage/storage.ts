/**
 * A mounted driver with every gap filled: operations that the backend lacks are composed of others, attributes that it
 * cannot store are stored in the database, listings are cached, and changes emit events. Paths are the driver's own.
 */
import { Readable } from 'node:stream'
import { untilAborted } from '../contract/cancellation.js'
import type {
  Attributes,
  DirectUrl,
  FileBundle,
  LookupResult,
  OpenFile,
  OpenMode,
  OpenOptions,
  Thumbnail,
  ThumbnailKind,
  Usage,
} from '../contract/capabilities.js'
import type { ByteRange, CallOptions, Driver, ListOptions, Source, WriteOptions } from '../contract/driver.js'
import { defaultTraits, type Traits } from '../contract/traits.js'
import { contentVersion, isRealFolder, type Entry, type Identity } from '../contract/entry.js'
import {
  callIfSupported,
  GatewayError,
  isGatewayError,
  undefinedIfMissing,
  undefinedIfUnsupported,
} from '../contract/errors.js'
import type { DriverLog } from '../contract/log.js'
import { childOf, foldCase, nameOf, parentOf, root, under, within, type Path } from '../contract/path.js'
import type { FileRecords, StorageRow, Store } from '../store/rows.js'
import { AttributeOverlay } from './attribute-overlay.js'
import { throttled, type Bandwidth } from './bandwidth.js'
import { ConcurrencyLimiter } from './concurrency-limiter.js'
import { DirectUrlCache } from './direct-url-cache.js'
import { withEmptyFolders } from './empty-folders.js'
import type { Events } from './events.js'
import { withHooks } from './file-hooks.js'
import { SpooledFile } from './spooled-file.js'
import { StreamReader } from './stream-reader.js'
import { StreamWriter } from './stream-writer.js'
import { ListableNames, type SkippedNames } from './listable-names.js'
import type { ListingBudget } from './listing-cache.js'
import { Listings, type FolderListing } from './listings.js'
import { withPathRules } from './path-rules.js'
import { removeItems } from './remove-items.js'
import { writeResumable, type ResumableUpload } from './resumable-write.js'
import type { Spool } from './spool.js'
import { streamRange } from './stream-range.js'
import { UsageProbe } from './usage-probe.js'

export interface StorageParts {
  readonly row: StorageRow
  /** The path of the tree where the storage appears. */
  readonly mount: Path
  readonly driver: Driver
  readonly traits: Partial<Traits> | undefined
  readonly events: Events
  readonly spool: Spool
  readonly bandwidth: Bandwidth
  readonly store: FileRecords & Pick<Store, 'relaxed'>
  readonly log: DriverLog
  /** Room for listings, shared by all storages. */
  readonly listings: ListingBudget
  /** Whether the tree shows a folder at this path only because a storage is mounted below it. */
  readonly isMountAncestor: (treePath: Path) => boolean
}

export interface StorageWriteOptions extends WriteOptions {
  /** The upload of a large file can be resumed by a later run, if the driver supports that. */
  readonly resumable?: ResumableUpload | undefined
}

export interface StorageCopyOptions extends StorageWriteOptions {
  /** Read instead of the file at `from` if the backend cannot copy. */
  readonly source?: Source | undefined
}

export interface RemoveTreeOptions extends CallOptions {
  /** Receives every removed path, also on failure; of a completely removed folder only the folder itself. */
  readonly removed?: Path[] | undefined
}

/** Members of a folder in one page of `list`. */
const pageSize = 1000

export class Storage implements Driver {
  readonly row: StorageRow
  readonly mount: Path
  readonly traits: Traits
  /** The records about its files, which are as durable as the files. */
  readonly records: FileRecords
  /** The driver as it was opened, for `copyFiles` of another driver of its type. */
  readonly #own: Driver
  /** The driver with limited concurrency and with the rules for paths. */
  readonly #driver: Driver
  readonly #events: Events
  readonly #leads: StorageParts['isMountAncestor']
  readonly #spool: Spool
  /** Undefined for a backend that is not reached over a network. */
  readonly #bandwidth: Bandwidth | undefined
  readonly #unsubscribe: () => void
  readonly #calls: ConcurrencyLimiter
  readonly #listings: Listings
  readonly #names: ListableNames
  readonly #attributes: AttributeOverlay
  readonly #links = new DirectUrlCache()
  readonly #patientUsage = new UsageProbe((signal) => this.usage({ signal }))

  constructor(parts: StorageParts) {
    this.row = parts.row
    this.mount = parts.mount
    this.traits = { ...defaultTraits, ...parts.traits, ...parts.driver.traits }
    this.records = this.traits.durable ? parts.store : parts.store.relaxed
    this.#own = parts.driver
    this.#calls = new ConcurrencyLimiter(this.traits.parallel)
    const driver = this.#calls.limited(parts.driver)
    const filled = this.traits.emptyFolders
      ? driver
      : withEmptyFolders(driver, this.records.folders, (path) => this.treePath(path))
    this.#driver = withPathRules(filled, this.traits)
    this.#events = parts.events
    this.#leads = parts.isMountAncestor
    this.#spool = parts.spool
    this.#bandwidth = this.traits.remote ? parts.bandwidth : undefined
    this.#names = new ListableNames(parts.log)
    const keepsNone =
      parts.driver.write !== undefined &&
      (parts.driver.setAttributes === undefined || this.traits.timeStep === Number.POSITIVE_INFINITY)
    this.#attributes = new AttributeOverlay(this.records.attributes, this.traits.timeStep, keepsNone)
    this.#listings = new Listings({
      row: parts.row,
      driver: this.#driver,
      budget: parts.listings,
      log: parts.log,
      pages: (path, options) => this.#pagesOfDriver(path, options),
      read: (path, entries) => this.#events.emitListing(this.treePath(path), entries),
    })
    this.#unsubscribe = parts.events.on((event) => {
      this.#forget(event.path, event.kind === 'removed' || event.kind === 'moved')
      if (event.kind === 'moved') this.#forget(event.from, true)
    })
  }

  /** The storage's path in the whole tree. */
  treePath(path: Path): Path {
    return under(this.mount, path)
  }

  get writable(): boolean {
    return this.#driver.write !== undefined
  }

  // Reading

  /** `fresh`: does not use the cached listing. */
  async stat(
    path: Path,
    { fresh, ...options }: CallOptions & { readonly link?: boolean | undefined; readonly fresh?: boolean } = {},
  ): Promise<Entry> {
    const isAsked = options.link === true || fresh === true
    const kept = this.#driver.revision || isAsked ? undefined : this.#listings.cachedEntry(path)
    const entry = kept ?? (await this.#driver.stat(path, options))
    return this.#attributes.apply(this.treePath(path), this.#names.check(path, entry))
  }

  /** As `stat`; undefined if nothing exists there. Rejects if no storage is mounted there. */
  async statOrUndefined(
    path: Path,
    options: CallOptions & { readonly link?: boolean | undefined } = {},
  ): Promise<Entry | undefined> {
    return undefinedIfMissing(this.stat(path, options))
  }

  /** Whether an entry with exactly this name exists. */
  async has(path: Path, options: CallOptions = {}): Promise<boolean> {
    try {
      const entry = await this.stat(path, { ...options, link: true })
      return this.traits.caseSensitive || entry.name === nameOf(path)
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return false
      throw error
    }
  }

  /** The whole folder, sorted by the storage's options. `part`: the number of entries that the caller shows. */
  listing(
    path: Path,
    options: CallOptions & { readonly refresh?: boolean; readonly part?: number } = {},
  ): Promise<FolderListing> {
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
   * `revision`. `fresh`: does not use the cached listing.
   */
  async *list(path: Path, options: CallOptions & { readonly fresh?: boolean } = {}): AsyncGenerator<readonly Entry[]> {
    if (this.#driver.revision || options.fresh === true) {
      yield* this.#pagesOfDriver(path, options)
      return
    }
    const { entries } = await this.listing(path, options)
    for (let at = 0; at < entries.length; at += pageSize) yield entries.slice(at, at + pageSize)
  }

  /** Names that the last listing of the folder omitted because no path can hold them; undefined if there are none. */
  leftOut(folder: Path): SkippedNames | undefined {
    return this.#names.skippedIn(folder)
  }

  #pagesOfDriver(path: Path, options: ListOptions): AsyncIterable<readonly Entry[]> {
    const pages = this.#names.filterPages(path, this.#driver.list(path, options))
    return this.#attributes.applyToPages(this.treePath(path), pages)
  }

  async read(path: Path, range?: ByteRange, options: CallOptions = {}): Promise<Readable> {
    if (range?.length === 0) {
      const entry = await this.stat(path, options)
      if (entry.kind === 'folder') throw new GatewayError('is_dir')
      return Readable.from([])
    }
    const own = this.traits.ranges ? range : undefined
    const bytes = await this.#driver.read(path, own, options)
    const slowed = this.#bandwidth?.fromBackends.stream(bytes) ?? bytes
    return range === undefined || range === own ? slowed : streamRange(slowed, range)
  }

  /** A stored file as a source. */
  source(path: Path, entry: Entry): Source {
    return {
      size: entry.size,
      modified: entry.modified,
      hashes: entry.hashes,
      rereadable: true,
      read: (range, options) => this.read(path, range, options),
    }
  }

  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    const own = await this.openOwn(path, mode, options)
    if (own) return own
    return mode === 'read' ? this.#readByStream(path, options) : this.#openAside(path, mode, options)
  }

  /** The backend's own handle; undefined if it has none. */
  async openOwn(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile | undefined> {
    if (mode !== 'read') {
      this.assertWritable()
      await this.#makeLeading(path, options)
    }
    const driver = this.#driver
    const own = await undefinedIfUnsupported(driver.open && (async () => driver.open?.(path, mode, options)))
    return own && this.#watched(path, mode, this.#atSpeed(own), options)
  }

  #atSpeed(file: OpenFile): OpenFile {
    return this.#bandwidth ? throttled(file, this.#bandwidth.fromBackends, this.#bandwidth.toBackends) : file
  }

  /** The driver's own handle, with events for its changes. */
  #watched(path: Path, mode: OpenMode, own: OpenFile, options: Attributes): OpenFile {
    if (mode === 'read') return own
    let dirty = false
    return withHooks(own, {
      changing: () => {
        if (mode !== 'update') return
        dirty = true
        // Changes in place are visible immediately, so a listing must not be cached between two writes.
        this.#forget(this.treePath(path), false)
      },
      committing: () => {
        dirty = true
      },
      committed: async (stored, { modified = options.modified, mode: bits = options.mode }) => {
        return this.#attributes.afterWrite(this.treePath(path), { modified, mode: bits }, stored)
      },
      ended: () => {
        if (dirty) this.#changed(path)
        dirty = false
      },
    })
  }

  async #readByStream(path: Path, options: CallOptions): Promise<OpenFile> {
    // Compared with later entries, so it must not come from the cached listing.
    const entry = await this.stat(path, { ...options, fresh: true })
    if (entry.kind === 'folder') throw new GatewayError('is_dir')
    let isFirst = true
    const open = async (range: ByteRange) => {
      const stream = await this.read(path, range, options)
      if (!isFirst) await this.#assertUnchanged(path, entry, stream, options)
      isFirst = false
      return stream
    }
    return new StreamReader(entry, open, this.traits.ranges)
  }

  /** Every stream is opened by name: a handle must not mix the content of two files. */
  async #assertUnchanged(path: Path, entry: Entry, stream: Readable, options: CallOptions): Promise<void> {
    stream.on('error', () => undefined) // it may fail meanwhile: its reader gets the error
    try {
      if (contentVersion(await this.stat(path, { ...options, fresh: true })) === contentVersion(entry)) return
      throw new GatewayError('busy', { reason: 'the file changed while it was read' })
    } catch (error) {
      stream.destroy()
      throw error
    }
  }

  async #openAside(path: Path, mode: 'update' | 'replace', options: OpenOptions): Promise<OpenFile> {
    const old = await this.stat(path, options).catch((error: unknown) => {
      if (mode === 'replace' && isGatewayError(error, 'not_found')) return undefined
      throw error
    })
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (old && options.createOnly === true) throw new GatewayError('exists')
    if (!old) await this.#assertParent(path, options)
    const fresh: Entry = { name: nameOf(path), kind: 'file', size: 0, modified: new Date() }
    const { readable, ...publish } = options
    const writeBack = (source: Source, { modified = publish.modified, mode = publish.mode }: Attributes) =>
      this.write(path, source, { ...publish, modified, mode })
    if (mode === 'update' && old) {
      // A change in place does not change the permission bits.
      const content = this.source(path, old)
      const change = (source: Source, { mode = publish.mode ?? old.mode, modified }: Attributes) =>
        writeBack(source, { mode, modified })
      return SpooledFile.open(this.#spool, old, content, change, options.signal)
    }
    if (readable === true) return SpooledFile.open(this.#spool, fresh, undefined, writeBack, options.signal)
    return new StreamWriter(
      fresh,
      publish,
      (source, write) => this.write(path, source, write),
      async (entry, attributes) => {
        if (attributes.modified === undefined && attributes.mode === undefined) return entry
        await this.setAttributes(path, attributes, { signal: options.signal })
        return this.stat(path, { signal: options.signal })
      },
    )
  }

  /** Otherwise a stream would report a missing parent only at its end. */
  async #assertParent(path: Path, options: CallOptions): Promise<void> {
    // On a backend without folders, no parent can be missing.
    if (!this.traits.emptyFolders) return
    const parent = await this.stat(parentOf(path), options).catch((error: unknown) => {
      throw isGatewayError(error, 'not_found') ? new GatewayError('parent_missing') : error
    })
    if (parent.kind !== 'folder') throw new GatewayError('not_dir')
  }

  async readLink(path: Path, options: CallOptions = {}): Promise<string> {
    if (!this.#driver.readLink) throw new GatewayError('unsupported', { reason: 'this storage has no links' })
    return this.#driver.readLink(path, options)
  }

  /** The path without symlinks; see `Driver.realPath`. */
  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    return (await this.#driver.realPath?.(path, options)) ?? path
  }

  /** The path without symlinks, and the entry at it, in one call of the driver if possible. */
  async look(path: Path, options: CallOptions = {}): Promise<LookupResult> {
    const driver = this.#driver
    if (!driver.look || !driver.revision) {
      const real = await this.realPath(path, { ...options, last: true })
      return { path: real, entry: await this.statOrUndefined(real, options) }
    }
    const look = await driver.look(path, options)
    if (!look.entry || !this.#attributes.needed) return look
    return { path: look.path, entry: await this.#attributes.apply(this.treePath(look.path), look.entry) }
  }

  /** The files and folders that a change of the entry at `path` would modify; see `Driver.identities`. */
  async identities(path: Path, options: CallOptions = {}): Promise<readonly Identity[]> {
    const driver = this.#driver
    const own = await undefinedIfUnsupported(driver.identities && (async () => driver.identities?.(path, options)))
    return own ?? [{ namespace: `storage ${this.row.id}`, name: this.traits.caseSensitive ? path : foldCase(path) }]
  }

  /** Whether the backend has URLs of its own for files. */
  get hasLinks(): boolean {
    return this.#driver.directUrl !== undefined
  }

  /** Rejects with `unsupported` if the backend has no URL of its own for this file. */
  async directUrl(path: Path, options: CallOptions = {}): Promise<DirectUrl> {
    const ask = () => undefinedIfUnsupported(async () => this.#driver.directUrl?.(path))
    const url = this.hasLinks && (await untilAborted(this.#links.get(path, ask), options.signal))
    if (!url) throw new GatewayError('unsupported')
    return url
  }

  async thumbnail(path: Path, kind: ThumbnailKind, options: CallOptions = {}): Promise<Thumbnail> {
    const made = await this.#driver.thumbnail?.(path, kind, options)
    if (!made) throw new GatewayError('unsupported', { reason: 'this storage makes no thumbnails' })
    return made
  }

  async usage(options: CallOptions = {}): Promise<Usage> {
    if (!this.#driver.usage) throw new GatewayError('unsupported', { reason: 'this storage does not tell its size' })
    return this.#driver.usage(options)
  }

  /** As `usage`; undefined if the backend does not report it, or not in time. */
  usageWithTimeout(): Promise<Usage | undefined> {
    return this.#driver.usage ? this.#patientUsage.usageWithTimeout() : Promise.resolve(undefined)
  }

  // Changing

  /** Rejects with `unsupported` if the driver is read-only. */
  assertWritable(): void {
    if (!this.writable) throw new GatewayError('unsupported', { reason: 'the storage is read-only' })
  }

  async write(path: Path, source: Source, options: StorageWriteOptions = {}): Promise<Entry> {
    this.assertWritable()
    const { writeNeeds } = this.traits
    const isTooLittle =
      (writeNeeds === 'size' && source.size === undefined) || (writeNeeds === 'reread' && !source.rereadable)
    if (isTooLittle) return this.#writeSpooled(path, source, options)
    if (source.size !== undefined) return this.#send(path, source, options)
    const body = { isRead: false }
    const read: Source['read'] = (range, call) => {
      body.isRead = true
      return source.read(range, call)
    }
    const { modified, hashes, rereadable } = source
    try {
      return await this.#send(path, { modified, hashes, rereadable, read }, options)
    } catch (error) {
      // Some backends report only now that they need the size.
      if (body.isRead || !isGatewayError(error, 'unsupported')) throw error
      return this.#writeSpooled(path, source, options)
    }
  }

  async #writeSpooled(path: Path, source: Source, options: WriteOptions): Promise<Entry> {
    const spooled = await this.#spool.receive(source, options.signal)
    try {
      return await this.#send(path, spooled, options)
    } finally {
      await spooled.dispose()
    }
  }

  async #send(path: Path, source: Source, { resumable: kept, ...options }: StorageWriteOptions): Promise<Entry> {
    await this.#makeLeading(path, options)
    const driver = this.#driver
    const sent = this.#bandwidth?.toBackends.source(source) ?? source
    const write = async () => {
      const byParts = kept && (() => writeResumable(driver, this.row.id, [path, sent], kept, options))
      const entry = byParts && (await this.#calls.limitWrite(byParts, options))
      return entry ?? driver.write?.(path, sent, options)
    }
    const entry = await this.#changing([path], write)
    if (!entry) throw new GatewayError('unsupported')
    try {
      return await this.#attributes.afterWrite(this.treePath(path), options, entry)
    } finally {
      this.#changed(path)
    }
  }

  /** Discards a resumable upload; see `Driver.dropUpload`. */
  async dropUpload(token: string): Promise<void> {
    await this.#driver.dropUpload?.(token)
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    await this.#makeLeading(path, options)
    await this.#changing([path], async () => this.#driver.mkdir?.(path, options))
    // Those of an earlier entry of this name that another program has removed.
    await this.#attributes.delete(this.treePath(path))
    this.#events.emit({ kind: 'folder made', path: this.treePath(path) })
  }

  /** Removes a file, a symlink or an empty folder. */
  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    await this.#changing([path], async () => this.#driver.remove?.(path, options))
    this.#events.emit({ kind: 'removed', path: this.treePath(path) })
    await this.#attributes.delete(this.treePath(path))
  }

  /**
   * Removes the file, symlink or tree at `path`, item by item if the backend cannot do it in one step. Symlinks are
   * removed, not followed. Rejects with TreeError if members could not be removed.
   */
  async removeTree(path: Path, { removed = [], ...options }: RemoveTreeOptions = {}): Promise<void> {
    this.assertWritable()
    const entry = await this.stat(path, { ...options, link: true })
    if (!isRealFolder(entry)) await this.remove(path, options)
    else if (!(await this.#removeTreeByBackend(path, options))) return removeItems(this, path, removed, options)
    removed.push(path)
  }

  async #removeTreeByBackend(path: Path, options: CallOptions): Promise<boolean> {
    const call = this.#driver.removeTree && (async () => this.#driver.removeTree?.(path, options))
    if (!(await this.#changing([path], () => callIfSupported(call)))) return false
    this.#events.emit({ kind: 'removed', path: this.treePath(path) })
    await this.#attributes.delete(this.treePath(path))
    return true
  }

  /** Rejects with `unsupported` if the backend cannot rename: `transfer/` then copies and removes item by item. */
  async move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    const driver = this.#driver
    if (!driver.move) throw new GatewayError('unsupported', { reason: 'this storage cannot rename' })
    await this.#makeLeading(to, options)
    await this.#changing([from, to], async () => driver.move?.(from, to, options))
    this.#events.emit({ kind: 'moved', from: this.treePath(from), path: this.treePath(to) })
  }

  /**
   * Copies one file, through the gateway if the backend cannot copy. Rejects with `unsupported` for a folder or a
   * symlink, and with `internal` if the copy has another size.
   */
  async copy(from: Path, to: Path, { source, resumable, ...options }: StorageCopyOptions = {}): Promise<void> {
    this.assertWritable()
    await this.#makeLeading(to, options)
    const call = this.#driver.copy && (async () => this.#driver.copy?.(from, to, options))
    if (!(await this.#changing([to], () => callIfSupported(call)))) {
      const entry = await this.stat(from, { signal: options.signal, fresh: true })
      if (entry.kind !== 'file') throw new GatewayError('unsupported', { reason: 'only files can be copied' })
      const { modified = entry.modified, mode = entry.mode } = options
      const attributed = { ...options, modified, mode, resumable }
      const written = await this.write(to, source ?? this.source(from, entry), attributed)
      if (written.size !== entry.size) throw new GatewayError('internal', { reason: 'the copy has another size' })
      return
    }
    try {
      await this.#attributes.afterCopy(this.treePath(from), this.treePath(to))
    } finally {
      this.#changed(to)
    }
  }

  /** Whether `copyFiles` may be possible from that storage. */
  takesFilesOf({ row }: Storage): boolean {
    return this.#driver.copyFiles !== undefined && row.driver === this.row.driver
  }

  /** Copies small files of another storage, or of this one, into an existing folder; see `Driver.copyFiles`. */
  async copyFiles(bundle: FileBundle, options: CallOptions = {}): Promise<readonly (Entry | undefined)[]> {
    this.assertWritable()
    const source = bundle.source instanceof Storage ? bundle.source.#own : bundle.source
    const call = async () => this.#driver.copyFiles?.({ ...bundle, source }, options)
    const copies = await this.#changing([bundle.to], call)
    if (!copies) throw new GatewayError('unsupported')
    return Promise.all(
      copies.map(async (copy, index) => {
        const asked = bundle.files[index]
        if (!copy || !asked) return undefined
        const path = childOf(bundle.to, copy.name)
        try {
          return await this.#attributes.afterWrite(this.treePath(path), asked, copy)
        } finally {
          this.#changed(path)
        }
      }),
    )
  }

  /**
   * Creates the parent of `path` if the tree shows it only because a storage is mounted below it.
   */
  async #makeLeading(path: Path, { signal }: CallOptions): Promise<void> {
    const folder = parentOf(path)
    if (folder === root || !this.#leads(this.treePath(folder)) || (await this.has(folder, { signal }))) return
    await this.mkdir(folder, { signal }).catch((error: unknown) => {
      // Another request has created it in the meantime.
      if (!isGatewayError(error, 'exists')) throw error
    })
  }

  /** A failed change may have changed something: invalidates the listings. */
  async #changing<T>(paths: readonly Path[], work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      for (const path of paths) this.#forget(this.treePath(path), true)
      throw error
    }
  }

  /** Attributes that the backend cannot store are stored in the database. */
  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    const driver = this.#driver
    const call = driver.setAttributes && (async () => driver.setAttributes?.(path, to, options))
    if (this.#attributes.needed || !(await this.#changing([path], () => callIfSupported(call)))) {
      await this.stat(path, options)
      await this.#attributes.set(this.treePath(path), to)
    }
    this.#changed(path)
  }

  /** Sets the time of a symlink itself; see `Driver.setLinkTime`. */
  async setLinkTime(path: Path, modified: Date, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    const driver = this.#driver
    if (!driver.setLinkTime) {
      throw new GatewayError('unsupported', { reason: 'this storage does not set the time of a link' })
    }
    await this.#changing([path], async () => driver.setLinkTime?.(path, modified, options))
    this.#changed(path)
  }

  async symlink(path: Path, target: string, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    if (!this.#driver.symlink) throw new GatewayError('unsupported', { reason: 'this storage has no links' })
    await this.#makeLeading(path, options)
    await this.#changing([path], async () => this.#driver.symlink?.(path, target, options))
    this.#changed(path)
  }

  async hardLink(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    this.assertWritable()
    if (!this.#driver.hardLink) throw new GatewayError('unsupported', { reason: 'this storage has no hard links' })
    await this.#makeLeading(to, options)
    await this.#changing([to], async () => this.#driver.hardLink?.(from, to, options))
    this.#changed(to)
  }

  async close(): Promise<void> {
    this.#unsubscribe()
    this.#listings.close()
    await this.#driver.close?.()
  }

  #changed(path: Path): void {
    this.#events.emit({ kind: 'written', path: this.treePath(path) })
  }

  /** Invalidates the listings that a change at this path of the tree affects, also those being loaded. */
  #forget(treePath: Path, withBelow: boolean): void {
    const path = within(this.mount, treePath) ?? (within(treePath, this.mount) === undefined ? undefined : root)
    if (path === undefined) return
    this.#links.invalidate(path, withBelow)
    this.#listings.invalidate(path, withBelow)
  }
}
