/** A folder on an SFTP server as a storage. Symlinks are listed as their targets, but moved and removed as symlinks. */
import type { Readable } from 'node:stream'
import { throwIfAborted, untilAborted } from '../../src/base/cancellation.js'
import type {
  Attributes,
  OpenFile,
  OpenMode,
  OpenOptions,
  Upload,
  UploadPlan,
  Usage,
} from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, StatOptions, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { contentMode, hasSpecialBits, settableMode, specialBitsRemain } from '../../src/contract/modes.js'
import { pseudonymOf } from '../../src/contract/own-requests.js'
import { nameOf, root, trimTrailing, type Path } from '../../src/base/path.js'
import { createReadStream, writeAll, writeBuffers } from '../lib/streams/pipelined-io.js'
import { requireRootFolder } from '../lib/require-root-folder.js'
import { parseResumeToken } from '../lib/staged-files/staged-names.js'
import { discardLateUpload, checkpointPolicy, type CheckpointPolicy } from '../lib/staged-files/staged-upload.js'
import { ServerConnection, type SftpAccount } from './connection.js'
import { ServerConnections } from './connections.js'
import { entryOf, timesOf } from './entry.js'
import { falseIfMissing, translated } from './errors.js'
import { Folders } from './folders.js'
import type { SftpOptions } from './index.js'
import { SftpLocations } from './locations.js'
import { Orphans } from './orphans.js'
import { pipelinedFile } from './pipelined-file.js'
import { SftpStaging } from './staging.js'
import { beginUpload } from './upload.js'

/** Milliseconds for undoing on the server what an aborted call has started. */
const undoTimeout = 500

/**
 * Opens the storage. Without a configured `host_key`, the first key of the server is trusted and stored. Rejects with
 * `invalid` for invalid options, and as `ServerConnection.open` does.
 */
export async function openSftp(
  options: SftpOptions,
  env: DriverEnv,
  checkpoints: CheckpointPolicy = checkpointPolicy,
): Promise<Driver> {
  const account = { ...accountOf(options), ident: pseudonymOf(env.instance) }
  const configured = trimTrailing(options.host_key.trim(), '=')
  const isTrusted = async (fingerprint: string): Promise<boolean> => {
    const trusted = configured || (await env.state.get('host key'))
    if (trusted === undefined) await env.state.set('host key', fingerprint)
    return trusted === undefined || trusted === fingerprint
  }
  const connections = new ServerConnections((signal) => ServerConnection.open(account, isTrusted, signal))
  const driver = new SftpDriver(connections, options, env, checkpoints)
  await driver.load()
  return requireRootFolder(driver, env.signal)
}

function accountOf(options: SftpOptions): Omit<SftpAccount, 'ident'> {
  const { address, username, password, private_key: privateKey, passphrase } = options
  const match = /^(?:sftp:\/\/)?(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(address.trim())
  const [, bracketed, plain, port = '22'] = match ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65535) {
    throw new GatewayError('invalid', { reason: 'address must be host:port' })
  }
  return { host, port: Number(port), username, password, privateKey, passphrase }
}

class SftpDriver implements Driver {
  readonly #locations: SftpLocations
  readonly #orphans: Orphans
  readonly #staging: SftpStaging
  readonly #folders: Folders
  readonly #release = (connection: ServerConnection) => this.connections.release(connection)

