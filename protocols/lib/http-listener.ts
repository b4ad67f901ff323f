/**
 * The HTTP port, or that of HTTPS, which several protocols share: routing by prefix, limits for slow and faulty
 * clients, graceful shutdown.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { Socket } from 'node:net'
import { hasPassed } from '../../src/contract/own-requests.js'
import type { ClientConnection } from '../../src/gateway/connections.js'
import { connectionOf } from './callers.js'
import type { Certificate } from './certificate.js'
import { closedByPeer } from './closed-connections.js'
import type { ClientConnections } from './client-connections.js'
import type { RequestHandler } from './protocol.js'
import { HttpConnection, type OpenRequest } from './http-connection.js'
import { listen, type ListenOptions, type ProtocolServer } from './listen.js'
import { deferContinue, drain, sendContinue } from './request-body.js'
import { originForm, pathOf } from './request-target.js'

interface HttpListenerOptions extends ListenOptions {
  /**
   * Handlers by path prefix. The longest matching prefix is used; `''` matches every path. Prefixes match whole
   * segments. A handler is given the target in origin form.
   */
  readonly handlers: ReadonlyMap<string, RequestHandler>
  /**
   * Timeout in milliseconds for a client that does not send its request body, or does not read its response. Time that
   * the server spends on a request does not count.
   */
  readonly stallTimeout?: number
  /** Absent: every connection is accepted. */
  readonly connections?: ClientConnections
  /** Absent: connections are not encrypted. */
  readonly certificate?: Certificate
  /** Requests that have passed a gateway of this name are refused: they come from a storage of this one. */
  readonly pseudonym?: string
}

export class HttpListener implements ProtocolServer {
  readonly #server: Server
  readonly #options: HttpListenerOptions
  /** The handlers, the one with the longest prefix first. */
  readonly #handlers: readonly { readonly prefix: string; readonly below: string; readonly handler: RequestHandler }[]
  readonly #connections = new Map<Socket, HttpConnection>()
  /** The next check for clients that have gone. Undefined while no request is running. */
  #stalledCheck: NodeJS.Timeout | undefined
  #stopping = false

