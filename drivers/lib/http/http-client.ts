/**
 * HTTP client for one server whose address an administrator configured, or for the hosts of a vendor. Follows
 * redirects: credentials are sent only to the origin of the server, and requests to other hosts pass the egress guard.
 * Retries idempotent requests after transient failures.
 */
import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AgentPool, Egress } from '../../../src/contract/driver-env.js'
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { retryAfter } from '../../../src/base/retry-after.js'
import { locationText } from '../../../src/base/utf8.js'
import { HttpAuthorization, type HttpCredentials } from './http-authorization.js'
import { isNetworkFailure, networkError } from '../network-errors.js'
import { delayAfter, maxPatience, transientStatuses } from './repetition.js'

/** A request body that can be sent once. */
export interface OneShotBody {
  /** Size in bytes. Undefined: sent with chunked transfer coding, which some servers reject (RFC 9112 §6.1, §6.3). */
  readonly size: number | undefined
  /** Called when the server is ready for the body. Ends `into`, or destroys it and rejects. */
  sendTo(into: Writable): Promise<void>
}

export interface HttpRequest {
  readonly method: string
  readonly url: URL
  /** Request headers. After a redirect to another origin, only those are sent that cannot contain credentials. */
  readonly headers?: Readonly<Record<string, string>>
  /** All but a `OneShotBody` can be sent again. */
  readonly body?: string | Buffer | OneShotBody
  readonly signal?: AbortSignal | undefined
  /**
   * Milliseconds that the server may take to respond after the complete request; default: the idle timeout of the
   * connection.
   */
  readonly timeout?: number
  /** false: redirects are returned instead of followed. */
  readonly follow?: boolean
  /**
   * Whether the request may be sent again after a transient failure; default: for idempotent methods. A body that can
   * be sent once is never sent again.
   */
  readonly repeatable?: boolean
  /**
   * The server must not receive the request twice. It is sent on a new connection, because one that was idle may be
   * closed by the server just then, and it would not be known whether the server has processed it. Default: for POST,
   * unless it is `repeatable`.
   */
  readonly once?: boolean
  /** Called before each further request that this one leads to: to another place, or to the same one again. */
  readonly beforeAgain?: () => Promise<void>
}

export interface HttpResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The URL after all redirects. */
  readonly url: URL
  /**
   * Whether the request was sent again after the connection was lost. The server may have processed the first one, and
   * the response may reflect that. Requests that are not idempotent have to check this.
   */
  readonly isRetry: boolean
  /** false: the server responded before the body was sent, so that it can be sent again. */
  readonly isBodySent: boolean
  /** The caller reads or destroys it. Its errors are errors of Node. */
  readonly body: IncomingMessage
}

export interface HttpClientOptions {
  /** Name of the server in error reasons, such as "WebDAV server". */
  readonly server: string
  readonly address: URL
  /**
   * Domains of the vendor of the server, such as `115.com`. Requests to these and to names below them over TLS do not
   * pass the egress guard. Name and password are not sent there, and headers do not follow a redirect from one host to
   * another.
   */
  readonly domains?: readonly string[]
  readonly credentials?: HttpCredentials | undefined
  readonly verifiesCertificate: boolean
  readonly egress: Egress
  /** Milliseconds without data on a connection before it times out; default: 60,000. */
  readonly idleTimeout?: number
  /** The name of this gateway for a server that may be a gateway itself; see `pseudonymOf`. */
  readonly pseudonym?: string
}

/** Milliseconds to establish a connection, and for which an idle one is reused. */
const connectTimeout = 10_000
/** Milliseconds to wait for `100 Continue`, which some servers do not send (RFC 9110 §10.1.1), if this one may not. */
const continueTimeout = 1000
/** The `User-Agent` of requests that have no other. */
export const defaultUserAgent = 'tidegate'
const maxRedirects = 5
/**
 * Maximum number of challenges that one request answers. A busy server may take longer for many concurrent requests
 * than it accepts a nonce, and then finds the next one stale too.
 */
const maxChallenges = { new: 3, stale: 10 } as const
/** Maximum number of consecutive stale connections for one request. */
const maxStaleConnections = 5

