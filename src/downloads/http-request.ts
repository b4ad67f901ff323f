/** GET requests to addresses that users name: guarded at every redirect, without cookies, credentials or proxies. */
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Egress } from '../driver.js'
import { GatewayError, isGatewayError, toGatewayError, type ErrorCode } from '../errors.js'
import { version } from '../version.js'

export interface Answer {
  /** Where the last redirect led to. */
  readonly url: URL
  readonly response: IncomingMessage
}

export interface RequestOptions {
  readonly egress: Egress
  readonly signal: AbortSignal
  /** These alone: they are sent again at every redirect, whatever the host. */
  readonly headers?: Pick<OutgoingHttpHeaders, 'range' | 'if-range'>
  /** Milliseconds until an answer must have begun, with all redirects on the way to it. */
  readonly patience?: number
}

const mostRedirects = 10
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const usualPatience = 60_000

/** The address as a URL of http or https without credentials; rejects with `invalid` for any other text. */
export function webAddress(text: string): URL {
  const url = parsedUrl(text)
  if (!url) throw new GatewayError('invalid', { reason: 'this is no address' })
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new GatewayError('invalid', { reason: 'only addresses of http and https can be fetched' })
  }
  assertNoCredentials(url)
  return url
}

/** Undefined for what is no address. */
export function parsedUrl(text: string, base?: URL): URL | undefined {
  return URL.canParse(text, base?.href) ? new URL(text, base) : undefined
}

/** They would be told to whoever sees the task, and to whoever is redirected to. */
export function assertNoCredentials({ username, password }: URL): void {
  if (username === '' && password === '') return
  throw new GatewayError('invalid', { reason: 'an address to be fetched cannot hold a user name or password' })
}

/**
 * Asks, following redirects. The caller reads the response or destroys it. Rejects with what kept an answer from coming; an answer
 * that is no success is one of those unless its status is among `accepted`.
 */
export async function get(address: URL, options: RequestOptions, accepted: readonly number[] = [200]): Promise<Answer> {
  const { patience = usualPatience } = options
  const until = performance.now() + patience
  let url = address
  for (let followed = 0; followed <= mostRedirects; followed += 1) {
    const response = await askOnce(url, options, until - performance.now())
    const status = response.statusCode ?? 0
    if (accepted.includes(status)) return { url, response }
    response.destroy()
    const { location } = response.headers
    if (!redirects.has(status) || location === undefined) throw refusedBy(response)
    const next = parsedUrl(location, url)
    if (!next) throw new GatewayError('invalid', { reason: 'the server redirects to what is no address' })
    url = next
  }
  throw new GatewayError('invalid', { reason: `the server redirects more than ${mostRedirects} times` })
}

/** `patience`: milliseconds until the whole head of the answer must have come. */
function askOnce(url: URL, { egress, signal, headers }: RequestOptions, patience: number) {
  return new Promise<IncomingMessage>((resolve, reject) => {
    const agent = egress.agentFor(url)
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const asked = send(url, {
      agent,
      signal,
      // What is stored are the bytes of the file, not of a compressed form of it.
      headers: { 'user-agent': `tidegate/${version}`, accept: '*/*', 'accept-encoding': 'identity', ...headers },
    })
    const late = setTimeout(() => {
      asked.destroy(new GatewayError('timeout', { reason: 'the server does not answer in time' }))
    }, patience)
    asked.once('response', (response) => {
      clearTimeout(late)
      // It may break before somebody reads it.
      response.on('error', () => undefined)
      resolve(response)
    })
    asked.on('error', (error) => {
      clearTimeout(late)
      reject(connectionFailure(error))
    })
    asked.end()
  }).catch((error: unknown) => {
    throw connectionFailure(error)
  })
}

/** What a connection ended with. */
export function connectionFailure(error: unknown): GatewayError {
  if (isGatewayError(error)) return error
  const known = toGatewayError(error)
  if (known.code !== 'internal') return known
  const { code = 'unknown' } = error as NodeJS.ErrnoException
  const told = (to: ErrorCode, reason: string) => new GatewayError(to, { reason, cause: error })
  if (code === 'ENOTFOUND') return told('not_found', 'there is no host of this name')
  if (code.startsWith('HPE_')) return told('invalid', 'the server does not answer by the rules of HTTP')
  if (/CERT|SIGNED|ALTNAME/.test(code)) return told('denied', `the certificate of the server is no good (${code})`)
  return told('unavailable', `the connection to the server failed (${code})`)
}

/** What a status that is no success means for whoever wants the file. */
export function refusedBy({ statusCode: status = 0, headers }: IncomingMessage): GatewayError {
  const reason = `the server answers with status ${status}`
  const seconds = Number(headers['retry-after'])
  const retryAfter = Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, 3600) : undefined
  if (status === 404 || status === 410) return new GatewayError('not_found', { reason })
  if (status === 401 || status === 403) return new GatewayError('denied', { reason })
  if (status === 429) return new GatewayError('throttled', { reason, retryAfter })
  if (status >= 500) return new GatewayError('unavailable', { reason, retryAfter })
  return new GatewayError('invalid', { reason })
}
