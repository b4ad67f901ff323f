/** The SFTP server: accepts connections, limits their number and shuts them down gracefully. */
import { createServer, type Socket } from 'node:net'
import { totalmem } from 'node:os'
import { fingerprintOf } from '../../src/accounts/public-keys.js'
import { settlesWithin } from '../../src/base/cancellation.js'
import { FairShare } from '../../src/base/fair-share.js'
import { networkOf } from '../../src/net/addresses.js'
import { ClientConnections } from '../lib/client-connections.js'
import { listen, type ListenOptions, type ProtocolServer } from '../lib/listen.js'
import { hostKeyOffers, usesNativeCiphers } from './algorithms.js'
import { ByteBudget } from './byte-budget.js'
import { SftpConnection, type SftpGateway } from './connection.js'
import { KeyExchanges, type KeyExchangeLimits } from './key-exchanges.js'
import { parseHostKey } from './host-keys.js'
import { partialPublishTimeout } from './session.js'

/** Timeout in milliseconds for publishing and closing the files of ended connections during `stop`. */
const closeTimeout = partialPublishTimeout + 5000

export interface SftpLimits {
  /** Maximum number of connections. One user has at most half of them. */
  readonly connections: number
  /** Maximum number of connections that have not signed in yet. */
  readonly unauthenticated: number
  /** Key exchanges of new connections, of each network; and of those that exchange their keys anew, of each user. */
  readonly keyExchanges: KeyExchangeLimits
  /** Maximum number of channels per connection. */
  readonly sessions: number
  /** Maximum number of open files and folders per channel. */
  readonly handles: number
  /** Bytes that the sessions of all connections share for pending requests and responses. */
  readonly bytes: number
  /**
   * Bytes that all sessions together have received and not read, and have not sent yet. One user has at most half of
   * them.
   */
  readonly heldBytes: number
  /** Timeout for sign-in, in seconds. */
  readonly loginSeconds: number
  /** Idle timeout of a connection, in seconds; 0: none. */
  readonly idleSeconds: number
  /** Interval between keepalive requests, in seconds. The connection ends after three without a reply. */
  readonly keepaliveSeconds: number
}

const defaultLimits: SftpLimits = {
  connections: 1024,
  unauthenticated: 128,
  keyExchanges: { burst: 128, perSecond: 20 },
  sessions: 10,
  handles: 1024,
  bytes: 8 * 1024 * 1024,
  heldBytes: Math.max(256 * 1024 * 1024, Math.min(totalmem(), process.constrainedMemory() || Infinity) / 4),
  loginSeconds: 120,
  idleSeconds: 24 * 3600,
  keepaliveSeconds: 30,
}

interface SftpServerOptions extends ListenOptions {
  /** Private keys in PEM or OpenSSH format, at most one of each type. */
  readonly hostKeys: readonly string[]
  readonly limits?: Partial<SftpLimits>
  /** Clients of this name are refused: they are storages of this gateway. */
  readonly pseudonym?: string
}

