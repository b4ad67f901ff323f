/**
 * One TCP connection to a server. Requests are sent as soon as credits allow, any number of them concurrently.
 * Responses are matched by message id. Messages are signed or encrypted once the session has keys.
 */
import { connect as connectSocket, type Socket } from 'node:net'
import { Credits } from './credits.js'
import { MessageEncryption, isEncrypted } from './encryption.js'
import { ConnectionError, ProtocolError, StatusError, status, statusName } from './errors.js'
import { FrameReader, framePrefix } from './frames.js'
import { headerLength, readHeader, writeHeader, type ResponseHeader } from './header.js'
import { echoRequest, type SmbRequest } from './messages.js'
import type { Signer } from './signing.js'

export interface ConnectionLimits {
  /** Milliseconds to connect. */
  readonly connect: number
  /** Milliseconds to wait for a response. */
  readonly answer: number
  /** Milliseconds to wait in total after the server has sent an interim response (STATUS_PENDING). */
  readonly work: number
}

/** The protection of messages. */
interface Protection {
  readonly sessionId: bigint
  readonly signer: Signer | undefined
  /** Sign messages that are not encrypted, and require the same of the server. */
  readonly signs: boolean
  readonly encryption: MessageEncryption | undefined
  readonly encrypts: boolean
}

export interface ResponseMessage {
  readonly header: ResponseHeader
  /** The whole message, with its header: offsets in it are relative to the header. */
  readonly message: Buffer
}

/** Statuses of a successful request. */
const successStatuses: ReadonlySet<number> = new Set([status.success, status.bufferOverflow])

/** The session or the tree connection has ended: the server processes no further request. */
const endedStatuses: ReadonlySet<number> = new Set([
  status.userSessionDeleted,
  status.networkSessionExpired,
  status.networkNameDeleted,
])

/** Message id of unsolicited messages (oplock and lease breaks, MS-SMB2 §2.2.23). */
const unsolicitedId = 0xffff_ffff_ffff_ffffn
const receiveSize = 256 * 1024

