/** Who sends the requests of HTTP connections, for those who ask who is connected. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { ClientConnection } from '../../src/gateway/connections.js'

/** `user`: undefined for a visitor of a share. */
export type RequestSender = Pick<ClientConnection, 'protocol' | 'user' | 'address'>

interface Call extends RequestSender {
  readonly request: IncomingMessage
  readonly since: number
  /** The bytes of the connection before the request. */
  readonly received: number
  readonly sent: number
}

/** The last call of each connection. */
const calls = new WeakMap<Socket, Call>()

/** Notes who sends a request. What is noted later of the same request takes its place. */
export function noteCaller(request: IncomingMessage, { protocol, user, address }: RequestSender): void {
  const { socket } = request
  const { bytesRead: received, bytesWritten: sent } = socket
  calls.set(socket, { request, protocol, user, address, since: Date.now(), received, sent })
}

/** The connection by which a request is being answered; undefined if nobody has noted who sends it. */
export function connectionOf(request: IncomingMessage): ClientConnection | undefined {
  const { socket } = request
  const call = calls.get(socket)
  if (call?.request !== request) return undefined
  const { protocol, user, address, since } = call
  return {
    key: request,
    ...{ protocol, user, address },
    since: new Date(since),
    received: socket.bytesRead - call.received,
    sent: socket.bytesWritten - call.sent,
    end: () => void socket.destroy(),
  }
}