  constructor(
    private readonly connections: ServerConnections,
    options: SftpOptions,
    env: DriverEnv,
    private readonly checkpoints: CheckpointPolicy,
  ) {
    this.#locations = new SftpLocations(options.root_folder_path)
    this.#orphans = new Orphans((work) => connections.useWithRetry(work), env.log)
    this.#staging = new SftpStaging(env, connections, this.#locations, this.#orphans)
    this.#folders = new Folders({
      env,
      locations: this.#locations,
      connections,
      staging: this.#staging,
      showsDanglingSymlinks: options.ignore_symlink_error,
    })
  }

  /** Settles what earlier runs have left, as far as that is possible now. */
  load(): Promise<void> {
    return this.#staging.replacements.load()
  }

  async stat(path: Path, { signal, ofSymlink }: StatOptions = {}): Promise<Entry> {
    return this.#within(signal, () =>
      this.connections.useWithRetry((on) => this.#locations.entryAt(on, path, ofSymlink === true)),
    )
  }

  async *pages(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    // The batches are read through one handle, so no request after the first batch can be retried on another
    // connection.
    const connection = await this.#within(signal, () => this.#acquireLive(), this.#release)
    let handle: Buffer | undefined
    try {
      handle = await this.#within(
        signal,
        () =>
          connection
            .openFolder(this.#locations.serverPath(path))
            .catch((error: unknown) => this.#locations.refineError(connection, error, path)),
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
      const closing = handle ? connection.closeHandle(handle).catch(() => undefined) : Promise.resolve()
      void closing.then(() => this.connections.release(connection))
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { connection, handle, stats, close } = await this.#within(signal, () => this.#openToRead(path), closed)
    return createReadStream(pipelinedFile(connection, handle), range, { size: stats.size, signal, onEnd: close })
  }

  /**
   * Opens the file for reading. `close` closes the handle and releases the connection; further calls have no effect.
   */
  async #openToRead(path: Path) {
    return this.connections.useWithRetry(async (on) => {
      const handle = await on
        .open(this.#locations.serverPath(path), 'read')
        .catch((error: unknown) => this.#locations.refineReadError(on, error, path))
      try {
        const stats = await on.fstat(handle)
        if (stats.isDirectory()) throw new GatewayError('is_folder')
        on.users++
        let isOpen = true
        const close = async () => {
          if (!isOpen) return
          isOpen = false
          await on.closeHandle(handle).catch(() => undefined)
          this.connections.release(on)
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
    const look = (on: ServerConnection) => this.#locations.replaceable(on, path, options)
    return this.#within(signal, () =>
      this.connections.useAfterLookup(look, async (on, old) => {
        const staged = await this.#staging.create(on, path)
        try {
          await writeAll(source, pipelinedFile(on, staged.handle), signal).catch((error: unknown) =>
            this.#locations.refineWriteError(on, error),
          )
          throwIfAborted(signal)
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
    const [locations, staging, checkpoints] = [this.#locations, this.#staging, this.checkpoints]
    return this.#within(
      signal,
      async () => {
        const on = await this.#acquireLive()
        try {
          const release = () => this.connections.release(on)
          const within = <T>(work: () => Promise<T>) => this.#within(signal, work)
          const dependencies = { on, locations, staging, release, within, checkpoints }
          return await beginUpload(dependencies, path, plan, options)
        } catch (error) {
          this.connections.release(on)
          throw error
        }
      },
      (late) => discardLateUpload(this, late),
    )
  }

  async dropUpload(token: string, { signal }: CallOptions = {}): Promise<void> {
    const resumable = parseResumeToken(token)
    if (!resumable) return
    const host = this.#locations.serverPath(resumable.path)
    await this.#within(signal, () => this.connections.useWithRetry((on) => on.unlink(host).catch(falseIfMissing)))
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.connections.useAfterLookup(
        (on) => this.#locations.entryOrUndefined(on, path),
        async (on, old) => {
          if (old) throw new GatewayError('exists')
          await on
            .mkdir(this.#locations.serverPath(path))
            .catch((error: unknown) => this.#locations.refineCreateError(on, error, path))
        },
      ),
    )
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const host = this.#locations.serverPath(path)
    const look = (on: ServerConnection) =>
      on.lstat(host).catch((error: unknown) => this.#locations.refineError(on, error, path))
    await this.#within(signal, () =>
      this.connections.useAfterLookup(look, async (on, stats) => {
        if (!stats.isDirectory()) {
          await on.unlink(host)
          return
        }
        await on.rmdir(host).catch(async (error: unknown) => {
          if (!(await this.#folders.removeOrphans(on, path))) throw new GatewayError('not_empty', { cause: error })
          await on.rmdir(host)
        })
      }),
    )
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    const look = (on: ServerConnection) =>
      on.lstat(this.#locations.serverPath(from)).catch((error: unknown) => this.#locations.refineError(on, error, from))
    await this.#within(signal, () =>
      this.connections.useAfterLookup(look, async (on, source) => {
        const old = await this.#locations.entryOrUndefined(on, to)
        if (old?.kind === 'folder' && old.isSymlink !== true) throw new GatewayError('is_folder')
        if (old && source.isDirectory()) throw new GatewayError('exists')
        await (old ? this.#staging.renameReplacing(on, from, to, false) : this.#staging.renameNew(on, from, to))
      }),
    )
  }

  /** Copies on the server. Rejects with `unsupported` if the server does not have the `copy-data` extension. */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    await this.#within(options.signal, async () => {
      const { connection, handle, stats, close } = await this.#openToRead(from)
      try {
        const old = await this.#locations.replaceable(connection, to, options)
        const staged = await this.#staging.create(connection, to)
        try {
          await connection.copyData(handle, staged.handle)
          const { mode = old?.mode ?? stats.mode, modified = new Date(stats.mtime * 1000) } = options
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
    const openers = { read: this.#openRead, update: this.#openUpdate, replace: this.#openReplace }
    return this.#within(options.signal, () => openers[mode].call(this, path, options), closed)
  }

  async #openRead(path: Path): Promise<OpenFile> {
    const { connection, handle, stats, close } = await this.#openToRead(path)
    const entry = entryOf(nameOf(path), stats)
    const pieces = pipelinedFile(connection, handle)
    return { entry, read: (into, position) => pieces.readInto(into, position), close }
  }

  async #openUpdate(path: Path): Promise<OpenFile> {
    const on = await this.#acquireLive()
    try {
      const entry = await this.#locations.entryAt(on, path, false)
      if (entry.kind === 'folder') throw new GatewayError('is_folder')
      const handle = await on.open(this.#locations.serverPath(path), 'update')
      return {
        entry,
        ...this.#writableMethods(on, handle, { changing: specialBitsRemoval(on, handle, entry) }),
        close: this.#closeOnce(on, handle),
      }
    } catch (error) {
      this.connections.release(on)
      throw error
    }
  }

  async #openReplace(path: Path, options: OpenOptions): Promise<OpenFile> {
    const on = await this.#acquireLive()
    try {
      const old = await this.#locations.replaceable(on, path, options)
      const staged = await this.#staging.create(on, path)
      let published: Entry | undefined
      let isClosed = false
      return {
        entry: { name: nameOf(path), kind: 'file', size: 0, modified: new Date() },
        ...this.#writableMethods(on, staged.handle, { isOpen: () => staged.isOpen }),
        commit: async ({ modified = options.modified, mode = options.mode }: Attributes = {}) => {
          published ??= await this.#staging.publish(on, staged, path, { ...options, modified, mode: mode ?? old?.mode })
          return published
        },
        close: async () => {
          if (isClosed) return
          isClosed = true
          if (!published) await this.#staging.discard(on, staged)
          this.connections.release(on)
        },
      }
    } catch (error) {
      this.connections.release(on)
      throw error
    }
  }

  /**
   * `isOpen`: whether the handle is open. The server gives a closed one to another file. `changing`: called before each
   * change.
   */
  #writableMethods(
    on: ServerConnection,
    handle: Buffer,
    {
      isOpen = () => true,
      changing = async () => undefined,
    }: { readonly isOpen?: () => boolean; readonly changing?: () => Promise<void> },
  ): Required<Pick<OpenFile, 'read' | 'write' | 'truncate' | 'sync'>> {
    const pieces = pipelinedFile(on, handle)
    const whileOpen = async <T>(work: () => Promise<T>) => {
      if (!isOpen()) throw new GatewayError('invalid', { reason: 'the staged file is closed' })
      return work()
    }
    const change = (work: () => Promise<void>) => whileOpen(() => changing().then(work))
    return {
      read: (into, position) => whileOpen(() => pieces.readInto(into, position)),
      write: (from, position) =>
        change(() => writeBuffers(pieces, from, position)).catch((error: unknown) =>
          this.#locations.refineWriteError(on, error),
        ),
      truncate: (size) => change(() => on.setHandleAttributes(handle, { size })),
      sync: () => whileOpen(() => on.sync(handle)),
    }
  }

  #closeOnce(on: ServerConnection, handle: Buffer): () => Promise<void> {
    let isOpen = true
    return async () => {
      if (!isOpen) return
      isOpen = false
      try {
        await on.closeHandle(handle)
      } finally {
        this.connections.release(on)
      }
    }
  }

  async setAttributes(path: Path, { modified, mode }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.connections.useWithRetry(async (on) => {
        const existing = mode === undefined ? undefined : await this.#locations.entryAt(on, path, false)
        const bits = existing && mode !== undefined && { mode: settableMode(existing, mode) }
        await on
          .setAttributes(this.#locations.serverPath(path), { ...bits, ...timesOf(modified) })
          .catch((error: unknown) => this.#locations.refineError(on, error, path))
      }),
    )
  }

  async setSymlinkTime(path: Path, modified: Date, { signal }: CallOptions = {}): Promise<void> {
    const host = this.#locations.serverPath(path)
    await this.#within(signal, () =>
      this.connections.useWithRetry(async (on) => {
        const stats = await on.lstat(host).catch((error: unknown) => this.#locations.refineError(on, error, path))
        if (!stats.isSymbolicLink()) throw new GatewayError('invalid', { reason: 'not a symlink' })
        await on.setSymlinkAttributes(host, { ...timesOf(modified) })
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
    } = await this.#within(signal, () =>
      this.connections.useWithRetry((on) => on.usage(this.#locations.serverPath(root))),
    )
    return {
      total: total * block,
      used: (total - free) * block,
      free: available * block,
      ...(files > 0 && { files: { total: files, free: freeFiles } }),
    }
  }

  async close(): Promise<void> {
    this.#orphans.close()
    this.connections.close()
  }

  // Calls

  /**
   * Acquires a connection that has just responded: work that cannot be retried must not get one that was lost while
   * idle.
   */
  async #acquireLive(): Promise<ServerConnection> {
    return this.connections.useWithRetry(async (on) => {
      await on.lstat(this.#locations.serverPath(root))
      on.users++
      return on
    })
  }

  /**
   * Runs `work`, after what was interrupted is settled, and translates its errors. When the signal is aborted, waits up
   * to `undoTimeout` for the work to undo its changes, and rejects with `aborted`. If the work resolves later, its
   * result is passed to `undo`.
   */
  async #within<T>(signal: AbortSignal | undefined, work: () => Promise<T>, undo?: (late: T) => unknown): Promise<T> {
    throwIfAborted(signal)
    try {
      const working = this.#staging.replacements.settle().then(work)
      return await untilAborted(working, signal, { timeout: undoTimeout, undo })
    } catch (error) {
      throw translated(error)
    }
  }
}

/**
 * A function to be called before each change of a file in place. The first call removes the file's special bits: a
 * server that runs as root keeps them. Rejects with `denied` if the server refuses that while the file has them. A call
 * after one that has rejected tries again.
 */
function specialBitsRemoval(on: ServerConnection, handle: Buffer, { mode = 0 }: Entry): () => Promise<void> {
  let removal: Promise<void> | undefined
  const remove = async () => {
    try {
      await on.setHandleAttributes(handle, { mode: contentMode(mode) })
    } catch (error) {
      removal = undefined
      const refusal = translated(error)
      if (refusal.code !== 'denied' && refusal.code !== 'unsupported') throw refusal
      // Another client may have removed these bits.
      if (hasSpecialBits((await on.fstat(handle)).mode)) throw specialBitsRemain(refusal.cause)
    }
  }
  return () => (removal ??= hasSpecialBits(mode) ? remove() : Promise.resolve())
}

function closed({ close }: { readonly close: () => Promise<void> }): Promise<void> {
  return close()
}
