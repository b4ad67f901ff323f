/**
 * The guarded way out for programs that connect by themselves: a proxy that connects where the guard lets it, for whoever has its
 * password. It makes tunnels alone (CONNECT, RFC 9110 §9.3.6): a host that is named in one of them, by a redirect for instance, is
 * reached by the next, and judged as well.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { pipeline, type Duplex } from 'node:stream'
import { hostAndPort, splitAddress } from './config.js'
import type { EgressGuard } from './egress.js'
import { GatewayError, isGatewayError } from './errors.js'

/** Connections of programs. */
const mostConnections = 256
/** Milliseconds until it must have said what it wants. */
const headPatience = 10_000
/** Milliseconds until a connection stands, and between two bytes in it. */
const tunnelPatience = 120_000

/** What a program has to be told, and a user name of its own by which `takeRefusal` tells what it was refused. */
export interface ProxyAccess {
  /** `HOST:PORT` */
  readonly address: string
  readonly password: string
}

interface Listening {
  readonly wanted: string
  readonly server: Server
  readonly access: Promise<ProxyAccess>
}

export class EgressProxy {
  readonly #password = randomBytes(24).toString('base64url')
  readonly #connections = new Set<Socket>()
  readonly #refusals = new Map<string, GatewayError>()
  #listening: Listening | undefined

  constructor(private readonly guard: EgressGuard) {}

  /**
   * Listens at `HOST:PORT`, port 0 for a free one, unless it does so already; what it listened at before is given up. Rejects with
   * `unavailable` where it cannot.
   */
  async open(wanted: string): Promise<ProxyAccess> {
    if (this.#listening?.wanted !== wanted) {
      this.close()
      this.#listening = this.#listen(wanted)
    }
    const listening = this.#listening
    try {
      return await listening.access
    } catch (error) {
      if (this.#listening === listening) this.#listening = undefined
      const reason = `the proxy for programs cannot listen on ${wanted}: ${(error as Error).message}`
      throw new GatewayError('unavailable', { reason, cause: error })
    }
  }

  /** Why this user was not let through lately, if so; it is told once. */
  takeRefusal(username: string): GatewayError | undefined {
    const refusal = this.#refusals.get(username)
    this.#refusals.delete(username)
    return refusal
  }

  /** Ends every tunnel too. */
  close(): void {
    const { access, server } = this.#listening ?? {}
    this.#listening = undefined
    access?.then(
      () => server?.close(),
      () => undefined,
    )
    for (const connection of this.#connections) connection.destroy()
  }

  #listen(wanted: string): Listening {
    const { host, port } = splitAddress(wanted)
    const server = createServer({ headersTimeout: headPatience, connectionsCheckingInterval: headPatience / 2 })
    server.maxConnections = mostConnections
    server.on('connection', (socket: Socket) => {
      this.#connections.add(socket)
      socket.once('close', () => this.#connections.delete(socket))
    })
    // One of these is about one connection that could not be taken; those of listening are told by `access`.
    server.on('error', () => undefined)
    server.on('request', (_request, answer) => answer.writeHead(405, { connection: 'close' }).end())
    server.on('connect', (request, client, head) => this.#connect(request, client, head))
    server.listen(port, host)
    const access = once(server, 'listening').then(() => ({
      address: `${wanted.slice(0, wanted.lastIndexOf(':'))}:${(server.address() as AddressInfo).port}`,
      password: this.#password,
    }))
    return { wanted, server, access }
  }

  #connect(request: IncomingMessage, client: Duplex, head: Buffer): void {
    client.on('error', () => undefined)
    const username = this.#userOf(request)
    const target = hostAndPort.safeParse(request.url)
    if (username === undefined) {
      answerWith(client, '407 Proxy Authentication Required', 'Proxy-Authenticate: Basic\r\n')
      return
    }
    if (!target.success) {
      answerWith(client, '400 Bad Request')
      return
    }
    const fail = (error: unknown) => {
      const isRefused = isGatewayError(error, 'denied')
      if (isRefused) this.#refusals.set(username, error)
      answerWith(client, isRefused ? '403 Forbidden' : '502 Bad Gateway')
    }
    try {
      tunnel(client, head, this.guard.connect(splitAddress(target.data)), fail)
    } catch (error) {
      fail(error)
    }
  }

  /** Undefined for whoever does not have the password. */
  #userOf({ headers }: IncomingMessage): string | undefined {
    const [, encoded = ''] = /^Basic ([\w+/=]+)$/i.exec(headers['proxy-authorization'] ?? '') ?? []
    const credentials = Buffer.from(encoded, 'base64')
    const colon = credentials.indexOf(':')
    const [given, expected] = [credentials.subarray(colon + 1), Buffer.from(this.#password)]
    const isKnown = colon > 0 && given.length === expected.length && timingSafeEqual(given, expected)
    return isKnown ? credentials.toString('utf8', 0, colon) : undefined
  }
}

/** `fail` is told, at most once, why there is none. */
function tunnel(client: Duplex, head: Buffer, server: Socket, fail: (error: unknown) => void): void {
  let stands = false
  server.setTimeout(tunnelPatience, () => server.destroy(new GatewayError('timeout')))
  server.on('error', (error) => {
    if (!stands) fail(error)
  })
  server.once('connect', () => {
    stands = true
    client.write('HTTP/1.1 200 Connection established\r\n\r\n')
    server.write(head)
    pipeline(client, server, () => undefined)
    pipeline(server, client, () => undefined)
  })
  // Either may go before there is a tunnel, or in the middle of it.
  client.once('close', () => server.destroy())
  server.once('close', () => client.end())
}

function answerWith(client: Duplex, status: string, header = ''): void {
  client.end(`HTTP/1.1 ${status}\r\n${header}Connection: close\r\nContent-Length: 0\r\n\r\n`, () => client.destroy())
}
