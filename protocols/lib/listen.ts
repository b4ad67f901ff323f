/** Servers of protocols, and listening on an address. */
import type { AddressInfo, Server } from 'node:net'
import type { KeyFingerprint } from '../../src/accounts/public-keys.js'
import type { ConnectionSource } from '../../src/gateway/connections.js'
import { readProxyHeaders, type ProxyHeaders } from './proxy-protocol.js'

export interface ListenOptions {
  readonly host: string
  /** The port; 0: any free one. */
  readonly port: number
  /** Absent: no connection begins with a PROXY header. */
  readonly proxied?: ProxyHeaders
}

/** The server of a protocol, or of several that share an address. */
export interface ProtocolServer extends ConnectionSource {
  /** Fingerprints of the keys by which clients recognize the server. Absent: its protocol has none. */
  readonly fingerprints?: readonly KeyFingerprint[]
  /**
   * Starts listening. Resolves to the bound address, `HOST:PORT`. Rejects with the system's error, such as EADDRINUSE.
   */
  start(): Promise<string>
  /**
   * Accepts nothing new, waits for running requests until the signal aborts, and resolves when every connection is
   * closed.
   */
  stop(signal: AbortSignal): Promise<void>
}

/** Resolves to the bound address, `HOST:PORT`, once the server accepts connections. Rejects with the system's error. */
export async function listen(server: Server, { host, port, proxied }: ListenOptions): Promise<string> {
  if (proxied) readProxyHeaders(server, proxied)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const { address, family, port: bound } = server.address() as AddressInfo
  return family === 'IPv6' ? `[${address}]:${bound}` : `${address}:${bound}`
}
