/**
 * A share of a server, through one connection. Calls go side by side; each rejects with a StatusError or a ConnectionError. Paths are as
 * the wire has them: names with `\` between, none at the start; empty for the share's own folder.
 */
import { Connection, type Answer, type ConnectionLimits } from './connection.js'
import { bytesPerCredit } from './credits.js'
import { ConnectionError, StatusError } from './errors.js'
import {
  access,
  closeRequest,
  copyChunksRequest,
  copyKeyRequest,
  createOptions,
  createRequest,
  deleteRequest,
  disposition,
  flushRequest,
  modifiedRequest,
  openedBefore,
  parseControl,
  parseCreate,
  parseDirectory,
  parseFile,
  parseRead,
  parseSpace,
  parseWrite,
  queryDirectoryRequest,
  queryFileRequest,
  querySpaceRequest,
  readRequest,
  renameRequest,
  truncateRequest,
  writeRequest,
  type CreateRequest,
  type FileFacts,
  type FileId,
  type Opened,
  type Request,
  type Space,
} from './messages.js'
import { signIn, type Agreement, type SignInOptions } from './sign-in.js'
import { status } from './statuses.js'

export interface ShareOptions extends SignInOptions {
  readonly host: string
  readonly port: number
  readonly limits: ConnectionLimits
}

/**
 * What something is opened for. `new` is a file that must not be there yet, `staged` one that is there and is to be written and renamed, `changing` is to rename or remove whatever is there: itself,
 * where it is a link.
 */
export type OpenHow = 'read' | 'update' | 'new' | 'staged' | 'folder' | 'changing'

const reading = access.readData | access.readAttributes | access.synchronize
const writing = access.writeData | access.writeAttributes
const { openReparsePoint, directory, notDirectory } = createOptions

const opening: Readonly<Record<OpenHow, Omit<CreateRequest, 'path'>>> = {
  read: { access: reading, disposition: disposition.open, options: notDirectory },
  update: { access: reading | writing, disposition: disposition.open, options: notDirectory },
  new: { access: reading | writing | access.delete, disposition: disposition.create, options: notDirectory },
  staged: { access: reading | writing | access.delete, disposition: disposition.open, options: notDirectory },
  folder: { access: reading, disposition: disposition.open, options: directory },
  changing: {
    access: access.delete | access.readAttributes | access.synchronize,
    disposition: disposition.open,
    options: openReparsePoint,
  },
}

/** Bytes of a page of a listing: some 1,500 names. */
const listingSize = 4 * bytesPerCredit
/** Bytes that the server copies by one request: what Windows and Samba take at the most (MS-SMB2 §3.3.3). */
const chunkSize = 1024 * 1024
const chunksAtOnce = 16

export class Share {
  private constructor(
    private readonly connection: Connection,
    readonly agreement: Agreement,
  ) {}

  /** It ends, also later, when the signal says so. */
  static async open(options: ShareOptions, signal?: AbortSignal): Promise<Share> {
    const connection = await Connection.open(options.host, options.port, options.limits, signal)
    try {
      return new Share(connection, await signIn(connection, options))
    } catch (error) {
      connection.break(new ConnectionError('closed', 'the sign-in failed'))
      throw error
    }
  }

  /** What broke it; undefined while it stands. */
  get broken(): ConnectionError | undefined {
    return this.connection.broken
  }

  /** Milliseconds since the server last said something. */
  get silence(): number {
    return this.connection.silence
  }

  get isEncrypted(): boolean {
    return this.connection.protection.encrypts
  }

  get isSigned(): boolean {
    return this.connection.protection.signs
  }

  /** Whatever is open is closed by the server. */
  close(): void {
    this.connection.break(new ConnectionError('closed', 'the connection was closed'))
  }

  assertAlive(within: number): Promise<void> {
    return this.connection.assertAlive(within)
  }

  /** The one name that `pattern` stands for in a folder, whatever its case; undefined where there is none. */
  async look(folder: string, pattern: string): Promise<FileFacts | undefined> {
    const [created, found, closed] = this.connection.send([
      createRequest({ path: folder, ...opening.folder }),
      queryDirectoryRequest(openedBefore, pattern, bytesPerCredit, true),
      closeRequest(openedBefore),
    ])
    await successOf(created)
    const { header, message } = await answerOf(found)
    await answerOf(closed)
    if (header.status === status.noSuchFile || header.status === status.noMoreFiles) return undefined
    if (header.status !== status.success) throw new StatusError(header.status)
    return this.connection.parsed(message, parseDirectory)[0]
  }

  /** Facts about whatever has this path. */
  async facts(path: string): Promise<FileFacts> {
    const [created, found, closed] = this.connection.send([
      createRequest({ path, access: access.readAttributes, disposition: disposition.open, options: 0 }),
      queryFileRequest(openedBefore),
      closeRequest(openedBefore),
    ])
    await successOf(created)
    const answer = await successOf(found)
    await answerOf(closed)
    return this.connection.parsed(answer, parseFile)
  }

  /** A handle, until `closeFile`. */
  open(path: string, how: OpenHow): Promise<Opened> {
    return this.connection.asking(createRequest({ path, ...opening[how] }), parseCreate)
  }

  /** The same with all that is known of the file. */
  async openWithFacts(path: string, how: OpenHow): Promise<{ readonly id: FileId; readonly facts: FileFacts }> {
    const [created, found] = this.connection.send([
      createRequest({ path, ...opening[how] }),
      queryFileRequest(openedBefore),
    ])
    const { id } = this.connection.parsed(await successOf(created), parseCreate)
    try {
      return { id, facts: this.connection.parsed(await successOf(found), parseFile) }
    } catch (error) {
      await this.closeFile(id).catch(() => undefined)
      throw error
    }
  }

