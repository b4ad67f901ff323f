/** A folder on an FTP server as a storage. */
import { Readable } from 'node:stream'
import { untilAborted } from '../../src/aborting.js'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  Source,
  Traits,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError, type ErrorCode } from '../../src/errors.js'
import { childOf, isListableName, isWithin, nameOf, parentOf, type Path, withoutTrailing } from '../../src/path.js'
import { stagedBy, stagedName } from '../lib/staged-names.js'
import { Sweep } from '../lib/sweep.js'
import { Turns } from '../lib/turns.js'
import { accountOf } from './account.js'
import { breakLimit, Connection } from './connection.js'
import { Connections, type Use } from './connections.js'
import { ifRefused, isRefusal, translated } from './errors.js'
import { Files } from './files.js'
import type { FtpOptions } from './index.js'
import { timestampOf, type Listed } from './listed.js'
import { Replacing } from './replacing.js'
import { Download, sendAll, type DownloadOptions } from './transfers.js'

/** Bytes of a file that are kept for a reader who is slower than the server. */
const readAhead = 1024 * 1024
/** Leftovers that go for a folder to be removed; with more of them it is not empty yet. */
const leftOversAtOnce = 1000
/** Links of a listing that are kept until the rest is told: each is asked for, and that on another connection where there is one. */
const linksAtMost = 1000

/** Rejects with `invalid` for wrong options, and as a connection does. */
export async function openFtp(options: FtpOptions, env: DriverEnv): Promise<Driver> {
  const account = accountOf(options)
  const passive = { extended: undefined }
  const connections = new Connections((signal) => Connection.open(account, passive, signal))
  const files = new Files(withoutTrailing(options.root_folder_path, '/'), account.names, {
    changesFolder: options.cwd_list,
  })
  try {
    return await connections.use('ask', env.signal, async (on) => {
      const kind = await files.rootKind(on)
      if (kind === 'nothing') throw new GatewayError('invalid', { reason: 'root_folder_path is not there' })
      if (kind === 'file') throw new GatewayError('invalid', { reason: 'root_folder_path is no folder' })
      const { machineListings, setsTimes, restarts: ranges } = on.features
      // Without both, what a client has set would come back in another form, or not at all.
      return machineListings && setsTimes
        ? new TimekeepingFtpDriver(connections, files, env, { timeStep: 1000, ranges })
        : new FtpDriver(connections, files, env, { timeStep: Infinity, ranges })
    })
  } catch (error) {
    connections.close()
    throw translated(error)
  }
}

class FtpDriver implements Driver {
  /** Names that are being taken: the server has no way to say that one must be new. */
  readonly #publishing = new Turns()
  /** Characters that names may end with, or not, where that is known. */
  readonly #keptEnds = new Map<string, boolean>()
  readonly #replacing: Replacing
  readonly #sweep: Sweep

  constructor(
    private readonly connections: Connections,
    protected readonly files: Files,
    private readonly env: DriverEnv,
    readonly traits: Partial<Traits>,
  ) {
    this.#replacing = new Replacing(files, connections, env.log)
    this.#sweep = new Sweep((wire) => connections.use('ask', env.signal, (on) => on.ask(`DELE ${wire}`)))
  }

  // Reading

  async stat(path: Path, { signal, link }: CallOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.asked(signal, (on) => this.files.entry(on, path, link === true))
  }

  async *list(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    let closed: () => void
    const closing = new Promise<void>((resolve) => (closed = resolve))
    const { stream, connection } = await this.#within(signal, () => this.#openListing(path, () => closed(), signal))
    const links: Listed[] = []
    try {
      for await (const page of this.files.pages(stream, connection)) {
        const needsZone = !connection.features.machineListings && this.files.clock.zone === undefined
        if (needsZone) await this.asked(signal, (on) => this.files.learnZone(on, path, page))
        // The core leaves out what it cannot name: nothing is asked of the server by such a name.
        const isAsked = ({ kind, name }: Listed) => kind === 'link' && isListableName(name)
        links.push(...page.filter(isAsked))
        const entries = page.filter((listed) => !isAsked(listed) && !this.#isStaged(path, listed.name))
        if (entries.length > 0) yield entries.map((listed) => this.files.told(listed))
        if (links.length > linksAtMost) yield* this.#shown(path, links.splice(0), signal)
      }
    } catch (error) {
      throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
    } finally {
      stream.destroy()
      // Some servers refuse to remove a folder while a connection is in it, whichever connection asks.
      await untilAborted(closing, signal).catch(() => undefined)
    }
    yield* this.#shown(path, links, signal)
  }

  /** Links as what they lead to. */
  async *#shown(folder: Path, links: readonly Listed[], signal: AbortSignal | undefined): AsyncGenerator<Entry[]> {
    for (let at = 0; at < links.length; at += 100) {
      const page = await this.asked(signal, (on) => this.#behind(on, folder, links.slice(at, at + 100)))
      if (page.length > 0) yield page
    }
  }

  async #behind(on: Connection, folder: Path, links: readonly Listed[]): Promise<Entry[]> {
    const entries: Entry[] = []
    for (const link of links) entries.push(await this.files.behind(on, childOf(folder, link.name), link))
    // Of a server without facts nobody can ask for a link that leads nowhere.
    return on.features.machineListings ? entries : entries.filter(({ kind }) => kind !== 'link')
  }

