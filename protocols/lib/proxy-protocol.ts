/**
 * The PROXY protocol, versions 1 and 2 (haproxy.org/download/2.9/doc/proxy-protocol.txt): a proxy that forwards TCP
 * connections sends the address of the client first.
 */
import { once } from 'node:events'
import { BlockList, connect, isIP, SocketAddress, type Server, type Socket } from 'node:net'
import type { Log } from '../../src/base/log.js'
import { isWithinNetworks } from '../../src/net/addresses.js'

/** The proxies that send a header, and where invalid ones are logged. */
export interface ProxyHeaders {
  readonly proxies: BlockList
  readonly log: Log
}

/** Milliseconds until a connection without a complete header is closed. */
const headerTimeout = 5000

/** Maximum number of bytes of a header. The addresses of version 2 take at most 232; vectors (TLV) follow them. */
const maxHeaderLength = 4096

/** The longest header of version 1, with its line end (§2.1). */
const maxLineLength = 107

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const lineStart = Buffer.from('PROXY ')

/** Bytes of the signature, the command, the family, and the length of the rest (§2.2). */
const fixedLength = 16

/** A header, its length in bytes, and the address of the client; undefined if that is the address of the connection. */
interface Header {
  readonly length: number
  readonly client: string | undefined
}

/**
 * Lets a server see connections from these proxies only after their header, with the address of the client as
 * `remoteAddress`, also of the socket within TLS. Connections whose header is invalid or late are closed. All others
 * are untouched. To be called when the server has its listeners of `connection`.
 */
export function readProxyHeaders(server: Server, { proxies, log }: ProxyHeaders): void {
  if (proxies.rules.length === 0) return
  const listeners = server.listeners('connection') as ((socket: Socket) => void)[]
  const accept = (socket: Socket) => {
    for (const listener of listeners) listener.call(server, socket)
  }
  /** The clients of connections of a TLS server, by the other end. */
  const clients = new Map<string, string | undefined>()
  server.prependListener('secureConnection', (secure: Socket) => {
    const client = clients.get(endOf(secure))
    if (client !== undefined) setRemoteAddress(secure, client)
  })
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const proxy = socket.remoteAddress
    if (!isWithinNetworks(proxies, proxy ?? '')) {
      accept(socket)
      return
    }
    const end = endOf(socket)
    readHeader(socket, (failure) => {
      if (failure) {
        log.warn({ proxy, reason: failure.message }, 'a connection of a proxy was closed')
        return
      }
      clients.set(end, socket.remoteAddress)
      socket.once('close', () => clients.delete(end))
      accept(socket)
    })
  })
}

function endOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

function setRemoteAddress(socket: Socket, value: string): void {
  Object.defineProperty(socket, 'remoteAddress', { value, configurable: true })
}

/**
 * Connects to a server that reads the headers of these proxies, also where this machine is one of them. Resolves when
 * the connection is open. Rejects with the system's error, and with that of the signal.
 */
export async function connectThrough(
  proxies: BlockList,
  { host, port, signal }: { readonly host: string; readonly port: number; readonly signal: AbortSignal },
): Promise<Socket> {
  const socket = connect({ host, port })
  try {
    await once(socket, 'connect', { signal })
  } catch (error) {
    socket.destroy()
    throw error
  }
  // The address by which the server knows this machine.
  if (isWithinNetworks(proxies, socket.localAddress ?? '')) socket.write('PROXY UNKNOWN\r\n')
  return socket
}

/** Calls `done` when the header has been read from the socket, or with the reason why the socket is destroyed. */
function readHeader(socket: Socket, done: (failure?: Error) => void): void {
  let received = Buffer.alloc(0)
  const end = (failure?: Error) => {
    clearTimeout(timer)
    socket.off('data', onData).off('error', onError).off('close', onClose)
    if (failure) {
      socket.on('error', () => undefined)
      socket.destroy()
    }
    done(failure)
  }
  const onData = (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    let header: Header | undefined
    try {
      header = parseHeader(received)
    } catch (error) {
      end(error as Error)
      return
    }
    if (!header) return
    const { length, client } = header
    if (client !== undefined) setRemoteAddress(socket, client)
    socket.pause()
    if (received.length > length) socket.unshift(received.subarray(length))
    end()
    // A server that listens later resumes the socket then.
    if (socket.listenerCount('data') > 0) socket.resume()
  }
  const onError = (error: Error) => end(error)
  const onClose = () => end(new Error('it ended before its PROXY header'))
  const timer = setTimeout(() => end(new Error('it sent no PROXY header in time')), headerTimeout)
  socket.on('data', onData).on('error', onError).on('close', onClose)
}

/**
 * Parses the header at the beginning of `bytes`; undefined if it is not complete. Throws if `bytes` begin with anything
 * else.
 */
export function parseHeader(bytes: Buffer): Header | undefined {
  if (startsLike(bytes, signature)) return parseBinary(bytes)
  if (startsLike(bytes, lineStart)) return parseLine(bytes)
  throw new Error('it did not begin with a PROXY header')
}

/** Whether `bytes` begin with `start`, as far as they go. */
function startsLike(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length)
  return bytes.subarray(0, length).equals(start.subarray(0, length))
}

/** Version 1 (§2.1). */
function parseLine(bytes: Buffer): Header | undefined {
  const end = bytes.subarray(0, maxLineLength).indexOf('\r\n')
  if (end < 0) {
    if (bytes.length < maxLineLength) return undefined
    throw new Error('its PROXY header is too long')
  }
  const [, family = '', client = '', ...rest] = bytes.toString('latin1', 0, end).split(' ')
  const length = end + 2
  if (family === 'UNKNOWN') return { length, client: undefined }
  const version = { TCP4: 4, TCP6: 6 }[family]
  if (version === undefined || isIP(client) !== version || rest.length !== 3) {
    throw new Error('its PROXY header is invalid')
  }
  return { length, client }
}

/** Version 2 (§2.2). */
function parseBinary(bytes: Buffer): Header | undefined {
  if (bytes.length < fixedLength) return undefined
  const [version, command] = [bytes.readUInt8(12) >> 4, bytes.readUInt8(12) & 15]
  const length = fixedLength + bytes.readUInt16BE(14)
  if (version !== 2 || command > 1 || length > maxHeaderLength) throw new Error('its PROXY header is invalid')
  if (bytes.length < length) return undefined
  // LOCAL: the proxy itself, for example a health check.
  const family = command === 0 ? 0 : bytes.readUInt8(13)
  const addresses = bytes.subarray(fixedLength, length)
  if (family === 0x11 && addresses.length >= 12) return { length, client: addresses.subarray(0, 4).join('.') }
  if (family === 0x21 && addresses.length >= 36) return { length, client: ipv6Of(addresses.subarray(0, 16)) }
  // The address is not known for other families (§2.2: the receiver must accept them).
  if (family === 0x11 || family === 0x21) throw new Error('its PROXY header is invalid')
  return { length, client: undefined }
}

/** The text of an IPv6 address (RFC 5952). */
function ipv6Of(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(2 * index).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}
