/** The SFTP server: listens, bounds how many connections there are, and lets them end in order. */
import { createServer, type AddressInfo, type Socket } from 'node:net'
import ssh2, { type ParsedKey } from 'ssh2'
import { networkOf } from '../../src/accounts/networks.js'
import { settlesWithin } from '../../src/aborting.js'
import { GatewayError } from '../../src/errors.js'
import type { Gateway } from '../../src/gateway.js'
import { hostKeyOffers } from './algorithms.js'
import { ByteBudget } from './byte-budget.js'
import { SftpConnection } from './connection.js'

/** Milliseconds that a stop waits for files of connections that have ended. */
const settleTime = 5000

export interface SftpLimits {
  /** Connections at once. */
  readonly connections: number
  /** Among them, those that have not signed in yet. */
  readonly strangers: number
  /** Channels of one connection. */
  readonly sessions: number
  /** Open files and folders of one channel. */
  readonly handles: number
  /** Bytes that the sessions of all connections share for requests and answers. */
  readonly bytes: number
  /** Seconds a client has to sign in. */
  readonly loginSeconds: number
  /** Seconds without a request after which a connection ends; 0: never. */
  readonly idleSeconds: number
  /** Seconds between questions whether the client is still there; it is given up after three. */
  readonly keepaliveSeconds: number
}

export const defaultLimits: SftpLimits = {
  connections: 1024,
  strangers: 128,
  sessions: 10,
  handles: 1024,
  bytes: 8 * 1024 * 1024,
  loginSeconds: 120,
  idleSeconds: 24 * 3600,
  keepaliveSeconds: 30,
}

export interface SftpDoorOptions {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
  /** Private keys as PEM or in OpenSSH's format; one of each type. */
  readonly hostKeys: readonly string[]
  readonly limits?: Partial<SftpLimits>
}

export interface SftpDoor {
  /** Resolves once connections are accepted, to `host:port`. */
  start(): Promise<{ readonly address: string }>
  /** Accepts nothing more, waits until no file is open, at the latest until `signal` aborts, and ends all connections. */
  stop(signal: AbortSignal): Promise<void>
}

export function sftpDoor(gateway: Gateway, { host, port, hostKeys, limits: asked }: SftpDoorOptions): SftpDoor {
  const keys = hostKeys.map(parseHostKey).flatMap(hostKeyOffers)
  const limits = { ...defaultLimits, ...asked }
  const budget = new ByteBudget(limits.bytes)
  const connections = new Map<Socket, SftpConnection>()
  // Without noDelay every small answer would wait for the client's next acknowledgement.
  const server = createServer({ noDelay: true, keepAlive: true }, (socket) => {
    const strangers = [...connections].flatMap(([each, connection]) => (connection.signedIn ? [] : [each]))
    if (strangers.length >= limits.strangers) {
      gateway.log.warn({ door: 'sftp' }, 'too many SFTP connections that have not signed in')
      const intruder = oldestOfMost(strangers)
      if (intruder) {
        connections.delete(intruder)
        intruder.destroy()
      }
    }
    if (connections.size >= limits.connections) {
      gateway.log.warn({ door: 'sftp' }, 'too many SFTP connections at once')
      socket.destroy()
      return
    }
    connections.set(socket, new SftpConnection(gateway, socket, keys, limits, budget))
    socket.once('close', () => connections.delete(socket))
  })
  server.on('error', (error) => gateway.log.error({ door: 'sftp', err: error }, 'the SFTP server failed'))

  return {
    async start() {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(port, host, () => {
          server.off('error', reject)
          resolve()
        })
      })
      const { address, family, port: bound } = server.address() as AddressInfo
      return { address: family === 'IPv6' ? `[${address}]:${bound}` : `${address}:${bound}` }
    },

    async stop(signal) {
      const last = [...connections.values()]
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      const endAll = () => {
        for (const connection of connections.values()) connection.end()
      }
      for (const connection of connections.values()) connection.drain()
      if (signal.aborted) endAll()
      else signal.addEventListener('abort', endAll, { once: true })
      await closed
      const settled = Promise.all(last.map((connection) => connection.settled()))
      if (!(await settlesWithin(settled, settleTime))) {
        gateway.log.warn({ door: 'sftp' }, 'files of ended connections did not close in time')
      }
      signal.removeEventListener('abort', endAll)
    },
  }
}

/** Of the network that holds the most of these, the first: a flood makes room for others at its own cost. */
function oldestOfMost(sockets: readonly Socket[]): Socket | undefined {
  const networks = new Map<string, Socket[]>()
  for (const socket of sockets) {
    const network = networkOf(socket.remoteAddress ?? '')
    networks.set(network, [...(networks.get(network) ?? []), socket])
  }
  let most: readonly Socket[] = []
  for (const members of networks.values()) if (members.length > most.length) most = members
  return most[0]
}

function parseHostKey(text: string): ParsedKey {
  const parsed: unknown = ssh2.utils.parseKey(text)
  const key = (Array.isArray(parsed) ? parsed[0] : parsed) as ParsedKey | Error
  if (key instanceof Error) throw new GatewayError('invalid', { reason: `a host key cannot be used: ${key.message}` })
  return key
}
