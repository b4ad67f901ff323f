/**
 * A mounted driver with every gap filled: what it cannot do is done with what it can, what it cannot keep is kept beside
 * it, its listings are cached, and every change is told to the events. Paths are the driver's own; `/` is the mount.
 */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import { Readable } from 'node:stream'
import PQueue from 'p-queue'
import picomatch from 'picomatch'
import {
  defaultTraits,
  type Attributes,
  type ByteRange,
  type CallOptions,
  type Driver,
  type Entry,
  type Link,
  type OpenFile,
  type OpenMode,
  type OpenOptions,
  type Source,
  type Traits,
  type Usage,
  type WriteOptions,
} from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import type { Events } from './events.js'
import { hooked, SpooledFile, StreamReader, StreamWriter } from './handles.js'
import { ListingCache } from './listing-cache.js'
import { childOf, nameOf, parentOf, root, under, within, type Path } from './path.js'
import { sorted } from './sorting.js'
import type { Spool } from './spool.js'
import type { StorageRow, Store } from './store/rows.js'

export interface StorageParts {
  readonly row: StorageRow
  /** The part of the mount path that is visible. */
  readonly mount: Path
  readonly driver: Driver
  readonly traits: Partial<Traits> | undefined
  readonly events: Events
  readonly spool: Spool
  readonly attributes: Store['attributes']
}

/** A folder's entries, sorted. */
export interface FolderListing {
  readonly entries: readonly Entry[]
  /** false: the names stand, their sizes and times may be older. Ask `refreshed` for those that are shown. */
  readonly settled: boolean
}

/** Members of a folder in one page of `pages`. */
const pageSize = 1000

/** Milliseconds in which a folder's revision may stay the same though a name came or went. */
const revisionGrain = 2000

interface Load {
  readonly promise: Promise<readonly Entry[]>
  readonly controller: AbortController
  waiters: number
  stale: boolean
}

export class Storage {
  readonly row: StorageRow
  readonly mount: Path
  readonly traits: Traits
  readonly #driver: Driver
  readonly #events: Events
  readonly #spool: Spool
  readonly #attributes: Store['attributes']
  readonly #cache = new ListingCache()
  readonly #loads = new Map<Path, Load>()
  readonly #unsubscribe: () => void
  readonly #queue: PQueue | undefined
  /** Whether the code that runs does so within a call of this storage: what it asks of it must not wait for its own end. */
  readonly #within = new AsyncLocalStorage<true>()
  /** Times and modes are kept in the store, because the backend keeps none. */
  readonly #remembers: boolean
  readonly #policies: readonly { readonly matches: (path: string) => boolean; readonly milliseconds: number }[]

