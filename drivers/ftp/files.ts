/** What is at a path, asked on one connection: by facts where the server has them, else by the commands of old. */
import type { Readable } from 'node:stream'
import type { Entry } from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { isListableName, nameOf, parentOf, type Path } from '../../src/path.js'
import type { Connection } from './connection.js'
import { isBareRefusal } from './errors.js'
import { dateOf, humanLine, ListClock, machineFacts, machineLine, type Listed } from './listed.js'
import type { NameEncoding } from './name-encoding.js'
import { Download, type DownloadOptions } from './transfers.js'

/** Entries of a page; bytes of a listing that are kept for a slow reader, so that the connection is free for others. */
const pageSize = 1000
const listingAhead = 32 * 1024 * 1024
/** Longest line; longer ones are not of this protocol. */
const lineLimit = 64 * 1024

export type Kind = 'file' | 'folder' | 'nothing'

export class Files {
  readonly clock = new ListClock()

  /** `root`: the server's path of the storage's root, without a slash at its end. */
  constructor(
    private readonly root: string,
    readonly names: NameEncoding,
    private readonly options: { readonly changesFolder: boolean },
  ) {}

  /** Wire text of the server's path. Rejects with `invalid` where it cannot be sent. */
  wire(path: Path): string {
    return this.names.encode(path === '/' ? this.root || '/' : this.root + path)
  }

  /** `not_found` where nothing is there, `unavailable` of the root. `ofLink`: a link is told as such. */
  async entry(on: Connection, path: Path, ofLink = false): Promise<Entry> {
    const entry = await this.#found(on, path, ofLink)
    if (entry) return entry
    throw path === '/' ? rootIsGone() : new GatewayError('not_found')
  }

  async find(on: Connection, path: Path): Promise<Entry | undefined> {
    return path === '/' ? this.entry(on, path) : this.#found(on, path, false)
  }

  /** Rejects with `denied` where something is there that nobody may look at, and with `unavailable` where there is no root. */
  async kindAt(on: Connection, path: Path): Promise<Kind> {
    const kind = await this.#kindAt(on, path)
    if (kind === 'nothing' && path === '/') throw rootIsGone()
    return kind
  }

  /** What the root is; `unavailable` where the server tells nothing of its own. */
  async rootKind(on: Connection): Promise<Kind> {
    return this.root === '' ? this.kindAt(on, '/' as Path) : this.#kindAt(on, '/' as Path)
  }

