/**
 * One TCP connection to a server: messages go out as soon as there are credits for them, any number are on their way at once, and each
 * answer finds its request by its id. What is said is signed or encrypted once a session has its keys.
 */
import { connect as connectSocket, type Socket } from 'node:net'
import { Credits } from './credits.js'
import { Encryption, isEncrypted } from './encryption.js'
import { ConnectionError, ProtocolError, StatusError } from './errors.js'
import { FrameReader, framePrefix } from './frames.js'
import { headerLength, readHeader, writeHeader, type ResponseHeader } from './header.js'
import { echoRequest, type Request } from './messages.js'
import type { Signer } from './signing.js'
import { status, statusName } from './statuses.js'

export interface ConnectionLimits {
  /** Milliseconds to connect. */
  readonly connect: number
  /** Milliseconds for one answer. */
  readonly answer: number
  /** The same in all where the server says that it is at work on it. */
  readonly work: number
}

/** How what is said is protected. */
export interface Protection {
  readonly sessionId: bigint
  readonly signer: Signer | undefined
  /** Sign what is not encrypted, and accept nothing else. */
  readonly signs: boolean
  readonly encryption: Encryption | undefined
  readonly encrypts: boolean
}

export interface Answer {
  readonly header: ResponseHeader
  /** The whole message: offsets inside count from its header. */
  readonly message: Buffer
}

/** Statuses that are no failure of what was asked. */
const fine: ReadonlySet<number> = new Set([status.success, status.bufferOverflow])

/** The session or the share are gone: nothing that is asked will be done any more. */
const over: ReadonlySet<number> = new Set([
  status.userSessionDeleted,
  status.networkSessionExpired,
  status.networkNameDeleted,
])

/** Of messages that nobody asked for. */
const unasked = 0xffff_ffff_ffff_ffffn
const receiveSize = 256 * 1024

