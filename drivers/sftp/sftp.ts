/** A folder on an SFTP server as a storage. Links are shown as what they lead to, and moved and removed as links. */
import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { FileEntryWithStats, Stats } from 'ssh2'
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
import { GatewayError, isGatewayError, toGatewayError, type ErrorCode } from '../../src/errors.js'
import { isWithin, nameOf, parentOf, type Path } from '../../src/path.js'
import { stagedBy, stagedName } from '../lib/staged-names.js'
import type { SftpOptions } from './index.js'
import { Connection, type Account } from './connection.js'
import { Connections } from './connections.js'
import { Leavings } from './leavings.js'
import { translated } from './errors.js'
import { readingStream, writeAll } from './streams.js'

/** An old file whose place is being taken. Never swept: where a run dies in that moment, it is all there is of the file. */
const asidePrefix = '.~tidegate-aside-'

/** Bytes that are left on a disk that is called full: fewer than one request writes. */
const fullBelow = 1024 * 1024

/** Milliseconds in which the server can undo what was begun for a call that is aborted. */
const patience = 500

/** Links of a folder that are looked behind at once. */
const lookupsAtOnce = 16

export async function openSftp(options: SftpOptions, env: DriverEnv): Promise<Driver> {
  const account = accountOf(options)
  const given = options.host_key.trim().replace(/=+$/, '')
  const isKnown = async (fingerprint: string): Promise<boolean> => {
    const trusted = given || (await env.state.get('host key'))
    if (trusted === undefined) await env.state.set('host key', fingerprint)
    return trusted === undefined || trusted === fingerprint
  }
  const connections = new Connections((signal) => Connection.open(account, isKnown, signal))
  const driver = new SftpDriver(connections, options, env)
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

function accountOf({ address, username, password, private_key: privateKey, passphrase }: SftpOptions): Account {
  const match = /^(?:sftp:\/\/)?(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(address.trim())
  const [, bracketed, plain, port = '22'] = match ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65535) {
    throw new GatewayError('invalid', { reason: 'address must be host:port' })
  }
  return { host, port: Number(port), username, password, privateKey, passphrase }
}

class SftpDriver implements Driver {
  readonly #root: string
  readonly #toldNames = new Set<string>()
  readonly #leavings: Leavings
  readonly #giveBack = (connection: Connection) => this.connections.give(connection)

  constructor(
    private readonly connections: Connections,
    private readonly options: SftpOptions,
    private readonly env: DriverEnv,
  ) {
    this.#root = options.root_folder_path.replace(/\/+$/, '')
    this.#leavings = new Leavings((work) => connections.useAgain(work))
  }

  async stat(path: Path, { signal, link }: CallOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.#within(signal, () => this.connections.useAgain((on) => this.#entryAt(on, path, link === true)))
  }

  async *list(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    // Names come in batches through one handle: behind the first of them nothing can be asked again.
    const connection = await this.#within(signal, () => this.#live(), this.#giveBack)
    let handle: Buffer | undefined
    try {
      handle = await this.#within(
        signal,
        () => connection.openFolder(this.#host(path)).catch((error: unknown) => this.#explain(connection, error, path)),
        (late) => connection.closeHandle(late),
      )
      for (;;) {
        const open = handle
        const names = await this.#within(signal, () => connection.readFolder(open))
        if (names === undefined) return
        const page = await this.#within(signal, () => this.#entries(connection, path, names))
        if (page.length > 0) yield page
      }
    } finally {
      const given = handle ? connection.closeHandle(handle).catch(() => undefined) : Promise.resolve()
      void given.then(() => this.connections.give(connection))
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const opened = await this.#within(signal, () => this.#openToRead(path), closed)
    const { connection, handle, size, close } = opened
    const position = Math.min(range.offset, size)
    const end = Math.min(size, position + (range.length ?? size))
    const stream = readingStream({ connection, handle, position, end }, close)
    // A stream that nobody reads runs no code of its own when it is destroyed.
    stream.once('close', () => void close())
    const abort = () => stream.destroy(new GatewayError('aborted'))
    signal?.addEventListener('abort', abort, { once: true })
    stream.once('close', () => signal?.removeEventListener('abort', abort))
    return stream
  }

  /** A handle to read from, its size, and what gives both back, once. */
  async #openToRead(path: Path) {
    return this.connections.useAgain(async (on) => {
      const handle = await on
        .open(this.#host(path), 'read')
        .catch((error: unknown) => this.#explainUnread(on, error, path))
      try {
        const stats = await on.fstat(handle)
        if (stats.isDirectory()) throw new GatewayError('is_dir')
        on.users++
        let isOpen = true
        const close = async () => {
          if (!isOpen) return
          isOpen = false
          await on.closeHandle(handle).catch(() => undefined)
          this.connections.give(on)
        }
        return { connection: on, handle, size: stats.size, stats, close }
      } catch (error) {
        await on.closeHandle(handle).catch(() => undefined)
        throw error
      }
    })
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    const look = (on: Connection) => this.#replaceable(on, path, options)
    return this.#within(signal, () =>
      this.connections.useOnce(look, async (on, old) => {
        const staged = await this.#stage(on, path)
        try {
          await writeAll(source, on, staged.handle, signal).catch((error: unknown) => this.#explainUnwritten(on, error))
          assertGoing(signal)
          return await this.#publish(on, staged, path, { ...options, mode: options.mode ?? old?.mode })
        } catch (error) {
          await this.#discard(on, staged)
          throw error
        }
      }),
    )
  }

  /** A new file beside `path` under a name that nobody sees. */
  async #stage(on: Connection, path: Path): Promise<Staged> {
    const host = this.#beside(path, stagedName(this.env.instance.name))
    const handle = await on.open(host, 'new', 0o600).catch((error: unknown) => {
      // It may have been made all the same.
      if (on.broken) this.#leavings.add((other) => other.unlink(host))
      return this.#explainNew(on, error, path)
    })
    return { host, handle, isOpen: true }
  }

  /** The staged file takes its name. */
  async #publish(on: Connection, staged: Staged, path: Path, options: WriteOptions): Promise<Entry> {
    const { mode = 0o644, modified, createOnly } = options
    await on.setHandleAttributes(staged.handle, { mode, ...timesOf(modified) }).catch(ifUnsupported)
    await on.closeHandle(staged.handle)
    staged.isOpen = false
    await options.beforePublish?.()
    assertGoing(options.signal)
    const host = this.#host(path)
    if (createOnly === true) {
      await on.renameNew(staged.host, host).catch((error: unknown) => this.#explainTaken(on, error, path))
    } else {
      await this.#renameOver(on, staged.host, path)
    }
    return this.#entryAt(on, path, false)
  }

  async #renameOver(on: Connection, from: string, to: Path): Promise<void> {
    const host = this.#host(to)
    try {
      await on.renameOver(from, host)
    } catch (error) {
      if (!isGatewayError(error, 'unsupported')) return this.#explainTaken(on, error, to)
      await this.#replace(on, from, to)
    }
  }

  /** On a server that renames over nothing: for a moment there is no file of this name, and the old one waits beside. */
  async #replace(on: Connection, from: string, to: Path): Promise<void> {
    const host = this.#host(to)
    const aside = this.#beside(to, `${asidePrefix}${randomBytes(8).toString('hex')}`)
    const restore = async (by: Connection): Promise<void> => {
      const isTaken = await by.lstat(host).then(() => true, ifMissing)
      await (isTaken ? by.unlink(aside) : by.renameNew(aside, host)).catch(ifMissing)
    }
    try {
      await on.renameNew(host, aside).catch(ifMissing)
      await on.renameNew(from, host)
      await on.unlink(aside).catch(ifMissing)
    } catch (error) {
      if (on.broken) this.#leavings.add(restore)
      else await restore(on)
      await this.#explainTaken(on, error, to)
    }
  }

  #beside(path: Path, name: string): string {
    return `${this.#host(parentOf(path)).replace(/\/$/, '')}/${name}`
  }

  async #discard(on: Connection, staged: Staged): Promise<void> {
    if (staged.isOpen) await on.closeHandle(staged.handle).catch(() => undefined)
    await on.unlink(staged.host).catch(() => undefined)
    if (on.broken) this.#leavings.add((other) => other.unlink(staged.host))
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.connections.useOnce(
        (on) => this.#look(on, path),
        async (on, old) => {
          if (old) throw new GatewayError('exists')
          await on.mkdir(this.#host(path)).catch((error: unknown) => this.#explainNew(on, error, path))
        },
      ),
    )
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    const host = this.#host(path)
    const look = (on: Connection) => on.lstat(host).catch((error: unknown) => this.#explain(on, error, path))
    await this.#within(signal, () =>
      this.connections.useOnce(look, async (on, stats) => {
        if (!stats.isDirectory()) {
          await on.unlink(host)
          return
        }
        await on.rmdir(host).catch(async (error: unknown) => {
          await this.#sweep(on, path)
          if (await this.#isEmpty(on, path)) await on.rmdir(host)
          else throw new GatewayError('not_empty', { cause: error })
        })
      }),
    )
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    const look = (on: Connection) =>
      on.lstat(this.#host(from)).catch((error: unknown) => this.#explain(on, error, from))
    await this.#within(signal, () =>
      this.connections.useOnce(look, async (on, source) => {
        if (from === to) return
        if (isWithin(from, to)) throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
        const old = await this.#look(on, to)
        if (old?.kind === 'folder' && old.isLink !== true) throw new GatewayError('is_dir')
        if (old && source.isDirectory()) throw new GatewayError('exists')
        if (old) await this.#renameOver(on, this.#host(from), to)
        else
          await on
            .renameNew(this.#host(from), this.#host(to))
            .catch((error: unknown) => this.#explainTaken(on, error, to))
      }),
    )
  }

  /** By the server itself, where it has OpenSSH's extension; `unsupported` else. */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { connection, handle, stats, close } = await this.#within(
      options.signal,
      () => this.#openToRead(from),
      closed,
    )
    try {
      const old = await this.#replaceable(connection, to, options)
      const staged = await this.#stage(connection, to)
      try {
        await connection.copyData(handle, staged.handle)
        const { mode = old?.mode ?? stats.mode & 0o7777, modified = new Date(stats.mtime * 1000) } = options
        await this.#publish(connection, staged, to, { ...options, mode, modified })
      } catch (error) {
        await this.#discard(connection, staged)
        throw error
      }
    } catch (error) {
      throw toGatewayError(error)
    } finally {
      await close()
    }
  }

  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    const ways = { read: this.#reading, update: this.#updating, replace: this.#replacing }
    return this.#within(options.signal, () => ways[mode].call(this, path, options), closed)
  }

  async #reading(path: Path): Promise<OpenFile> {
    const { connection, handle, stats, close } = await this.#openToRead(path)
    const entry = entryOf(nameOf(path), stats)
    return { entry, read: (into, position) => connection.read(handle, into, position), close }
  }

  async #updating(path: Path): Promise<OpenFile> {
    const on = await this.#live()
    try {
      const entry = await this.#entryAt(on, path, false)
      if (entry.kind === 'folder') throw new GatewayError('is_dir')
      const handle = await on.open(this.#host(path), 'update')
      return { entry, ...this.#changing(on, handle), close: this.#closing(on, handle) }
    } catch (error) {
      this.connections.give(on)
      throw error
    }
  }

  async #replacing(path: Path, options: OpenOptions): Promise<OpenFile> {
    const on = await this.#live()
    try {
      const old = await this.#replaceable(on, path, options)
      const staged = await this.#stage(on, path)
      let published: Entry | undefined
      let given = false
      return {
        entry: { name: nameOf(path), kind: 'file', size: 0, modified: new Date() },
        ...this.#changing(on, staged.handle),
        commit: async ({ modified = options.modified, mode = options.mode }: Attributes = {}) => {
          published ??= await this.#publish(on, staged, path, { ...options, modified, mode: mode ?? old?.mode })
          return published
        },
        close: async () => {
          if (given) return
          given = true
          if (!published) await this.#discard(on, staged)
          this.connections.give(on)
        },
      }
    } catch (error) {
      this.connections.give(on)
      throw error
    }
  }

  #changing(on: Connection, handle: Buffer): Required<Pick<OpenFile, 'read' | 'write' | 'truncate' | 'sync'>> {
    return {
      read: (into, position) => on.read(handle, into, position),
      write: (from, position) =>
        on
          .write(handle, from.length === 1 && from[0] ? from[0] : Buffer.concat(from), position)
          .catch((error: unknown) => this.#explainUnwritten(on, error)),
      truncate: (size) => on.setHandleAttributes(handle, { size }),
      sync: () => on.sync(handle).catch(ifUnsupported),
    }
  }

  #closing(on: Connection, handle: Buffer): () => Promise<void> {
    let isOpen = true
    return async () => {
      if (!isOpen) return
      isOpen = false
      try {
        await on.closeHandle(handle)
      } finally {
        this.connections.give(on)
      }
    }
  }

  async setAttributes(path: Path, { modified, mode }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    const to = { ...(mode !== undefined && { mode }), ...timesOf(modified) }
    await this.#within(signal, () =>
      this.connections.useAgain((on) =>
        on.setAttributes(this.#host(path), to).catch((error: unknown) => this.#explain(on, error, path)),
      ),
    )
  }

  async usage({ signal }: CallOptions = {}): Promise<Usage> {
    const {
      f_frsize: block,
      f_blocks: total,
      f_bfree: free,
      f_bavail: available,
    } = await this.#within(signal, () => this.connections.useAgain((on) => on.usage(this.#host('/' as Path))))
    return {
      total: total * block,
      used: (total - free) * block,
      free: available * block,
    }
  }

  async close(): Promise<void> {
    this.#leavings.close()
    this.connections.close()
  }

  // What is there

  #host(path: Path): string {
    return path === '/' ? this.#root || '/' : this.#root + path
  }

  async #entryAt(on: Connection, path: Path, ofLink: boolean): Promise<Entry> {
    const host = this.#host(path)
    const stats = await on.lstat(host).catch((error: unknown) => this.#explain(on, error, path))
    const name = nameOf(path)
    if (!stats.isSymbolicLink() || ofLink) return entryOf(name, stats)
    return this.#target(on, host, name, stats)
  }

  /** What the link shows; itself where that is nothing. */
  async #target(on: Connection, host: string, name: string, link: Stats): Promise<Entry> {
    try {
      return { ...entryOf(name, await on.stat(host)), isLink: true }
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'denied')) return entryOf(name, link)
      if (!on.broken && isGatewayError(error)) return entryOf(name, link) // a circle of links
      throw error
    }
  }

  async #entries(on: Connection, folder: Path, names: readonly FileEntryWithStats[]): Promise<Entry[]> {
    const known = names.filter(({ filename }) => this.#isName(filename, folder))
    const entries: Entry[] = []
    for (let at = 0; at < known.length; at += lookupsAtOnce) {
      const some = known.slice(at, at + lookupsAtOnce).map(async ({ filename, attrs }) => {
        const stats: Stats = attrs
        if (!stats.isSymbolicLink()) return entryOf(filename, stats)
        const entry = await this.#target(on, `${this.#host(folder).replace(/\/$/, '')}/${filename}`, filename, stats)
        return entry.kind === 'link' && !this.options.ignore_symlink_error ? undefined : entry
      })
      for (const entry of await Promise.all(some)) if (entry) entries.push(entry)
    }
    return entries
  }

  /** A name from the server is as hostile as one from a user. */
  #isName(name: string, folder: Path): boolean {
    if (name === '.' || name === '..' || name === '') return false
    if (stagedBy(name) !== undefined) {
      this.#sweepSoon(folder, name)
      return false
    }
    if (!name.includes('/') && !name.includes('\0') && !name.includes('\ufffd')) return true
    if (!this.#toldNames.has(folder) && this.#toldNames.size < 1000) {
      this.#toldNames.add(folder)
      this.env.log.warn({ folder }, 'names that cannot be told are left out')
    }
    return false
  }

  /** What a run of the program that is over has left half written. */
  #sweepSoon(folder: Path, name: string): void {
    if (!this.#isAbandoned(name)) return
    const host = `${this.#host(folder).replace(/\/$/, '')}/${name}`
    this.connections.use((on) => on.unlink(host)).catch(() => undefined)
  }

  #isAbandoned(name: string): boolean {
    const instance = stagedBy(name)
    return instance !== undefined && this.env.instance.isOver(instance) === true
  }

  /** The same at once, where it keeps a folder from being removed. */
  async #sweep(on: Connection, folder: Path): Promise<void> {
    const handle = await on.openFolder(this.#host(folder))
    try {
      for (let names = await on.readFolder(handle); names; names = await on.readFolder(handle)) {
        for (const { filename } of names) {
          if (!this.#isAbandoned(filename)) continue
          await on.unlink(`${this.#host(folder)}/${filename}`).catch(() => undefined)
        }
      }
    } finally {
      await on.closeHandle(handle).catch(() => undefined)
    }
  }

  async #isEmpty(on: Connection, folder: Path): Promise<boolean> {
    const handle = await on.openFolder(this.#host(folder))
    try {
      for (let names = await on.readFolder(handle); names; names = await on.readFolder(handle)) {
        if (names.some(({ filename }) => filename !== '.' && filename !== '..')) return false
      }
      return true
    } finally {
      await on.closeHandle(handle).catch(() => undefined)
    }
  }

  async #look(on: Connection, path: Path): Promise<Entry | undefined> {
    return this.#entryAt(on, path, false).catch((error: unknown) => {
      if (isGatewayError(error, 'not_found', 'not_dir')) return undefined
      throw error
    })
  }

  /** What would be replaced. */
  async #replaceable(on: Connection, path: Path, { createOnly }: WriteOptions): Promise<Entry | undefined> {
    const old = await this.#look(on, path)
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }

  // Why it was refused: the protocol knows a handful of codes, and servers use fewer

  async #kindAt(on: Connection, path: Path): Promise<'file' | 'folder' | 'nothing'> {
    try {
      return (await on.stat(this.#host(path))).isDirectory() ? 'folder' : 'file'
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return 'nothing'
      throw error
    }
  }

  /** Of something that should be there. */
  async #explain(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'denied' || known.code === 'no_space') throw known
    if (known.code === 'unavailable' && (await this.#kindAt(on, path)) === 'file')
      throw new GatewayError('not_dir', { cause: error })
    if (known.code === 'not_found' && (await this.#kindAt(on, path)) === 'file')
      throw new GatewayError('not_dir', { cause: error })
    throw known
  }

  /** Of something that should be a file: some servers open folders like files, others do not. */
  async #explainUnread(on: Connection, error: unknown, path: Path): Promise<never> {
    const isRefused = !on.broken && isGatewayError(error, 'unavailable')
    if (isRefused && (await this.#kindAt(on, path)) === 'folder') throw new GatewayError('is_dir', { cause: error })
    return this.#explain(on, error, path)
  }

  /** Of something that was to be made. */
  async #explainNew(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'no_space') throw known
    if (await this.#isFull(on, known)) throw new GatewayError('no_space', { cause: error })
    const parent = await this.#kindAt(on, parentOf(path))
    const code: ErrorCode | undefined = { file: 'not_dir', nothing: 'parent_missing', folder: undefined }[parent] as
      ErrorCode | undefined
    throw code === undefined ? known : new GatewayError(code, { cause: error })
  }

  /** Of bytes that could not be written. */
  async #explainUnwritten(on: Connection, error: unknown): Promise<never> {
    const isFull = isGatewayError(error) && (await this.#isFull(on, error))
    throw isFull ? new GatewayError('no_space', { cause: error }) : error
  }

  /** The protocol has no word for a full disk: a failure without a reason, where hardly a byte is left, is taken for that. */
  async #isFull(on: Connection, error: GatewayError): Promise<boolean> {
    if (on.broken || error.code !== 'unavailable') return false
    const usage = await on.usage(this.#host('/' as Path)).catch(() => undefined)
    return usage !== undefined && usage.f_bavail * usage.f_frsize < fullBelow
  }

  /** Of a name that could not be taken. */
  async #explainTaken(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'no_space') throw known
    const there = await this.#kindAt(on, path)
    if (there === 'folder') throw new GatewayError('is_dir', { cause: error })
    if (there === 'file' && known.code !== 'denied') throw new GatewayError('exists', { cause: error })
    return this.#explainNew(on, error, path)
  }

  // Calls

  /** A connection that surely stands: a call that cannot be asked again must not meet one that died while idle. */
  async #live(): Promise<Connection> {
    return this.connections.useAgain(async (on) => {
      await on.lstat(this.#host('/' as Path))
      on.users++
      return on
    })
  }

  /**
   * Rejects with `aborted` soon after the signal says so: what was begun is undone before, unless the server keeps it waiting. What
   * comes later all the same is handed to `undo`.
   */
  async #within<T>(
    signal: AbortSignal | undefined,
    work: () => Promise<T>,
    undo: (late: T) => unknown = () => undefined,
  ): Promise<T> {
    assertGoing(signal)
    const working = work()
    try {
      return await withPatience(working, signal)
    } catch (error) {
      if (signal?.aborted !== true) throw translated(error)
      working.then(undo).catch(() => undefined)
      throw new GatewayError('aborted', { cause: error })
    }
  }
}

interface Staged {
  readonly host: string
  readonly handle: Buffer
  isOpen: boolean
}

function closed({ close }: { readonly close: () => Promise<void> }): Promise<void> {
  return close()
}

/** The work's result, or `aborted` a while after the signal where that comes first. */
async function withPatience<T>(working: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return working
  let timer: NodeJS.Timeout | undefined
  let leave: () => void = () => undefined
  const left = new Promise<never>((_resolve, reject) => {
    leave = () => {
      timer = setTimeout(() => reject(new GatewayError('aborted')), patience)
    }
    signal.addEventListener('abort', leave, { once: true })
  })
  try {
    return await Promise.race([working, left])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}

function assertGoing(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new GatewayError('aborted')
}

function ifMissing(error: unknown): false {
  if (isGatewayError(error, 'not_found')) return false
  throw error
}

function ifUnsupported(error: unknown): void {
  if (!isGatewayError(error, 'unsupported')) throw error
}

/** Seconds; the protocol sets both times or none. */
function timesOf(modified: Date | undefined): { atime: number; mtime: number } | undefined {
  if (modified === undefined) return undefined
  const seconds = Math.min(Math.max(Math.floor(modified.getTime() / 1000), 0), 0xffff_ffff)
  return { atime: seconds, mtime: seconds }
}

function entryOf(name: string, stats: Stats): Entry {
  const kind = stats.isDirectory() ? 'folder' : stats.isSymbolicLink() ? 'link' : 'file'
  return {
    name,
    kind,
    size: kind === 'folder' ? 0 : stats.size,
    modified: new Date(stats.mtime * 1000),
    mode: stats.mode & 0o7777,
  }
}