export class SmbConnection {
  readonly #credits = new Credits()
  readonly #frames = new FrameReader()
  readonly #sent = new Map<bigint, Pending>()
  readonly #pending = new Set<Pending>()
  readonly #socket: Socket
  #nextId = 0
  #broken: ConnectionError | undefined
  #timeoutTimer: NodeJS.Timeout | undefined
  #lastReceived = Date.now()
  #protection: Protection = {
    sessionId: 0n,
    signer: undefined,
    signs: false,
    encryption: undefined,
    encrypts: false,
  }
  treeId = 0
  /** Called with every message of the negotiation and the session setup, sent or received. */
  onMessage: ((message: Buffer) => void) | undefined

  private constructor(
    host: string,
    port: number,
    private readonly limits: ConnectionLimits,
    onConnect: () => void,
  ) {
    const buffer = Buffer.allocUnsafeSlow(receiveSize)
    const onread = {
      buffer,
      callback: (length: number) => {
        this.#receive(buffer.subarray(0, length))
        return true
      },
    }
    this.#socket = connectSocket({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000, onread })
    this.#socket.once('connect', onConnect)
    this.#socket.on('error', (error) => {
      const isNew = this.#onBreak !== undefined
      const message = isNew ? 'the server cannot be reached' : 'the connection to the server was lost'
      this.break(new ConnectionError(isNew ? 'refused' : 'lost', message, { cause: error }))
    })
    this.#socket.on('close', () => {
      this.break(new ConnectionError('lost', 'the server closed the connection'))
    })
  }

  /**
   * Connects. Rejects with a ConnectionError. Aborting the signal closes the connection, also after this has resolved.
   */
  static open(host: string, port: number, limits: ConnectionLimits, signal?: AbortSignal): Promise<SmbConnection> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        connection.break(new ConnectionError('timeout', 'the server does not respond'))
      }, limits.connect)
      const connection: SmbConnection = new SmbConnection(host, port, limits, () => {
        clearTimeout(timer)
        connection.#onBreak = undefined
        resolve(connection)
      })
      connection.#onBreak = (error) => {
        clearTimeout(timer)
        reject(error)
      }
      connection.#endWith(signal)
    })
  }

  #endWith(signal: AbortSignal | undefined): void {
    const end = () => this.break(new ConnectionError('closed', 'the connection was closed'))
    signal?.addEventListener('abort', end, { once: true })
    this.#socket.once('close', () => signal?.removeEventListener('abort', end))
    if (signal?.aborted) end()
  }

  #onBreak: ((error: ConnectionError) => void) | undefined

  /** The error that ended the connection; undefined while it is usable. */
  get broken(): ConnectionError | undefined {
    return this.#broken
  }

  /** Milliseconds since the last bytes from the server. */
  get idleMilliseconds(): number {
    return Date.now() - this.#lastReceived
  }

  protect(protection: Protection): void {
    this.#protection = protection
  }

  get protection(): Protection {
    return this.#protection
  }

  /** Closes the connection and rejects all pending requests with `error`. */
  break(error: ConnectionError): void {
    this.#broken ??= error
    clearInterval(this.#timeoutTimer)
    this.#credits.clear()
    for (const pending of this.#pending) pending.reject(error)
    this.#pending.clear()
    this.#sent.clear()
    this.#onBreak?.(error)
    this.#socket.destroy()
  }

  /**
   * Handles the response that the session has ended. Rejects this request and all requests that were not sent with
   * `ended`. The others were sent before: each awaits its own response, because the server may have processed it. After
   * the last of them the connection is closed.
   */
  #endSession(answered: Pending, message: string): void {
    const ended = new ConnectionError('ended', message)
    this.#broken ??= ended
    this.#credits.clear()
    const isPartlyProcessed = answered.compound.some(({ response }) => response !== undefined)
    answered.reject(isPartlyProcessed ? new ConnectionError('lost', message) : ended)
    this.#sent.delete(answered.id)
    this.#pending.delete(answered)
    const sent = new Set(this.#sent.values())
    for (const pending of this.#pending) {
      if (sent.has(pending)) continue
      pending.reject(ended)
      this.#pending.delete(pending)
    }
    if (sent.size === 0) this.break(ended)
  }

  /**
   * Sends an ECHO. Rejects with a ConnectionError, and closes the connection, if no response arrives within `timeout`
   * milliseconds.
   */
  async assertAlive(timeout: number): Promise<void> {
    const timer = setTimeout(() => {
      this.break(new ConnectionError('timeout', 'the server does not respond'))
    }, timeout)
    try {
      await this.request(echoRequest())
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * Sends one request and resolves to the response. Rejects with a StatusError if it failed, and with a ConnectionError
   * if none arrives.
   */
  async request(request: SmbRequest): Promise<Buffer> {
    const { header, message } = await this.requestRaw(request)
    if (!successStatuses.has(header.status)) throw new StatusError(header.status)
    return message
  }

  /** Sends one request and parses the response. Rejects as the unparsed variant does, or with a ProtocolError. */
  async requestParsed<T>(request: SmbRequest, parse: (answer: Buffer) => T): Promise<T> {
    return this.parseOrBreak(await this.request(request), parse)
  }

  /** Parses a response. If that throws, closes the connection and throws a ProtocolError. */
  parseOrBreak<T>(answer: Buffer, parse: (answer: Buffer) => T): T {
    try {
      return parse(answer)
    } catch (error) {
      const fault = error instanceof ProtocolError ? error : new ProtocolError('malformed response', { cause: error })
      this.break(fault)
      throw fault
    }
  }

  /**
   * Sends one request and resolves to the response, whatever its status. The buffers of the request can be reused then.
   */
  requestRaw(request: SmbRequest): Promise<ResponseMessage> {
    const [answer] = this.send([request])
    if (answer === undefined) throw new RangeError('no response for the request')
    return answer
  }

  /**
   * Sends a compound of related requests (MS-SMB2 §3.2.4.1.4). If one fails, the requests after it fail. Returns one
   * promise for each response.
   */
  send(requests: readonly SmbRequest[]): Promise<ResponseMessage>[] {
    const compound: Pending[] = []
    for (const request of requests) compound.push(new Pending(request, compound))
    const answers = compound.map(({ answer }) => answer)
    if (this.#broken !== undefined) {
      for (const pending of compound) pending.reject(this.#broken)
      return answers
    }
    for (const pending of compound) this.#pending.add(pending)
    this.#credits.take(
      compound.reduce((sum, { cost }) => sum + cost, 0),
      () => this.#transmit(compound),
    )
    this.#assertCredits()
    return answers
  }

  /** Breaks the connection if requests wait for credits and no response that could grant any is outstanding. */
  #assertCredits(): void {
    if (this.#sent.size > 0 || !this.#credits.hasWaiters) return
    this.break(new ProtocolError('the server grants no credits'))
  }

  #transmit(compound: readonly Pending[]): void {
    const { signer, signs, encryption, encrypts, sessionId } = this.#protection
    const messages: Buffer[] = []
    for (const [index, pending] of compound.entries()) {
      const { request, cost } = pending
      const isLast = index === compound.length - 1
      const head = Buffer.alloc(headerLength + request.body.length)
      request.body.copy(head, headerLength)
      const message: [Buffer, ...Buffer[]] = [head, ...(request.data ?? [])]
      const length = message.reduce((sum, part) => sum + part.length, 0)
      const padding = isLast ? 0 : -length & 7
      if (padding > 0) message.push(Buffer.alloc(padding))
      const isSigned = signs && signer !== undefined && !encrypts
      writeHeader(head, {
        command: request.command,
        charge: cost,
        credits: this.#credits.creditsToRequest(cost),
        messageId: this.#nextId,
        treeId: this.treeId,
        sessionId,
        isRelated: index > 0,
        isSigned,
        next: isLast ? 0 : length + padding,
      })
      if (isSigned) signer.sign(message)
      pending.sentAt = Date.now()
      pending.id = BigInt(this.#nextId)
      this.#sent.set(pending.id, pending)
      this.#nextId += cost
      messages.push(...message)
    }
    this.onMessage?.(Buffer.concat(messages))
    const parts = encrypts && encryption !== undefined ? encryption.encrypt(messages) : messages
    const sent = (error?: Error | null) => {
      if (error) return // the socket emits the error
      for (const pending of compound) pending.isSent = true
      for (const pending of compound) this.#resolveIfDone(pending)
    }
    this.#socket.cork()
    this.#socket.write(framePrefix(parts.reduce((sum, part) => sum + part.length, 0)))
    for (const [index, part] of parts.entries()) this.#socket.write(part, index < parts.length - 1 ? undefined : sent)
    this.#socket.uncork()
    this.#timeoutTimer ??= setInterval(() => this.#checkTimeouts(), 1000).unref()
  }

  #checkTimeouts(): void {
    const now = Date.now()
    for (const { sentAt, hasInterim } of this.#sent.values()) {
      if (now - sentAt < (hasInterim ? this.limits.work : this.limits.answer)) continue
      this.break(new ConnectionError('timeout', 'the server does not respond'))
      return
    }
    if (this.#sent.size > 0) return
    clearInterval(this.#timeoutTimer)
    this.#timeoutTimer = undefined
  }

  #receive(bytes: Buffer): void {
    this.#lastReceived = Date.now()
    try {
      this.#frames.push(bytes, (frame) => {
        if (this.#broken === undefined || this.#sent.size > 0) this.#processFrame(frame)
      })
    } catch (error) {
      const fault =
        error instanceof ProtocolError
          ? error
          : new ProtocolError('malformed message from the server', { cause: error })
      this.break(fault)
    }
  }

  #processFrame(frame: Buffer): void {
    const { encryption } = this.#protection
    const wasEncrypted = isEncrypted(frame)
    if (wasEncrypted && encryption === undefined) throw new ProtocolError('encrypted message without a session key')
    const messages = wasEncrypted && encryption !== undefined ? encryption.decrypt(frame) : frame
    this.onMessage?.(messages)
    for (let at = 0; at < messages.length;) {
      const header = readHeader(messages.subarray(at))
      if (header.next !== 0 && (header.next < headerLength || at + header.next > messages.length)) {
        throw new ProtocolError('truncated compound message')
      }
      const end = header.next === 0 ? messages.length : at + header.next
      this.#processResponse({ header, message: messages.subarray(at, end) }, wasEncrypted)
      at = end
    }
  }

  #processResponse(answer: ResponseMessage, wasEncrypted: boolean): void {
    const { header } = answer
    if (header.messageId === unsolicitedId) return // no oplock or lease is ever requested
    const pending = this.#sent.get(header.messageId)
    if (pending?.request.command !== header.command || pending.response !== undefined) {
      throw new ProtocolError('response to an unknown request')
    }
    if (endedStatuses.has(header.status)) {
      // The server has no keys for this session any more, so the response is neither signed nor encrypted.
      this.#endSession(pending, `the server has ended the session: ${statusName(header.status)}`)
      return
    }
    const isInterim = header.status === status.pending && header.isAsync
    if (!wasEncrypted && !isInterim) this.#verifyProtection(answer)
    this.#credits.grant(header.credits)
    if (isInterim) {
      pending.hasInterim = true
      return
    }
    pending.response = answer
    this.#resolveIfDone(pending)
  }

  /**
   * Resolves a request once its response has arrived and the socket has written it. Callers reuse the buffers of the
   * request after that, and the write callback may run after the response was received.
   */
  #resolveIfDone(pending: Pending): void {
    if (!pending.isSent || pending.response === undefined || !this.#sent.delete(pending.id)) return
    this.#pending.delete(pending)
    pending.resolve(pending.response)
    if (this.#broken === undefined) this.#assertCredits()
    else if (this.#sent.size === 0) this.break(this.#broken)
  }

  #verifyProtection({ header, message }: ResponseMessage): void {
    const { signer, signs, encrypts } = this.#protection
    if (encrypts) throw new ProtocolError('unencrypted response in an encrypted session')
    if (!signs || signer === undefined) return
    if (!header.isSigned || !signer.verify(message)) throw new ProtocolError('invalid signature of a response')
  }
}

/** A request that waits for its response. */
class Pending {
  id = 0n
  sentAt = 0
  /** The socket has written all of it. */
  isSent = false
  response: ResponseMessage | undefined
  /** An interim response has arrived. */
  hasInterim = false
  readonly cost: number
  readonly answer: Promise<ResponseMessage>
  resolve: (answer: ResponseMessage) => void = () => undefined
  reject: (error: ConnectionError) => void = () => undefined

  /** `compound`: the requests that are sent together with this one, itself included. */
  constructor(
    readonly request: SmbRequest,
    readonly compound: readonly Pending[],
  ) {
    this.cost = Credits.costOf(request.payloadSize ?? 0)
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // A caller need not await every response of a compound.
    this.answer.catch(() => undefined)
  }
}