  constructor(options: HttpListenerOptions) {
    this.#options = options
    this.#handlers = [...options.handlers]
      .map(([prefix, handler]) => ({ prefix, below: `${prefix}/`, handler }))
      .sort((one, other) => other.prefix.length - one.prefix.length)
    this.#server = newServer(options.certificate, (request, response) => this.#handle(request, response))
    this.#server.on('connection', (socket: Socket) => options.connections?.accept(socket))
    this.#server.on(options.certificate ? 'secureConnection' : 'connection', (socket: Socket) => {
      if (socket.destroyed) return
      this.#connections.set(socket, new HttpConnection(socket, this.#route))
      socket.once('close', () => this.#connections.delete(socket))
    })
    const stallTimeout = options.stallTimeout ?? 120_000
    this.#server.timeout = stallTimeout
    this.#server.on('timeout', (socket: Socket) => {
      const open = this.#connections.get(socket)?.latest
      // The timer is restarted if the server is what the connection waits for.
      if (open !== undefined && isServerBusy(open, socket)) socket.setTimeout(stallTimeout)
      else socket.destroy()
    })
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      deferContinue(request, response)
      this.#handle(request, response)
    })
    // RFC 9110 §9.3.6: CONNECT is for proxies. Node has removed its listeners and timeouts from the socket
    // (Node.js: lib/_http_server.js).
    this.#server.on('connect', (_request, socket) => {
      socket.on('error', () => undefined)
      if (socket instanceof Socket) this.#connections.get(socket)?.end(refusal('501 Not Implemented'))
    })
    this.#server.on('clientError', (error: ParseError, socket) => {
      if (socket instanceof Socket) this.#refuse(error, socket)
    })
  }

  /**
   * Starts listening. Resolves to the bound address, `HOST:PORT`. Rejects with the system's error, such as EADDRINUSE.
   */
  start(): Promise<string> {
    return listen(this.#server, this.#options)
  }

  /** The requests that are being answered, whose senders are known. */
  *connections(): Iterable<ClientConnection> {
    for (const { running } of this.#connections.values()) {
      const connection = running && connectionOf(running.request)
      if (connection) yield connection
    }
  }

  /** Closes connections whose client has gone while the body of a request is not being read. */
  async #closeDisconnected(): Promise<void> {
    const stalled: Socket[] = []
    let isRunning = false
    for (const [socket, connection] of this.#connections) {
      const { latest } = connection
      if (latest === undefined) continue
      isRunning = true
      // A connection that is being read reports its end itself.
      const isUnread = connection.isPaused || hasUnreadBody(latest)
      if (isUnread && socket.bytesRead === connection.bytesRead) stalled.push(socket)
      connection.bytesRead = socket.bytesRead
    }
    if (stalled.length > 0) {
      for (const socket of await closedByPeer(this.#server, stalled)) socket.destroy()
    }
    if (isRunning) this.#stalledCheck?.refresh()
    else this.#stalledCheck = undefined
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    this.#stalledCheck ??= setTimeout(() => void this.#closeDisconnected(), stalledCheckInterval).unref()
    if (this.#stopping) response.shouldKeepAlive = false
    this.#connections.get(request.socket)?.receive(request, response)
  }

  readonly #route = (request: IncomingMessage, response: ServerResponse): void => {
    // RFC 9112 §3.2: a proxy may have routed the request by the other one.
    if (hasSeveralHosts(request)) {
      response.writeHead(400, { 'Content-Length': 0, Connection: 'close' }).end()
      void drain(request)
      return
    }
    const coding = request.headers['transfer-encoding']
    // RFC 9112 §6.1: the body of any other coding would be stored as it is, with its coding.
    if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
      response.writeHead(501, { 'Content-Length': 0, Connection: 'close' }).end()
      void drain(request)
      return
    }
    const { pseudonym } = this.#options
    if (pseudonym !== undefined && hasPassed(request.headers.via, pseudonym)) {
      response.writeHead(508, { 'Content-Type': 'application/json', Connection: 'close' }).end(loopAnswer)
      void drain(request)
      return
    }
    // For an upload, `100 Continue` is sent once it is accepted. Other bodies are small.
    if (request.method !== 'PUT') sendContinue(request)
    request.url = originForm(request.url ?? '/')
    const path = pathOf(request.url)
    const found = this.#handlers.find(({ prefix, below }) => prefix === '' || path === prefix || path.startsWith(below))
    if (found) found.handler(request, response)
    else response.writeHead(404, { 'Content-Length': 0 }).end()
  }

  /**
   * Answers a request that Node's parser rejects, after the responses to earlier requests, and closes the connection.
   */
  #refuse(error: ParseError, socket: Socket): void {
    if (error.code === 'ECONNRESET') socket.destroy()
    // The parser reports every further packet as an error: the first one counts.
    else if (this.#connections.has(socket)) this.#connections.get(socket)?.end(refusal(statusOf(error)))
    // TLS was not established.
    else socket.destroy()
  }

  /** Stops accepting connections and waits for active requests until `cut` aborts, which closes all connections. */
  async stop(cut: AbortSignal): Promise<void> {
    this.#stopping = true
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeIdleConnections()
    const closeAll = () => this.#server.closeAllConnections()
    if (cut.aborted) closeAll()
    else cut.addEventListener('abort', closeAll, { once: true })
    // A connection that becomes idle now would wait for its next request.
    const sweep = setInterval(() => this.#server.closeIdleConnections(), 100)
    await closed
    clearInterval(sweep)
    cut.removeEventListener('abort', closeAll)
  }
}

function newServer(
  certificate: Certificate | undefined,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const options = {
    // Limits the time for the header section. A body may take any time as long as its bytes arrive.
    headersTimeout: 30_000,
    requestTimeout: 0,
    keepAliveTimeout: 65_000,
    maxHeaderSize: 32 * 1024,
    // Large enough that a fast sender is not paused after every packet.
    highWaterMark: 64 * 1024,
    noDelay: true,
  }
  if (!certificate) return createServer(options, handle)
  const server = createTlsServer(
    { ...options, ...certificate.pair, ALPNProtocols: ['http/1.1'], handshakeTimeout },
    handle,
  )
  certificate.onChange((pair) => server.setSecureContext(pair))
  // This class has all methods and events of the other one (Node.js: lib/https.js), but is declared as another.
  return server
}

/** Milliseconds in which TLS must be established. */
const handshakeTimeout = 10_000

/** The body of status 508 (RFC 5842 §7.2), as the HTTP API words errors. */
const loopAnswer = JSON.stringify({
  code: 508,
  message: 'this request comes from a storage of this gateway, which must not mount itself',
  data: null,
})

/** Milliseconds between two checks for clients that have gone. */
const stalledCheckInterval = 400

/** Whether received bytes of an incomplete body are not read yet. */
function hasUnreadBody({ request }: OpenRequest): boolean {
  return !request.complete && request.readableLength > 0
}

/**
 * Whether the client waits for the server: received body bytes are not read yet, or the response is not written yet.
 */
function isServerBusy(open: OpenRequest, socket: Socket): boolean {
  const { request, response } = open
  if (!request.complete) return hasUnreadBody(open)
  return response.writableLength === 0 && socket.writableLength === 0
}

/** An error of Node's HTTP parser. */
interface ParseError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  /** Offset in `rawPacket` at which the parser stopped. */
  readonly bytesParsed?: number
}

/** The response after which a connection is closed. */
function refusal(status: string): string {
  return `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
}

/** Status code and reason phrase for an error of Node's parser. */
function statusOf(error: ParseError): string {
  if (error.code === 'HPE_HEADER_OVERFLOW') return '431 Request Header Fields Too Large'
  return error.code === 'HPE_INVALID_METHOD' && isRequestLine(error) ? '501 Not Implemented' : '400 Bad Request'
}

/** RFC 9110 §5.6.2. */
const tokenCharacter = /[\w!#$%&'*+.^`|~-]/
/** RFC 9112 §3, with any token as the method (RFC 9110 §5.6.2). */
const requestLine = /^[\w!#$%&'*+.^`|~-]+ [\x21-\xff]+ HTTP\/1\.\d\r?\n/
const beginningOfRequestLine = /^[\w!#$%&'*+.^`|~-]+( [\x21-\xff]*( [HTP/1.\d]*\r?)?)?$/

/**
 * Whether the parser stopped in the method of a complete or incomplete request line. The method is then unknown, and
 * the status is 501 (RFC 9110 §15.6.2). Anything else is malformed.
 */
function isRequestLine({ rawPacket, bytesParsed = 0 }: ParseError): boolean {
  const text = rawPacket?.toString('latin1') ?? ''
  // A loop, because a pattern anchored at the end would be tried from every character.
  let start = bytesParsed
  while (start > 0 && tokenCharacter.test(text.charAt(start - 1))) start--
  const line = text.slice(start)
  return requestLine.test(line) || beginningOfRequestLine.test(line)
}

/** Whether the request has more than one Host header: Node drops the others. */
function hasSeveralHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  return hosts > 1
}
