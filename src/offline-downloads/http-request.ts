/**
 * GET requests to addresses that users enter. Every redirect passes the egress guard. No cookies, credentials or
 * proxies.
 */
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { Egress } from '../contract/driver-env.js'
import { GatewayError } from '../base/errors.js'
import { retryAfter } from '../base/retry-after.js'
import { locationText } from '../base/utf8.js'
import { sendRequest } from '../net/outgoing-request.js'
import { parseUrl } from '../net/web-address.js'

export interface OpenResponse {
  /** The URL after the last redirect. */
  readonly url: URL
  readonly response: IncomingMessage
}

interface RequestOptions {
  readonly egress: Egress
  readonly signal: AbortSignal
  /** Extra headers. They are sent at every redirect, to any host. */
  readonly headers?: Pick<OutgoingHttpHeaders, 'range' | 'if-range'>
  /** Milliseconds until the head of the final response, including all redirects. */
  readonly timeout?: number
}

const maxRedirects = 10
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const defaultTimeout = 60_000

/**
 * Sends the request and follows redirects. The caller must read or destroy the response. Rejects if the connection
 * fails, and for a response whose status is not in `accepted`.
 */
export async function get(
  address: URL,
  options: RequestOptions,
  accepted: readonly number[] = [200],
): Promise<OpenResponse> {
  const { timeout = defaultTimeout } = options
  const deadline = performance.now() + timeout
  let url = address
  for (let followed = 0; followed <= maxRedirects; followed += 1) {
    const response = await sendRequest(url, {
      egress: options.egress,
      signal: options.signal,
      // The bytes of the file are stored, so the server must not compress them.
      headers: { accept: '*/*', 'accept-encoding': 'identity', ...options.headers },
      timeout: deadline - performance.now(),
    })
    const status = response.statusCode ?? 0
    if (accepted.includes(status)) return { url, response }
    response.destroy()
    const { location } = response.headers
    if (!redirects.has(status) || location === undefined) throw errorForStatus(response)
    const next = parseUrl(locationText(location), url)
    if (!next) throw new GatewayError('invalid', { reason: 'the server redirects to an invalid address' })
    url = next
  }
  throw new GatewayError('invalid', { reason: `the server redirects more than ${maxRedirects} times` })
}

/** Converts a response with an unexpected status to an error. */
function errorForStatus({ statusCode: status = 0, headers }: IncomingMessage): GatewayError {
  const reason = `the server answers with status ${status}`
  const options = { reason, retryAfter: retryAfter(headers) }
  if (status === 404 || status === 410) return new GatewayError('not_found', { reason })
  if (status === 401 || status === 403) return new GatewayError('denied', { reason })
  if (status === 429) return new GatewayError('throttled', options)
  if (status >= 500) return new GatewayError('unavailable', options)
  return new GatewayError('invalid', { reason })
}
