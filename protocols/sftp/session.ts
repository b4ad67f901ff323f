/** One SFTP session on one SSH channel: reads requests and writes responses, with bounded memory. */
import type { Socket } from 'node:net'
import type { ServerChannel } from 'ssh2'
import { joinSignals, sharedController } from '../../src/base/cancellation.js'
import { toGatewayError, type GatewayError } from '../../src/base/errors.js'
import { logInternal, type Log } from '../../src/base/log.js'
import type { ByteBudget, HeldBytes } from './byte-budget.js'
import { toErrorResponse } from './errors.js'
import { extendedRequests } from './extended-requests.js'
import type { ShownOwner } from './folder-handle.js'
import { OpenFiles } from './open-files.js'
import { Output } from './output.js'
import {
  MalformedStream,
  FieldReader,
  MalformedPacket,
  PacketBuilder,
  PacketParser,
  statusPacket,
  type Packet,
} from './packets.js'
import { PathSerializer } from './path-serializer.js'
import { extensions, limits, packetType, protocolVersion, statusCode } from './wire.js'
import type { ReadGate } from './read-gate.js'
import { ReplyBuffer } from './reply-buffer.js'
import { requestDetails } from './request-details.js'
import { requests, type SessionState } from './requests.js'
import type { SymlinkOrder } from './symlink-order.js'
import type { SftpFileSystem } from './file-system.js'

/** Maximum number of concurrent requests of a session. A request counts until its response is sent. */
const requestLimit = 256
/** Requests that a session begins before other connections get their turn of the event loop. */
const requestsPerTurn = 16
/** Timeout in milliseconds for publishing partial uploads after the connection is lost. */
export const partialPublishTimeout = 30_000

interface SessionOptions {
  readonly fs: SftpFileSystem
  readonly owner: ShownOwner
  /** Aborts when the user's session is revoked. */
  readonly revoked: AbortSignal
  readonly log: Log
  /** Pauses reading from the connection's socket. */
  readonly readGate: ReadGate
  readonly handleLimit: number
  readonly symlinkOrder: SymlinkOrder
  /** Limits the memory of pending requests and responses. */
  readonly budget: ByteBudget
  readonly unread: HeldBytes
  /** Whether partial uploads to new names are published when the connection is lost. */
  readonly publishesPartialUploads: () => boolean
  /**
   * Called whenever the session becomes idle: no pending request, no open handle. Not called after the session ended.
   */
  readonly onIdle: () => void
}

export class SftpSession {
  readonly #parser = new PacketParser()
  readonly #output: Output
  readonly #state: SessionState
  readonly #disconnected = sharedController()
  /** Aborts requests when the client disconnects or the session is revoked; joined once for all requests. */
  readonly #stopped: ReturnType<typeof joinSignals>
  /** For each handle, a promise that resolves when the response to its last READ is queued. */
  readonly #lastReads = new Map<string, Promise<void>>()
  /** Resolves when the channel is closed and all its files are closed or published. */
  readonly filesClosed: Promise<void>
  #resolveFilesClosed: () => void = () => undefined
  #started = false
  /** Number of requests whose response is not sent yet. */
  #pending = 0
  /** Number of WRITEs that the storage has not completed yet. */
  #pendingWrites = 0
  /** Bytes held for pending requests. */
  #bytes = 0
  /** Number of requests begun since the event loop was last left to others. */
  #begun = 0
  #isYielding = false
  #ended = false
  #closed = false
  /** Time of the last completed request, in milliseconds since the epoch. */
  #lastRequest = Date.now()

