/** A folder of a share on an SMB server as a storage. Names that differ only in case are one name there. */
import type { Readable } from 'node:stream'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  OpenFile,
  OpenMode,
  OpenOptions,
  Source,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { cleanPath, folded, isWithin, nameOf, parentOf, segmentsOf, type Path } from '../../src/path.js'
import { stagedBy, stagedName } from '../lib/staged-names.js'
import { attributes, type FileFacts, type FileId } from './client/messages.js'
import { Share, type ShareOptions } from './client/share.js'
import { status } from './client/statuses.js'
import { isMissing, isStatus, translated } from './errors.js'
import type { SmbOptions } from './index.js'
import { folderOf, formsOf, isAmbiguous, isSameName, joined, nameFromWire, wireName } from './names.js'
import { Shares } from './shares.js'
import { renameAt, StagedFile } from './staged-file.js'
import { readingStream, readInto, writeAll, writeFrom } from './streams.js'

/** Milliseconds to connect, and for one answer. */
const limits = { connect: 15_000, answer: 60_000 } as const
const pageSize = 1000
/** Reparse points that lead elsewhere (MS-FSCC §2.1.2.1): symbolic links and junctions. All others are files of a kind. */
const leadingTags: ReadonlySet<number> = new Set([0xa000000c, 0xa0000003])

const protections = { 'as the server asks': 'none', signed: 'signing', encrypted: 'encryption' } as const

export async function openSmb(options: SmbOptions, env: DriverEnv): Promise<Driver> {
  const shareOptions = shareOptionsOf(options)
  const root = segmentsOf(cleanPath(options.root_folder_path)).map(wireName).join('\\')
  const driver = new SmbDriver(() => Share.open(shareOptions), root, env)
  try {
    const { kind } = await driver.stat('/' as Path)
    if (kind !== 'folder') throw new GatewayError('invalid', { reason: 'root_folder_path is no folder' })
  } catch (error) {
    await driver.close()
    throw isGatewayError(error, 'not_found')
      ? new GatewayError('invalid', { reason: 'root_folder_path is not there', cause: error })
      : error
  }
  return driver
}

function shareOptionsOf({ address, username, password, share_name: share, protection }: SmbOptions): ShareOptions {
  const match = /^(?:smb:\/\/)?(?:\[([^\]]+)\]|([^:[\]/\\]+))(?::(\d{1,5}))?\/?$/.exec(address.trim())
  const [, bracketed, plain, port = '445'] = match ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65535) {
    throw new GatewayError('invalid', { reason: 'address must be host or host:port' })
  }
  const name = share.replace(/^[\\/]+|[\\/]+$/g, '')
  if (name === '' || /[\\/]/.test(name)) {
    throw new GatewayError('invalid', { reason: 'share_name must be one name; folders of it go into root_folder_path' })
  }
  const [, domain, account] = /^([^\\]+)\\(.+)$/.exec(username) ?? []
  const kind = protections[protection as keyof typeof protections]
  return {
    host,
    port: Number(port),
    limits,
    share: `\\\\${host}\\${name}`,
    // The server itself finds the domain of user@domain.
    credentials: { username: account ?? username, domain: domain ?? '', password },
    protection: kind,
  }
}

/** What is at a path: how the server spells it, and its facts where it is there. */
interface Place {
  readonly wire: string
  readonly facts: FileFacts | undefined
}

class SmbDriver implements Driver {
  /**
   * Servers refuse to rename over a file, or to rename a folder with a file, that is open on the same connection: what is open for
   * reading and for changes in place has connections of its own.
   */
  readonly #readers: Shares
  readonly #changers: Shares
  readonly #toldNames = new Set<string>()
  /** Where files are being written. */
  readonly #uploads = new Set<string>()

  constructor(
    connect: () => Promise<Share>,
    private readonly root: string,
    private readonly env: DriverEnv,
  ) {
    this.#readers = new Shares(connect)
    this.#changers = new Shares(connect)
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    return this.#within(signal, () => this.#readers.useAgain((share) => this.#entryAt(share, path)))
  }

