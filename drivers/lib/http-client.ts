/**
 * Requests to one HTTP server whose address an admin typed, and to where it redirects: with credentials to their own
 * origin alone, through the egress guard to every other host. What is safe to repeat is repeated where it fails for the
 * moment.
 */
import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingHttpHeaders } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Egress } from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { HttpAuthorization, type Credentials } from './http-authorization.js'
import { networkError } from './network-errors.js'

/** A body that can be sent once. */
export interface SentBody {
  /** Not known: it goes in chunks, which not every server takes. */
  readonly size: number | undefined
  /** Called once the server wants it. Ends `into`, or destroys it and rejects. */
  send(into: Writable): Promise<void>
}

export interface HttpRequest {
  readonly method: string
  readonly url: URL
  /** Sent to the origin of `url`. A redirect to another origin carries only those that cannot hold a credential. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | SentBody
  readonly signal?: AbortSignal | undefined
  /** Milliseconds that the server has for its work once it has the whole request; those of an idle connection where it is left out. */
  readonly patience?: number
  /** false: the redirect itself is the answer. */
  readonly follow?: boolean
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Where it came from in the end. */
  readonly url: URL
  /**
   * The connection of an earlier try broke: the server may have done all of it then already, and be telling of that. Only what changes
   * nothing, or can be done twice, should be asked for without looking at this.
   */
  readonly isRepeated: boolean
  /** false: the server has answered without wanting the body, which can be sent again. */
  readonly isBodyTaken: boolean
  /** To be read, or to be destroyed. Its errors are those of Node. */
  readonly body: IncomingMessage
}

export interface HttpClientOptions {
  /** Which server it is, in an error: "WebDAV server". */
  readonly server: string
  readonly address: URL
  readonly credentials?: Credentials | undefined
  readonly verifiesCertificate: boolean
  readonly egress: Egress
  /** Milliseconds in which nothing moves on a connection; a minute where it is left out. */
  readonly idleTime?: number
}

/** Milliseconds for a connection to be made, and of one that is kept to wait for its next request. */
const connectTime = 10_000
/** How long a server is waited for to say that it wants the body: not all know the question. */
const continueTime = 1000
const redirectLimit = 5
const challengeLimit = 3
/** Kept connections that the server had closed, one after another. */
const staleLimit = 5

/**
 * Headers of a request that follow a redirect to another origin. The list is closed: `Authorization`, `Cookie`, the
 * token header of a vendor, and the lock tokens in `If` are not in it.
 */
const portableHeaders: ReadonlySet<string> = new Set([
  ...['accept', 'accept-encoding', 'accept-language', 'range', 'user-agent'],
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since', 'if-range'],
])

const repeatable = new Set(['GET', 'HEAD', 'OPTIONS', 'PROPFIND'])
const overloaded = new Set([429, 502, 503, 504])
const attempts = 3
const firstPause = 200
/** A server that asks for a longer pause than this gets the error told instead, with what it asked for. */
const longestPause = 5000
/** Bytes of an answer nobody needs that are read for the sake of its connection. */
const drainLimit = 64 * 1024

