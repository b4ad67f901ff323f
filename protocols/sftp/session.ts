/** One SFTP session on one SSH channel: requests in, answers out, bounded in memory whatever the client does. */
import type { Socket } from 'node:net'
import type { ServerChannel } from 'ssh2'
import { toGatewayError } from '../../src/errors.js'
import type { Log } from '../../src/log.js'
import { manyCalls } from '../../src/signals.js'
import { AnswerSpace } from './answer-space.js'
import type { ByteBudget } from './byte-budget.js'
import { messageOf, statusOf } from './errors.js'
import { extendedRequests } from './extended-requests.js'
import type { Owner } from './folder-handle.js'
import type { Inlet } from './inlet.js'
import { OpenFiles } from './open-files.js'
import { Output } from './output.js'
import { BrokenStream, FieldReader, MalformedPacket, PacketBuilder, PacketParser, statusPacket } from './packets.js'
import type { Packet } from './packets.js'
import { PathOrder } from './path-order.js'
import { extensions, limits, packetType, protocolVersion, statusCode } from './protocol.js'
import { requests, type Desk } from './requests.js'
import type { Tree } from './tree.js'

/** Requests of a session that are worked on at once, their answers included until they are sent. */
const requestLimit = 256
/** Milliseconds within which a cut upload must have been published to be kept. */
const keepTime = 30_000

export interface SessionOptions {
  readonly tree: Tree
  readonly owner: Owner
  readonly log: Log
  /** Of the connection. */
  readonly inlet: Inlet
  readonly handleLimit: number
  /** How many bytes the requests that are worked on may take. */
  readonly budget: ByteBudget
  /** Whether uploads to new names are kept, as far as they came, when the connection breaks. */
  readonly keepsPartial: () => boolean
  /** Called whenever the session has become idle: no request is worked on, no handle is open. Not after its end. */
  readonly onIdle: () => void
}

export class SftpSession {
  readonly #parser = new PacketParser()
  readonly #output: Output
  readonly #desk: Desk
  readonly #gone = manyCalls()
  /** When the last read of each handle will have been answered. */
  readonly #readTurns = new Map<string, Promise<void>>()
  /** Resolves when the channel is gone and nothing of its files is under way any more. */
  readonly settled: Promise<void>
  #settle: () => void = () => undefined
  #started = false
  #working = 0
  /** Of these, WRITEs that the storage has not done yet. */
  #writing = 0
  #bytes = 0
  #ended = false
  #closed = false
  /** When the client last asked for something. */
  #lastRequest = Date.now()

