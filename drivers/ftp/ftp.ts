/** A folder on an FTP server as a storage. */
import { Readable } from 'node:stream'
import { untilAborted } from '../../src/base/cancellation.js'
import type { Attributes } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, StatOptions, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, isGatewayError, type ErrorCode } from '../../src/base/errors.js'
import { contentMode, settableMode } from '../../src/contract/modes.js'
import { childOf, isListableName, nameOf, parentOf, trimTrailing, type Path } from '../../src/base/path.js'
import { BackgroundDeleter } from '../lib/staged-files/background-deleter.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { isOrphan, stagedName, stagingRun } from '../lib/staged-files/staged-names.js'
import { accountOf } from './account.js'
import { abortTimeout, FtpConnection } from './connection.js'
import { FtpConnections, type Use } from './connections.js'
import { ignoreRefusal, isRefusal, translated } from './errors.js'
import { FtpFiles } from './files.js'
import type { FtpOptions } from './index.js'
import { timestampOf, type ListedEntry } from './listed.js'
import { FileReplacer } from './file-replacer.js'
import { Download, sendSource, type DownloadOptions } from './transfers.js'

/** Bytes of a file that are buffered for a reader that is slower than the server. */
const readAhead = 1024 * 1024
/** Maximum orphans that are removed to remove their folder. With more, the folder is `not_empty`. */
const maxOrphans = 1000
/**
 * Maximum symlinks of a listing that are buffered before they are resolved. Each takes requests on another connection.
 */
const maxSymlinks = 1000

/**
 * Opens the storage. Rejects with `invalid` for invalid options or a missing root folder, and as `Connection.open`
 * does.
 */
export async function openFtp(options: FtpOptions, env: DriverEnv): Promise<Driver> {
  const account = accountOf(options)
  const passive = { extended: undefined }
  const connections = new FtpConnections((signal) => FtpConnection.open(account, passive, signal))
  const files = new FtpFiles(trimTrailing(options.root_folder_path, '/'), account.names, {
    changesFolder: options.cwd_list,
  })
  try {
    return await connections.use('ask', env.signal, async (on) => {
      const kind = await files.rootKind(on)
      if (kind === 'nothing') throw new GatewayError('invalid', { reason: 'root_folder_path is not there' })
      if (kind === 'file') throw new GatewayError('invalid', { reason: 'root_folder_path is no folder' })
      const { machineListings, setsTimes, restarts: ranges } = on.features
      // Without both, a time that a client has set could not be stored, or not be read back exactly.
      return machineListings && setsTimes
        ? new TimekeepingFtpDriver(connections, files, env, { timeStep: 1000, keeps: [], ranges })
        : new FtpDriver(connections, files, env, { timeStep: Infinity, ranges })
    })
  } catch (error) {
    connections.close()
    throw translated(error)
  }
}

class FtpDriver implements Driver {
  /** Serializes renames to the same name: FTP has no command that fails if the name exists. */
  readonly #publishing = new KeyedMutex()
  /** Whether the server supports names that end with this character, where that is known. */
  readonly #supportedEndings = new Map<string, boolean>()
  readonly #replacing: FileReplacer
  readonly #deleter: BackgroundDeleter

  constructor(
    private readonly connections: FtpConnections,
    protected readonly files: FtpFiles,
    private readonly env: DriverEnv,
    readonly traits: Partial<Traits>,
  ) {
    this.#replacing = new FileReplacer(files, connections, env.log)
    this.#deleter = new BackgroundDeleter((wire) => connections.use('ask', env.signal, (on) => on.send(`DELE ${wire}`)))
  }

  // Reading

  async stat(path: Path, { signal, ofSymlink }: StatOptions = {}): Promise<Entry> {
    return this.withRetry(signal, (on) => this.files.entry(on, path, ofSymlink === true))
  }

