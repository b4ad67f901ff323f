/**
 * An HTTP proxy with a password, for programs that make their own connections. It connects only to hosts that the
 * egress guard allows. It supports only tunnels (CONNECT, RFC 9110 §9.3.6): after a redirect, a client needs another
 * tunnel, which is checked too.
 */
import { timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { pipeline, type Duplex } from 'node:stream'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { hostAndPort, splitAddress } from './addresses.js'
import type { EgressGuard } from './egress.js'

/** Maximum concurrent client connections. */
const maxConnections = 256
/** Milliseconds to receive the request header. */
const headTimeout = 10_000
/** Milliseconds to connect to a server, and between two bytes of a tunnel. */
const tunnelTimeout = 120_000

/**
 * Configuration for a program. Each client may choose any user name; `takeRefusal` reports refused connections by user
 * name.
 */
export interface ProxyAccess {
  /** `HOST:PORT` */
  readonly address: string
  readonly password: string
}

interface Listener {
  /** `HOST:PORT` as requested; the port may be 0. */
  readonly requestedAddress: string
  readonly server: Server
  readonly access: Promise<ProxyAccess>
}

export class EgressProxy {
  readonly #connections = new Set<Socket>()
  readonly #refusals = new Map<string, GatewayError>()
  #listener: Listener | undefined
  /** The password of the proxy; not empty while it listens. */
  #password = ''

  /** Workers of one machine listen on a set port together: `password` must resolve to the same one in all of them. */
  constructor(
    private readonly guard: EgressGuard,
    private readonly password: () => Promise<string>,
  ) {}

  /**
   * Listens on `HOST:PORT` (0 for a free port), unless it already does. Stops listening on any other address. Rejects
   * with `unavailable` if it cannot listen.
   */
  async open(requestedAddress: string): Promise<ProxyAccess> {
    if (this.#listener?.requestedAddress !== requestedAddress) {
      this.close()
      this.#listener = this.#listen(requestedAddress)
    }
    const listener = this.#listener
    try {
      return await listener.access
    } catch (error) {
      if (this.#listener === listener) this.#listener = undefined
      const reason = `the egress proxy cannot listen on ${requestedAddress}: ${(error as Error).message}`
      throw new GatewayError('unavailable', { reason, cause: error })
    }
  }

  /** Returns and clears the last `denied` error of this user name. */
  takeRefusal(username: string): GatewayError | undefined {
    const refusal = this.#refusals.get(username)
    this.#refusals.delete(username)
    return refusal
  }

  /** Stops listening and ends all tunnels. */
  close(): void {
    const { access, server } = this.#listener ?? {}
    this.#listener = undefined
    access?.then(
      () => server?.close(),
      () => undefined,
    )
    for (const connection of this.#connections) connection.destroy()
  }

  #listen(requestedAddress: string): Listener {
    const { host, port } = splitAddress(requestedAddress)
    const server = createServer({ headersTimeout: headTimeout, connectionsCheckingInterval: headTimeout / 2 })
    server.maxConnections = maxConnections
    server.on('connection', (socket: Socket) => {
      this.#connections.add(socket)
      socket.once('close', () => this.#connections.delete(socket))
    })
    // Errors of listening reject `access`; others concern a single connection that could not be accepted.
    server.on('error', () => undefined)
    server.on('request', (_request, response) => response.writeHead(405, { connection: 'close' }).end())
    server.on('connect', (request, client, head) => this.#connect(request, client, head))
    const access = this.password().then(async (password) => {
      this.#password = password
      // A free port is this worker's own; by default, all workers get the same one.
      server.listen({ port, host, exclusive: port === 0 })
      await once(server, 'listening')
      const name = requestedAddress.slice(0, requestedAddress.lastIndexOf(':'))
      return { address: `${name}:${(server.address() as AddressInfo).port}`, password }
    })
    return { requestedAddress, server, access }
  }

  #connect(request: IncomingMessage, client: Duplex, head: Buffer): void {
    client.on('error', () => undefined)
    const username = this.#userOf(request)
    const target = hostAndPort.safeParse(request.url)
    if (username === undefined) {
      respond(client, '407 Proxy Authentication Required', 'Proxy-Authenticate: Basic\r\n')
      return
    }
    if (!target.success) {
      respond(client, '400 Bad Request')
      return
    }
    const fail = (error: unknown) => {
      const isRefused = isGatewayError(error, 'denied')
      if (isRefused) this.#refusals.set(username, error)
      respond(client, isRefused ? '403 Forbidden' : '502 Bad Gateway')
    }
    try {
      tunnel(client, head, this.guard.connect(splitAddress(target.data)), fail)
    } catch (error) {
      fail(error)
    }
  }

  /** The user name of the request; undefined without the correct password. */
  #userOf({ headers }: IncomingMessage): string | undefined {
    const [, encoded = ''] = /^Basic ([\w+/=]+)$/i.exec(headers['proxy-authorization'] ?? '') ?? []
    const credentials = Buffer.from(encoded, 'base64')
    const colon = credentials.indexOf(':')
    const [password, expected] = [credentials.subarray(colon + 1), Buffer.from(this.#password)]
    const isCorrect = colon > 0 && password.length === expected.length && timingSafeEqual(password, expected)
    return isCorrect ? credentials.toString('utf8', 0, colon) : undefined
  }
}

/** Connects the two sides. `fail` is called at most once, with the error, if the server cannot be reached. */
function tunnel(client: Duplex, head: Buffer, server: Socket, fail: (error: unknown) => void): void {
  let isConnected = false
  server.setTimeout(tunnelTimeout, () => server.destroy(new GatewayError('timeout')))
  server.on('error', (error) => {
    if (!isConnected) fail(error)
  })
  server.once('connect', () => {
    isConnected = true
    client.write('HTTP/1.1 200 Connection established\r\n\r\n')
    server.write(head)
    pipeline(client, server, () => undefined)
    pipeline(server, client, () => undefined)
  })
  // Either side may close, also before the tunnel is established.
  client.once('close', () => server.destroy())
  server.once('close', () => client.end())
}

function respond(client: Duplex, status: string, header = ''): void {
  client.end(`HTTP/1.1 ${status}\r\n${header}Connection: close\r\nContent-Length: 0\r\n\r\n`, () => client.destroy())
}