  constructor(
    private readonly channel: ServerChannel,
    socket: Socket,
    private readonly options: SessionOptions,
  ) {
    this.settled = new Promise((resolve) => (this.#settle = resolve))
    const { tree, owner, handleLimit, budget } = options
    const { signal } = this.#gone
    this.#output = new Output(channel, socket, budget)
    const files = new OpenFiles(tree, handleLimit, signal)
    this.#desk = { tree, files, owner, signal, handleLimit, order: new PathOrder(), space: new AnswerSpace() }
    channel.on('data', (chunk: Buffer) => {
      this.#parser.push(chunk)
      this.#advance()
    })
    channel.on('end', () => {
      this.#ended = true
      this.#advance()
    })
    channel.on('error', (error: Error) => this.abort(error))
    channel.on('close', () => this.abort())
  }

  /** Nothing is worked on and no handle is open. */
  get idle(): boolean {
    return this.#working === 0 && this.#desk.files.count === 0
  }

  get lastRequest(): number {
    return this.#working > 0 ? Date.now() : this.#lastRequest
  }

  /** The channel is gone, or has to go: whatever is written and not closed is dropped, or kept to be resumed. */
  abort(reason?: Error): void {
    if (this.#closed) return
    this.#closed = true
    this.#output.end()
    this.options.inlet.letGo(this)
    // What is still worked on is never answered.
    this.options.budget.changed(this.#bytes, 0)
    void this.#letGo(reason).finally(() => this.#settle())
  }

  async #letGo(reason?: Error): Promise<void> {
    const { files } = this.#desk
    if (this.options.keepsPartial()) {
      const patience = setTimeout(() => this.#gone.abort(reason), keepTime)
      await files.keepPartial()
      clearTimeout(patience)
    }
    this.#gone.abort(reason)
    await files.abandon()
  }

  #advance(): void {
    if (this.#closed) return
    try {
      while (this.#working < requestLimit && this.options.budget.admits(this.#bytes)) {
        const packet = this.#parser.next()
        if (!packet) {
          if (this.#ended) this.#finish()
          else this.#resume()
          return
        }
        this.#take(packet)
      }
      this.#pause()
    } catch (error) {
      if (error instanceof BrokenStream) this.options.log.warn({ err: error }, 'a client sent what is no SFTP')
      else this.options.log.error({ err: error }, 'an SFTP session failed')
      this.#leave(1)
    }
  }

  /**
   * Nothing more is taken in, and where memory is scarce, nothing is received. What waits for the storage is done without the client; of
   * what waits for the client, its words must get through.
   */
  #pause(): void {
    this.channel.pause()
    if (this.#writing > 0 && this.options.budget.isScarce) this.options.inlet.hold(this)
  }

  #resume(): void {
    this.channel.resume()
    this.options.inlet.letGo(this)
  }

  /** OpenSSH's client waits for the exit status and the end of the channel. */
  #finish(): void {
    if (this.#working === 0) this.#leave(0)
  }

  #leave(status: number): void {
    this.channel.exit(status)
    this.channel.end()
    this.abort()
  }

  #take(packet: Packet): void {
    if (!this.#started) {
      if (packet.type !== packetType.init || packet.fields.length < 4) {
        throw new BrokenStream('a session starts with INIT')
      }
      this.#started = true
      this.#output.send(versionPacket(), () => undefined)
      return
    }
    if (packet.fields.length < 4) throw new BrokenStream('a request without an id')
    const fields = new FieldReader(packet.fields)
    const id = fields.uint32()
    const cost = costOf(packet)
    this.#working++
    this.#hold(cost)
    const done = () => {
      this.#working--
      this.#hold(-cost)
      this.#lastRequest = Date.now()
      this.#advance()
      if (this.idle) this.options.onIdle()
    }
    const answer = this.#answer(packet, id, fields).catch((error: unknown) => this.#refusal(id, error))
    if (packet.type === packetType.write) this.#countWriting(answer)
    if (packet.type === packetType.read) this.#inTurn(handleOf(packet), answer, done)
    else void answer.then((bytes) => this.#output.send(bytes, done))
  }

  #countWriting(answer: Promise<Buffer>): void {
    this.#writing++
    void answer.then(() => {
      if (--this.#writing === 0) this.options.inlet.letGo(this)
    })
  }

  #hold(bytes: number): void {
    const before = this.#bytes
    this.#bytes += bytes
    this.options.budget.changed(before, this.#bytes)
  }

  /**
   * Reads of one handle are done at once and answered in the order they came: the draft leaves that open, but OpenSSH's client
   * cuts a file off where answers came in another order.
   */
  #inTurn(handle: string, answer: Promise<Buffer>, done: () => void): void {
    const turn = Promise.all([answer, this.#readTurns.get(handle)]).then(([bytes]) => {
      this.#output.send(bytes, done)
      if (this.#readTurns.get(handle) === turn) this.#readTurns.delete(handle)
    })
    this.#readTurns.set(handle, turn)
  }

  async #answer(packet: Packet, id: number, fields: FieldReader): Promise<Buffer> {
    const name = packet.type === packetType.extended ? fields.text() : undefined
    const request = name === undefined ? requests[packet.type] : extendedRequests.get(name)
    if (!request)
      return statusPacket(id, statusCode.unsupported, `${name ?? `request ${packet.type}`} is not supported`)
    return request(this.#desk, id, fields, packet.data)
  }

  #refusal(id: number, error: unknown): Buffer {
    if (error instanceof MalformedPacket) return statusPacket(id, statusCode.badMessage, error.message)
    const told = toGatewayError(error)
    if (told.code === 'internal') this.options.log.error({ err: told.cause ?? told }, 'an SFTP request failed')
    return statusPacket(id, statusOf[told.code], messageOf(told))
  }
}

/** Bytes that are held for a request until its answer is sent. */
function costOf(packet: Packet): number {
  if (packet.type === packetType.write) return packet.data.reduce((sum, piece) => sum + piece.length, 0)
  if (packet.type !== packetType.read || packet.fields.length < 4) return packet.fields.length
  return Math.min(packet.fields.readUInt32BE(packet.fields.length - 4), limits.data)
}

/** The handle of a READ, as a key: what follows the id. */
function handleOf(packet: Packet): string {
  return packet.fields.toString('latin1', 4, Math.max(4, packet.fields.length - 12))
}

function versionPacket(): Buffer {
  const packet = new PacketBuilder(packetType.version).uint32(protocolVersion)
  for (const [name, revision] of extensions) packet.string(name).string(revision)
  return packet.finish()
}