/**
 * Headers that are sent after a redirect to another origin. The list is closed: it excludes `Authorization`, `Cookie`,
 * vendor-specific token headers, and the lock tokens in `If`.
 */
const portableHeaders: ReadonlySet<string> = new Set([
  ...['accept', 'accept-encoding', 'accept-language', 'range', 'user-agent'],
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since', 'if-range'],
])

const idempotentMethods = new Set(['GET', 'HEAD', 'OPTIONS', 'PROPFIND'])
const maxAttempts = 3
/** Maximum number of bytes of an unused response that are read so that its connection can be reused. */
const maxDrained = 64 * 1024

export class HttpClient {
  readonly #server: string
  readonly #egress: Egress
  readonly #foreign: AgentPool
  readonly #authorization: HttpAuthorization | undefined
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent }
  readonly #verifiesCertificate: boolean
  readonly #idleTime: number
  readonly #origin: string
  /** The origin over TLS of a server whose address is that of port 80; it counts as the same. */
  readonly #upgraded: string | undefined
  readonly #domains: readonly string[]
  readonly #pseudonym: string | undefined
  readonly #running = new Set<ClientRequest>()
  readonly #closed = new AbortController()
  /** Whether the server has sent `100 Continue` before. */
  #sendsContinue = false

  constructor(options: HttpClientOptions) {
    const { server, address, domains = [], credentials, verifiesCertificate, egress } = options
    this.#server = server
    this.#egress = egress
    this.#foreign = egress.pool()
    this.#idleTime = options.idleTimeout ?? 60_000
    this.#authorization = credentials && new HttpAuthorization(credentials)
    this.#verifiesCertificate = verifiesCertificate
    const agentOptions = { keepAlive: true, maxFreeSockets: 32, timeout: connectTimeout }
    this.#agents = { http: new HttpAgent(agentOptions), https: new HttpsAgent(agentOptions) }
    this.#origin = address.origin
    this.#upgraded = address.protocol === 'http:' && address.port === '' ? `https://${address.hostname}` : undefined
    this.#domains = domains
    this.#pseudonym = options.pseudonym
  }

  /**
   * Resolves to the response, whatever its status. Answers authentication challenges and follows redirects. Rejects
   * with a GatewayError if there is no response (`unavailable`, `timeout`, `denied` by the egress guard, `aborted`),
   * and with the error of `send` of the body.
   */
  async request(request: HttpRequest): Promise<HttpResponse> {
    const { repeatable = idempotentMethods.has(request.method) } = request
    const isRepeatable = repeatable && !isOneShot(request.body)
    let patience = maxPatience
    for (let attempt = 1; ; attempt++) {
      const isLast = !isRepeatable || attempt === maxAttempts
      let delay: number
      try {
        const response = await this.#follow(request)
        const { status } = response
        if (isLast || (status !== 429 && !transientStatuses.has(status))) return response
        delay = delayAfter(attempt, 'status', retryAfter(response.headers))
        if (delay > patience) return response
        await drain(response.body)
      } catch (error) {
        if (isLast || !isGatewayError(error, 'unavailable') || !isNetworkFailure(error)) throw error
        delay = delayAfter(attempt, 'connection')
      }
      patience -= delay
      await this.#delay(delay, request.signal)
      await request.beforeAgain?.()
    }
  }

  /** Whether the URL has the origin of the configured server, or a host in a domain of its vendor. */
  isOwnOrigin(url: URL): boolean {
    if (this.#isAddress(url)) return true
    const { protocol, hostname } = url
    return protocol === 'https:' && this.#domains.some((domain) => `.${hostname}`.endsWith(`.${domain}`))
  }

  #isAddress({ origin }: URL): boolean {
    return origin === this.#origin || origin === this.#upgraded
  }

  close(): void {
    this.#closed.abort()
    for (const running of this.#running) running.destroy(new GatewayError('aborted'))
    this.#agents.http.destroy()
    this.#agents.https.destroy()
    this.#foreign.close()
  }

  async #follow(request: HttpRequest): Promise<HttpResponse> {
    let { url } = request
    // Never true again after a redirect to another origin, like the Authorization header in the Fetch standard: that
    // origin chose the redirect back.
    let isSameOrigin = true
    const challenges = { new: 0, stale: 0 }
    for (let redirects = 0, staleConnections = 0; ;) {
      const isTrusted = isSameOrigin && this.#isAddress(url)
      const sent = isTrusted ? this.#authorization?.header(request.method, url.pathname + url.search) : undefined
      const outgoing = new PendingRequest(this.#server, isSameOrigin ? request : portable(request), {
        idleTime: this.#idleTime,
        continueTime: isTrusted && this.#sendsContinue ? connectTimeout : continueTimeout,
      })
      let response: HttpResponse
      try {
        const body = await this.#send(outgoing, url, sent)
        const { statusCode: status = 0, headers } = body
        response = { status, headers, url, body, isRetry: staleConnections > 0, isBodySent: outgoing.isBodyTaken }
        this.#sendsContinue ||= isTrusted && outgoing.isContinued
      } catch (error) {
        // A server may close an idle connection just as a request is sent (RFC 9112 §9.3.1). It has usually not read
        // the request.
        if (!outgoing.wasOnStaleConnection || ++staleConnections > maxStaleConnections) throw error
        await request.beforeAgain?.()
        continue
      }
      const { status, headers } = response
      if (outgoing.isBodyTaken) return response
      if (status === 401 && isTrusted) {
        const why = this.#authorization?.acceptChallenge(headers['www-authenticate'], sent) ?? 'rejected'
        if (why === 'rejected' || challenges[why]++ >= maxChallenges[why]) return response
      } else {
        const target = request.follow === false ? undefined : redirectOf(response)
        if (!target) return response
        if (redirects++ >= maxRedirects) throw this.#unavailable('redirects too many times')
        // Node would send them as Basic credentials.
        if (target.username !== '' || target.password !== '') {
          throw this.#unavailable('redirects to an address with a user name or password')
        }
        isSameOrigin &&= this.#isSameOrigin(url, target)
        if (!isSameOrigin) this.#assertPortable(request)
        url = target
      }
      await drain(response.body)
      await request.beforeAgain?.()
    }
  }

  /** The redirect of the configured server from HTTP to HTTPS counts as the same origin. The reverse does not. */
  #isSameOrigin(from: URL, to: URL): boolean {
    return from.origin === to.origin || (this.#isAddress(from) && this.#isAddress(to) && to.protocol === 'https:')
  }

  /** Rejects a redirect to another origin for requests with a body and for methods other than GET and HEAD. */
  #assertPortable({ method, body }: HttpRequest): void {
    if ((method === 'GET' || method === 'HEAD') && body === undefined) return
    throw this.#unavailable('redirects to another host, which would have to be the address of this storage')
  }

  async #send(outgoing: PendingRequest, url: URL, authorization: string | undefined): Promise<IncomingMessage> {
    const isAborted = () => outgoing.request.signal?.aborted === true || this.#closed.signal.aborted
    if (isAborted()) throw new GatewayError('aborted')
    const isSecure = url.protocol === 'https:'
    const isOwn = this.isOwnOrigin(url)
    const make = isSecure ? httpsRequest : httpRequest
    const request = make(url, {
      method: outgoing.request.method,
      headers: {
        'user-agent': defaultUserAgent,
        'accept-encoding': 'identity',
        ...(isOwn && this.#pseudonym !== undefined && { via: `1.1 ${this.#pseudonym}` }),
        ...outgoing.headers(authorization),
      },
      agent: this.#agentFor(url, isOwn, isOnce(outgoing.request)),
      ...(isSecure && isOwn && { rejectUnauthorized: this.#verifiesCertificate }),
    })
    this.#running.add(request)
    request.once('close', () => this.#running.delete(request))
    try {
      return await outgoing.run(request)
    } catch (error) {
      throw isAborted() ? new GatewayError('aborted', { cause: error }) : networkError(error, this.#server)
    }
  }

  /** false: a connection for this request alone. */
  #agentFor(url: URL, isOwn: boolean, once: boolean): HttpAgent | false {
    if (!isOwn) return once ? this.#egress.agentFor(url) : this.#foreign.agentFor(url)
    if (once) return false
    return url.protocol === 'https:' ? this.#agents.https : this.#agents.http
  }

  async #delay(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    const controller = new AbortController()
    const stop = () => {
      controller.abort()
    }
    const reasons = [this.#closed.signal, ...(signal ? [signal] : [])]
    for (const reason of reasons) reason.addEventListener('abort', stop, { once: true })
    try {
      await sleep(milliseconds, undefined, { signal: controller.signal })
    } catch (error) {
      throw new GatewayError('aborted', { cause: error })
    } finally {
      for (const reason of reasons) reason.removeEventListener('abort', stop)
    }
  }

  #unavailable(what: string): GatewayError {
    return new GatewayError('unavailable', { reason: `the ${this.#server} ${what}` })
  }
}

/** One request until its response begins. */
class PendingRequest {
  /** Whether sending the body has begun, so that the request cannot be repeated. */
  isBodyTaken = false
  /** Whether the request failed on a reused connection before any response, and can be repeated. */
  wasOnStaleConnection = false
  /** Whether the server has sent `100 Continue`. */
  isContinued = false
  #expects = false

  /** `idleTime`, `continueTime`: milliseconds without data, and for which the body waits for `100 Continue`. */
  constructor(
    private readonly server: string,
    readonly request: HttpRequest,
    private readonly times: { readonly idleTime: number; readonly continueTime: number },
  ) {}

  headers(authorization: string | undefined): Readonly<Record<string, string>> {
    const { body, headers } = this.request
    const all = { ...headers, ...(authorization !== undefined && { authorization }) }
    if (body === undefined) return all
    if (!isOneShot(body)) return { ...all, 'content-length': String(Buffer.byteLength(body)) }
    // Lets the server request credentials, redirect or refuse before the body is sent.
    this.#expects = body.size !== 0
    const length =
      body.size === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(body.size) }
    return { ...all, ...length, ...(this.#expects && { expect: '100-continue' }) }
  }

  /**
   * Sends the request. Resolves to its response. Rejects with errors of Node, with errors of the body, and with
   * `timeout`.
   */
  async run(outgoing: ClientRequest): Promise<IncomingMessage> {
    const { body, signal } = this.request
    let response: IncomingMessage | undefined
    const responded = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', (incoming) => resolve((response = incoming)))
      outgoing.on('error', reject) // also after the response has begun, whose body then fails too
      outgoing.once('close', () => reject(connectionClosed()))
    })
    responded.catch(() => undefined) // reported where it is awaited
    const abort = () => outgoing.destroy(new GatewayError('aborted'))
    signal?.addEventListener('abort', abort, { once: true })
    outgoing.once('close', () => signal?.removeEventListener('abort', abort))
    // Headers that Node sends before a body would otherwise be encoded as UTF-8 a second time (nodejs/node#1693).
    outgoing.once('socket', (socket) => socket.setDefaultEncoding('latin1'))
    this.#watchIdle(outgoing, () => response)
    if (!isOneShot(body)) {
      // A string would be sent together with the headers, in its own encoding (nodejs/node#1693).
      outgoing.end(body === undefined ? undefined : Buffer.from(body))
    } else {
      outgoing.flushHeaders()
      if (this.#expects) await this.#readyForBody(outgoing, responded)
      if (!response && !outgoing.destroyed) await this.#sendBody(outgoing, body, responded)
    }
    if (!response) this.#applyTimeout(outgoing, () => response)
    const incoming = await responded.catch((error: unknown) => {
      const { code = '' } = error as NodeJS.ErrnoException
      this.wasOnStaleConnection = outgoing.reusedSocket && !this.isBodyTaken && ['ECONNRESET', 'EPIPE'].includes(code)
      throw error
    })
    // A connection with an incomplete request body cannot be reused. The rest of the response, which explains why, may
    // still arrive.
    if (isOneShot(body) && !outgoing.writableFinished) {
      if (incoming.complete) outgoing.destroy()
      else incoming.once('end', () => outgoing.destroy()).once('close', () => outgoing.destroy())
    }
    return incoming
  }

  /** Resolves when the body may be sent: after `100 Continue`, a timeout, or a final response. */
  async #readyForBody(outgoing: ClientRequest, responded: Promise<unknown>): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const continued = new Promise<void>((resolve) => {
      outgoing.once('continue', () => {
        this.isContinued = true
        resolve()
      })
      outgoing.once('socket', (socket) => {
        const startTimer = () => {
          timer = setTimeout(resolve, this.times.continueTime)
        }
        if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', startTimer)
        else startTimer()
      })
    })
    await Promise.race([continued, responded.catch(() => undefined)])
    clearTimeout(timer)
  }

  async #sendBody(outgoing: ClientRequest, body: OneShotBody, responded: Promise<IncomingMessage>): Promise<void> {
    this.isBodyTaken = true
    const sending = body.sendTo(outgoing)
    sending.catch(() => outgoing.destroy())
    const isErrorResponse = await Promise.race([sending, responded.then(({ statusCode = 0 }) => statusCode >= 300)])
    // An early error response explains the failure. An early success does not, so sending continues.
    if (isErrorResponse !== true) await sending
  }

  #watchIdle(outgoing: ClientRequest, response: () => IncomingMessage | undefined): void {
    const onTimeout = () => outgoing.destroy(this.#timeout('does not answer'))
    outgoing.once('socket', (socket) => {
      if (!socket.connecting) return
      const timer = setTimeout(onTimeout, connectTimeout)
      const stop = () => {
        clearTimeout(timer)
      }
      socket.once('encrypted' in socket ? 'secureConnect' : 'connect', stop)
      outgoing.once('close', stop)
    })
    outgoing.setTimeout(this.times.idleTime)
    outgoing.on('timeout', () => {
      // An early response is read only after the body was sent.
      const isDelayedLocally = outgoing.writableFinished
        ? (response()?.readableLength ?? 0) > 0
        : !outgoing.writableEnded && outgoing.writableLength === 0
      // The consumer or the producer of the body is slow, not the server.
      if (isDelayedLocally) outgoing.setTimeout(this.times.idleTime)
      else onTimeout()
    })
  }

  /** Applies the timeout of the request while the server processes it. */
  #applyTimeout(outgoing: ClientRequest, response: () => IncomingMessage | undefined): void {
    const { timeout } = this.request
    if (timeout === undefined || response()) return
    outgoing.setTimeout(timeout)
    outgoing.once('response', () => outgoing.setTimeout(this.times.idleTime))
  }

  #timeout(what: string): GatewayError {
    return new GatewayError('timeout', { reason: `the ${this.server} ${what}` })
  }
}

