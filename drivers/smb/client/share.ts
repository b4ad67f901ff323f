/**
 * A share of a server on one connection. Calls may be concurrent. Each rejects with a StatusError or a ConnectionError.
 * Paths are in wire form: names separated by `\`, without a leading one; empty for the root of the share.
 */
import { SmbConnection, type ResponseMessage, type ConnectionLimits } from './connection.js'
import { bytesPerCredit } from './credits.js'
import { afterChange, ConnectionError, StatusError, status } from './errors.js'
import {
  access,
  attributes,
  closeRequest,
  copyChunksRequest,
  copyKeyRequest,
  createOptions,
  createRequest,
  deleteOnCloseRequest,
  disposition,
  flushRequest,
  setModifiedRequest,
  relatedFileId,
  parseControl,
  parseCreate,
  parseDirectory,
  parseFile,
  parseRead,
  parseSpace,
  parseTag,
  parseWrite,
  queryDirectoryRequest,
  queryFileRequest,
  querySpaceRequest,
  queryTagRequest,
  readRequest,
  renameRequest,
  truncateRequest,
  writeRequest,
  type CreateRequest,
  type FileFacts,
  type FileId,
  type OpenResult,
  type SmbRequest,
  type Space,
} from './messages.js'
import { signIn, type NegotiatedParameters, type SmbSignInOptions } from './sign-in.js'

export interface SmbShareOptions extends SmbSignInOptions {
  readonly host: string
  readonly port: number
  readonly limits: ConnectionLimits
}

/**
 * The purpose of an open. `new`: a file that must not exist. `staged`: an existing file to write and rename.
 * `changing`: rename or remove a file, folder or symlink; a symlink is not followed.
 */
type OpenPurpose = 'read' | 'update' | 'new' | 'staged' | 'folder' | 'changing'

const reading = access.readData | access.readAttributes | access.synchronize
const writing = access.writeData | access.writeAttributes
const { openReparsePoint, directory, notDirectory } = createOptions