  /** `closed` runs once, after the end of the stream, when the connection has left the folder and was given back. */
  #openListing(path: Path, closed: () => void, signal: AbortSignal | undefined) {
    return this.#stream('ask', signal, async (on, { ending, done: give }) => {
      const done = () => {
        const left = this.files.closeListing(on, path).catch(() => undefined)
        void left.finally(give).finally(closed)
      }
      return this.files.openListing(on, path, { ending, done }).catch((error: unknown) => this.explain(on, error, path))
    })
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { offset, length } = range
    return this.#within(signal, async () => {
      if (offset > 0 || length === 0) {
        const { kind, size } = await this.stat(path, { signal })
        if (kind === 'folder') throw new GatewayError('is_dir')
        if (kind === 'link') throw new GatewayError('not_found')
        if (length === 0 || offset >= size) return Readable.from([], { objectMode: false })
      }
      const wire = this.files.wire(path)
      const { stream } = await this.#stream('read', signal, async (on, ways) => {
        const transfer = await on
          .transfer(`RETR ${wire}`, { offset })
          .catch((error: unknown) => this.#explainUnread(on, error, path))
        return new Download({ connection: on, transfer, length, ahead: readAhead, ...ways })
      })
      return stream
    })
  }

  /** A stream that has a connection to itself until it gives it back. */
  async #stream(
    use: Use,
    signal: AbortSignal | undefined,
    start: (on: Connection, ways: Pick<DownloadOptions, 'ending' | 'done'>) => Promise<Download>,
  ): Promise<{ readonly stream: Download; readonly connection: Connection }> {
    for (let isAgain = false; ; isAgain = true) {
      const connection = await this.connections.take(use, signal)
      const abort = () => connection.close(new GatewayError('aborted'))
      signal?.addEventListener('abort', abort, { once: true })
      try {
        const stream = await start(connection, {
          ending: () => this.connections.giveSoon(connection),
          done: () => this.connections.give(use, connection),
        })
        endWith(stream, signal)
        return { stream, connection }
      } catch (error) {
        const isLost = connection.broken
        this.connections.give(use, connection)
        if (!isLost || isAgain || signal?.aborted) throw error
      } finally {
        signal?.removeEventListener('abort', abort)
      }
    }
  }

  // Writing

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal, createOnly } = options
    return this.#changed('write', signal, async (on) => {
      const old = await this.files.find(on, path)
      if (old?.kind === 'folder') throw new GatewayError('is_dir')
      if (old && createOnly === true) throw new GatewayError('exists')
      if (!old) await this.#assertKept(on, path)
      const staged = this.#stagedBeside(path)
      try {
        const transfer = await on
          .transfer(`STOR ${this.files.wire(staged)}`, { sends: true })
          .catch((error: unknown) => this.#explainNew(on, error, path))
        const size = await sendAll(source, { connection: on, transfer }, signal)
        const attributes = { modified: options.modified, mode: options.mode ?? old?.mode }
        const stored = await this.#dress(on, staged, size, attributes)
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

  /** Time and mode of the staged file, as far as the server goes along; tells what is there then, which must be all that was sent. */
  async #dress(on: Connection, staged: Path, size: number, { modified, mode }: Attributes): Promise<Entry> {
    const wire = this.files.wire(staged)
    const command = on.features.setsTimes ? 'MFMT' : 'MDTM'
    if (modified) await on.ask(`${command} ${timestampOf(modified)} ${wire}`).catch(ifRefused)
    let entry = await this.files.entry(on, staged)
    if (entry.size !== size) {
      throw new GatewayError('unavailable', { reason: `the FTP server has stored ${entry.size} of ${size} bytes` })
    }
    if (mode !== undefined && entry.mode !== undefined && mode !== entry.mode) {
      await on.ask(`SITE CHMOD ${mode.toString(8).padStart(3, '0')} ${wire}`).catch(ifRefused)
      entry = await this.files.entry(on, staged)
    }
    return entry
  }

  /** The staged file takes its name; nobody else here takes it meanwhile. */
  async #publish(on: Connection, staged: Path, path: Path, { createOnly, signal }: WriteOptions): Promise<void> {
    const isNew = createOnly === true
    const rename = async () => {
      if (isNew && (await this.files.kindAt(on, path)) !== 'nothing') throw new GatewayError('exists')
      await this.#rename(on, staged, path, !isNew)
    }
    await this.#publishing.run(path, rename, signal)
  }

  async #rename(on: Connection, from: Path, to: Path, replaces = true): Promise<void> {
    try {
      await on.rename(this.files.wire(from), this.files.wire(to))
    } catch (error) {
      const mayBeInTheWay = replaces && !on.broken && isRefusal(error)
      if (!mayBeInTheWay || (await this.files.kindAt(on, to)) !== 'file') return this.#explainTaken(on, error, to)
      await this.#replacing.replace(on, from, to)
    }
  }

  #stagedBeside(path: Path): Path {
    return childOf(parentOf(path), stagedName(this.env.instance.name))
  }

  /**
   * Rejects with `invalid` where the server would give the new name another end without a word, and so perhaps that of another
   * file: some turn a space there into a `_`, others drop it, or a dot. Tried out with a folder, once for each of the two.
   */
  async #assertKept(on: Connection, path: Path): Promise<void> {
    const end = path.at(-1) ?? ''
    if (end !== ' ' && end !== '.') return
    const isKept = this.#keptEnds.get(end) ?? (await this.#triesEnd(on, path, end))
    if (isKept === undefined) return
    this.#keptEnds.set(end, isKept)
    if (!isKept) throw new GatewayError('invalid', { reason: `the FTP server keeps no names that end with "${end}"` })
  }

  /** undefined: nothing can be made there at all. */
  async #triesEnd(on: Connection, path: Path, end: string): Promise<boolean | undefined> {
    const place = this.#stagedBeside(path)
    const wire = this.files.wire(place)
    const isMade = await on.ask(`MKD ${wire}`).then(() => true, ifRefused)
    if (isMade !== true) return undefined
    const name = `name${end}`
    await on.ask(`MKD ${wire}/${name}`).catch(ifRefused)
    const made: string[] = []
    for await (const page of this.files.listing(on, place)) made.push(...page.slice(0, 10).map((each) => each.name))
    for (const each of made) await on.ask(`RMD ${this.files.wire(childOf(place, each))}`).catch(ifRefused)
    await on.ask(`RMD ${wire}`).catch(ifRefused)
    return made.includes(name)
  }

  async #discard(on: Connection, staged: Path): Promise<void> {
    const command = `DELE ${this.files.wire(staged)}`
    await this.connections.putRight(on, (sound) => sound.ask(command)).catch(() => undefined)
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#changed('ask', signal, async (on) => {
      if ((await this.files.kindAt(on, path)) !== 'nothing') throw new GatewayError('exists')
      await this.#assertKept(on, path)
      await on.ask(`MKD ${this.files.wire(path)}`).catch((error: unknown) => this.#explainNew(on, error, path))
    })
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    await this.#changed('ask', signal, async (on) => {
      const wire = this.files.wire(path)
      const { kind } = await this.files.entry(on, path, true)
      if (kind !== 'folder') {
        await on.ask(`DELE ${wire}`).catch((error: unknown) => this.explain(on, error, path))
        return
      }
      await on.ask(`RMD ${wire}`).catch(async (error: unknown) => {
        if (on.broken) throw error
        if (!(await this.#isEmptied(on, path))) throw new GatewayError('not_empty', { cause: error })
        await on.ask(`RMD ${wire}`).catch((again: unknown) => this.explain(on, again, path))
      })
    })
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    if (from === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    await this.#changed('ask', signal, async (on) => {
      const { kind } = await this.files.entry(on, from, true)
      if (from === to) return
      if (isWithin(from, to)) throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
      const old = await this.files.kindAt(on, to)
      if (old === 'folder') throw new GatewayError('is_dir')
      if (old === 'file' && kind === 'folder') throw new GatewayError('exists')
      await this.#assertKept(on, to)
      await this.#publishing.run(to, () => this.#rename(on, from, to), signal)
    })
  }

  async close(): Promise<void> {
    await this.#replacing.settled(breakLimit)
    this.connections.close()
  }

  // What runs of the program leave behind

  #isStaged(folder: Path, name: string): boolean {
    if (stagedBy(name) === undefined) return false
    if (this.#isLeftOver(name)) this.#sweep.soon(this.files.wire(childOf(folder, name)))
    return true
  }

  /** Removes what dead runs have left in a folder that is to go, unless there is more in it. */
  async #isEmptied(on: Connection, folder: Path): Promise<boolean> {
    let others = 0
    const leftOver: string[] = []
    for await (const page of this.files.listing(on, folder)) {
      for (const { name } of page) {
        if (this.#isLeftOver(name) && leftOver.length < leftOversAtOnce) leftOver.push(name)
        else others++
      }
    }
    if (others > 0) return false
    for (const name of leftOver) await on.ask(`DELE ${this.files.wire(childOf(folder, name))}`).catch(ifRefused)
    return true
  }

  #isLeftOver(name: string): boolean {
    const instance = stagedBy(name)
    return instance !== undefined && this.env.instance.isOver(instance) === true
  }

  // Why it was refused: servers have one code for everything

  /** Of something that should be there. */
  protected async explain(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || isGatewayError(known, 'denied', 'no_space')) throw known
    const kind = await this.files.kindAt(on, path)
    const code: ErrorCode = kind === 'nothing' ? 'not_found' : kind === 'file' ? 'not_dir' : 'denied'
    throw new GatewayError(code, { cause: error })
  }

  /** Of something that should be a file. */
  async #explainUnread(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || known.code === 'no_space') throw known
    const kind = await this.files.kindAt(on, path)
    if (kind === 'file') throw known
    throw new GatewayError(kind === 'folder' ? 'is_dir' : 'not_found', { cause: error })
  }

  /** Of something that was to be made. */
  async #explainNew(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || known.code === 'no_space') throw known
    const parent = await this.files.kindAt(on, parentOf(path))
    if (parent === 'nothing') throw new GatewayError('parent_missing', { cause: error })
    if (parent === 'file') throw new GatewayError('not_dir', { cause: error })
    if ((await this.files.kindAt(on, path)) !== 'nothing') throw new GatewayError('exists', { cause: error })
    throw new GatewayError('denied', { reason: 'the FTP server refuses it', cause: error })
  }

  /** Of a name that could not be taken. */
  async #explainTaken(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = translated(error)
    if (on.broken || !isRefusal(error) || known.code === 'no_space') throw known
    if ((await this.files.kindAt(on, path)) === 'folder') throw new GatewayError('is_dir', { cause: error })
    return this.#explainNew(on, error, path)
  }

  // Calls

  /** What may be asked twice. */
  protected asked<T>(signal: AbortSignal | undefined, work: (on: Connection) => Promise<T>): Promise<T> {
    return this.#within(signal, () => this.connections.useAgain('ask', signal, work))
  }

  /** What may not. */
  #changed<T>(use: Use, signal: AbortSignal | undefined, work: (on: Connection) => Promise<T>): Promise<T> {
    return this.#within(signal, () => this.connections.use(use, signal, work))
  }

  async #within<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    if (signal?.aborted) throw new GatewayError('aborted')
    try {
      return await work()
    } catch (error) {
      throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
    }
  }
}

/** On a server with MFMT; modes are a matter of SITE CHMOD. */
class TimekeepingFtpDriver extends FtpDriver {
  async setAttributes(path: Path, { modified, mode }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    await this.asked(signal, async (on) => {
      const wire = this.files.wire(path)
      const explained = (error: unknown) => this.explain(on, error, path)
      if (mode !== undefined) await on.ask(`SITE CHMOD ${mode.toString(8).padStart(3, '0')} ${wire}`).catch(explained)
      if (modified) await on.ask(`MFMT ${timestampOf(modified)} ${wire}`).catch(explained)
    })
  }
}

function endWith(stream: Readable, signal: AbortSignal | undefined): void {
  const abort = () => stream.destroy(new GatewayError('aborted'))
  signal?.addEventListener('abort', abort, { once: true })
  stream.once('close', () => signal?.removeEventListener('abort', abort))
  if (signal?.aborted) abort()
}