export function isOneShot(body: HttpRequest['body']): body is OneShotBody {
  return typeof body === 'object' && !Buffer.isBuffer(body)
}

/** Whether a request needs a new connection. A body that can be sent once is sent when the server is ready for it. */
function isOnce({ method, repeatable, once, body }: HttpRequest): boolean {
  return typeof body !== 'object' && (once ?? (method === 'POST' && repeatable !== true))
}

/** The target of a redirect; undefined for other responses. */
function redirectOf({ status, headers: { location }, url }: HttpResponse): URL | undefined {
  const isRedirect = [301, 302, 303, 307, 308].includes(status)
  const target = isRedirect && location !== undefined ? locationText(location) : undefined
  return target !== undefined && URL.canParse(target, url.href) ? new URL(target, url) : undefined
}

/** The request as it may be sent to another origin. */
function portable(request: HttpRequest): HttpRequest {
  const headers = Object.entries(request.headers ?? {}).filter(([name]) => portableHeaders.has(name.toLowerCase()))
  return { ...request, headers: Object.fromEntries(headers) }
}

/** Discards a response. Reads a small rest, so that its connection can be reused. */
export async function drain(body: IncomingMessage): Promise<void> {
  if (body.closed) return
  let size = 0
  body.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > maxDrained) body.destroy()
  })
  await new Promise<void>((resolve) => {
    body.on('error', () => resolve()).once('close', resolve)
  })
}

function connectionClosed(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' })
}