  async #found(on: Connection, path: Path, ofLink: boolean): Promise<Entry | undefined> {
    const looking = on.features.machineListings ? this.#factsOf(on, path, ofLink) : this.#askedOf(on, path, ofLink)
    return looking.catch((error: unknown) => {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    })
  }

  async #kindAt(on: Connection, path: Path): Promise<Kind> {
    const { machineListings, tellsSizes } = on.features
    if (!machineListings && tellsSizes) {
      const wire = this.wire(path)
      if ((await this.#sizeOf(on, wire)) !== undefined) return 'file'
      return (await this.#isFolder(on, wire)) ? 'folder' : 'nothing'
    }
    const entry = await this.#found(on, path, false)
    return entry?.kind === 'link' ? 'file' : (entry?.kind ?? 'nothing')
  }

  async #factsOf(on: Connection, path: Path, ofLink: boolean): Promise<Entry> {
    const { message } = await this.#unlessRefused(on.ask(`MLST ${this.wire(path)}`))
    const listed = machineFacts(nameOf(path), message)
    if (!listed) throw new GatewayError('not_found')
    return listed.kind === 'link' && !ofLink ? this.behind(on, path, listed) : this.told(listed)
  }

  async #askedOf(on: Connection, path: Path, ofLink: boolean): Promise<Entry> {
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
    // Of a name that is not there the whole folder is read only where nothing else tells.
    let closed: GatewayError | undefined
    if (size === undefined && on.features.tellsSizes) {
      const isThere = await this.#isFolder(on, wire).catch((error: unknown) => {
        if (!isGatewayError(error, 'denied')) throw error
        closed = error
        return true
      })
      if (!isThere) throw new GatewayError('not_found')
    }
    const listed = await this.#listedAs(on, path)
    if (!listed) throw closed ?? new GatewayError('not_found')
    return listed.kind === 'link' && !ofLink ? this.behind(on, path, listed) : this.told(listed)
  }

  /** As its folder lists it. */
  async #listedAs(on: Connection, path: Path): Promise<Listed | undefined> {
    const name = nameOf(path)
    let found: Listed | undefined
    for await (const page of this.listing(on, parentOf(path))) found ??= page.find((each) => each.name === name)
    return found
  }

  // Folders

  /** The lines of a folder; the connection is busy until `done` ran. Rejects with what the server says. */
  async openListing(
    on: Connection,
    folder: Path,
    ways: Pick<DownloadOptions, 'ending' | 'done'> = { done: () => undefined },
  ): Promise<Download> {
    const wire = this.wire(folder)
    const enters = this.#enters(on, wire)
    if (enters) await on.ask(`CWD ${wire}`)
    const command = on.features.machineListings ? (enters ? 'MLSD' : `MLSD ${wire}`) : 'LIST -a'
    const transfer = await on.transfer(command).catch(async (error: unknown) => {
      await this.closeListing(on, folder).catch(() => undefined)
      throw error
    })
    return new Download({ connection: on, transfer, ahead: listingAhead, ...ways })
  }

  /** To list a folder. Paths with characters that servers take for patterns are entered, too. */
  #enters(on: Connection, wire: string): boolean {
    return !on.features.machineListings || this.options.changesFolder || /[*?[\]{}~\\]/.test(wire)
  }

  /** After `openListing`: the connection is in no folder that may be renamed or removed. */
  async closeListing(on: Connection, folder: Path): Promise<void> {
    if (!on.broken && this.#enters(on, this.wire(folder))) await this.#leaveFolder(on)
  }

  /** A whole folder, page by page; the connection is free for more when it was read to its end. */
  async *listing(on: Connection, folder: Path): AsyncGenerator<readonly Listed[]> {
    yield* this.pages(await this.openListing(on, folder), on)
    await this.closeListing(on, folder)
  }

  /** What the lines tell, page by page. */
  async *pages(lines: Readable, { features }: Pick<Connection, 'features'>): AsyncGenerator<readonly Listed[]> {
    const now = new Date()
    const read = features.machineListings
      ? machineLine
      : (line: string, names: NameEncoding) => humanLine(line, names, now)
    let page: Listed[] = []
    for await (const text of wireLines(lines)) {
      const line = read(text, this.names)
      if (line !== 'nothing') page.push(line)
      if (page.length < pageSize) continue
      yield page
      page = []
    }
    if (page.length > 0) yield page
  }

  /** What a link shows; itself where that is nothing. */
  async behind(on: Connection, path: Path, link: Listed): Promise<Entry> {
    const wire = this.wire(path)
    const size = await this.#sizeOf(on, wire)
    if (size !== undefined) {
      const time = await this.#timeOf(on, wire)
      if (!on.features.machineListings) {
        return {
          name: link.name,
          kind: 'file',
          size,
          modified: time ? this.clock.asListed(time, new Date()) : new Date(0),
        }
      }
      return { name: link.name, kind: 'file', isLink: true, size, modified: time ?? this.#dateOf(link) }
    }
    const entry = { name: link.name, size: 0, modified: this.#dateOf(link) }
    // One that leads where nobody may go is shown as a link, as one that leads nowhere.
    const isFolder = await this.#isFolder(on, wire).catch(ifMissing)
    return isFolder === true ? { ...entry, kind: 'folder', isLink: true } : { ...entry, kind: 'link' }
  }

  told(listed: Listed): Entry {
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

  #dateOf({ time }: Listed): Date {
    if (time === undefined) return new Date(0)
    return time instanceof Date ? time : this.clock.dateOf(time)
  }

  /** The exact time of a file; undefined where the server does not tell. */
  async #timeOf(on: Connection, wire: string): Promise<Date | undefined> {
    if (!on.features.tellsTimes) return undefined
    const answer = await this.#unlessRefused(on.ask(`MDTM ${wire}`)).catch(ifMissing)
    return dateOf(answer?.message.slice('213 '.length))
  }

  /** Learns the server's time zone from a file that is listed to the minute, once. */
  async learnZone(on: Connection, folder: Path, listed: readonly Listed[]): Promise<void> {
    if (this.clock.zone !== undefined) return
    for (const { name, kind, time } of listed) {
      if (kind !== 'file' || time === undefined || time instanceof Date || time.isDay) continue
      if (!isListableName(name)) continue
      const exact = await this.#timeOf(on, `${this.wire(folder).replace(/\/$/, '')}/${this.names.encode(name)}`)
      if (exact) this.clock.learn(time, exact)
      return
    }
  }

  /** Of a file; undefined where it is none, or the server does not tell. */
  async #sizeOf(on: Connection, wire: string): Promise<number | undefined> {
    if (!on.features.tellsSizes) return undefined
    const answer = await this.#unlessRefused(on.ask(`SIZE ${wire}`)).catch(ifMissing)
    const size = Number(answer?.message.slice('213 '.length).trim() || NaN)
    return Number.isSafeInteger(size) && size >= 0 ? size : undefined
  }

  /** Rejects with `denied` where something is there that must not be entered. */
  async #isFolder(on: Connection, wire: string): Promise<boolean> {
    const entered = await this.#unlessRefused(on.ask(`CWD ${wire}`)).catch((error: unknown) => {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    })
    if (!entered) return false
    await this.#leaveFolder(on)
    return true
  }

  /** Some servers keep a folder from being renamed or removed while a connection is in it. */
  async #leaveFolder(on: Connection): Promise<void> {
    await this.#unlessRefused(on.ask(`CWD ${this.wire('/' as Path)}`)).catch(ifMissing)
  }

  /** A refusal to tell of something means that it is not there, unless the server says otherwise. */
  async #unlessRefused<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      throw isBareRefusal(error) ? new GatewayError('not_found', { cause: error }) : error
    }
  }
}

function ifMissing(error: unknown): undefined {
  if (isGatewayError(error, 'not_found', 'denied')) return undefined
  throw error
}

function rootIsGone(): GatewayError {
  return new GatewayError('unavailable', { reason: 'the FTP server does not show the root folder of the storage' })
}

/** Lines in wire text, without their ends. */
async function* wireLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = ''
  // What has come meanwhile comes at once, and may be all that was kept for a slow reader.
  for await (const chunk of bytes) {
    for (let at = 0; at < chunk.length; at += lineLimit) {
      const lines = (rest + chunk.toString('latin1', at, at + lineLimit)).split('\n')
      rest = lines.pop() ?? ''
      if ([rest, ...lines].some(({ length }) => length > lineLimit)) {
        throw new GatewayError('unavailable', { reason: 'the FTP server sends no listing' })
      }
      for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line
    }
  }
  if (rest !== '') yield rest
}