  constructor(parts: StorageParts) {
    this.row = parts.row
    this.mount = parts.mount
    this.traits = { ...defaultTraits, ...parts.traits, ...parts.driver.traits }
    this.#driver = parts.driver
    this.#events = parts.events
    this.#spool = parts.spool
    this.#attributes = parts.attributes
    this.#unsubscribe = parts.events.on((event) => {
      this.#forget(event.path, event.kind === 'removed' || event.kind === 'moved')
      if (event.kind === 'moved') this.#forget(event.from, true)
    })
    this.#queue = Number.isFinite(this.traits.parallel) ? new PQueue({ concurrency: this.traits.parallel }) : undefined
    this.#remembers =
      parts.driver.write !== undefined &&
      (parts.driver.setAttributes === undefined || this.traits.timeStep === Number.POSITIVE_INFINITY)
    this.#policies = cachePolicies(parts.row.customCachePolicies)
  }

  /** The storage's path in the whole tree. */
  treePath(path: Path): Path {
    return under(this.mount, path)
  }

  get writable(): boolean {
    return this.#driver.write !== undefined
  }

  /** One call of the driver, in turn where it takes only so many at once. */
  async #call<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (!this.#queue || this.#within.getStore()) return work()
    if (signal?.aborted) throw new GatewayError('aborted')
    // A queue runs its work in the context of whoever left it room.
    const bound = AsyncResource.bind(() => this.#within.run(true, work))
    const call = { begun: false }
    const waited = this.#queue.add(
      () => {
        call.begun = true
        return bound()
      },
      signal ? { signal } : {},
    )
    try {
      return await waited
    } catch (error) {
      throw signal?.aborted && !call.begun ? new GatewayError('aborted') : error
    }
  }

  // Reading

  async stat(path: Path, options: CallOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    const kept = this.#driver.revision || options.link === true ? undefined : this.#keptEntry(path)
    const entry = kept ?? (await this.#call(() => this.#driver.stat(path, options), options.signal))
    if (!this.#remembers) return entry
    return overlaid(entry, await this.#attributes.of(this.treePath(path)))
  }

  /** From the parent's cached listing; undefined where that cannot tell. */
  #keptEntry(path: Path): Entry | undefined {
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
    const policy = this.#policies.find((each) => each.matches(folder))
    return policy?.milliseconds ?? this.row.cacheExpiration * 60_000
  }

  /** The whole folder, sorted by the storage's options. `part`: only so many entries are shown. */
  async listing(
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

  /** These entries of a folder as the backend tells them now; those that are gone are left out. */
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

  async #revision(path: Path, options: CallOptions): Promise<string | undefined> {
    try {
      return await this.#driver.revision?.(path, options)
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
      const controller = new AbortController()
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
      return await withSignal(shared.promise, signal)
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
    for await (const page of this.#pagesOfDriver(path, { signal })) for (const entry of page) all.push(entry)
    const entries = sorted(all, {
      by: this.row.orderBy,
      direction: this.row.orderDirection,
      folders: this.row.extractFolder,
    })
    if (
      !isStale() &&
      (revision === undefined ? this.#lifetime(path) > 0 : await this.#holds(path, revision, readAt, signal))
    ) {
      this.#cache.keep(path, { entries, revision, readAt })
    }
    return entries
  }

  /** Whether a listing just read may be kept: nothing came or went meanwhile, nor so lately that the revision could not tell. */
  async #holds(path: Path, revision: string, readAt: number, signal: AbortSignal): Promise<boolean> {
    const folder = await this.#driver.stat(path, { signal })
    return folder.modified.getTime() < readAt - revisionGrain && (await this.#revision(path, { signal })) === revision
  }

  /** Pages in any order, flat in memory where the backend tells its folders fast enough to keep nothing. */
  async *pages(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    if (this.#driver.revision) {
      yield* this.#pagesOfDriver(path, options)
      return
    }
    const { entries } = await this.listing(path, options)
    for (let at = 0; at < entries.length; at += pageSize) yield entries.slice(at, at + pageSize)
  }

  async *#pagesOfDriver(path: Path, options: CallOptions): AsyncGenerator<readonly Entry[]> {
    if (!this.#remembers) {
      yield* this.#driver.list(path, options)
      return
    }
    const remembered = await this.#attributes.ofChildren(this.treePath(path))
    for await (const page of this.#driver.list(path, options)) {
      yield remembered.size === 0
        ? page
        : page.map((entry) => overlaid(entry, remembered.get(this.treePath(childOf(path, entry.name)))))
    }
  }

  async read(path: Path, range?: ByteRange, options: CallOptions = {}): Promise<Readable> {
    if (range?.length === 0) {
      const entry = await this.stat(path, options)
      if (entry.kind === 'folder') throw new GatewayError('is_dir')
      return Readable.from([])
    }
    if (this.traits.ranges || range === undefined) {
      return this.#call(() => this.#driver.read(path, range, options), options.signal)
    }
    return part(await this.#call(() => this.#driver.read(path, undefined, options), options.signal), range)
  }

  /** A stored file as what another storage can read. */
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
    if (mode !== 'read') this.#mustWrite()
    const own = await unlessUnsupported(
      this.#driver.open && (() => this.#call(async () => this.#driver.open?.(path, mode, options), options.signal)),
    )
    if (own) return this.#watched(path, mode, own, options)
    return mode === 'read' ? this.#readByStream(path, options) : this.#openAside(path, mode, options)
  }

  /** The driver's own handle; what it changes is told to the events. */
  #watched(path: Path, mode: OpenMode, own: OpenFile, options: Attributes): OpenFile {
    if (mode === 'read') return own
    let dirty = false
    return hooked(own, {
      changing: () => {
        if (mode !== 'update') return
        dirty = true
        // What is changed in place is seen at once: no listing may be kept from one write to the next.
        this.#forget(this.treePath(path), false)
      },
      committing: () => {
        dirty = true
      },
      committed: async (stored, { modified = options.modified, mode: bits = options.mode }) => {
        await this.#forgetAttributes(path)
        return this.#keepAttributes(path, { modified, mode: bits }, stored)
      },
      ended: () => {
        if (dirty) this.#changed(path)
        dirty = false
      },
    })
  }

  async #readByStream(path: Path, options: CallOptions): Promise<OpenFile> {
    const entry = await this.stat(path, options)
    if (entry.kind === 'folder') throw new GatewayError('is_dir')
    return new StreamReader(entry, (offset) => this.read(path, offset === 0 ? undefined : { offset }, options))
  }

  async #openAside(path: Path, mode: 'update' | 'replace', options: OpenOptions): Promise<OpenFile> {
    const old = await this.stat(path, options).catch((error: unknown) => {
      if (mode === 'replace' && isGatewayError(error, 'not_found')) return undefined
      throw error
    })
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (old && options.createOnly === true) throw new GatewayError('exists')
    const fresh: Entry = { name: nameOf(path), kind: 'file', size: 0, modified: new Date() }
    const { readable, ...publish } = options
    const writeBack = (source: Source, { modified = publish.modified, mode = publish.mode }: Attributes) =>
      this.write(path, source, { ...publish, modified, mode })
    if (mode === 'update' && old) {
      return SpooledFile.open(this.#spool, old, this.source(path, old), writeBack, options.signal)
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

  async readLink(path: Path, options: CallOptions = {}): Promise<string> {
    if (!this.#driver.readLink) throw new GatewayError('unsupported', { reason: 'this storage has no links' })
    return this.#driver.readLink(path, options)
  }

  async link(path: Path, options: CallOptions = {}): Promise<Link | undefined> {
    return unlessUnsupported(this.#driver.link && (async () => this.#driver.link?.(path, options)))
  }

  async usage(options: CallOptions = {}): Promise<Usage> {
    if (!this.#driver.usage) throw new GatewayError('unsupported', { reason: 'this storage does not tell its size' })
    return this.#driver.usage(options)
  }

  // Changing

  #mustWrite(): void {
    if (!this.writable) throw new GatewayError('unsupported', { reason: 'the storage is read-only' })
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    this.#mustWrite()
    const { writeNeeds } = this.traits
    const spools =
      (writeNeeds === 'size' && source.size === undefined) || (writeNeeds === 'reread' && !source.rereadable)
    const spooled = spools ? await this.#spool.receive(source, options.signal) : undefined
    try {
      const entry = await this.#changing([path], () =>
        this.#call(async () => this.#driver.write?.(path, spooled ?? source, options), options.signal),
      )
      if (!entry) throw new GatewayError('unsupported')
      try {
        await this.#forgetAttributes(path)
        return await this.#keepAttributes(path, options, entry)
      } finally {
        this.#changed(path)
      }
    } finally {
      await spooled?.dispose()
    }
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    this.#mustWrite()
    await this.#changing([path], () => this.#call(async () => this.#driver.mkdir?.(path, options), options.signal))
    this.#events.emit({ kind: 'folder made', path: this.treePath(path) })
  }

  /** A file, a link, or an empty folder. */
  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    this.#mustWrite()
    await this.#changing([path], () => this.#call(async () => this.#driver.remove?.(path, options), options.signal))
    this.#events.emit({ kind: 'removed', path: this.treePath(path) })
    await this.#forgetAttributes(path)
  }

  /** Everything at and below `path` in one step, where the driver has one; false where it has none. */
  async removeTree(path: Path, options: CallOptions = {}): Promise<boolean> {
    this.#mustWrite()
    const driver = this.#driver
    if (!driver.removeTree) return false
    const call = () => this.#call(async () => driver.removeTree?.(path, options), options.signal)
    const done = await this.#changing([path], () => succeeds(call))
    if (!done) return false
    this.#events.emit({ kind: 'removed', path: this.treePath(path) })
    await this.#forgetAttributes(path)
    return true
  }

  /** In one step, where the driver has one; false where it has none. */
  async move(from: Path, to: Path, options: CallOptions = {}): Promise<boolean> {
    this.#mustWrite()
    const driver = this.#driver
    if (!driver.move) return false
    const call = () => this.#call(async () => driver.move?.(from, to, options), options.signal)
    const done = await this.#changing([from, to], () => succeeds(call))
    if (done) this.#events.emit({ kind: 'moved', from: this.treePath(from), path: this.treePath(to) })
    return done
  }

  /** One file, by the backend itself; false where it cannot. */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<boolean> {
    this.#mustWrite()
    const driver = this.#driver
    if (!driver.copy) return false
    const call = () => this.#call(async () => driver.copy?.(from, to, options), options.signal)
    if (!(await this.#changing([to], () => succeeds(call)))) return false
    try {
      if (this.#remembers) await this.#attributes.copy(this.treePath(from), this.treePath(to))
    } finally {
      this.#changed(to)
    }
    return true
  }

  /** A change that fails may have changed something all the same: no listing survives it. */
  async #changing<T>(paths: readonly Path[], work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      for (const path of paths) this.#forget(this.treePath(path), true)
      throw error
    }
  }

  /** What the backend cannot keep is kept in the store. */
  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    this.#mustWrite()
    const driver = this.#driver
    const call = () => this.#call(async () => driver.setAttributes?.(path, to, options), options.signal)
    if (this.#remembers || !(await this.#changing([path], () => succeeds(call)))) {
      await this.stat(path, options)
      await this.#attributes.set(this.treePath(path), to)
    }
    this.#changed(path)
  }

  async symlink(path: Path, target: string, options: CallOptions = {}): Promise<void> {
    if (!this.#driver.symlink) throw new GatewayError('unsupported', { reason: 'this storage has no links' })
    await this.#driver.symlink(path, target, options)
    this.#changed(path)
  }

  async hardLink(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    if (!this.#driver.hardLink) throw new GatewayError('unsupported', { reason: 'this storage has no hard links' })
    await this.#driver.hardLink(from, to, options)
    this.#changed(to)
  }

  async close(): Promise<void> {
    this.#unsubscribe()
    this.#cache.clear()
    for (const load of this.#loads.values()) load.controller.abort()
    await this.#driver.close?.()
  }

  async #keepAttributes(path: Path, options: Attributes, entry: Entry): Promise<Entry> {
    if (!this.#remembers) return entry
    const { modified, mode } = options
    const step = Number.isFinite(this.traits.timeStep) ? Math.max(1, this.traits.timeStep) : 1
    // Only what the backend did not keep: the rest would hide what another program makes of the file.
    const lost = {
      ...(modified && Math.abs(modified.getTime() - entry.modified.getTime()) >= step && { modified }),
      ...(mode !== undefined && mode !== entry.mode && { mode }),
    }
    await this.#attributes.set(this.treePath(path), lost)
    return overlaid(entry, lost)
  }

  async #forgetAttributes(path: Path): Promise<void> {
    if (this.#remembers) await this.#attributes.delete(this.treePath(path))
  }

  #changed(path: Path): void {
    this.#events.emit({ kind: 'written', path: this.treePath(path) })
  }

  /** Drops the listings that a change at this path of the tree makes old, also those being read right now. */
  #forget(treePath: Path, withBelow: boolean): void {
    const path = within(this.mount, treePath) ?? (within(treePath, this.mount) === undefined ? undefined : root)
    if (path === undefined) return
    const old = (folder: Path) => folder === parentOf(path) || (withBelow && within(path, folder) !== undefined)
    this.#cache.drop(parentOf(path))
    if (withBelow) this.#cache.dropWithin(path)
    for (const [folder, load] of this.#loads) {
      if (!old(folder)) continue
      load.stale = true
      this.#loads.delete(folder)
    }
  }
}

function overlaid(entry: Entry, attributes: Attributes | undefined): Entry {
  if (!attributes) return entry
  const { modified = entry.modified, mode = entry.mode } = attributes
  return { ...entry, modified, ...(mode === undefined ? {} : { mode }) }
}

/** What the quicker way answers; undefined where there is none, or where it refuses before doing anything. */
async function unlessUnsupported<T>(call: (() => Promise<T>) | undefined): Promise<T | undefined> {
  try {
    return await call?.()
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return undefined
    throw error
  }
}

/** Whether the driver did it; false where it refuses before doing anything. */
async function succeeds(call: () => Promise<unknown> | undefined): Promise<boolean> {
  try {
    await call()
    return true
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return false
    throw error
  }
}

async function withSignal<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  let leave: () => void = () => undefined
  const left = new Promise<never>((_resolve, reject) => {
    leave = () => reject(new GatewayError('aborted'))
    signal.addEventListener('abort', leave, { once: true })
  })
  try {
    return await Promise.race([promise, left])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** A range of a stream that starts at byte 0; what is not needed of it is never asked for. */
function part(whole: Readable, range: ByteRange): Readable {
  const cut = Readable.from(bytesOf(whole, range), { objectMode: false })
  // It may fail before anybody reads the part.
  whole.once('error', (error) => cut.destroy(error))
  return cut.once('close', () => whole.destroy())
}

async function* bytesOf(whole: Readable, range: ByteRange): AsyncGenerator<Buffer> {
  let skip = range.offset
  let left = range.length ?? Number.POSITIVE_INFINITY
  // Left early, an iterator that ends its stream makes it fail first: `part` ends it.
  for await (const chunk of whole.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const from = Math.min(skip, chunk.length)
    skip -= from
    const bytes = chunk.subarray(from, Math.min(chunk.length, from + left))
    left -= bytes.length
    if (bytes.length > 0) yield bytes
    if (left === 0) return
  }
}

/** Lines `glob:minutes`, the first that matches counts; others are passed over. */
function cachePolicies(text: string) {
  return text.split('\n').flatMap((line) => {
    const colon = line.lastIndexOf(':')
    const minutes = Number(line.slice(colon + 1))
    const glob = line.slice(0, Math.max(colon, 0)).trim()
    if (glob === '' || line.slice(colon + 1).trim() === '' || !Number.isFinite(minutes)) return []
    return [{ matches: picomatch(glob), milliseconds: minutes * 60_000 }]
  })
}