  async *pages(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    let onClosed: () => void
    const closed = new Promise<void>((resolve) => (onClosed = resolve))
    const { stream, connection } = await this.#within(signal, () => this.#openListing(path, () => onClosed(), signal))
    const symlinks: ListedEntry[] = []
    try {
      for await (const page of this.files.pages(stream, connection)) {
        const needsZone = !connection.features.machineListings && this.files.clock.zone === undefined
        if (needsZone) await this.withRetry(signal, (on) => this.files.learnZone(on, path, page))
        // Unrepresentable names are never sent to the server. The core leaves their entries out.
        const isResolvable = ({ kind, name }: ListedEntry) => kind === 'symlink' && isListableName(name)
        symlinks.push(...page.filter(isResolvable))
        const entries = page.filter((listed) => !isResolvable(listed) && !this.#isStaged(path, listed.name))
        if (entries.length > 0) yield entries.map((listed) => this.files.toEntry(listed))
        if (symlinks.length > maxSymlinks) yield* this.#resolved(path, symlinks.splice(0), signal)
      }
    } catch (error) {
      throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
    } finally {
      stream.destroy()
      // Some servers refuse to remove a folder while any connection is in it.
      await untilAborted(closed, signal).catch(() => undefined)
    }
    yield* this.#resolved(path, symlinks, signal)
  }

  /** Resolves symlinks, page by page. */
  async *#resolved(
    folder: Path,
    symlinks: readonly ListedEntry[],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Entry[]> {
    for (let start = 0; start < symlinks.length; start += 100) {
      const page = await this.withRetry(signal, (on) => this.#resolve(on, folder, symlinks.slice(start, start + 100)))
      if (page.length > 0) yield page
    }
  }

  async #resolve(on: FtpConnection, folder: Path, symlinks: readonly ListedEntry[]): Promise<Entry[]> {
    const entries: Entry[] = []
    for (const symlink of symlinks)
      entries.push(await this.files.resolveSymlink(on, childOf(folder, symlink.name), symlink))
    // Without MLST, `stat` of a dangling symlink is not possible, so it is not listed either.
    return on.features.machineListings ? entries : entries.filter(({ kind }) => kind !== 'symlink')
  }

  /**
   * `onClosed` is called once, after the end of the stream, when the connection has left the folder and was released.
   */
  #openListing(path: Path, onClosed: () => void, signal: AbortSignal | undefined) {
    return this.#stream('ask', signal, async (on, { ending, done: release }) => {
      const done = () => {
        const closing = this.files.closeListing(on, path).catch(() => undefined)
        void closing.finally(release).finally(onClosed)
      }
      return this.files
        .openListing(on, path, { ending, done })
        .catch((error: unknown) => this.refineError(on, error, path))
    })
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { offset, length } = range
    return this.#within(signal, async () => {
      if (offset > 0 || length === 0) {
        const { kind, size } = await this.stat(path, { signal })
        if (kind === 'folder') throw new GatewayError('is_folder')
        if (kind === 'symlink') throw new GatewayError('not_found')
        if (length === 0 || offset >= size) return Readable.from([], { objectMode: false })
      }
      const wire = this.files.wire(path)
      const { stream } = await this.#stream('read', signal, async (on, callbacks) => {
        const transfer = await on
          .transfer(`RETR ${wire}`, { offset })
          .catch((error: unknown) => this.#refineReadError(on, error, path))
        return new Download({ connection: on, transfer, length, bufferSize: readAhead, ...callbacks })
      })
      return stream
    })
  }

  /** Opens a stream with exclusive use of a connection. If that turns out to be lost, retries once on another. */
  async #stream(
    use: Use,
    signal: AbortSignal | undefined,
    start: (on: FtpConnection, callbacks: Pick<DownloadOptions, 'ending' | 'done'>) => Promise<Download>,
  ): Promise<{ readonly stream: Download; readonly connection: FtpConnection }> {
    for (let isRetry = false; ; isRetry = true) {
      const connection = await this.connections.acquire(use, signal)
      const abort = () => connection.close(new GatewayError('aborted'))
      signal?.addEventListener('abort', abort, { once: true })
      try {
        const stream = await start(connection, {
          ending: () => this.connections.announceRelease(connection),
          done: () => this.connections.release(use, connection),
        })
        destroyOnAbort(stream, signal)
        return { stream, connection }
      } catch (error) {
        const isLost = connection.broken
        this.connections.release(use, connection)
        if (!isLost || isRetry || signal?.aborted) throw error
      } finally {
        signal?.removeEventListener('abort', abort)
      }
    }
  }

  // Writing

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal, createOnly } = options
    return this.#withoutRetry('write', signal, async (on) => {
      const old = await this.files.find(on, path)
      if (old?.kind === 'folder') throw new GatewayError('is_folder')
      if (old && createOnly === true) throw new GatewayError('exists')
      if (!old) await this.#assertEndingSupported(on, path)
      const staged = this.#stagedPath(path)
      try {
        const transfer = await on
          .transfer(`STOR ${this.files.wire(staged)}`, { sends: true })
          .catch((error: unknown) => this.#refineCreateError(on, error, path))
        const size = await sendSource(source, { connection: on, transfer }, signal)
        const attributes = { modified: options.modified, mode: options.mode ?? old?.mode }
        const stored = await this.#applyAttributes(on, staged, size, attributes)
        await options.beforePublish?.()
        if (signal?.aborted) throw new GatewayError('aborted')
        await this.#publish(on, staged, path, options)
        return { ...stored, name: nameOf(path) }
      } catch (error) {
        await this.#discard(on, staged)
        throw error
      }
    })
  }

  /**
   * Sets the time and mode of the staged file, as far as the server does: the core stores the rest. Resolves to the
   * resulting entry. Rejects with `unavailable` if the server has stored fewer or more bytes than were sent.
   */
  async #applyAttributes(
    on: FtpConnection,
    staged: Path,
    size: number,
    { modified, mode }: Attributes,
  ): Promise<Entry> {
    const wire = this.files.wire(staged)
    const command = on.features.setsTimes ? 'MFMT' : 'MDTM'
    if (modified) await on.send(`${command} ${timestampOf(modified)} ${wire}`).catch(ignoreRefusal)
    let entry = await this.files.entry(on, staged)
    if (entry.size !== size) {
      throw new GatewayError('unavailable', { reason: `the FTP server has stored ${entry.size} of ${size} bytes` })
    }
    if (mode !== undefined && entry.mode !== undefined && contentMode(mode) !== entry.mode) {
      await on.send(changeMode(contentMode(mode), wire)).catch(ignoreRefusal)
      entry = await this.files.entry(on, staged)
    }
    return entry
  }

  /** Renames the staged file to `path`, serialized with other changes of this name by this gateway. */
  async #publish(on: FtpConnection, staged: Path, path: Path, { createOnly, signal }: WriteOptions): Promise<void> {
    const isNew = createOnly === true
    const rename = async () => {
      if (isNew && (await this.files.kindAt(on, path)) !== 'nothing') throw new GatewayError('exists')
      await this.#rename(on, staged, path, !isNew)
    }
    await this.#publishing.run(path, rename, signal)
  }

  async #rename(on: FtpConnection, from: Path, to: Path, replaces = true): Promise<void> {
    try {
      await on.rename(this.files.wire(from), this.files.wire(to))
    } catch (error) {
      const mayBeOccupied = replaces && !on.broken && isRefusal(error)
      if (!mayBeOccupied || (await this.files.kindAt(on, to)) !== 'file') return this.#refineRenameError(on, error, to)
      await this.#replacing.replace(on, from, to)
    }
  }

  #stagedPath(path: Path): Path {
    return childOf(parentOf(path), stagedName(this.env.instance.name))
  }

  /**
   * Rejects with `invalid` if the name ends with a space or dot and the server would silently change that ending, which
   * could make it the name of another file: some servers replace a trailing space by `_`, others remove it, or a dot.
   * Tested by creating a folder, once for each of the two characters.
   */
  async #assertEndingSupported(on: FtpConnection, path: Path): Promise<void> {
    const ending = path.at(-1) ?? ''
    if (ending !== ' ' && ending !== '.') return
    const isSupported = this.#supportedEndings.get(ending) ?? (await this.#testEnding(on, path, ending))
    if (isSupported === undefined) return
    this.#supportedEndings.set(ending, isSupported)
    if (isSupported) return
    throw new GatewayError('invalid', { reason: `the FTP server does not support names that end with "${ending}"` })
  }

  /** Whether the server preserves a name with this ending; undefined if no folder can be created next to `path`. */
  async #testEnding(on: FtpConnection, path: Path, ending: string): Promise<boolean | undefined> {
    const folder = this.#stagedPath(path)
    const wire = this.files.wire(folder)
    const isCreated = await on.send(`MKD ${wire}`).then(() => true, ignoreRefusal)
    if (isCreated !== true) return undefined
    const name = `name${ending}`
    await on.send(`MKD ${wire}/${name}`).catch(ignoreRefusal)
    const created: string[] = []
    for await (const page of this.files.listing(on, folder)) created.push(...page.slice(0, 10).map((each) => each.name))
    for (const each of created) await on.send(`RMD ${this.files.wire(childOf(folder, each))}`).catch(ignoreRefusal)
    await on.send(`RMD ${wire}`).catch(ignoreRefusal)
    return created.includes(name)
  }

  async #discard(on: FtpConnection, staged: Path): Promise<void> {
    const command = `DELE ${this.files.wire(staged)}`
    await this.connections.repair(on, (open) => open.send(command)).catch(() => undefined)
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#withoutRetry('ask', signal, async (on) => {
      if ((await this.files.kindAt(on, path)) !== 'nothing') throw new GatewayError('exists')
      await this.#assertEndingSupported(on, path)
      const make = () =>
        on.send(`MKD ${this.files.wire(path)}`).catch((error: unknown) => this.#refineCreateError(on, error, path))
      await make().catch((error: unknown) => {
        if (on.broken || !isGatewayError(error, 'denied')) throw error
        // The reply does not say whether the parent was missing: another request may have created it since.
        return make()
      })
    })
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#withoutRetry('ask', signal, async (on) => {
      const wire = this.files.wire(path)
      const { kind } = await this.files.entry(on, path, true)
      if (kind !== 'folder') {
        await on.send(`DELE ${wire}`).catch((error: unknown) => this.refineError(on, error, path))
        return
      }
      await on.send(`RMD ${wire}`).catch(async (error: unknown) => {
        if (on.broken) throw error
        if (!(await this.#removeOrphans(on, path))) throw new GatewayError('not_empty', { cause: error })
        await on.send(`RMD ${wire}`).catch((second: unknown) => this.refineError(on, second, path))
      })
    })
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#withoutRetry('ask', signal, async (on) => {
      const { kind } = await this.files.entry(on, from, true)
      const old = await this.files.kindAt(on, to)
      if (old === 'folder') throw new GatewayError('is_folder')
      if (old === 'file' && kind === 'folder') throw new GatewayError('exists')
      await this.#assertEndingSupported(on, to)
      await this.#publishing.run(to, () => this.#rename(on, from, to), signal)
    })
  }

  async close(): Promise<void> {
    await this.#replacing.whenIdle(abortTimeout)
    this.connections.close()
  }

  // Orphaned staged files

  /** Whether the name is that of a staged file. Removes it in the background if its run is over. */
  #isStaged(folder: Path, name: string): boolean {
    if (stagingRun(name) === undefined) return false
    if (isOrphan(name, this.env.instance)) this.#deleter.enqueue(this.files.wire(childOf(folder, name)))
    return true
  }

  /**
   * Removes orphans from a folder that is about to be removed. Resolves to false, without removing any, if it has other
   * members.
   */
  async #removeOrphans(on: FtpConnection, folder: Path): Promise<boolean> {
    let others = 0
    const orphans: string[] = []
    for await (const page of this.files.listing(on, folder)) {
      for (const { name } of page) {
        if (isOrphan(name, this.env.instance) && orphans.length < maxOrphans) orphans.push(name)
        else others++
      }
    }
    if (others > 0) return false
    for (const name of orphans) await on.send(`DELE ${this.files.wire(childOf(folder, name))}`).catch(ignoreRefusal)
    return true
  }

  // Errors: servers use one reply code for most of them, so the cause is found by looking at the path

  /** Rejects with the refined error of a command on an existing entry: `not_found`, `not_folder` or `denied`. */
  protected async refineError(on: FtpConnection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || isGatewayError(known, 'denied', 'no_space')) throw known
    const kind = await this.files.kindAt(on, path)
    const code: ErrorCode = kind === 'nothing' ? 'not_found' : kind === 'file' ? 'not_folder' : 'denied'
    throw new GatewayError(code, { cause: error })
  }

  /** Rejects with the refined error of reading a file: `is_folder` or `not_found`. */
  async #refineReadError(on: FtpConnection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || known.code === 'no_space') throw known
    const kind = await this.files.kindAt(on, path)
    if (kind === 'file') throw known
    throw new GatewayError(kind === 'folder' ? 'is_folder' : 'not_found', { cause: error })
  }

  /** Rejects with the refined error of creating an entry: `parent_missing`, `not_folder`, `exists` or `denied`. */
  async #refineCreateError(on: FtpConnection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || known.code === 'no_space') throw known
    const parent = await this.files.kindAt(on, parentOf(path))
    if (parent === 'nothing') throw new GatewayError('parent_missing', { cause: error })
    if (parent === 'file') throw new GatewayError('not_folder', { cause: error })
    if ((await this.files.kindAt(on, path)) !== 'nothing') throw new GatewayError('exists', { cause: error })
    throw new GatewayError('denied', { reason: 'the FTP server refused the request', cause: error })
  }

  /** Rejects with the refined error of a rename to `path`: `is_folder`, or as for creating an entry. */
  async #refineRenameError(on: FtpConnection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || known.code === 'no_space') throw known
    if ((await this.files.kindAt(on, path)) === 'folder') throw new GatewayError('is_folder', { cause: error })
    return this.#refineCreateError(on, error, path)
  }

  // Calls

  /** Runs idempotent work: retried once if the connection was lost. */
  protected withRetry<T>(signal: AbortSignal | undefined, work: (on: FtpConnection) => Promise<T>): Promise<T> {
    return this.#within(signal, () => this.connections.useWithRetry('ask', signal, work))
  }

  /** Runs work that must not be repeated. */
  #withoutRetry<T>(use: Use, signal: AbortSignal | undefined, work: (on: FtpConnection) => Promise<T>): Promise<T> {
    return this.#within(signal, () => this.connections.use(use, signal, work))
  }

  /** Translates errors, and rejects with `aborted` once the signal is aborted. */
  async #within<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    if (signal?.aborted) throw new GatewayError('aborted')
    try {
      return await work()
    } catch (error) {
      throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
    }
  }
}