  constructor(
    private readonly channel: ServerChannel,
    private readonly socket: Socket,
    private readonly options: SessionOptions,
  ) {
    this.filesClosed = new Promise((resolve) => (this.#resolveFilesClosed = resolve))
    const { fs, owner, revoked, handleLimit, symlinkOrder, budget, log } = options
    this.#stopped = joinSignals(this.#disconnected.signal, revoked)
    const { signal } = this.#stopped
    this.#output = new Output(channel, socket, budget)
    const files = new OpenFiles(fs, handleLimit, signal, log)
    this.#state = {
      fs,
      files,
      owner,
      signal,
      handleLimit,
      symlinkOrder,
      log,
      serializer: new PathSerializer(),
      replyBuffer: new ReplyBuffer(),
    }
    channel.on('data', (chunk: Buffer) => {
      // The client may go on sending until it closes the channel.
      if (this.#closed) return
      this.#parser.push(chunk)
      this.#advance()
      this.countUnread()
    })
    channel.on('end', () => {
      this.#ended = true
      this.#advance()
    })
    channel.on('error', (error: Error) => this.abort(error))
    channel.on('close', () => this.abort())
  }

  /** Whether no request is pending and no handle is open. */
  get idle(): boolean {
    return this.#pending === 0 && this.#state.files.count === 0
  }

  /** Time of the last activity, in milliseconds since the epoch. */
  get lastRequest(): number {
    return this.#pending > 0 ? Date.now() : this.#lastRequest
  }

  /** Must be called when the channel has received bytes. Ends the connection if the user's sessions hold too many. */
  countUnread(): void {
    if (this.#closed) return
    try {
      this.options.unread.set(this.channel.readableLength + this.#parser.buffered)
    } catch (error) {
      this.options.log.warn({ err: error }, 'the sessions of the user hold too many unread bytes')
      this.socket.destroy()
      this.abort()
    }
  }

  /** Ends the session. Uploads without CLOSE are discarded, or published partially if the options say so. */
  abort(reason?: Error): void {
    if (this.#closed) return
    this.#closed = true
    this.#output.end()
    this.options.readGate.release(this)
    this.options.unread.set(0)
    // Pending requests get no response.
    this.options.budget.update(this.#bytes, 0)
    void this.#closeFiles(reason).finally(() => this.#resolveFilesClosed())
  }

  async #closeFiles(reason?: Error): Promise<void> {
    const { files } = this.#state
    if (this.options.publishesPartialUploads()) {
      const timer = setTimeout(() => this.#disconnected.abort(reason), partialPublishTimeout)
      await files.publishPartial()
      clearTimeout(timer)
    }
    this.#disconnected.abort(reason)
    await files.closeAll()
    this.#stopped.release()
  }

  #advance(): void {
    if (this.#closed) return
    try {
      while (this.#pending < requestLimit && this.options.budget.allows(this.#bytes)) {
        if (this.#begun >= requestsPerTurn) {
          this.#yield()
          break
        }
        const packet = this.#parser.next()
        if (!packet) {
          if (this.#ended) this.#finish()
          else this.#resume()
          return
        }
        this.#begun++
        this.#dispatch(packet)
      }
      this.#pause()
    } catch (error) {
      if (error instanceof MalformedStream) this.options.log.warn({ err: error }, 'malformed SFTP stream')
      else this.options.log.error({ err: error }, 'SFTP session failed')
      this.#exit(1)
    }
  }

  /** Goes on with the requests that have arrived after others had their turn. */
  #yield(): void {
    if (this.#isYielding) return
    this.#isYielding = true
    setImmediate(() => {
      this.#isYielding = false
      this.#begun = 0
      this.#advance()
    })
  }

  /**
   * Stops reading from the channel. If memory is scarce and WRITEs are pending, also stops reading from the socket:
   * these complete without the client. Responses that wait for the client do not, since its window adjustments must be
   * received.
   */
  #pause(): void {
    this.channel.pause()
    if (this.#pendingWrites > 0 && this.options.budget.isScarce) this.options.readGate.acquire(this)
  }

  #resume(): void {
    this.channel.resume()
    this.options.readGate.release(this)
  }

  /** Sends the exit status (RFC 4254 §6.10) and the end of the channel (§5.3), for which OpenSSH's client waits. */
  #finish(): void {
    if (this.#pending === 0) this.#exit(0)
  }

  #exit(status: number): void {
    this.channel.exit(status)
    this.channel.end()
    this.abort()
  }

  #dispatch(packet: Packet): void {
    if (!this.#started) {
      if (packet.type !== packetType.init || packet.fields.length < 4) {
        throw new MalformedStream('the first packet must be INIT')
      }
      this.#started = true
      this.#output.send(versionPacket(), () => undefined)
      return
    }
    if (packet.fields.length < 4) throw new MalformedStream('a request without an id')
    const fields = new FieldReader(packet.fields)
    const id = fields.uint32()
    const cost = costOf(packet)
    this.#pending++
    this.#addBytes(cost)
    const done = () => {
      this.#pending--
      this.#addBytes(-cost)
      this.#lastRequest = Date.now()
      this.#advance()
      if (this.idle) this.options.onIdle()
    }
    const response = this.#respond(packet, id, fields)
    if (packet.type === packetType.write) this.#countWrite(response)
    if (packet.type === packetType.read) this.#sendInOrder(handleOf(packet), response, done)
    else void response.then((bytes) => this.#output.send(bytes, done))
  }

  #countWrite(response: Promise<Buffer>): void {
    this.#pendingWrites++
    void response.then(() => {
      if (--this.#pendingWrites === 0) this.options.readGate.release(this)
    })
  }

  #addBytes(bytes: number): void {
    const before = this.#bytes
    this.#bytes += bytes
    this.options.budget.update(before, this.#bytes)
  }

  /**
   * Sends the responses to the READs of one handle in the order of the requests, which run concurrently. The draft does
   * not require that order (§6.1), but OpenSSH's clients before 9.4 truncate the file without it
   * (ewxrjk/sftpserver#24).
   */
  #sendInOrder(handle: string, response: Promise<Buffer>, done: () => void): void {
    const sending = Promise.all([response, this.#lastReads.get(handle)]).then(([bytes]) => {
      this.#output.send(bytes, done)
      if (this.#lastReads.get(handle) === sending) this.#lastReads.delete(handle)
    })
    this.#lastReads.set(handle, sending)
  }

  async #respond(packet: Packet, id: number, fields: FieldReader): Promise<Buffer> {
    try {
      const name = packet.type === packetType.extended ? fields.text() : undefined
      const request = name === undefined ? requests[packet.type] : extendedRequests.get(name)
      if (request) return await request(this.#state, id, fields, packet.data)
      return statusPacket(id, statusCode.unsupported, `${name ?? `request ${packet.type}`} is not supported`)
    } catch (error) {
      return this.#errorStatus(packet, id, error)
    }
  }

  #errorStatus(packet: Packet, id: number, error: unknown): Buffer {
    if (!(error instanceof MalformedPacket)) this.#logInternal(packet, toGatewayError(error))
    const { status, message } = toErrorResponse(error)
    return statusPacket(id, status, message)
  }

  /** Logs an unexpected error that no operation on the tree has logged. */
  #logInternal(packet: Packet, error: GatewayError): void {
    if (error.code !== 'internal') return
    const { log, owner } = this.options
    logInternal(log, error, { user: owner.name, ...requestDetails(packet, this.#state.files) })
  }
}

/** Bytes held for a request until its response is sent. */
function costOf(packet: Packet): number {
  if (packet.type === packetType.write) return packet.data.reduce((sum, piece) => sum + piece.length, 0)
  if (packet.type === packetType.readdir || packet.type === packetType.extended)
    return packet.fields.length + limits.names
  if (packet.type !== packetType.read || packet.fields.length < 4) return packet.fields.length
  return Math.min(packet.fields.readUInt32BE(packet.fields.length - 4), limits.data)
}

/** The handle of a READ as a map key: the bytes between the id and the offset, with their length. */
function handleOf(packet: Packet): string {
  return packet.fields.toString('latin1', 4, Math.max(4, packet.fields.length - 12))
}

function versionPacket(): Buffer {
  const packet = new PacketBuilder(packetType.version).uint32(protocolVersion)
  for (const [name, revision] of extensions) packet.string(name).string(revision)
  return packet.finish()
}
