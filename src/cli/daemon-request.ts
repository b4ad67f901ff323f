/** Requests of commands to the HTTP API of a daemon on this machine. */
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { z } from 'zod'
import { connectThrough } from '../../protocols/lib/proxy-protocol.js'
import { GatewayError } from '../base/errors.js'
import type { Config } from '../installation/config.js'
import { lockHolderOf } from '../installation/data-folder.js'
import type { Settings } from '../settings/settings.js'

interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Milliseconds for the whole response. */
  readonly timeout: number
  /** The fields, which are sent as JSON by POST. Absent: the method is GET. */
  readonly fields?: object | undefined
}

/** Milliseconds for a storage or the daemon to answer. */
export const answerTimeout = 15_000

/**
 * The URL that the daemon has stored. `--http` is not used: another program may listen there and would receive the
 * token. Rejects with `unavailable`.
 */
export async function announcedUrl(folder: string): Promise<string> {
  const deadline = Date.now() + answerTimeout
  for (;;) {
    const holder = await lockHolderOf(folder)
    if (holder?.url !== undefined) return holder.url
    if (!holder) throw new GatewayError('unavailable', { reason: 'the process that served the data folder has ended' })
    if (Date.now() > deadline) {
      const reason = `process ${holder.pid} serves the data folder, but is not ready yet`
      throw new GatewayError('unavailable', { reason })
    }
    await pause(100)
  }
}

const envelope = z.object({ code: z.number(), message: z.string(), data: z.unknown() })

/**
 * Calls an endpoint of the daemon that serves the data folder, as its admin. Resolves to the `data` of the answer;
 * undefined if there is no such daemon. Rejects with `unavailable` for any error.
 */
export async function askDaemon({ config, settings }: DaemonOf, path: string, fields?: object): Promise<unknown> {
  if ((await lockHolderOf(config.data)) === undefined) return undefined
  const url = `${await announcedUrl(config.data)}${path}`
  const headers = { authorization: settings.get('token') }
  const { body } = await requestDaemon(config, url, { headers, fields, timeout: answerTimeout })
  const { code, message, data } = envelope.parse(JSON.parse(body))
  if (code !== 200) throw new GatewayError('unavailable', { reason: message })
  return data
}

interface DaemonOf {
  readonly config: Config
  readonly settings: Pick<Settings, 'get'>
}

/**
 * Resolves to the status and the body of the response. Rejects with `unavailable` if there is none in time.
 */
export async function requestDaemon(
  config: Pick<Config, 'proxy_protocol'>,
  url: string,
  { headers, timeout, fields }: RequestOptions,
): Promise<{ readonly status: number; readonly body: string }> {
  const signal = AbortSignal.timeout(timeout)
  try {
    const { hostname, host, port, pathname, search, protocol } = new URL(url)
    const isSecure = protocol === 'https:'
    const address = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (isSecure ? 443 : 80)) }
    const socket = await connectThrough(config.proxy_protocol, { ...address, signal })
    const createConnection = () => (isSecure ? overTls(socket) : socket)
    const body = fields && JSON.stringify(fields)
    const sent = { host, ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) }
    const method = body === undefined ? 'GET' : 'POST'
    const asked = httpRequest({ method, path: pathname + search, headers: sent, signal, createConnection }).end(body)
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