  async closeFile(id: FileId): Promise<void> {
    await this.connection.ask(closeRequest(id))
  }

  /** At most `agreement.maxRead` bytes, fewer at the end, none behind it; they stay the caller's. */
  async read(id: FileId, position: number, length: number): Promise<Buffer> {
    const { header, message } = await this.connection.askRaw(readRequest(id, position, length))
    if (header.status === status.endOfFile) return Buffer.alloc(0)
    if (header.status !== status.success) throw new StatusError(header.status)
    const data = this.connection.parsed(message, parseRead)
    return data.length > length ? data.subarray(0, length) : data
  }

  /** At most `agreement.maxWrite` bytes. */
  async write(id: FileId, position: number, data: readonly Buffer[]): Promise<void> {
    const length = data.reduce((sum, part) => sum + part.length, 0)
    const written = await this.connection.asking(writeRequest(id, position, data), parseWrite)
    if (written !== length) throw new StatusError(status.diskFull)
  }

  async flush(id: FileId): Promise<void> {
    await this.connection.ask(flushRequest(id))
  }

  async truncate(id: FileId, size: number): Promise<void> {
    await this.connection.ask(truncateRequest(id, size))
  }

  /** A new file that goes when it is closed, also because its connection broke, until `keepFile`. */
  async openGoing(path: string): Promise<FileId> {
    const [created, going] = this.connection.send([
      createRequest({ path, ...opening.new }),
      deleteRequest(openedBefore, true),
    ])
    const { id } = this.connection.parsed(await successOf(created), parseCreate)
    await successOf(going)
    return id
  }

  /** It stays when it is closed. */
  async keepFile(id: FileId, modified: Date | undefined): Promise<void> {
    const requests = [deleteRequest(id, false), ...(modified === undefined ? [] : [modifiedRequest(id, modified)])]
    for (const answer of this.connection.send(requests)) await successOf(answer)
  }

  /** It goes when it is closed, also because its connection broke. */
  async setGoing(id: FileId): Promise<void> {
    await this.connection.ask(deleteRequest(id, true))
  }

  async rename(id: FileId, to: string, replaces: boolean): Promise<void> {
    await this.connection.ask(renameRequest(id, to, replaces))
  }

  /** The next names of a folder, none behind the last. */
  async names(id: FileId, restart: boolean): Promise<FileFacts[]> {
    const size = Math.min(listingSize, this.agreement.maxTransact)
    const { header, message } = await this.connection.askRaw(queryDirectoryRequest(id, '*', size, restart))
    if (header.status === status.noMoreFiles || header.status === status.noSuchFile) return []
    if (header.status !== status.success) throw new StatusError(header.status)
    return this.connection.parsed(message, parseDirectory)
  }

  makeFolder(path: string): Promise<void> {
    return this.#chain(
      createRequest({ path, access: access.readAttributes, disposition: disposition.create, options: directory }),
    )
  }

  /**
   * Removes a file, a link, or an empty folder. A file that somebody has open keeps its name until they close it, and nothing else can
   * have that name so long: with `aside` it takes that one before it goes.
   */
  async removeAt(path: string, aside?: string): Promise<void> {
    const { id, isFolder } = await this.open(path, 'changing')
    const renames = aside === undefined || isFolder ? [] : [renameRequest(id, aside, false)]
    const [closed, removed, renamed] = this.connection
      .send([...renames, deleteRequest(id, true), closeRequest(id)])
      .reverse()
    const isRenamed = renamed !== undefined && (await answerOf(renamed)).header.status === status.success
    const { header } = await answerOf(removed)
    await answerOf(closed)
    if (header.status === status.success) return
    if (isRenamed && aside !== undefined)
      await this.#chain(createRequest({ path: aside, ...opening.changing }), renameRequest(openedBefore, path, false))
    throw new StatusError(header.status)
  }

  setModifiedAt(path: string, modified: Date): Promise<void> {
    return this.#chain(
      createRequest({ path, access: access.writeAttributes, disposition: disposition.open, options: 0 }),
      modifiedRequest(openedBefore, modified),
    )
  }

  /** Copies so many bytes from the start of one open file to another, without their coming here. */
  async copy(from: FileId, to: FileId, size: number): Promise<void> {
    const key = await this.connection.asking(copyKeyRequest(from), parseControl)
    const step = chunkSize * chunksAtOnce
    for (let start = 0; start < size; start += step) {
      const chunks = []
      for (let position = start; position < Math.min(size, start + step); position += chunkSize) {
        chunks.push({ position, length: Math.min(chunkSize, size - position) })
      }
      await this.connection.ask(copyChunksRequest(to, key, chunks))
    }
  }

  /** Of the file system that this folder is on. */
  async space(folder: string): Promise<Space> {
    const [created, found, closed] = this.connection.send([
      createRequest({ path: folder, access: access.readAttributes, disposition: disposition.open, options: 0 }),
      querySpaceRequest(openedBefore),
      closeRequest(openedBefore),
    ])
    await successOf(created)
    const answer = await successOf(found)
    await answerOf(closed)
    return this.connection.parsed(answer, parseSpace)
  }

  /** Opens something, does one thing to it, and closes it. The first that failed is told. */
  async #chain(...requests: readonly Request[]): Promise<void> {
    const answers = this.connection.send([...requests, closeRequest(openedBefore)])
    for (const answer of answers) await successOf(answer)
  }
}

async function answerOf(answer: Promise<Answer> | undefined): Promise<Answer> {
  if (answer === undefined) throw new RangeError('every request of a chain has an answer')
  return answer
}

async function successOf(answer: Promise<Answer> | undefined): Promise<Buffer> {
  const { header, message } = await answerOf(answer)
  if (header.status !== status.success) throw new StatusError(header.status)
  return message
}
