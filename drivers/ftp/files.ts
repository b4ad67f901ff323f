/**
 * Looks up paths and lists folders: with MLST and MLSD if the server has them, otherwise with SIZE, MDTM, CWD and LIST.
 */
import type { Readable } from 'node:stream'
import { pageSize, type Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { isListableName, nameOf, parentOf, type Path } from '../../src/base/path.js'
import type { FtpConnection, FtpTransfer } from './connection.js'
import { isRefusalOfArgument, isUnspecificRefusal } from './errors.js'
import { dateOf, parseListLine, ListClock, parseMlstReply, parseMlsdLine, type ListedEntry } from './listed.js'
import type { NameCharset } from './name-charset.js'
import { Download, type DownloadOptions } from './transfers.js'

/** Bytes of a listing that are buffered for a slow reader, so that the connection becomes available early. */
const listingBuffer = 32 * 1024 * 1024
/** Maximum bytes of a line. A longer line is malformed. */
const maxLineLength = 64 * 1024

type Kind = 'file' | 'folder' | 'nothing'

export class FtpFiles {
  readonly clock = new ListClock()
  /** Whether the server answers SIZE for folders too. */
  #sizesFolders = false
  /** Whether the server knows no options of LIST: it takes `-a` for a path. */
  #listsWithoutOptions = false

  /**
   * `root`: the server's path of the storage's root, without a trailing slash. `changesFolder`: change into a folder to
   * list it, for servers that cannot list a path.
   */
  constructor(
    private readonly root: string,
    readonly names: NameCharset,
    private readonly options: { readonly changesFolder: boolean },
  ) {}

  /** The server's path of `path` in wire text. Throws `invalid` if it cannot be encoded. */
  wire(path: Path): string {
    return this.names.encode(path === '/' ? this.root || '/' : this.root + path)
  }

  /**
   * The entry at the path. Rejects with `not_found`, or `unavailable` for the root. `ofSymlink`: does not resolve a
   * symlink.
   */
  async entry(on: FtpConnection, path: Path, ofSymlink = false): Promise<Entry> {
    const entry = await this.#lookUp(on, path, ofSymlink)
    if (entry) return entry
    throw path === '/' ? rootMissing() : new GatewayError('not_found')
  }

  /**
   * The entry at the path, with a symlink resolved; undefined if there is none. Rejects with `unavailable` if the root
   * is missing.
   */
  async find(on: FtpConnection, path: Path): Promise<Entry | undefined> {
    return path === '/' ? this.entry(on, path) : this.#lookUp(on, path, false)
  }

  /**
   * The kind of the entry at the path, with a symlink resolved. Rejects with `denied` if it exists but is inaccessible,
   * and with `unavailable` if the root is missing.
   */
  async kindAt(on: FtpConnection, path: Path): Promise<Kind> {
    const kind = await this.#kindAt(on, path)
    if (kind === 'nothing' && path === '/') throw rootMissing()
    return kind
  }

  /**
   * The kind of the storage's root; 'nothing' if it is missing. Rejects with `unavailable` if the server's own root is
   * missing.
   */
  async rootKind(on: FtpConnection): Promise<Kind> {
    const wire = this.wire('/' as Path)
    const isFolder = on.features.tellsSizes && (await this.#isFolder(on, wire).catch(ifMissing)) === true
    this.#sizesFolders = isFolder && (await this.#sizeOf(on, wire)) !== undefined
    return this.root === '' ? this.kindAt(on, '/' as Path) : this.#kindAt(on, '/' as Path)
  }

  async #lookUp(on: FtpConnection, path: Path, ofSymlink: boolean): Promise<Entry | undefined> {
    const entry = on.features.machineListings
      ? this.#fromMlst(on, path, ofSymlink)
      : this.#fromCommands(on, path, ofSymlink)
    return undefinedIfMissing(entry)
  }

  async #kindAt(on: FtpConnection, path: Path): Promise<Kind> {
    const { machineListings, tellsSizes } = on.features
    if (!machineListings && tellsSizes) {
      const wire = this.wire(path)
      if ((await this.#sizeOf(on, wire)) !== undefined) return 'file'
      return (await this.#isFolder(on, wire)) ? 'folder' : 'nothing'
    }
    const entry = await this.#lookUp(on, path, false)
    return entry?.kind === 'symlink' ? 'file' : (entry?.kind ?? 'nothing')
  }

  async #fromMlst(on: FtpConnection, path: Path, ofSymlink: boolean): Promise<Entry> {
    const { message } = await this.#refusalAsNotFound(on.send(`MLST ${this.wire(path)}`))
    const listed = parseMlstReply(nameOf(path), message)
    if (!listed) throw new GatewayError('not_found')
    return listed.kind === 'symlink' && !ofSymlink ? this.resolveSymlink(on, path, listed) : this.toEntry(listed)
  }

  async #fromCommands(on: FtpConnection, path: Path, ofSymlink: boolean): Promise<Entry> {
    const wire = this.wire(path)
    const name = nameOf(path)
    if (path === '/') {
      if (await this.#isFolder(on, wire)) return { name, kind: 'folder', size: 0, modified: new Date(0) }
      throw new GatewayError('not_found')
    }
    const size = await this.#sizeOf(on, wire)
    const time = size === undefined ? undefined : await this.#timeOf(on, wire)
    if (size !== undefined && time) {
      return { name, kind: 'file', size, modified: this.clock.asListed(time, new Date()) }
    }
    // The folder is listed only if no other command shows that the name does not exist.
    let denial: GatewayError | undefined
    if (size === undefined && on.features.tellsSizes) {
      const mayExist = await this.#isFolder(on, wire).catch((error: unknown) => {
        if (!isGatewayError(error, 'denied')) throw error
        denial = error
        return true
      })
      if (!mayExist) throw new GatewayError('not_found')
    }
    const listed = await this.#findInListing(on, path)
    if (!listed) throw denial ?? new GatewayError('not_found')
    return listed.kind === 'symlink' && !ofSymlink ? this.resolveSymlink(on, path, listed) : this.toEntry(listed)
  }

  /** Finds the path in the listing of its folder. */
  async #findInListing(on: FtpConnection, path: Path): Promise<ListedEntry | undefined> {
    const name = nameOf(path)
    let found: ListedEntry | undefined
    for await (const page of this.listing(on, parentOf(path))) found ??= page.find((each) => each.name === name)
    return found
  }

  // Folders

  /**
   * Starts a listing and returns its bytes. The connection is busy until `done` is called. Rejects with the server's
   * error.
   */
  async openListing(
    on: FtpConnection,
    folder: Path,
    callbacks: Pick<DownloadOptions, 'ending' | 'done'> = { done: () => undefined },
  ): Promise<Download> {
    const wire = this.wire(folder)
    const mustEnter = this.#mustEnter(on, wire)
    if (mustEnter) await on.send(`CWD ${wire}`)
    const start = () =>
      on.features.machineListings ? on.transfer(mustEnter ? 'MLSD' : `MLSD ${wire}`) : this.#startList(on)
    const transfer = await start().catch(async (error: unknown) => {
      await this.closeListing(on, folder).catch(() => undefined)
      throw error
    })
    return new Download({ connection: on, transfer, bufferSize: listingBuffer, ...callbacks })
  }

  /** Starts LIST of the folder that was entered, with hidden files if the server knows the option for that. */
  async #startList(on: FtpConnection): Promise<FtpTransfer> {
    if (this.#listsWithoutOptions) return on.transfer('LIST')
    try {
      return await on.transfer('LIST -a')
    } catch (error) {
      if (on.broken || !isRefusalOfArgument(error)) throw error
      const transfer = await on.transfer('LIST').catch(() => undefined)
      if (!transfer) throw error
      this.#listsWithoutOptions = true
      return transfer
    }
  }

  /**
   * Whether the folder must be entered to list it, also because servers interpret characters of its path as a pattern.
   */
  #mustEnter(on: FtpConnection, wire: string): boolean {
    return !on.features.machineListings || this.options.changesFolder || /[*?[\]{}~\\]/.test(wire)
  }

  /** After `openListing`: leaves the folder, so that it can be renamed or removed. */
  async closeListing(on: FtpConnection, folder: Path): Promise<void> {
    if (!on.broken && this.#mustEnter(on, this.wire(folder))) await this.#leaveFolder(on)
  }

  /** Lists a folder, page by page. The connection is available again after the last page. */
  async *listing(on: FtpConnection, folder: Path): AsyncGenerator<readonly ListedEntry[]> {
    yield* this.pages(await this.openListing(on, folder), on)
    await this.closeListing(on, folder)
  }

  /**
   * Parses the lines of a listing, page by page. Fails with `unavailable` if there are entries and none can be read.
   */
  async *pages(lines: Readable, { features }: Pick<FtpConnection, 'features'>): AsyncGenerator<readonly ListedEntry[]> {
    const now = new Date()
    const parse = features.machineListings
      ? parseMlsdLine
      : (line: string, names: NameCharset) => parseListLine(line, names, now)
    let page: ListedEntry[] = []
    const lineCounts = { read: 0, unreadable: 0 }
    for await (const text of wireLines(lines)) {
      const line = parse(text, this.names)
      if (line === 'nothing') continue
      lineCounts[line.isUnreadable === true ? 'unreadable' : 'read']++
      page.push(line)
      if (page.length < pageSize) continue
      yield page
      page = []
    }
    if (lineCounts.read === 0 && lineCounts.unreadable > 0) {
      throw new GatewayError('unavailable', { reason: 'the FTP server sent a listing of an unknown format' })
    }
    if (page.length > 0) yield page
  }

  /**
   * The entry of a symlink's target, under the symlink's name; the symlink's own entry if it is dangling or
   * inaccessible.
   */
  async resolveSymlink(on: FtpConnection, path: Path, symlink: ListedEntry): Promise<Entry> {
    const wire = this.wire(path)
    const size = await this.#sizeOf(on, wire)
    if (size !== undefined) {
      const time = await this.#timeOf(on, wire)
      if (!on.features.machineListings) {
        return {
          name: symlink.name,
          kind: 'file',
          size,
          modified: time ? this.clock.asListed(time, new Date()) : new Date(0),
        }
      }
      return { name: symlink.name, kind: 'file', isSymlink: true, size, modified: time ?? this.#dateOf(symlink) }
    }
    const entry = { name: symlink.name, size: 0, modified: this.#dateOf(symlink) }
    // A symlink with an inaccessible target is shown like a dangling one.
    const isFolder = await this.#isFolder(on, wire).catch(ifMissing)
    return isFolder === true ? { ...entry, kind: 'folder', isSymlink: true } : { ...entry, kind: 'symlink' }
  }

  /** Converts an entry of a listing, without resolving symlinks. */
  toEntry(listed: ListedEntry): Entry {
    const { name, kind, size, mode, revision } = listed
    return {
      name,
      kind,
      size: kind === 'folder' ? 0 : size,
      modified: this.#dateOf(listed),
      ...(mode !== undefined && { mode }),
      ...(revision !== undefined && kind === 'file' && { revision }),
    }
  }

  #dateOf({ time }: ListedEntry): Date {
    if (time === undefined) return new Date(0)
    return time instanceof Date ? time : this.clock.dateOf(time)
  }

  /** The exact time of a file (MDTM); undefined if the server does not report it. */
  async #timeOf(on: FtpConnection, wire: string): Promise<Date | undefined> {
    if (!on.features.tellsTimes) return undefined
    const reply = await this.#refusalAsNotFound(on.send(`MDTM ${wire}`)).catch(ifMissing)
    return dateOf(reply?.message.slice('213 '.length))
  }

  /** Derives the server's time zone, if unknown, from the first file in `listed` whose time of day is known. */
  async learnZone(on: FtpConnection, folder: Path, listed: readonly ListedEntry[]): Promise<void> {
    if (this.clock.zone !== undefined) return
    for (const { name, kind, time } of listed) {
      if (kind !== 'file' || time === undefined || time instanceof Date || time.isDay) continue
      if (!isListableName(name)) continue
      const exact = await this.#timeOf(on, `${this.wire(folder).replace(/\/$/, '')}/${this.names.encode(name)}`)
      if (exact) this.clock.deriveZone(time, exact)
      return
    }
  }

  /** The size of a file (SIZE); undefined if it is not a file, or the server does not report it. */
  async #sizeOf(on: FtpConnection, wire: string): Promise<number | undefined> {
    if (!on.features.tellsSizes) return undefined
    if (this.#sizesFolders && (await this.#isFolder(on, wire).catch(ifMissing)) === true) return undefined
    const reply = await this.#refusalAsNotFound(on.send(`SIZE ${wire}`)).catch(ifMissing)
    const size = Number(reply?.message.slice('213 '.length).trim() || NaN)
    return Number.isSafeInteger(size) && size >= 0 ? size : undefined
  }

  /** Whether the path is a folder that can be entered (CWD). Rejects with `denied` if the server says so. */
  async #isFolder(on: FtpConnection, wire: string): Promise<boolean> {
    const entered = await undefinedIfMissing(this.#refusalAsNotFound(on.send(`CWD ${wire}`)))
    if (!entered) return false
    await this.#leaveFolder(on)
    return true
  }

  /** Returns to the root: some servers refuse to rename or remove a folder while a connection is in it. */
  async #leaveFolder(on: FtpConnection): Promise<void> {
    await this.#refusalAsNotFound(on.send(`CWD ${this.wire('/' as Path)}`)).catch(ifMissing)
  }

  /** Converts an unspecific refusal to `not_found`: a server that knows another reason usually reports it. */
  async #refusalAsNotFound<T>(reply: Promise<T>): Promise<T> {
    try {
      return await reply
    } catch (error) {
      throw isUnspecificRefusal(error) ? new GatewayError('not_found', { cause: error }) : error
    }
  }
}

function ifMissing(error: unknown): undefined {
  if (isGatewayError(error, 'not_found', 'denied')) return undefined
  throw error
}

function rootMissing(): GatewayError {
  return new GatewayError('unavailable', { reason: 'the FTP server does not show the root folder of the storage' })
}

/** Splits a listing into lines of wire text, without line endings. */
async function* wireLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = ''
  // A chunk may contain everything that was buffered for a slow reader, so it is decoded in pieces.
  for await (const chunk of bytes) {
    for (let start = 0; start < chunk.length; start += maxLineLength) {
      const lines = (rest + chunk.toString('latin1', start, start + maxLineLength)).split('\n')
      rest = lines.pop() ?? ''
      if ([rest, ...lines].some(({ length }) => length > maxLineLength)) {
        throw new GatewayError('unavailable', { reason: 'the FTP server sent a malformed listing' })
      }
      for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line
    }
  }
  if (rest !== '') yield rest
}