export class Connection {
  readonly #credits = new Credits()
  readonly #frames = new FrameReader()
  readonly #sent = new Map<bigint, Pending>()
  readonly #unanswered = new Set<Pending>()
  readonly #socket: Socket
  #nextId = 0
  #broken: ConnectionError | undefined
  #watch: NodeJS.Timeout | undefined
  #heard = Date.now()
  #protection: Protection = {
    sessionId: 0n,
    signer: undefined,
    signs: false,
    encryption: undefined,
    encrypts: false,
  }
  treeId = 0
  /** Sees every message of the negotiation and the sign-in. */
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
      const words = isNew ? 'the server cannot be reached' : 'the connection to the server was lost'
      this.break(new ConnectionError(isNew ? 'refused' : 'lost', words, { cause: error }))
    })
    this.#socket.on('close', () => {
      this.break(new ConnectionError('lost', 'the server closed the connection'))
    })
  }

  /** Rejects with a ConnectionError. It ends, also later, when the signal says so. */
  static open(host: string, port: number, limits: ConnectionLimits, signal?: AbortSignal): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        connection.break(new ConnectionError('timeout', 'the server does not answer'))
      }, limits.connect)
      const connection: Connection = new Connection(host, port, limits, () => {
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

  /** What broke it; undefined while it stands. */
  get broken(): ConnectionError | undefined {
    return this.#broken
  }

  /** Milliseconds since the server last said something. */
  get silence(): number {
    return Date.now() - this.#heard
  }

  protect(protection: Protection): void {
    this.#protection = protection
  }

  get protection(): Protection {
    return this.#protection
  }

  /** Ends it, and with it whatever waits for an answer. */
  break(error: ConnectionError): void {
    if (this.#broken !== undefined) return
    this.#broken = error
    clearInterval(this.#watch)
    this.#credits.drop()
    for (const pending of this.#unanswered) pending.reject(error)
    this.#unanswered.clear()
    this.#sent.clear()
    this.#onBreak?.(error)
    this.#socket.destroy()
  }

  /** Rejects with a ConnectionError unless the server answers within so many milliseconds. */
  async assertAlive(within: number): Promise<void> {
    const timer = setTimeout(() => {
      this.break(new ConnectionError('timeout', 'the server does not answer'))
    }, within)
    try {
      await this.ask(echoRequest())
    } finally {
      clearTimeout(timer)
    }
  }

  /** The answer to one request. Rejects with a StatusError for everything but success, with a ConnectionError where none comes. */
  async ask(request: Request): Promise<Buffer> {
    const { header, message } = await this.askRaw(request)
    if (!fine.has(header.status)) throw new StatusError(header.status)
    return message
  }

  /** The same with `parse` run on the answer. */
  async asking<T>(request: Request, parse: (answer: Buffer) => T): Promise<T> {
    return this.parsed(await this.ask(request), parse)
  }

  /** What no parser can read breaks the connection. */
  parsed<T>(answer: Buffer, parse: (answer: Buffer) => T): T {
    try {
      return parse(answer)
    } catch (error) {
      const fault =
        error instanceof ProtocolError
          ? error
          : new ProtocolError('an answer of the server makes no sense', { cause: error })
      this.break(fault)
      throw fault
    }
  }

  /** The answer whatever its status is. Nothing looks at the data of the request any more when it comes. */
  askRaw(request: Request): Promise<Answer> {
    const [answer] = this.send([request])
    if (answer === undefined) throw new RangeError('one request has one answer')
    return answer
  }

  /**
   * Sends requests as one chain, in which each stands on the one before (§3.2.4.1.4): a failed one fails those behind it. Every answer
   * is awaited by itself.
   */
  send(requests: readonly Request[]): Promise<Answer>[] {
    const chain = requests.map((request) => new Pending(request))
    const answers = chain.map(({ answer }) => answer)
    if (this.#broken !== undefined) {
      for (const pending of chain) pending.reject(this.#broken)
      return answers
    }
    for (const pending of chain) this.#unanswered.add(pending)
    this.#credits.take(
      chain.reduce((sum, { cost }) => sum + cost, 0),
      () => this.#transmit(chain),
    )
    this.#assertGoingOn()
    return answers
  }

  /** Credits come with answers alone: a server that owes none, and has granted too few, would be waited for without end. */
  #assertGoingOn(): void {
    if (this.#sent.size > 0 || !this.#credits.areWanted) return
    this.break(new ProtocolError('the server takes no more requests'))
  }

  #transmit(chain: readonly Pending[]): void {
    const { signer, signs, encryption, encrypts, sessionId } = this.#protection
    const messages: Buffer[] = []
    for (const [index, pending] of chain.entries()) {
      const { request, cost } = pending
      const isLast = index === chain.length - 1
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
        credits: this.#credits.asked(cost),
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
      if (error) return // it breaks
      for (const pending of chain) pending.isSent = true
      for (const pending of chain) this.#settle(pending)
    }
    this.#socket.cork()
    this.#socket.write(framePrefix(parts.reduce((sum, part) => sum + part.length, 0)))
    for (const [index, part] of parts.entries()) this.#socket.write(part, index < parts.length - 1 ? undefined : sent)
    this.#socket.uncork()
    this.#watch ??= setInterval(() => this.#watchAnswers(), 1000).unref()
  }

  #watchAnswers(): void {
    const now = Date.now()
    for (const { sentAt, isAtWork } of this.#sent.values()) {
      if (now - sentAt < (isAtWork ? this.limits.work : this.limits.answer)) continue
      this.break(new ConnectionError('timeout', 'the server does not answer'))
      return
    }
    if (this.#sent.size > 0) return
    clearInterval(this.#watch)
    this.#watch = undefined
  }

  #receive(bytes: Buffer): void {
    this.#heard = Date.now()
    try {
      this.#frames.push(bytes, (frame) => {
        if (this.#broken === undefined) this.#open(frame)
      })
    } catch (error) {
      const fault =
        error instanceof ProtocolError
          ? error
          : new ProtocolError('a message of the server makes no sense', { cause: error })
      this.break(fault)
    }
  }

  #open(frame: Buffer): void {
    const { encryption } = this.#protection
    const wasEncrypted = isEncrypted(frame)
    if (wasEncrypted && encryption === undefined) throw new ProtocolError('the server encrypts without a key')
    const messages = wasEncrypted && encryption !== undefined ? encryption.decrypt(frame) : frame
    this.onMessage?.(messages)
    for (let at = 0; at < messages.length;) {
      const header = readHeader(messages.subarray(at))
      if (header.next !== 0 && (header.next < headerLength || at + header.next > messages.length)) {
        throw new ProtocolError('a chain of messages is cut off')
      }
      const end = header.next === 0 ? messages.length : at + header.next
      this.#accept({ header, message: messages.subarray(at, end) }, wasEncrypted)
      at = end
    }
  }

  #accept(answer: Answer, wasEncrypted: boolean): void {
    const { header } = answer
    if (header.messageId === unasked) return // somebody else wants a lease that we never took
    const pending = this.#sent.get(header.messageId)
    if (pending?.request.command !== header.command || pending.found !== undefined) {
      throw new ProtocolError('the server answers what was not asked')
    }
    if (over.has(header.status)) {
      // Nobody can sign or encrypt for a session that is no more.
      this.break(new ConnectionError('ended', `the server has ended the session: ${statusName(header.status)}`))
      return
    }
    const isInterim = header.status === status.pending && header.isAsync
    if (!wasEncrypted && !isInterim) this.#assertGenuine(answer)
    this.#credits.grant(header.credits)
    if (isInterim) {
      pending.isAtWork = true
      return
    }
    pending.found = answer
    this.#settle(pending)
  }

  /**
   * Whoever asked takes the memory of the request for free once it is answered. The socket may hold it longer than the server needs to
   * answer: it tells of several messages at once that they are out, and some server may answer what it has not heard.
   */
  #settle(pending: Pending): void {
    if (!pending.isSent || pending.found === undefined || !this.#sent.delete(pending.id)) return
    this.#unanswered.delete(pending)
    pending.resolve(pending.found)
    this.#assertGoingOn()
  }

  #assertGenuine({ header, message }: Answer): void {
    const { signer, signs, encrypts } = this.#protection
    if (encrypts) throw new ProtocolError('the server does not encrypt an answer')
    if (!signs || signer === undefined) return
    if (!header.isSigned || !signer.verify(message)) throw new ProtocolError('the signature of an answer is not right')
  }
}

/** A request and who waits for its answer. */
class Pending {
  id = 0n
  sentAt = 0
  /** The system has taken all of it. */
  isSent = false
  found: Answer | undefined
  /** The server has said that the answer will take a while. */
  isAtWork = false
  readonly cost: number
  readonly answer: Promise<Answer>
  resolve: (answer: Answer) => void = () => undefined
  reject: (error: ConnectionError) => void = () => undefined

  constructor(readonly request: Request) {
    this.cost = Credits.costOf(request.weight ?? 0)
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // Who does not wait for all of a chain has not forgotten the rest.
    this.answer.catch(() => undefined)
  }
}
