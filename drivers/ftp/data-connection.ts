/** The data connection of one file or listing: in passive mode, always to the host of the control connection. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { FTPError, type FTPContext } from 'basic-ftp'
import { GatewayError } from '../../src/base/errors.js'

/**
 * Milliseconds to connect, without progress until a transfer is considered stalled, and between two checks for that.
 */
const connectTimeout = 15_000
const stallTimeout = 60_000
const stallCheckInterval = 5_000

/** Whether the server supports EPSV (RFC 2428); undefined until it was tried. */
export interface PassiveMode {
  extended: boolean | undefined
}

interface DataConnection {
  readonly socket: Socket
  /**
   * Settles when the TLS handshake has completed; immediately without TLS. The server may start the handshake only
   * after the transfer command. The timeout starts with this call; when it expires, the socket is destroyed.
   */
  readonly secured: () => Promise<void>
}

/**
 * Requests a port with EPSV or PASV, and connects to it. The host in the reply to PASV is ignored: behind address
 * translation it is wrong, and a hostile server could redirect the connection to another host (CVE-2020-8284). `track`
 * is called with each socket as soon as it is created, so that it can be destroyed.
 */
export async function openDataConnection(
  control: FTPContext,
  passive: PassiveMode,
  track: (socket: Socket) => void,
): Promise<DataConnection> {
  const port = await passivePort(control, passive)
  const host = control.socket.remoteAddress
  if (host === undefined) throw new GatewayError('unavailable', { reason: 'the connection to the FTP server broke' })
  const socket = guarded(connect({ host, port, noDelay: true }))
  track(socket)
  const timer = setTimeout(() => {
    socket.destroy(new GatewayError('timeout', { reason: 'the data connection of the FTP server cannot be reached' }))
  }, connectTimeout)
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
  // Servers require the TLS session of the control connection, which proves that both connections are from the same
  // client (vsftpd.conf(5), require_ssl_reuse).
  const session = control.tlsSessionStore ?? control.socket.getSession()
  const secure = guarded(connectTls({ ...control.tlsOptions, socket, ...(session && { session }) }))
  track(secure)
  secure.on('session', (newer: Buffer) => (control.tlsSessionStore = newer))
  const handshake = new Promise<void>((resolve, reject) => {
    secure.once('secureConnect', resolve)
    secure.once('close', () => reject(new GatewayError('unavailable', { reason: 'the data connection broke' })))
    secure.once('error', reject)
  })
  handshake.catch(() => undefined) // reported to the caller of `secured`
  return { socket: secure, secured: () => withTimeout(handshake, secure) }
}

async function withTimeout(handshake: Promise<void>, socket: Socket): Promise<void> {
  const timer = setTimeout(() => {
    socket.destroy(new GatewayError('timeout', { reason: 'the FTP server does not secure the data connection' }))
  }, connectTimeout)
  try {
    await handshake
  } finally {
    clearTimeout(timer)
  }
}

/** An 'error' event without a listener ends the process. Transfers are notified of errors in other ways. */
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
 * Destroys the socket with `timeout` if the server stalls the transfer. Time during which `isIdle` returns true does
 * not count: the reader has paused, or there is nothing to send.
 */
export function destroyWhenStalled(socket: Socket, isIdle: () => boolean): void {
  let previousBytes = 0
  let stalledFor = 0
  const timer = setInterval(() => {
    const bytes = socket.bytesRead + socket.bytesWritten - socket.writableLength
    stalledFor = bytes === previousBytes && !isIdle() ? stalledFor + stallCheckInterval : 0
    previousBytes = bytes
    if (stalledFor >= stallTimeout) {
      socket.destroy(new GatewayError('timeout', { reason: 'the FTP server stalled the transfer' }))
    }
  }, stallCheckInterval)
  timer.unref()
  socket.once('close', () => clearInterval(timer))
}
