/** The connection that carries one file or one listing: passive, always to the host of the control connection. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { FTPError, type FTPContext } from 'basic-ftp'
import { GatewayError } from '../../src/errors.js'

/** Milliseconds. */
const connectLimit = 15_000
const stallLimit = 60_000
const stallCheck = 5_000

/** Whether the server knows EPSV (RFC 2428); undefined until it was asked. */
export interface PassiveMode {
  extended: boolean | undefined
}

export interface DataConnection {
  readonly socket: Socket
  /**
   * Settles when the server has shown who it is; at once without TLS. It may begin with that only when it was told what to transfer:
   * from this call on it has as long for it as for connecting, and the socket is destroyed after that.
   */
  readonly secured: () => Promise<void>
}

/**
 * Asks for a port and connects to it. The host that PASV names is not looked at: behind address translation it is wrong,
 * and a hostile server would send us to somebody else with it. `hold` is told of each socket as soon as it is made, to destroy it.
 */
export async function openDataConnection(
  control: FTPContext,
  passive: PassiveMode,
  hold: (socket: Socket) => void,
): Promise<DataConnection> {
  const port = await passivePort(control, passive)
  const host = control.socket.remoteAddress
  if (host === undefined) throw new GatewayError('unavailable', { reason: 'the connection to the FTP server broke' })
  const socket = guarded(connect({ host, port, noDelay: true }))
  hold(socket)
  const timer = setTimeout(() => {
    socket.destroy(new GatewayError('timeout', { reason: 'the data connection of the FTP server cannot be reached' }))
  }, connectLimit)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if (error instanceof GatewayError) throw error
    throw new GatewayError('unavailable', {
      reason: 'the data connection of the FTP server cannot be reached',
      cause: error,
    })
  } finally {
    clearTimeout(timer)
  }
  if (!(control.socket instanceof TLSSocket)) return { socket, secured: () => Promise.resolve() }
  // Servers want the session of the control connection resumed: nobody else can then have taken the port.
  const session = control.tlsSessionStore ?? control.socket.getSession()
  const secure = guarded(connectTls({ ...control.tlsOptions, socket, ...(session && { session }) }))
  hold(secure)
  secure.on('session', (newer: Buffer) => (control.tlsSessionStore = newer))
  const handshake = new Promise<void>((resolve, reject) => {
    secure.once('secureConnect', resolve)
    secure.once('close', () => reject(new GatewayError('unavailable', { reason: 'the data connection broke' })))
    secure.once('error', reject)
  })
  handshake.catch(() => undefined) // told to who waits for it
  return { socket: secure, secured: () => inTime(handshake, secure) }
}

async function inTime(handshake: Promise<void>, socket: Socket): Promise<void> {
  const timer = setTimeout(() => {
    socket.destroy(new GatewayError('timeout', { reason: 'the FTP server does not secure the data connection' }))
  }, connectLimit)
  try {
    await handshake
  } finally {
    clearTimeout(timer)
  }
}

/** An error that nobody listens for ends the process; who transfers hears of it in other ways. */
function guarded<S extends Socket>(socket: S): S {
  return socket.on('error', () => undefined)
}

async function passivePort(control: FTPContext, passive: PassiveMode): Promise<number> {
  if (passive.extended !== false) {
    try {
      const { message } = await control.request('EPSV')
      const port = Number(/[|!]{3}(\d{1,5})[|!]/.exec(message)?.[1])
      if (port > 0) {
        passive.extended = true
        return port
      }
    } catch (error) {
      if (!(error instanceof FTPError) || passive.extended === true) throw error
    }
    passive.extended = false
  }
  const { message } = await control.request('PASV')
  const [, high, low] = /(?<!\d)(?:\d{1,3},){4}(\d{1,3}),(\d{1,3})(?!\d)/.exec(message) ?? []
  if (high === undefined || low === undefined) {
    throw new GatewayError('unavailable', { reason: 'the FTP server offers no data connection' })
  }
  return Number(high) * 256 + Number(low)
}

/**
 * Breaks the connection where the server lets it stand still. Time in which nobody here reads, or has anything to send, does not
 * count; `isOurTurn` tells.
 */
export function breakWhenStalled(socket: Socket, isOurTurn: () => boolean): void {
  let before = 0
  let still = 0
  const timer = setInterval(() => {
    const bytes = socket.bytesRead + socket.bytesWritten - socket.writableLength
    still = bytes === before && !isOurTurn() ? still + stallCheck : 0
    before = bytes
    if (still >= stallLimit) {
      socket.destroy(new GatewayError('timeout', { reason: 'the FTP server let the transfer stand still' }))
    }
  }, stallCheck)
  timer.unref()
  socket.once('close', () => clearInterval(timer))
}
