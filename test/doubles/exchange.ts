/**
 * What the doubles of vendors have in common: a log of all requests, faults that a test injects, and one exchange of a
 * request and its answer.
 */
import type { IncomingMessage, OutgoingHttpHeaders, RequestListener, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

export interface LoggedRequest {
  readonly host: string
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  /** Whether it carried a cookie or an `Authorization` header. */
  readonly hasCredentials: boolean
  /** Milliseconds of `performance.now()`. */
  readonly at: number
  /** Bytes of the body that have arrived. */
  received: number
  /** Bytes of the answer's body. */
  sent: number
  /** Status of the answer; 0 if there was none. */
  status: number
}

/** What goes wrong with a request. */
export interface Fault {
  /** The vendor begins so many milliseconds later. */
  readonly delay?: number
  /** The vendor answers with this status and does nothing. */
  readonly status?: number
  /** Of an answer with `status`. */
  readonly headers?: OutgoingHttpHeaders
  /** Of an answer with `status`: a text, or JSON. */
  readonly body?: string | object
  /** The vendor closes the connection when so many bytes of the body of the request have arrived. */
  readonly cutUploadAt?: number
  /** The vendor closes the connection when it has sent so many bytes of its answer. */
  readonly cutDownloadAt?: number
  /** The vendor does the work, and closes the connection instead of answering. */
  readonly losesAnswer?: boolean
}

/** Requests that a fault strikes. */
export interface FaultyRequests {
  readonly host?: string
  readonly method?: string
  readonly path?: string | RegExp
  /** How many requests it strikes; default: one. */
  readonly times?: number
}

/** Answers one request. What it throws is an error of the double. */
export type Handler = (exchange: Exchange) => Promise<void>

export class DoubleTraffic {
  readonly log: LoggedRequest[] = []
  readonly #faults: { readonly requests: FaultyRequests; readonly fault: Fault; left: number }[] = []

  /** Lets the next requests that match fail so. Of several faults that match a request, the first one strikes. */
  inject(requests: FaultyRequests, fault: Fault): void {
    this.#faults.push({ requests, fault, left: requests.times ?? 1 })
  }

  clearFaults(): void {
    this.#faults.length = 0
  }

  /** The logged requests with this path. */
  requests(path: string | RegExp, host?: string): readonly LoggedRequest[] {
    return this.log.filter((one) => matches(one, { path, ...(host !== undefined && { host }) }))
  }

  listener(handle: Handler): RequestListener {
    return (request, response) => void this.#serve(handle, request, response)
  }

  async #serve(handle: Handler, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const logged = logEntry(request)
    this.log.push(logged)
    const fault = this.#faultOf(logged)
    const exchange = new Exchange(request, response, logged, fault)
    const { delay, status, body, headers } = fault
    if (delay !== undefined) await sleep(delay)
    try {
      if (status !== undefined) await exchange.answer(status, body, headers)
      else await handle(exchange)
    } catch (error) {
      // The client has gone, or the fault has closed the connection.
      if (!request.socket.destroyed) process.emitWarning(error as Error)
      response.destroy()
    }
  }

  #faultOf(request: LoggedRequest): Fault {
    const found = this.#faults.find(({ requests, left }) => left > 0 && matches(request, requests))
    if (!found) return {}
    found.left--
    return found.fault
  }
}

/** A request, and its answer. */
export class Exchange {
  constructor(
    readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    readonly logged: LoggedRequest,
    private readonly fault: Fault,
  ) {}

  get path(): string {
    return this.logged.path
  }

  get query(): URLSearchParams {
    return this.logged.query
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  /** The body while it arrives. */
  async *body(): AsyncGenerator<Buffer> {
    const { cutUploadAt: cutAt = Number.POSITIVE_INFINITY } = this.fault
    for await (const chunk of this.request as AsyncIterable<Buffer>) {
      this.logged.received += chunk.length
      if (this.logged.received >= cutAt) {
        this.request.socket.destroy()
        throw new Error('the connection was cut')
      }
      yield chunk
    }
  }

  /** The whole body, which is small. */
  async text(): Promise<string> {
    const chunks: Buffer[] = []
    for await (const chunk of this.body()) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }

  /** Sends an answer: a text, bytes, or anything else as JSON. */
  async answer(status: number, body: unknown = '', headers: OutgoingHttpHeaders = {}): Promise<void> {
    const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
    const bytes = Buffer.from(isRaw ? body : JSON.stringify(body))
    const type = isRaw ? {} : { 'content-type': 'application/json' }
    await this.answerBytes(status, [bytes], { 'content-length': bytes.length, ...type, ...headers })
  }

  /** Sends an answer whose body comes in pieces. Resolves when it is sent. */
  async answerBytes(
    status: number,
    pieces: Iterable<Buffer> | AsyncIterable<Buffer>,
    headers: OutgoingHttpHeaders,
  ): Promise<void> {
    // A client that still sends its body would not read the answer.
    this.request.resume()
    const { losesAnswer = false, cutDownloadAt: cutAt = Number.POSITIVE_INFINITY } = this.fault
    if (losesAnswer) {
      this.request.socket.destroy()
      return
    }
    this.logged.status = status
    this.response.writeHead(status, headers)
    for await (const piece of pieces) {
      if (this.response.destroyed) return
      const rest = cutAt - this.logged.sent
      const bytes = piece.subarray(0, rest)
      this.logged.sent += bytes.length
      await this.#write(bytes)
      if (rest <= piece.length) {
        this.response.destroy()
        return
      }
    }
    this.response.end()
  }

  #write(bytes: Buffer): Promise<void> {
    return new Promise((resolve) => {
      this.response.once('close', resolve)
      this.response.write(bytes, () => {
        this.response.off('close', resolve)
        resolve()
      })
    })
  }
}

/** The answer to a request for content: status, headers, and the range to send (RFC 9110 §14). Undefined: 416. */
export function rangeAnswer(header: string | undefined, size: number) {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(header ?? '') ?? []
  if (first === undefined) {
    return { status: 200, headers: { 'content-length': size, 'accept-ranges': 'bytes' }, start: 0, end: size }
  }
  const start = Number(first)
  const end = last === undefined || last === '' ? size : Math.min(size, Number(last) + 1)
  if (start >= end) return undefined
  const headers = { 'content-length': end - start, 'content-range': `bytes ${start}-${end - 1}/${size}` }
  return { status: 206, headers, start, end }
}

function logEntry({ method = '', url = '/', headers }: IncomingMessage): LoggedRequest {
  const host = (headers.host ?? '').replace(/:\d+$/, '')
  const { pathname: path, searchParams: query } = new URL(url, `https://${host}`)
  const hasCredentials = headers.authorization !== undefined || headers.cookie !== undefined
  return { host, method, path, query, hasCredentials, at: performance.now(), received: 0, sent: 0, status: 0 }
}

function matches(request: LoggedRequest, { host, method, path }: FaultyRequests): boolean {
  if (host !== undefined && host !== request.host) return false
  if (method !== undefined && method !== request.method) return false
  return path === undefined || (typeof path === 'string' ? path === request.path : path.test(request.path))
}
