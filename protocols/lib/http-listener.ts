/** The HTTP port that several doors share: routing by prefix, limits against slow and faulty clients, and a graceful end. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Socket, type AddressInfo } from 'node:net'
import { deferContinue } from './continue.js'
import type { RequestHandler } from './handler.js'

export interface HttpListenerOptions {
  readonly host: string
  readonly port: number
  /** The handler of the longest prefix that fits answers; `''` fits everything. A prefix ends at a `/` or at the end. */
  readonly handlers: ReadonlyMap<string, RequestHandler>
  /**
   * Milliseconds after which a client that sends nothing of an announced body, or takes nothing of its answer, is cut. Work of
   * ours, however long, is waited for.
   */
  readonly stallTimeout?: number
}

export class HttpListener {
  readonly #server: Server
  readonly #options: HttpListenerOptions
  readonly #prefixes: readonly string[]
  /** What each connection is busy with. */
  readonly #exchanges = new Map<Socket, Exchange>()
  /** Connections that have sent what is no request: whatever else they send is dropped. */
  readonly #refused = new WeakSet<Socket>()
  #stopping = false

  constructor(options: HttpListenerOptions) {
    this.#options = options
    this.#prefixes = [...options.handlers.keys()].sort((one, other) => other.length - one.length)
    this.#server = createServer(
      {
        // A head must come whole and soon; a body may take as long as it keeps coming.
        headersTimeout: 30_000,
        requestTimeout: 0,
        keepAliveTimeout: 65_000,
        maxHeaderSize: 32 * 1024,
        // Large enough that a fast sender is not stopped after every packet.
        highWaterMark: 64 * 1024,
        noDelay: true,
      },
      (request, response) => this.#handle(request, response),
    )
    const stallTimeout = options.stallTimeout ?? 120_000
    this.#server.timeout = stallTimeout
    this.#server.on('timeout', (socket: Socket) => {
      const exchange = this.#exchanges.get(socket)
      // The timer has run out; work of ours gets another span.
      if (exchange !== undefined && isOurs(exchange, socket)) socket.setTimeout(stallTimeout)
      else socket.destroy()
    })
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      // An upload is invited once it was not refused; other bodies are small.
      if (request.method === 'PUT') deferContinue(request, response)
      else response.writeContinue()
      this.#handle(request, response)
    })
    // RFC 9110 §9.3.6: this is no proxy.
    this.#server.on('connect', (_request, socket) => {
      socket.end('HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
    })
    this.#server.on('clientError', (error: ParseError, socket) => {
      if (socket instanceof Socket) this.#refuse(error, socket)
    })
  }

  /** Rejects with the system's error, such as EADDRINUSE. Resolves to the address that is listened on, `HOST:PORT`. */
  async start(): Promise<string> {
    const { host, port } = this.#options
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject)
        resolve()
      })
    })
    const { address, family, port: bound } = this.#server.address() as AddressInfo
    return family === 'IPv6' ? `[${address}]:${bound}` : `${address}:${bound}`
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const exchange = { request, response }
    this.#exchanges.set(socket, exchange)
    response.once('close', () => {
      // A pipelined request may have followed.
      if (this.#exchanges.get(socket) === exchange) this.#exchanges.delete(socket)
    })
    if (this.#stopping) response.shouldKeepAlive = false
    const path = pathOf(request.url ?? '/')
    const prefix = this.#prefixes.find((each) => path === each || path.startsWith(`${each}/`)) ?? ''
    const handler = this.#options.handlers.get(prefix)
    if (handler) handler(request, response)
    else response.writeHead(404, { 'Content-Length': 0 }).end()
  }

  /** Answers what Node's parser rejects, after the answers to the requests before it, and closes the connection. */
  #refuse(error: ParseError, socket: Socket): void {
    if (error.code === 'ECONNRESET') socket.destroy()
    // The parser reports every further packet.
    if (this.#refused.has(socket)) return
    this.#refused.add(socket)
    const reply = () => {
      if (!socket.writable) socket.destroy()
      else socket.end(`HTTP/1.1 ${refusalOf(error)}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
      // RFC 9112 §9.6: closed at once, the connection could be reset before the client has read the answer.
      setTimeout(() => socket.destroy(), lingerTime).unref()
    }
    const { request, response } = this.#exchanges.get(socket) ?? {}
    if (request === undefined || response === undefined) reply()
    else if (request.complete) response.once('close', reply)
    // The body of this request is at fault. Its answer has begun, or waits for that of an earlier request.
    else if (response.headersSent || response.socket === null) socket.destroySoon()
    else reply()
  }

  /** Accepts nothing new, lets requests finish until `cut` aborts, then ends every connection. */
  async stop(cut: AbortSignal): Promise<void> {
    this.#stopping = true
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeIdleConnections()
    const end = () => this.#server.closeAllConnections()
    if (cut.aborted) end()
    else cut.addEventListener('abort', end, { once: true })
    // Connections that finish a request now would wait for another one.
    const sweep = setInterval(() => this.#server.closeIdleConnections(), 100)
    await closed
    clearInterval(sweep)
    cut.removeEventListener('abort', end)
  }
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/** Whether it is we who keep the client waiting: a body is there to be read, or an answer is still to be written. */
function isOurs({ request, response }: Exchange, socket: Socket): boolean {
  if (!request.complete) return request.readableLength > 0
  return response.writableLength === 0 && socket.writableLength === 0
}

/** What Node adds to an error of its parser. */
interface ParseError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  /** Where in `rawPacket` the parser stopped. */
  readonly bytesParsed?: number
}

/** Milliseconds for which a connection stays open after the answer to what is no request. */
const lingerTime = 2000

/** Status and reason phrase for what Node's parser rejects. */
function refusalOf(error: ParseError): string {
  if (error.code === 'HPE_HEADER_OVERFLOW') return '431 Request Header Fields Too Large'
  return error.code === 'HPE_INVALID_METHOD' && isRequestLine(error) ? '501 Not Implemented' : '400 Bad Request'
}

/** RFC 9110 §5.6.2. */
const tokenCharacter = /[\w!#$%&'*+.^`|~-]/
/** RFC 9112 §3, with the method of any token (RFC 9110 §5.6.2). */
const requestLine = /^[\w!#$%&'*+.^`|~-]+ [\x21-\xff]+ HTTP\/1\.\d\r?\n/
const beginningOfRequestLine = /^[\w!#$%&'*+.^`|~-]+( [\x21-\xff]*( [HTP/1.\d]*\r?)?)?$/

/**
 * Whether the parser stopped in the method of a request line, or of the beginning of one: the method is unknown then, for
 * which RFC 9110 §15.6.2 has 501. Anything else is malformed.
 */
function isRequestLine({ rawPacket, bytesParsed = 0 }: ParseError): boolean {
  const text = rawPacket?.toString('latin1') ?? ''
  // By a loop: a pattern that ends with the text would be tried from each of its characters.
  let start = bytesParsed
  while (start > 0 && tokenCharacter.test(text.charAt(start - 1))) start--
  const line = text.slice(start)
  return requestLine.test(line) || beginningOfRequestLine.test(line)
}

/** The path of a request's target, which may come in absolute form from a proxy. */
function pathOf(target: string): string {
  const path = target.startsWith('/') ? target : target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '')
  return path.split('?', 1)[0] ?? '/'
}