const opening: Readonly<Record<OpenPurpose, Omit<CreateRequest, 'path'>>> = {
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

/** Bytes of a page of a listing, about 1,500 names. */
const listingSize = 4 * bytesPerCredit
/**
 * Bytes of a chunk, and chunks of a request, of a server-side copy: the limits of Windows and Samba (MS-SMB2 §3.3.3).
 */
const chunkSize = 1024 * 1024
const chunksPerRequest = 16

export class Share {
  private constructor(
    private readonly connection: SmbConnection,
    readonly negotiated: NegotiatedParameters,
  ) {}

  /** Connects and signs in. Aborting the signal closes the connection, also after this has resolved. */
  static async open(options: SmbShareOptions, signal?: AbortSignal): Promise<Share> {
    const connection = await SmbConnection.open(options.host, options.port, options.limits, signal)
    try {
      return new Share(connection, await signIn(connection, options))
    } catch (error) {
      connection.break(new ConnectionError('closed', 'the sign-in failed'))
      throw error
    }
  }

  /** The error that ended the connection; undefined while it is usable. */
  get broken(): ConnectionError | undefined {
    return this.connection.broken
  }

  /** Milliseconds since the last bytes from the server. */
  get idleMilliseconds(): number {
    return this.connection.idleMilliseconds
  }

  get isEncrypted(): boolean {
    return this.connection.protection.encrypts
  }

  get isSigned(): boolean {
    return this.connection.protection.signs
  }

  /** Closes the connection. The server closes all open files. */
  close(): void {
    this.connection.break(new ConnectionError('closed', 'the connection was closed'))
  }

  /** Rejects, and closes the connection, if the server does not respond within `timeout` milliseconds. */
  assertAlive(timeout: number): Promise<void> {
    return this.connection.assertAlive(timeout)
  }

  /** The entry of a folder that matches `pattern`, ignoring case; undefined if there is none. */
  async lookup(folder: string, pattern: string): Promise<FileFacts | undefined> {
    const [created, queried, closed] = this.connection.send([
      createRequest({ path: folder, ...opening.folder }),
      queryDirectoryRequest(relatedFileId, pattern, bytesPerCredit, true),
      closeRequest(relatedFileId),
    ])
    await successOf(created)
    const { header, message } = await answerOf(queried)
    await answerOf(closed)
    if (header.status === status.noSuchFile || header.status === status.noMoreFiles) return undefined
    if (header.status !== status.success) throw new StatusError(header.status)
    return this.connection.parseOrBreak(message, parseDirectory)[0]
  }

  /** The attributes of the file or folder at `path`. */
  async facts(path: string): Promise<FileFacts> {
    const [created, queried, closed] = this.connection.send([
      createRequest({ path, access: access.readAttributes, disposition: disposition.open, options: 0 }),
      queryFileRequest(relatedFileId),
      closeRequest(relatedFileId),
    ])
    await successOf(created)
    const answer = await successOf(queried)
    await answerOf(closed)
    return this.connection.parseOrBreak(answer, parseFile)
  }

  /** Returns the facts of a symlink itself. */
  async ownFacts(path: string): Promise<FileFacts> {
    const [created, queried, tagged, closed] = this.connection.send([
      createRequest({ path, access: access.readAttributes, disposition: disposition.open, options: openReparsePoint }),
      queryFileRequest(relatedFileId),
      queryTagRequest(relatedFileId),
      closeRequest(relatedFileId),
    ])
    await successOf(created)
    const facts = this.connection.parseOrBreak(await successOf(queried), parseFile)
    const tag = await answerOf(tagged)
    await answerOf(closed)
    if ((facts.attributes & attributes.reparsePoint) === 0) return facts
    if (tag.header.status !== status.success) throw new StatusError(tag.header.status)
    return { ...facts, reparseTag: this.connection.parseOrBreak(tag.message, parseTag) }
  }

  /** Opens a handle, which the caller must close. */
  open(path: string, purpose: OpenPurpose): Promise<OpenResult> {
    return this.connection.requestParsed(createRequest({ path, ...opening[purpose] }), parseCreate)
  }

  /** Like `open`, and also queries the attributes. */
  async openWithFacts(path: string, purpose: OpenPurpose): Promise<{ readonly id: FileId; readonly facts: FileFacts }> {
    const [created, queried] = this.connection.send([
      createRequest({ path, ...opening[purpose] }),
      queryFileRequest(relatedFileId),
    ])
    const { id } = this.connection.parseOrBreak(await successOf(created), parseCreate)
    try {
      return { id, facts: this.connection.parseOrBreak(await successOf(queried), parseFile) }
    } catch (error) {
      await this.closeFile(id).catch(() => undefined)
      throw error
    }
  }

  async closeFile(id: FileId): Promise<void> {
    await this.connection.request(closeRequest(id))
  }

  /**
   * Reads up to `length` bytes, at most `maxRead`. The result is shorter at the end of the file and empty beyond it. It
   * is never reused.
   */
  async read(id: FileId, position: number, length: number): Promise<Buffer> {
    const { header, message } = await this.connection.requestRaw(readRequest(id, position, length))
    if (header.status === status.endOfFile) return Buffer.alloc(0)
    if (header.status !== status.success) throw new StatusError(header.status)
    const data = this.connection.parseOrBreak(message, parseRead)
    return data.length > length ? data.subarray(0, length) : data
  }

  /** Writes all of `data`, at most `maxWrite` bytes. */
  async write(id: FileId, position: number, data: readonly Buffer[]): Promise<void> {
    const length = data.reduce((sum, part) => sum + part.length, 0)
    const written = await this.connection.requestParsed(writeRequest(id, position, data), parseWrite)
    if (written !== length) throw new StatusError(status.diskFull)
  }

  async flush(id: FileId): Promise<void> {
    await this.connection.request(flushRequest(id))
  }

  async truncate(id: FileId, size: number): Promise<void> {
    await this.connection.request(truncateRequest(id, size))
  }

  /** Creates a file that is marked delete-on-close, which also applies when the connection breaks. */
  async createDeleteOnClose(path: string): Promise<FileId> {
    const [created, marked] = this.connection.send([
      createRequest({ path, ...opening.new }),
      deleteOnCloseRequest(relatedFileId, true),
    ])
    const { id } = this.connection.parseOrBreak(await successOf(created), parseCreate)
    await successOf(marked)
    return id
  }

  /** Clears delete-on-close and sets the time of the last write, if given. */
  async clearDeleteOnClose(id: FileId, modified: Date | undefined): Promise<void> {
    const requests = [
      deleteOnCloseRequest(id, false),
      ...(modified === undefined ? [] : [setModifiedRequest(id, modified)]),
    ]
    for (const answer of this.connection.send(requests)) await successOf(answer)
  }

  /** Marks the file delete-on-close, which also applies when the connection breaks. */
  async setDeleteOnClose(id: FileId): Promise<void> {
    await this.connection.request(deleteOnCloseRequest(id, true))
  }

  async rename(id: FileId, to: string, replaces: boolean): Promise<void> {
    await this.connection.request(renameRequest(id, to, replaces))
  }

  /** The next page of the entries of a folder; empty at the end. `restart` starts from the beginning. */
  async readDirectory(id: FileId, restart: boolean): Promise<FileFacts[]> {
    const size = Math.min(listingSize, this.negotiated.maxTransact)
    const { header, message } = await this.connection.requestRaw(queryDirectoryRequest(id, '*', size, restart))
    if (header.status === status.noMoreFiles || header.status === status.noSuchFile) return []
    if (header.status !== status.success) throw new StatusError(header.status)
    return this.connection.parseOrBreak(message, parseDirectory)
  }

  makeFolder(path: string): Promise<void> {
    return this.#compound(
      createRequest({ path, access: access.readAttributes, disposition: disposition.create, options: directory }),
    )
  }

  /**
   * Removes a file, a symlink or an empty folder. A file that is open elsewhere occupies its name until it is closed.
   * With `temporary`, a file is first renamed to that path, so that its name is free immediately.
   */
  async removeAt(path: string, temporary?: string): Promise<void> {
    const { id, isFolder } = await this.open(path, 'changing')
    const renames = temporary === undefined || isFolder ? [] : [renameRequest(id, temporary, false)]
    const [closed, removed, renamed] = this.connection
      .send([...renames, deleteOnCloseRequest(id, true), closeRequest(id)])
      .reverse()
    const isRenamed = renamed !== undefined && (await answerOf(renamed)).header.status === status.success
    const { header } = await answerOf(removed)
    await answerOf(closed)
    if (header.status === status.success) return
    if (isRenamed && temporary !== undefined)
      await afterChange(
        this.#compound(
          createRequest({ path: temporary, ...opening.changing }),
          renameRequest(relatedFileId, path, false),
        ),
      )
    throw new StatusError(header.status)
  }

  setModifiedAt(path: string, modified: Date): Promise<void> {
    return this.#compound(
      createRequest({ path, access: access.writeAttributes, disposition: disposition.open, options: 0 }),
      setModifiedRequest(relatedFileId, modified),
    )
  }

  /** Copies the first `size` bytes of one open file to another on the server. */
  async copy(from: FileId, to: FileId, size: number): Promise<void> {
    const key = await this.connection.requestParsed(copyKeyRequest(from), parseControl)
    const step = chunkSize * chunksPerRequest
    for (let start = 0; start < size; start += step) {
      const chunks = []
      for (let position = start; position < Math.min(size, start + step); position += chunkSize) {
        chunks.push({ position, length: Math.min(chunkSize, size - position) })
      }
      await this.connection.request(copyChunksRequest(to, key, chunks))
    }
  }

  /** The size of the file system that contains `folder`. */
  async volumeSize(folder: string): Promise<Space> {
    const [created, queried, closed] = this.connection.send([
      createRequest({ path: folder, access: access.readAttributes, disposition: disposition.open, options: 0 }),
      querySpaceRequest(relatedFileId),
      closeRequest(relatedFileId),
    ])
    await successOf(created)
    const answer = await successOf(queried)
    await answerOf(closed)
    return this.connection.parseOrBreak(answer, parseSpace)
  }

  /** Sends the requests and a CLOSE as one compound. Rejects with the first failure. */
  async #compound(...requests: readonly SmbRequest[]): Promise<void> {
    const answers = this.connection.send([...requests, closeRequest(relatedFileId)])
    for (const answer of answers) await successOf(answer)
  }
}

async function answerOf(answer: Promise<ResponseMessage> | undefined): Promise<ResponseMessage> {
  if (answer === undefined) throw new RangeError('no response for a request of a compound')
  return answer
}

async function successOf(answer: Promise<ResponseMessage> | undefined): Promise<Buffer> {
  const { header, message } = await answerOf(answer)
  if (header.status !== status.success) throw new StatusError(header.status)
  return message
}