  async *list(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    // Names come in pages through one handle: behind the first of them nothing can be asked again.
    const { held, id, first, close } = await this.#within(
      signal,
      () => this.#openToList(path),
      ({ close }) => close(),
    )
    const { share } = held
    let next: Promise<readonly FileFacts[]> = Promise.resolve(first)
    try {
      for (;;) {
        const names = await this.#within(signal, () => next)
        if (names.length === 0) return
        next = share.names(id, false)
        next.catch(() => undefined) // told when its turn comes
        const entries = this.#entries(names, path)
        for (let at = 0; at < entries.length; at += pageSize) yield entries.slice(at, at + pageSize)
      }
    } finally {
      void close()
    }
  }

  async #openToList(path: Path) {
    return this.#readers.useAgain(async (share) => {
      const { id } = await this.#spelled(share, path, (wire) => share.open(wire, 'folder'))
      const { held, close } = this.#kept(share, id)
      try {
        return { held, id, close, first: await share.names(id, true) }
      } catch (error) {
        await close()
        throw error
      }
    })
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { held, id, facts, close } = await this.#within(
      signal,
      () => this.#openToRead(path),
      ({ close }) => close(),
    )
    const position = Math.min(range.offset, facts.size)
    const end = Math.min(facts.size, position + (range.length ?? facts.size))
    const stream = readingStream({ share: held.share, id, position, end }, close)
    // A stream that nobody reads runs no code of its own when it is destroyed.
    stream.once('close', () => void close())
    const abort = () => stream.destroy(new GatewayError('aborted'))
    signal?.addEventListener('abort', abort, { once: true })
    stream.once('close', () => signal?.removeEventListener('abort', abort))
    return stream
  }

  async #openToRead(path: Path, how: 'read' | 'update' = 'read') {
    return this.#readers.useAgain(async (share) => {
      const { id, facts } = await this.#spelled(share, path, (wire) => share.openWithFacts(wire, how))
      return { id, facts, ...this.#kept(share, id) }
    })
  }

  /** Keeps the connection of an open file, and tells what gives both back, once. */
  #kept(share: Share, id: FileId) {
    const held = this.#readers.keep(share)
    let isOpen = true
    const close = async () => {
      if (!isOpen) return
      isOpen = false
      await share.closeFile(id).catch(() => undefined)
      held.give()
    }
    return { held, close }
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    return this.#within(signal, async () => {
      const { held, place, staged } = await this.#stage(path, options)
      try {
        await writeAll(source, held.share, staged.id, signal)
        assertGoing(signal)
        return await this.#publish(staged, place, path, options)
      } catch (error) {
        await this.#discard(staged)
        throw error
      } finally {
        held.give()
      }
    })
  }

  /** A new file beside `path`, which can be replaced. */
  async #stage(path: Path, { createOnly }: WriteOptions) {
    return this.#changers.useAgain(async (share) => {
      const place = await this.#replaceable(share, path, createOnly)
      const aside = joined(folderOf(place.wire), stagedName(this.env.instance.name))
      const staged = await StagedFile.create(share, aside).catch((error: unknown) =>
        this.#explainNew(share, error, path),
      )
      this.#uploads.add(aside)
      const held = this.#changers.keep(share)
      const give = () => {
        this.#uploads.delete(aside)
        held.give()
      }
      return { held: { share, give }, place, staged }
    })
  }

  /** The staged file takes its name. */
  async #publish(staged: StagedFile, place: Place, path: Path, options: WriteOptions): Promise<Entry> {
    await options.beforePublish?.()
    assertGoing(options.signal)
    const replaces = options.createOnly !== true
    await staged
      .publish(place.wire, replaces, options.modified)
      .catch((error: unknown) => this.#explainTaken(staged.share, error, path))
    return this.#entryAt(staged.share, path)
  }

  /** Most servers remove it with its connection; by name, it goes from all. */
  async #discard(staged: StagedFile): Promise<void> {
    if (!(await staged.discard())) this.#removeSoon(staged.wirePath)
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('exists')
    await this.#within(signal, () =>
      this.#changers.use(async (share) => {
        const { wire, facts } = isAmbiguous(path)
          ? await this.#place(share, path)
          : { wire: this.#wire(path), facts: undefined }
        if (facts !== undefined) throw new GatewayError('exists')
        await share.makeFolder(wire).catch((error: unknown) => this.#explainNew(share, error, path))
      }),
    )
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    await this.#within(signal, () =>
      this.#changers.use((share) =>
        this.#spelled(share, path, async (wire) => {
          const aside = joined(folderOf(wire), stagedName(this.env.instance.name))
          try {
            await share.removeAt(wire, aside)
          } catch (error) {
            if (!isStatus(error, status.directoryNotEmpty) || !(await this.#sweep(share, wire))) throw error
            await share.removeAt(wire, aside)
          }
        }),
      ),
    )
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    if (from === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    await this.#within(signal, () =>
      this.#changers.use(async (share) => {
        const [source, target] = await Promise.all([this.#place(share, from), this.#place(share, to)])
        if (source.facts === undefined) throw new GatewayError('not_found')
        if (from === to) return
        const isSame = isSameName(from, to)
        if (!isSame && isWithin(folded(from), folded(to))) {
          throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
        }
        const old = isSame ? undefined : target.facts
        if (to === '/' || (old && isFolder(old))) throw new GatewayError('is_dir')
        if (old && isFolder(source.facts)) throw new GatewayError('exists')
        const wire = isSame ? joined(folderOf(source.wire), wireName(nameOf(to))) : target.wire
        try {
          await renameAt(share, source.wire, wire, old !== undefined)
        } catch (error) {
          const isHeld = [...this.#uploads].some((each) => each.startsWith(`${source.wire}\\`))
          if (isHeld && isStatus(error, status.accessDenied)) {
            throw new GatewayError('busy', { reason: 'an upload into this folder is under way', cause: error })
          }
          await this.#explainTaken(share, error, to)
        }
      }),
    )
  }

  /** By the server itself; `unsupported` where it does not. */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    await this.#within(options.signal, async () => {
      const { held, place, staged } = await this.#stage(to, options)
      const { share } = held
      try {
        const { id, facts } = await this.#spelled(share, from, (wire) => share.openWithFacts(wire, 'read'))
        try {
          await share.copy(id, staged.id, facts.size)
        } finally {
          await share.closeFile(id).catch(() => undefined)
        }
        await this.#publish(staged, place, to, { ...options, modified: options.modified ?? facts.modified })
      } catch (error) {
        await this.#discard(staged)
        throw error
      } finally {
        held.give()
      }
    })
  }

  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    return this.#within(
      options.signal,
      () => (mode === 'replace' ? this.#replacing(path, options) : this.#inPlace(path, mode)),
      (file) => file.close(),
    )
  }

  async #inPlace(path: Path, mode: 'read' | 'update'): Promise<OpenFile> {
    const { held, id, facts, close } = await this.#openToRead(path, mode)
    const told = nameFromWire(facts.name)
    // Some servers tell the name by which it was asked for, some another one of the same file.
    const name = told !== undefined && isSameName(told, nameOf(path)) ? told : nameOf(path)
    const { read, ...changes } = accessTo(held.share, id)
    return { entry: entryOf(name, facts), read, ...(mode === 'update' && changes), close }
  }

  async #replacing(path: Path, options: OpenOptions): Promise<OpenFile> {
    const { held, place, staged } = await this.#stage(path, options)
    let published: Entry | undefined
    return {
      entry: { name: nameOf(path), kind: 'file', size: 0, modified: new Date() },
      ...accessTo(held.share, staged.id),
      commit: ({ modified = options.modified }: Attributes = {}) =>
        this.#within(options.signal, async () => {
          published ??= await this.#publish(staged, place, path, { ...options, modified })
          return published
        }),
      close: async () => {
        await this.#discard(staged)
        held.give()
      },
    }
  }

  async setAttributes(path: Path, { modified }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.#changers.useAgain((share) =>
        this.#spelled(share, path, async (wire) => {
          if (modified === undefined) await share.facts(wire)
          else await share.setModifiedAt(wire, modified)
        }),
      ),
    )
  }

  async usage({ signal }: CallOptions = {}): Promise<Usage> {
    const { total, available, free } = await this.#within(signal, () =>
      this.#readers.useAgain((share) => share.space(this.root)),
    )
    return { total, used: total - free, free: available }
  }

  async close(): Promise<void> {
    this.#readers.close()
    this.#changers.close()
  }

  // What is there

  #wire(path: Path): string {
    return segmentsOf(path).reduce((folder, name) => joined(folder, wireName(name)), this.root)
  }

  /** What the server has at this path. A missing folder on the way is no failure: then nothing is there. */
  async #place(share: Share, path: Path): Promise<Place> {
    if (path === '/') return { wire: this.root, facts: await share.facts(this.root) }
    if (isAmbiguous(path)) return this.#walk(share, path)
    const folder = this.#wire(parentOf(path))
    const facts = await this.#look(share, folder, nameOf(path))
    return { wire: joined(folder, facts?.name ?? wireName(nameOf(path))), facts }
  }

  /** Name by name, each in every form that the server may have it in. */
  async #walk(share: Share, path: Path): Promise<Place> {
    let place: Place = { wire: this.root, facts: undefined }
    let isThere = true
    for (const name of segmentsOf(path)) {
      let facts: FileFacts | undefined
      for (const form of isThere ? formsOf(name) : []) facts ??= await this.#look(share, place.wire, form)
      isThere = facts !== undefined
      place = { wire: joined(place.wire, facts?.name ?? wireName(name)), facts }
    }
    return place
  }

  async #look(share: Share, folder: string, name: string): Promise<FileFacts | undefined> {
    const wire = wireName(name)
    try {
      const facts = await share.look(folder, wire)
      // By a short name that the server made up, a file would be reached past the rules for its own.
      return facts !== undefined && isSameName(facts.name, wire) ? facts : undefined
    } catch (error) {
      if (isMissing(error) || isStatus(error, status.objectNameInvalid, status.objectPathInvalid)) return undefined
      if (!isStatus(error, status.accessDenied)) throw error
      // A folder that may be passed through but not listed.
      const facts = await share.facts(joined(folder, wire)).catch((failure: unknown) => {
        if (isMissing(failure)) return undefined
        throw failure
      })
      return facts && { ...facts, name: wire }
    }
  }

  /** Does something with what is there under the server's own spelling of it. */
  async #spelled<T>(share: Share, path: Path, work: (wire: string) => Promise<T>): Promise<T> {
    if (!isAmbiguous(path)) return work(this.#wire(path))
    const { wire, facts } = await this.#walk(share, path)
    if (facts === undefined) throw new GatewayError('not_found')
    return work(wire)
  }

  async #entryAt(share: Share, path: Path): Promise<Entry> {
    const { facts } = await this.#place(share, path)
    const name = path === '/' ? '' : facts && nameFromWire(facts.name)
    if (facts === undefined || name === undefined) throw new GatewayError('not_found')
    return entryOf(name, facts)
  }

  #entries(names: readonly FileFacts[], folder: Path): Entry[] {
    const entries: Entry[] = []
    for (const facts of names) {
      if (facts.name === '.' || facts.name === '..') continue
      const by = stagedBy(facts.name)
      if (by !== undefined) {
        if (this.env.instance.isOver(by) === true) this.#removeSoon(joined(this.#wire(folder), facts.name))
        continue
      }
      // A name from the server is as hostile as one from a user.
      const name = nameFromWire(facts.name)
      if (name !== undefined) entries.push(entryOf(name, facts))
      else this.#tell(folder)
    }
    return entries
  }

  #tell(folder: Path): void {
    if (this.#toldNames.has(folder) || this.#toldNames.size >= 1000) return
    this.#toldNames.add(folder)
    this.env.log.warn({ folder }, 'names that cannot be told are left out')
  }

  /** What a run of the program that is over has left half written. */
  #removeSoon(wire: string): void {
    this.#changers.use((share) => share.removeAt(wire)).catch(() => undefined)
  }

  /** The same at once, where it keeps a folder from being removed. Resolves to whether there was any. */
  async #sweep(share: Share, folder: string): Promise<boolean> {
    const { id } = await share.open(folder, 'folder')
    const left: string[] = []
    try {
      for (let names = await share.names(id, true); names.length > 0; names = await share.names(id, false)) {
        for (const { name } of names) {
          const by = stagedBy(name)
          if (by !== undefined && this.env.instance.isOver(by) === true) left.push(name)
          else if (name !== '.' && name !== '..') return false
        }
      }
    } finally {
      await share.closeFile(id).catch(() => undefined)
    }
    for (const name of left) await share.removeAt(joined(folder, name))
    return left.length > 0
  }

  /** What would be replaced. */
  async #replaceable(share: Share, path: Path, createOnly = false): Promise<Place> {
    const place = await this.#place(share, path)
    if (place.facts && isFolder(place.facts)) throw new GatewayError('is_dir')
    if (place.facts && createOnly) throw new GatewayError('exists')
    return place
  }

  // Why it was refused

  /** Of something that was to be made. */
  async #explainNew(share: Share, error: unknown, path: Path): Promise<never> {
    if (!isMissing(error)) throw error
    const { facts } = await this.#place(share, parentOf(path))
    if (facts === undefined) throw new GatewayError('parent_missing', { cause: error })
    if (!isFolder(facts)) throw new GatewayError('not_dir', { cause: error })
    throw error
  }

  /** Of a name that could not be taken. */
  async #explainTaken(share: Share, error: unknown, path: Path): Promise<never> {
    if (isStatus(error, status.objectNameCollision, status.accessDenied)) {
      const { facts } = await this.#place(share, path)
      if (facts && isFolder(facts)) throw new GatewayError('is_dir', { cause: error })
    }
    return this.#explainNew(share, error, path)
  }

  // Calls

  /**
   * Rejects with `aborted` as soon as the signal says so; what was asked ends later by itself, and what it opened is given back by
   * `undo`.
   */
  async #within<T>(
    signal: AbortSignal | undefined,
    work: () => Promise<T>,
    undo: (result: T) => unknown = () => undefined,
  ): Promise<T> {
    assertGoing(signal)
    let stop: () => void = () => undefined
    const stopped = new Promise<never>((_resolve, reject) => {
      stop = () => reject(new GatewayError('aborted'))
    })
    signal?.addEventListener('abort', stop, { once: true })
    const working = work()
    try {
      return await Promise.race([working, stopped])
    } catch (error) {
      if (signal?.aborted !== true) throw translated(error)
      void working.then(undo, () => undefined)
      throw new GatewayError('aborted', { cause: error })
    } finally {
      signal?.removeEventListener('abort', stop)
    }
  }
}

function assertGoing(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new GatewayError('aborted')
}

/** What a handle can do beside being closed. */
function accessTo(share: Share, id: FileId): Required<Pick<OpenFile, 'read' | 'write' | 'truncate' | 'sync'>> {
  const told = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      throw translated(error)
    }
  }
  return {
    read: (into, position) => told(readInto(share, id, into, position)),
    write: (from, position) => told(writeFrom(share, id, from, position)),
    truncate: (size) => told(share.truncate(id, size)),
    sync: () => told(share.flush(id)),
  }
}

function isFolder(facts: FileFacts): boolean {
  return (facts.attributes & attributes.directory) !== 0 && !leadingTags.has(facts.reparseTag)
}

function entryOf(name: string, facts: FileFacts): Entry {
  const { size, modified, created, index, written, changed } = facts
  if (leadingTags.has(facts.reparseTag)) return { name, kind: 'link', size: 0, modified, created }
  if (isFolder(facts)) return { name, kind: 'folder', size: 0, modified, created }
  const revision = [index, BigInt(size), written, changed].map((part) => part.toString(36)).join('-')
  return { name, kind: 'file', size, modified, created, revision }
}
