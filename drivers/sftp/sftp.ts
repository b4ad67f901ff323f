/** A folder on an SFTP server as a storage. Links are shown as what they lead to, and moved and removed as links. */
import type { Readable } from 'node:stream'
import { assertGoing, untilAborted } from '../../src/aborting.js'
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
  Upload,
  UploadPlan,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { isWithin, nameOf, root, type Path, withoutTrailing } from '../../src/path.js'
import { readingStream, writeAll, writeFrom } from '../lib/pieces.js'
import { onFolder } from '../lib/root-folder.js'
import { keptFile } from '../lib/staged-names.js'
import { forsaken, keepingPace, type KeepingPace } from '../lib/staged-upload.js'
import type { SftpOptions } from './index.js'
import { Connection, type Account } from './connection.js'
import { Connections } from './connections.js'
import { entryOf, timesOf } from './entry.js'
import { Folders } from './folders.js'
import { Leavings } from './leavings.js'
import { ifMissing, ifUnsupported, translated } from './errors.js'
import { piecesOf } from './pieces.js'
import { Places } from './places.js'
import { Staging } from './staging.js'
import { beginUpload } from './upload.js'

/** Milliseconds in which the server can undo what was begun for a call that is aborted. */
const patience = 500

export async function openSftp(options: SftpOptions, env: DriverEnv, pace: KeepingPace = keepingPace): Promise<Driver> {
  const account = accountOf(options)
  const given = withoutTrailing(options.host_key.trim(), '=')
  const isKnown = async (fingerprint: string): Promise<boolean> => {
    const trusted = given || (await env.state.get('host key'))
    if (trusted === undefined) await env.state.set('host key', fingerprint)
    return trusted === undefined || trusted === fingerprint
  }
  const connections = new Connections((signal) => Connection.open(account, isKnown, signal))
  return onFolder(new SftpDriver(connections, options, env, pace), env.signal)
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
  readonly #places: Places
  readonly #leavings: Leavings
  readonly #staging: Staging
  readonly #folders: Folders
  readonly #giveBack = (connection: Connection) => this.connections.give(connection)

  constructor(
    private readonly connections: Connections,
    options: SftpOptions,
    env: DriverEnv,
    private readonly pace: KeepingPace,
  ) {
    this.#places = new Places(options.root_folder_path)
    this.#leavings = new Leavings((work) => connections.useAgain(work), env.log)
    this.#staging = new Staging(env.instance.name, this.#places, this.#leavings)
    this.#folders = new Folders({
      env,
      places: this.#places,
      connections,
      staging: this.#staging,
      showsDeadLinks: options.ignore_symlink_error,
    })
  }

  async stat(path: Path, { signal, link }: CallOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.#within(signal, () => this.connections.useAgain((on) => this.#places.entryAt(on, path, link === true)))
  }

  async *list(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    // Names come in batches through one handle: behind the first of them nothing can be asked again.
    const connection = await this.#within(signal, () => this.#live(), this.#giveBack)
    let handle: Buffer | undefined
    try {
      handle = await this.#within(
        signal,
        () =>
          connection
            .openFolder(this.#places.host(path))
            .catch((error: unknown) => this.#places.explain(connection, error, path)),
        (late) => connection.closeHandle(late),
      )
      for (;;) {
        const open = handle
        const names = await this.#within(signal, () => connection.readFolder(open))
        if (names === undefined) return
        const page = await this.#within(signal, () => this.#folders.entries(connection, path, names))
        if (page.length > 0) yield page
      }
    } finally {
      const given = handle ? connection.closeHandle(handle).catch(() => undefined) : Promise.resolve()
      void given.then(() => this.connections.give(connection))
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { connection, handle, stats, close } = await this.#within(signal, () => this.#openToRead(path), closed)
    return readingStream(piecesOf(connection, handle), range, { size: stats.size, signal, done: close })
  }

  /** A handle to read from, what it is of, and what gives both back, once. */
  async #openToRead(path: Path) {
    return this.connections.useAgain(async (on) => {
      const handle = await on
        .open(this.#places.host(path), 'read')
        .catch((error: unknown) => this.#places.explainUnread(on, error, path))
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
        return { connection: on, handle, stats, close }
      } catch (error) {
        await on.closeHandle(handle).catch(() => undefined)
        throw error
      }
    })
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    const look = (on: Connection) => this.#places.replaceable(on, path, options)
    return this.#within(signal, () =>
      this.connections.useOnce(look, async (on, old) => {
        const staged = await this.#staging.create(on, path)
        try {
          await writeAll(source, piecesOf(on, staged.handle), signal).catch((error: unknown) =>
            this.#places.explainUnwritten(on, error),
          )
          assertGoing(signal)
          return await this.#staging.publish(on, staged, path, { ...options, mode: options.mode ?? old?.mode })
        } catch (error) {
          await this.#staging.discard(on, staged)
          throw error
        }
      }),
    )
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { signal } = options
    const [places, staging, pace] = [this.#places, this.#staging, this.pace]
    return this.#within(
      signal,
      async () => {
        const on = await this.#live()
        try {
          const give = () => this.connections.give(on)
          const within = <T>(work: () => Promise<T>) => this.#within(signal, work)
          return await beginUpload({ on, places, staging, give, within, pace }, path, plan, options)
        } catch (error) {
          this.connections.give(on)
          throw error
        }
      },
      (late) => forsaken(this, late),
    )
  }

  async dropUpload(token: string, { signal }: CallOptions = {}): Promise<void> {
    const kept = keptFile(token)
    if (!kept) return
    const host = this.#places.host(kept.path)
    await this.#within(signal, () => this.connections.useAgain((on) => on.unlink(host).catch(ifMissing)))
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.connections.useOnce(
        (on) => this.#places.look(on, path),
        async (on, old) => {
          if (old) throw new GatewayError('exists')
          await on.mkdir(this.#places.host(path)).catch((error: unknown) => this.#places.explainNew(on, error, path))
        },
      ),
    )
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    const host = this.#places.host(path)
    const look = (on: Connection) => on.lstat(host).catch((error: unknown) => this.#places.explain(on, error, path))
    await this.#within(signal, () =>
      this.connections.useOnce(look, async (on, stats) => {
        if (!stats.isDirectory()) {
          await on.unlink(host)
          return
        }
        await on.rmdir(host).catch(async (error: unknown) => {
          if (!(await this.#folders.sweep(on, path))) throw new GatewayError('not_empty', { cause: error })
          await on.rmdir(host)
        })
      }),
    )
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    const look = (on: Connection) =>
      on.lstat(this.#places.host(from)).catch((error: unknown) => this.#places.explain(on, error, from))
    await this.#within(signal, () =>
      this.connections.useOnce(look, async (on, source) => {
        if (from === to) return
        if (isWithin(from, to)) throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
        const old = await this.#places.look(on, to)
        if (old?.kind === 'folder' && old.isLink !== true) throw new GatewayError('is_dir')
        if (old && source.isDirectory()) throw new GatewayError('exists')
        const host = this.#places.host(from)
        await (old ? this.#staging.renameOver(on, host, to) : this.#staging.renameNew(on, host, to))
      }),
    )
  }

  /** By the server itself, where it has OpenSSH's extension; `unsupported` else. */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    await this.#within(options.signal, async () => {
      const { connection, handle, stats, close } = await this.#openToRead(from)
      try {
        const old = await this.#places.replaceable(connection, to, options)
        const staged = await this.#staging.create(connection, to)
        try {
          await connection.copyData(handle, staged.handle)
          const { mode = old?.mode ?? stats.mode & 0o7777, modified = new Date(stats.mtime * 1000) } = options
          await this.#staging.publish(connection, staged, to, { ...options, mode, modified })
        } catch (error) {
          await this.#staging.discard(connection, staged)
          throw error
        }
      } finally {
        await close()
      }
    })
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
      const entry = await this.#places.entryAt(on, path, false)
      if (entry.kind === 'folder') throw new GatewayError('is_dir')
      const handle = await on.open(this.#places.host(path), 'update')
      return { entry, ...this.#changing(on, handle), close: this.#closing(on, handle) }
    } catch (error) {
      this.connections.give(on)
      throw error
    }
  }

  async #replacing(path: Path, options: OpenOptions): Promise<OpenFile> {
    const on = await this.#live()
    try {
      const old = await this.#places.replaceable(on, path, options)
      const staged = await this.#staging.create(on, path)
      let published: Entry | undefined
      let given = false
      return {
        entry: { name: nameOf(path), kind: 'file', size: 0, modified: new Date() },
        ...this.#changing(on, staged.handle),
        commit: async ({ modified = options.modified, mode = options.mode }: Attributes = {}) => {
          published ??= await this.#staging.publish(on, staged, path, { ...options, modified, mode: mode ?? old?.mode })
          return published
        },
        close: async () => {
          if (given) return
          given = true
          if (!published) await this.#staging.discard(on, staged)
          this.connections.give(on)
        },
      }
    } catch (error) {
      this.connections.give(on)
      throw error
    }
  }

  #changing(on: Connection, handle: Buffer): Required<Pick<OpenFile, 'read' | 'write' | 'truncate' | 'sync'>> {
    const pieces = piecesOf(on, handle)
    return {
      read: (into, position) => on.read(handle, into, position),
      write: (from, position) =>
        writeFrom(pieces, from, position).catch((error: unknown) => this.#places.explainUnwritten(on, error)),
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
        on.setAttributes(this.#places.host(path), to).catch((error: unknown) => this.#places.explain(on, error, path)),
      ),
    )
  }

  async setLinkTime(path: Path, modified: Date, { signal }: CallOptions = {}): Promise<void> {
    const host = this.#places.host(path)
    await this.#within(signal, () =>
      this.connections.useAgain(async (on) => {
        const stats = await on.lstat(host).catch((error: unknown) => this.#places.explain(on, error, path))
        if (!stats.isSymbolicLink()) throw new GatewayError('invalid', { reason: 'not a link' })
        await on.setLinkAttributes(host, { ...timesOf(modified) })
      }),
    )
  }

  async usage({ signal }: CallOptions = {}): Promise<Usage> {
    const {
      f_frsize: block,
      f_blocks: total,
      f_bfree: free,
      f_bavail: available,
      f_files: files,
      f_favail: freeFiles,
    } = await this.#within(signal, () => this.connections.useAgain((on) => on.usage(this.#places.host(root))))
    return {
      total: total * block,
      used: (total - free) * block,
      free: available * block,
      ...(files > 0 && { files: { total: files, free: freeFiles } }),
    }
  }

  async close(): Promise<void> {
    this.#leavings.close()
    this.connections.close()
  }

  // Calls

  /** A connection that surely stands: a call that cannot be asked again must not meet one that died while idle. */
  async #live(): Promise<Connection> {
    return this.connections.useAgain(async (on) => {
      await on.lstat(this.#places.host(root))
      on.users++
      return on
    })
  }

  /**
   * Rejects with `aborted` soon after the signal says so: what was begun is undone before, unless the server keeps it waiting. What
   * comes later all the same is handed to `undo`.
   */
  async #within<T>(signal: AbortSignal | undefined, work: () => Promise<T>, undo?: (late: T) => unknown): Promise<T> {
    assertGoing(signal)
    try {
      return await untilAborted(work(), signal, { patience, undo })
    } catch (error) {
      throw translated(error)
    }
  }
}

function closed({ close }: { readonly close: () => Promise<void> }): Promise<void> {
  return close()
}