/** For servers with MLST and MFMT, which store exact times. Modes are set with SITE CHMOD. */
class TimekeepingFtpDriver extends FtpDriver {
  async setAttributes(path: Path, { modified, mode }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    await this.withRetry(signal, async (on) => {
      const wire = this.files.wire(path)
      const refine = async (error: unknown) => {
        // The core stores what the server does not implement.
        if (translated(error).code !== 'unsupported') await this.refineError(on, error, path)
      }
      if (mode !== undefined) {
        const existing = await this.files.entry(on, path)
        await on.send(changeMode(settableMode(existing, mode), wire)).catch(refine)
      }
      if (modified) await on.send(`MFMT ${timestampOf(modified)} ${wire}`).catch(refine)
    })
  }
}

function changeMode(mode: number, wire: string): string {
  return `SITE CHMOD ${mode.toString(8).padStart(3, '0')} ${wire}`
}

/** Destroys the stream with `aborted` when the signal is aborted. */
function destroyOnAbort(stream: Readable, signal: AbortSignal | undefined): void {
  const abort = () => stream.destroy(new GatewayError('aborted'))
  signal?.addEventListener('abort', abort, { once: true })
  stream.once('close', () => signal?.removeEventListener('abort', abort))
  if (signal?.aborted) abort()
}
