/** Requests over HTTP to servers that users or admins have named: all pass the egress guard. */
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Egress } from '../contract/driver-env.js'
import { GatewayError } from '../base/errors.js'
import { version } from '../base/version.js'
import { connectionError } from './web-address.js'

export interface OutgoingRequest {
  readonly egress: Pick<Egress, 'agentFor'>
  readonly signal?: AbortSignal | undefined
  /** Default: GET. */
  readonly method?: string | undefined
  readonly headers?: OutgoingHttpHeaders | undefined
  readonly body?: string | undefined
  /** Milliseconds until the head of the response, or with `untilEnd` until its end. */
  readonly timeout: number
  readonly untilEnd?: boolean | undefined
}

/**
 * Sends one request. Redirects are not followed, and cookies, credentials and proxies are not used. The caller must
 * read or destroy the response. Rejects with a `GatewayError` if there is none.
 */
export async function sendRequest(
  url: URL,
  { egress, signal, method = 'GET', headers, body, timeout, untilEnd = false }: OutgoingRequest,
): Promise<IncomingMessage> {
  try {
    const outgoing = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method,
      agent: egress.agentFor(url),
      ...(signal && { signal }),
      headers: { 'user-agent': `tidegate/${version}`, ...headers },
    })
    const late = new GatewayError('timeout', { reason: 'the server does not answer in time' })
    const timer = setTimeout(() => outgoing.destroy(late), timeout)
    outgoing.once('close', () => clearTimeout(timer))
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve).on('error', reject).end(body)
      // Node drops an answer of 101 without an event of its own.
      outgoing.once('close', () => reject(new GatewayError('unavailable', { reason: 'the server sent no response' })))
    })
    if (!untilEnd) clearTimeout(timer)
    // The connection may fail before the caller reads the response.
    response.on('error', () => undefined)
    return response
  } catch (error) {
    throw connectionError(error)
  }
}

/** Milliseconds for all of a request, and bytes of its response. */
const fetchLimits = { time: 10_000, bytes: 1 << 20 }

/**
 * The function `fetch` for libraries, as far as they use it: it sends a text, and reads a response of at most 1 MiB
 * within ten seconds. Redirects are not followed.
 */
export function guardedFetch(egress: Pick<Egress, 'agentFor'>) {
  return async (address: string | URL, options: FetchOptions = {}): Promise<Response> => {
    const { method, headers, body, signal } = options
    const response = await sendRequest(new URL(address), {
      egress,
      signal: signal ?? undefined,
      method,
      headers: { 'accept-encoding': 'identity', ...Object.fromEntries(new Headers(headers)) },
      body: typeof body === 'string' || body instanceof URLSearchParams ? body.toString() : undefined,
      timeout: fetchLimits.time,
      untilEnd: true,
    })
    const status = response.statusCode ?? 0
    const content = await contentOf(response)
    const hasBody = ![101, 204, 205, 304].includes(status)
    const given = Object.entries(response.headers).map(([name, value]) => [name, String(value)] as [string, string])
    return new Response(hasBody ? content : null, { status, headers: given })
  }
}

interface FetchOptions {
  readonly method?: string | undefined
  readonly headers?: ConstructorParameters<typeof Headers>[0]
  readonly body?: unknown
  readonly signal?: AbortSignal | null | undefined
}

async function contentOf(response: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > fetchLimits.bytes) throw new GatewayError('too_large', { reason: 'the response is too large' })
      chunks.push(chunk)
    }
  } catch (error) {
    throw connectionError(error)
  }
  return new Uint8Array(Buffer.concat(chunks))
}
