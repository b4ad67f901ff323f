/** The HTTP port that several doors share: routing by prefix, limits against slow and faulty clients, and a graceful end. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { deferContinue } from './continue.js'
import type { RequestHandler } from './handler.js'

export interface HttpListenerOptions {
  readonly host: string
  readonly port: number
  /** The handler of the longest prefix that fits answers; `''` fits everything. A prefix ends at a `/` or at the end. */
  readonly handlers: ReadonlyMap<string, RequestHandler>
  /** Milliseconds without a byte in either direction after which a connection with a request under way is cut. */
  readonly stallTimeout?: number
}

export class HttpListener {
  readonly #server: Server
  readonly #options: HttpListenerOptions
  readonly #prefixes: readonly string[]
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
        highWaterMark: 256 * 1024,
        noDelay: true,
      },
      (request, response) => this.#handle(request, response),
    )
    this.#server.timeout = options.stallTimeout ?? 120_000
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      // An upload is invited once it was not refused; other bodies are small.
      if (request.method === 'PUT') deferContinue(request, response)
      else response.writeContinue()
      this.#handle(request, response)
    })
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
      else
        socket.end(
          `HTTP/1.1 ${error.code === 'HPE_HEADER_OVERFLOW' ? '431 Request Header Fields Too Large' : '400 Bad Request'}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
        )
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
    if (this.#stopping) response.shouldKeepAlive = false
    const path = pathOf(request.url ?? '/')
    const prefix = this.#prefixes.find((each) => path === each || path.startsWith(`${each}/`)) ?? ''
    const handler = this.#options.handlers.get(prefix)
    if (handler) handler(request, response)
    else response.writeHead(404, { 'Content-Length': 0 }).end()
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

/** The path of a request's target, which may come in absolute form from a proxy. */
function pathOf(target: string): string {
  const path = target.startsWith('/') ? target : target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '')
  return path.split('?', 1)[0] ?? '/'
}