export function sftpServer(
  gateway: SftpGateway,
  { hostKeys, limits: overrides, pseudonym, ...at }: SftpServerOptions,
): ProtocolServer {
  const parsedKeys = hostKeys.map((text) => parseHostKey(text, 'a host key'))
  const keys = parsedKeys.flatMap(hostKeyOffers)
  const limits = { ...defaultLimits, ...overrides }
  const budget = new ByteBudget(limits.bytes)
  const held = new FairShare(limits.heldBytes)
  const accepting = new ClientConnections(gateway.descriptors, gateway.log, 'sftp')
  const keyExchanges = new KeyExchanges(limits.keyExchanges)
  const rekeys = new KeyExchanges(limits.keyExchanges)
  const connections = new Map<Socket, SftpConnection>()
  /** The connections that have signed in, by user. */
  const signedIn = new FairShare(limits.connections)
  /** Ended connections whose files are not closed yet. */
  const closing = new Set<SftpConnection>()
  // Without noDelay, a small response would wait for the client's next acknowledgment.
  const server = createServer({ noDelay: true, keepAlive: true }, (socket) => {
    if (!accepting.accept(socket)) return
    const unauthenticated = [...connections].filter(([, connection]) => !connection.signedIn)
    const isFull = unauthenticated.length >= limits.unauthenticated
    const evicted = isFull ? whichGivesWay(unauthenticated, socket) : undefined
    if (isFull) gateway.log.warn({ protocol: 'sftp' }, 'too many unauthenticated SFTP connections')
    if (evicted === socket) {
      socket.destroy()
      return
    }
    if (connections.size - (evicted ? 1 : 0) >= limits.connections) {
      gateway.log.warn({ protocol: 'sftp' }, 'too many SFTP connections')
      socket.destroy()
      return
    }
    const turn = keyExchanges.reserve(socket.remoteAddress ?? '')
    if (turn === undefined) {
      gateway.log.debug(
        { protocol: 'sftp', address: socket.remoteAddress },
        'too many new SFTP connections of a network',
      )
      socket.destroy()
      return
    }
    if (evicted) {
      connections.delete(evicted)
      evicted.destroy()
    }
    const connection = new SftpConnection(gateway, socket, {
      hostKeys: keys,
      limits,
      budget,
      held,
      signedIn,
      pseudonym,
      rekeys,
      turn,
    })
    connections.set(socket, connection)
    socket.once('close', () => {
      connections.delete(socket)
      closing.add(connection)
      void connection.filesClosed().then(() => closing.delete(connection))
    })
  })

  return {
    fingerprints: parsedKeys.map((key) => ({ type: key.type, fingerprint: fingerprintOf(key.getPublicSSH()) })),

    *connections() {
      for (const { shown } of connections.values()) if (shown) yield shown
    },

    async start() {
      const address = await listen(server, at)
      server.on('error', (error) => gateway.log.error({ protocol: 'sftp', err: error }, 'SFTP server error'))
      if (!usesNativeCiphers()) {
        const facts = { protocol: 'sftp', node: process.version }
        gateway.log.warn(facts, 'SFTP encrypts in JavaScript: ssh2 has no native part for this version of Node.js')
      }
      return address
    },

    async stop(signal) {
      const atStop = [...connections.values(), ...closing]
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      const endAll = () => {
        for (const connection of connections.values()) connection.end()
      }
      for (const connection of connections.values()) connection.drain()
      if (signal.aborted) endAll()
      else signal.addEventListener('abort', endAll, { once: true })
      await closed
      const filesClosed = Promise.all(atStop.map((connection) => connection.filesClosed()))
      if (!(await settlesWithin(filesClosed, closeTimeout))) {
        gateway.log.warn({ protocol: 'sftp' }, 'timed out closing the files of ended SFTP connections')
      }
      signal.removeEventListener('abort', endAll)
    },
  }
}

/**
 * The socket that is closed for a new one, or the new one itself. It is one of the network that has the most sockets,
 * so that a flood evicts its own. If the new one is of another network, it is the last whose key exchange has not
 * begun, or otherwise the oldest. If it is of that network, it is one that is late, so that the others of a burst sign
 * in.
 */
function whichGivesWay(unauthenticated: readonly (readonly [Socket, SftpConnection])[], added: Socket): Socket {
  const all = new Map(unauthenticated)
  const networks = new Map<string, Socket[]>()
  for (const socket of [...all.keys(), added]) {
    const network = networkOf(socket.remoteAddress ?? '')
    const members = networks.get(network)
    if (members) members.push(socket)
    else networks.set(network, [socket])
  }
  let largest: readonly Socket[] = []
  for (const members of networks.values()) if (members.length > largest.length) largest = members
  if (largest.includes(added)) return largest.find((socket) => all.get(socket)?.isLate === true) ?? added
  return largest.findLast((socket) => all.get(socket)?.isWaiting === true) ?? largest[0] ?? added
}
