/** Requests of commands to the HTTP API of a daemon on this machine. */
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import { connectThrough } from '../../protocols/lib/proxy-protocol.js'
import { GatewayError } from '../base/errors.js'
import type { Config } from '../installation/config.js'

interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Milliseconds for the whole response. */
  readonly timeout: number
}

/**
 * Resolves to the status and the body of the response to a GET. Rejects with `unavailable` if there is none in time.
 */
export async function requestDaemon(
  config: Pick<Config, 'proxy_protocol'>,
  url: string,
  { headers, timeout }: RequestOptions,
): Promise<{ readonly status: number; readonly body: string }> {
  const signal = AbortSignal.timeout(timeout)
  try {
    const { hostname, host, port, pathname, search, protocol } = new URL(url)
    const isSecure = protocol === 'https:'
    const address = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (isSecure ? 443 : 80)) }
    const socket = await connectThrough(config.proxy_protocol, { ...address, signal })
    const createConnection = () => (isSecure ? overTls(socket) : socket)
    const sent = { host, ...headers }
    const asked = httpRequest({ path: pathname + search, headers: sent, signal, createConnection }).end()
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, body: await text(response) }
  } catch (error) {
    throw new GatewayError('unavailable', { reason: 'the daemon does not answer in time', cause: error })
  }
}

/** The certificate is for the name by which clients know the server, which here is known by its address. */
export function overTls(socket: Socket): Socket {
  return connectTls({ socket, rejectUnauthorized: false })
}
