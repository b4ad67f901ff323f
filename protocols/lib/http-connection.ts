/** One connection of the HTTP server: its requests run one after the other, and few of them wait. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { RequestHandler } from './protocol.js'

export interface OpenRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/** Waiting requests above which the connection is not read. A read that has begun may add more. */
const maxUnpaused = 8

/** Waiting requests above which the connection is closed. */
const maxWaiting = 100

/** Milliseconds for which a connection that this end has closed stays open for the other end to close it. */
const lingerTime = 2000

export class HttpConnection {
  /** The bytes that had been read at the last check for clients that have gone. */
  bytesRead = -1
  readonly #socket: Socket
  readonly #start: RequestHandler
  #running: OpenRequest | undefined
  /** Requests that have been received while another one was running, in their order. */
  #waiting: OpenRequest[] = []
  #isPaused = false
  /** What is sent after the last response, before the connection is closed. Undefined: the connection stays open. */
  #ending: string | undefined
  #isClosed = false

  /** `start` begins to answer a request. It is called when the responses to earlier requests have ended. */
  constructor(socket: Socket, start: RequestHandler) {
    this.#socket = socket
    this.#start = start
  }

  /** The request that is being answered. */
  get running(): OpenRequest | undefined {
    return this.#running
  }

  /** The request that was received last, until its response has ended. */
  get latest(): OpenRequest | undefined {
    return this.#waiting.at(-1) ?? this.#running
  }

  /** Whether the connection is not read, because requests wait. Its end is then not noticed. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  /**
   * Runs a request, or lets it wait for those before it (RFC 9112 §9.3.2). With too many waiting ones, the connection
   * is closed after the running one has been answered, and none of the others takes effect. Node's parser reports all
   * requests of one read at once: whatever is done here for a request that waits is done thousands of times in one
   * turn.
   */
  receive(request: IncomingMessage, response: ServerResponse): void {
    if (this.#ending !== undefined) return
    if (this.#running === undefined && this.#waiting.length === 0) this.#run({ request, response })
    else if (this.#waiting.length < maxWaiting) {
      this.#waiting.push({ request, response })
      if (this.#waiting.length > maxUnpaused) this.#pause()
    } else {
      this.#waiting = []
      // Node would hold two objects for each further request of this read. Its parser has no public way to stop.
      const { parser } = this.#socket as { parser?: { onIncoming?: () => number } | null }
      if (parser) parser.onIncoming = () => 0
      this.#pause()
      this.end('')
    }
  }

  /**
   * Sends `text` after the responses to the requests that have been received completely, and closes the connection.
   * Whatever else is received is ignored, and so are further calls.
   */
  end(text: string): void {
    if (this.#ending !== undefined) return
    this.#ending = text
    const running = this.#running
    const last = this.latest
    if (last !== running && last?.request.complete === false) this.#waiting.pop()
    if (this.#waiting.length > 0) return
    if (running === undefined) this.#close()
    // What is received from now on is ignored, so the body of this request never ends.
    else if (last === running && !running.request.complete) {
      if (running.response.headersSent) this.#socket.destroySoon()
      else this.#close()
    }
  }

  #run(open: OpenRequest): void {
    this.#running = open
    open.response.once('close', this.#onResponseClose)
    this.#start(open.request, open.response)
  }

  readonly #onResponseClose = (): void => {
    this.#running = undefined
    // Other connections have their turn first.
    if (this.#waiting.length > 0) setImmediate(this.#runNext)
    else if (this.#ending !== undefined) this.#close()
  }

  readonly #runNext = (): void => {
    // A response may have closed the connection (RFC 9112 §9.6: what follows is not performed).
    if (!this.#socket.writable) this.#waiting = []
    const next = this.#waiting.shift()
    if (this.#isPaused && this.#waiting.length <= maxUnpaused && this.#ending === undefined) {
      this.#isPaused = false
      this.#socket.resume()
    }
    if (next !== undefined) this.#run(next)
    else if (this.#ending !== undefined) this.#close()
  }

  /** Stops reading, in a later turn: Node reads again at the end of each request that it is parsing now. */
  #pause(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    process.nextTick(() => {
      if (this.#isPaused) this.#socket.pause()
    })
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (this.#socket.writable) this.#socket.end(this.#ending ?? '')
    else this.#socket.destroy()
    // RFC 9112 §9.6: if it closed immediately, a reset could discard the response before the client has read it.
    setTimeout(() => this.#socket.destroy(), lingerTime).unref()
  }
}