export class HttpClient {
  readonly #server: string
  readonly #egress: Egress
  readonly #authorization: HttpAuthorization | undefined
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent }
  readonly #verifiesCertificate: boolean
  readonly #idleTime: number
  readonly #origins: ReadonlySet<string>
  readonly #running = new Set<ClientRequest>()
  readonly #closed = new AbortController()

  constructor(options: HttpClientOptions) {
    const { server, address, credentials, verifiesCertificate, egress, idleTime = 60_000 } = options
    this.#server = server
    this.#egress = egress
    this.#idleTime = idleTime
    this.#authorization = credentials && new HttpAuthorization(credentials)
    this.#verifiesCertificate = verifiesCertificate
    const kept = { keepAlive: true, maxFreeSockets: 32, timeout: connectTime }
    this.#agents = { http: new HttpAgent(kept), https: new HttpsAgent(kept) }
    // The same host on the usual ports may send everybody on to TLS.
    const upgraded = address.protocol === 'http:' && address.port === '' ? [`https://${address.hostname}`] : []
    this.#origins = new Set([address.origin, ...upgraded])
  }

  /**
   * Any answer of the server, whatever its status, except one that asks for credentials it takes or redirects: these are followed. Rejects
   * with a GatewayError where there is no answer: `unavailable`, `timeout`, `denied` by the egress guard, `aborted`; with what `send` of
   * the body rejects with.
   */
  async request(request: HttpRequest): Promise<HttpAnswer> {
    const isRepeatable = repeatable.has(request.method) && typeof request.body !== 'object'
    for (let attempt = 1; ; attempt++) {
      const isLast = !isRepeatable || attempt === attempts
      let wait = firstPause * 2 ** (attempt - 1) * (0.5 + Math.random())
      try {
        const answer = await this.#followed(request)
        if (isLast || !overloaded.has(answer.status)) return answer
        wait = Math.max(wait, (retryAfter(answer.headers) ?? 0) * 1000)
        if (wait > longestPause) return answer
        await drain(answer.body)
      } catch (error) {
        // Without a cause it is what the server has said, not what the network has done.
        if (isLast || !isGatewayError(error, 'unavailable') || error.cause === undefined) throw error
      }
      await this.#pause(wait, request.signal)
    }
  }

  /** Whether this address is one of the server itself. */
  isOwn(url: URL): boolean {
    return this.#origins.has(url.origin)
  }

  close(): void {
    this.#closed.abort()
    for (const running of this.#running) running.destroy(new GatewayError('aborted'))
    this.#agents.http.destroy()
    this.#agents.https.destroy()
  }

  async #followed(request: HttpRequest): Promise<HttpAnswer> {
    let { url } = request
    // Never true again, as with the Authorization header of the Fetch standard: another server chose the way back.
    let isHome = true
    for (let challenges = 0, redirects = 0, stale = 0; ;) {
      const isTrusted = isHome && this.isOwn(url)
      const sent = isTrusted ? this.#authorization?.header(request.method, url.pathname + url.search) : undefined
      const outgoing = new Outgoing(this.#server, isHome ? request : portable(request), this.#idleTime)
      let answer: HttpAnswer
      try {
        const body = await this.#send(outgoing, url, sent)
        const { statusCode: status = 0, headers } = body
        answer = { status, headers, url, body, isRepeated: stale > 0, isBodyTaken: outgoing.isBodyTaken }
      } catch (error) {
        // Servers close connections that wait just as the next request comes (RFC 9112 §9.3.1); most often it was never read.
        if (!outgoing.wasOnStaleConnection || ++stale > staleLimit) throw error
        continue
      }
      const { status, headers } = answer
      if (outgoing.isBodyTaken) return answer
      if (status === 401 && isTrusted && challenges < challengeLimit) {
        challenges++
        if (this.#authorization?.isWorthAnotherTry(headers['www-authenticate'], sent) !== true) return answer
      } else {
        const target = request.follow === false ? undefined : redirectOf(answer)
        if (!target) return answer
        if (redirects++ >= redirectLimit) throw this.#unavailable('redirects in circles')
        // Node would send them as Basic credentials.
        if (target.username !== '' || target.password !== '') {
          throw this.#unavailable('redirects to an address with a user name or password')
        }
        isHome &&= this.#isSameOrigin(url, target)
        if (!isHome) this.#assertPortable(request)
        url = target
      }
      await drain(answer.body)
    }
  }

  /** The two origins of the server itself count as one on the way to TLS, and not on the way back. */
  #isSameOrigin(from: URL, to: URL): boolean {
    return from.origin === to.origin || (this.isOwn(from) && this.isOwn(to) && to.protocol === 'https:')
  }

  /** Methods that change or list something, and bodies, are for the server that the admin meant. */
  #assertPortable({ method, body }: HttpRequest): void {
    if ((method === 'GET' || method === 'HEAD') && body === undefined) return
    throw this.#unavailable('redirects to another host, which would have to be the address of this storage')
  }

  async #send(outgoing: Outgoing, url: URL, authorization: string | undefined): Promise<IncomingMessage> {
    const isGivenUp = () => outgoing.request.signal?.aborted === true || this.#closed.signal.aborted
    if (isGivenUp()) throw new GatewayError('aborted')
    const isSecure = url.protocol === 'https:'
    const isOwn = this.isOwn(url)
    const make = isSecure ? httpsRequest : httpRequest
    const request = make(url, {
      method: outgoing.request.method,
      headers: {
        'user-agent': 'tidegate',
        'accept-encoding': 'identity',
        ...outgoing.headers(authorization),
      },
      agent: isOwn ? this.#agents[isSecure ? 'https' : 'http'] : this.#egress.agentFor(url),
      ...(isSecure && isOwn && { rejectUnauthorized: this.#verifiesCertificate }),
    })
    this.#running.add(request)
    request.once('close', () => this.#running.delete(request))
    try {
      return await outgoing.run(request)
    } catch (error) {
      throw isGivenUp() ? new GatewayError('aborted', { cause: error }) : networkError(error, this.#server)
    }
  }

  async #pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    const controller = new AbortController()
    const stop = () => {
      controller.abort()
    }
    const reasons = [this.#closed.signal, ...(signal ? [signal] : [])]
    for (const reason of reasons) reason.addEventListener('abort', stop, { once: true })
    try {
      await pause(milliseconds, undefined, { signal: controller.signal })
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

/** One request on its way, until its answer has begun. */
class Outgoing {
  /** It cannot be sent a second time. */
  isBodyTaken = false
  /** It failed on a connection that had been used before, without a word of the server, and can be sent again. */
  wasOnStaleConnection = false
  #expects = false

  constructor(
    private readonly server: string,
    readonly request: HttpRequest,
    private readonly idleTime: number,
  ) {}

  headers(authorization: string | undefined): Readonly<Record<string, string>> {
    const { body, headers } = this.request
    const all = { ...headers, ...(authorization !== undefined && { authorization }) }
    if (body === undefined) return all
    if (typeof body === 'string') return { ...all, 'content-length': String(Buffer.byteLength(body)) }
    // Before the body is spent, the server may still ask for credentials, redirect, or refuse. Node sends headers with this one as
    // UTF-8, and would encode those a second time that are UTF-8 by now.
    this.#expects = body.size !== 0 && /^[ -~]*$/.test(authorization ?? '')
    const length =
      body.size === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(body.size) }
    return { ...all, ...length, ...(this.#expects && { expect: '100-continue' }) }
  }

  /** Its answer. Rejects with errors of Node, with those of the body, with `timeout`. */
  async run(outgoing: ClientRequest): Promise<IncomingMessage> {
    const { body, signal } = this.request
    let answer: IncomingMessage | undefined
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', (incoming) => resolve((answer = incoming)))
      outgoing.on('error', reject) // also after the answer has begun: its body fails by itself then
      outgoing.once('close', () => reject(cutOff()))
    })
    answered.catch(() => undefined) // whoever waits for it is told
    const abort = () => outgoing.destroy(new GatewayError('aborted'))
    signal?.addEventListener('abort', abort, { once: true })
    outgoing.once('close', () => signal?.removeEventListener('abort', abort))
    this.#watch(outgoing, () => answer)
    if (typeof body !== 'object') {
      // A text would be sent in one piece with the headers, and in its encoding, which is not theirs.
      outgoing.end(body === undefined ? undefined : Buffer.from(body))
    } else {
      // Not by flushHeaders(), which would send them as UTF-8.
      outgoing.write(Buffer.alloc(0))
      if (this.#expects) await wanted(outgoing, answered)
      if (!answer && !outgoing.destroyed) await this.#pass(outgoing, body, answered)
    }
    if (!answer) this.#wait(outgoing, () => answer)
    const incoming = await answered.catch((error: unknown) => {
      const { code = '' } = error as NodeJS.ErrnoException
      this.wasOnStaleConnection = outgoing.reusedSocket && !this.isBodyTaken && ['ECONNRESET', 'EPIPE'].includes(code)
      throw error
    })
    // What was not sent of the body keeps the connection from being used again.
    if (typeof body === 'object' && !outgoing.writableFinished) outgoing.destroy()
    return incoming
  }

  async #pass(outgoing: ClientRequest, body: SentBody, answered: Promise<IncomingMessage>): Promise<void> {
    this.isBodyTaken = true
    const sending = body.send(outgoing)
    sending.catch(() => outgoing.destroy())
    const early = await Promise.race([sending, answered.then(({ statusCode = 0 }) => statusCode >= 300)])
    // A server that refuses in the middle has said why; one that is content before it has everything has not.
    if (early !== true) await sending
  }

  #watch(outgoing: ClientRequest, answer: () => IncomingMessage | undefined): void {
    const late = () => outgoing.destroy(this.#timeout('does not answer'))
    outgoing.once('socket', (socket) => {
      if (!socket.connecting) return
      const timer = setTimeout(late, connectTime)
      const stop = () => {
        clearTimeout(timer)
      }
      socket.once('encrypted' in socket ? 'secureConnect' : 'connect', stop)
      outgoing.once('close', stop)
    })
    outgoing.setTimeout(this.idleTime)
    outgoing.on('timeout', () => {
      // An answer that comes before the whole body was sent is read when it was.
      const isHeldUpHere = outgoing.writableFinished
        ? (answer()?.readableLength ?? 0) > 0
        : !outgoing.writableEnded && outgoing.writableLength === 0
      // Whoever reads or brings the body takes their time; the server cannot help it.
      if (isHeldUpHere) outgoing.setTimeout(this.idleTime)
      else late()
    })
  }

  /** From the end of the request on, the server works. */
  #wait(outgoing: ClientRequest, answer: () => IncomingMessage | undefined): void {
    const { patience } = this.request
    if (patience === undefined || answer()) return
    outgoing.setTimeout(patience)
    outgoing.once('response', () => outgoing.setTimeout(this.idleTime))
  }

  #timeout(what: string): GatewayError {
    return new GatewayError('timeout', { reason: `the ${this.server} ${what}` })
  }
}

/** Settles when the body may go out, or the answer has come without it. */
async function wanted(outgoing: ClientRequest, answered: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const asked = new Promise((resolve) => {
    outgoing.once('continue', resolve)
    outgoing.once('socket', (socket) => {
      const count = () => {
        timer = setTimeout(resolve, continueTime)
      }
      if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', count)
      else count()
    })
  })
  await Promise.race([asked, answered.catch(() => undefined)])
  clearTimeout(timer)
}

/** Where the answer redirects to; undefined where it does not. */
function redirectOf({ status, headers: { location }, url }: HttpAnswer): URL | undefined {
  const isRedirect = [301, 302, 303, 307, 308].includes(status)
  return isRedirect && location !== undefined && URL.canParse(location, url.href) ? new URL(location, url) : undefined
}

/** What of a request may go to another origin. */
function portable(request: HttpRequest): HttpRequest {
  const headers = Object.entries(request.headers ?? {}).filter(([name]) => portableHeaders.has(name.toLowerCase()))
  return { ...request, headers: Object.fromEntries(headers) }
}

/** Seconds that the server asks for (RFC 9110 §10.2.3). */
export function retryAfter({ 'retry-after': text = '' }: IncomingHttpHeaders): number | undefined {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  const date = Date.parse(text)
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - Date.now()) / 1000))
}

/** Lets an answer go, and keeps its connection where little of it is left. */
export async function drain(body: IncomingMessage): Promise<void> {
  if (body.closed) return
  let size = 0
  body.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > drainLimit) body.destroy()
  })
  await new Promise<void>((resolve) => {
    body.on('error', () => resolve()).once('close', resolve)
  })
}

function cutOff(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' })
}
