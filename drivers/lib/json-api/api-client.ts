/**
 * Calls of an HTTP API: each passes the rate gate, carries the credentials, and has one answer in JSON, which the
 * driver judges. An expired credential is renewed once for all calls that wait for it, and a server that asks for fewer
 * requests gets none from the whole mount for a while.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { settlesWithin } from '../../../src/base/cancellation.js'
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { retryAfter } from '../../../src/base/retry-after.js'
import { drain, isOneShot, type HttpClient, type HttpResponse, type OneShotBody } from '../http/http-client.js'
import { isNetworkFailure, networkError } from '../network-errors.js'
import { delayAfter, maxPatience, transientStatuses } from '../http/repetition.js'
import { readItems } from './json-items.js'
import { parseJson } from './lenient.js'
import type { RateGate } from './rate-gate.js'
import type { Renewal } from './renewal.js'

export interface ApiCall {
  /** Default: POST with a body, else GET. */
  readonly method?: string
  readonly url: URL
  readonly headers?: Readonly<Record<string, string>>
  /** The body, which is sent as JSON. */
  readonly json?: unknown
  /** The body, which is sent as a form. */
  readonly form?: Readonly<Record<string, string | number>>
  readonly body?: string | Buffer | OneShotBody
  /** Reads an answer that is not JSON. Throws a GatewayError. */
  readonly decode?: (body: Buffer) => unknown
  /** Whether the call has no credentials: for signing in and for renewing them. */
  readonly isAnonymous?: boolean
  /**
   * The call may be sent again after a transient failure, because it changes nothing or repeating it does no harm;
   * default: for GET and HEAD. A body that can be sent once is never sent again.
   */
  readonly repeatable?: boolean
  /** The class of calls that it belongs to, if the server limits some separately; see `RateGate`. */
  readonly rateClass?: string
  /** Milliseconds that the server may take to answer after the complete request. */
  readonly timeout?: number
  readonly signal?: AbortSignal | undefined
}

export interface ApiAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The parsed body; undefined if it is empty. */
  readonly data: unknown
}

/**
 * What an answer means. 'expired': the credentials have to be renewed. 'slow down': the server wants no requests, for
 * as many seconds as it says, otherwise for some. An error is the result of the call.
 */
export type AnswerMeaning = 'ok' | 'expired' | 'slow down' | { readonly slowDownFor: number } | GatewayError

export interface ApiCredentials<Secret> {
  readonly renewal: Renewal<Secret>
  /** The headers that carry the secret. */
  readonly headers: (secret: Secret) => Readonly<Record<string, string>>
  /** Called with the headers of each answer to a call with the secret, which may have replaced it. Never rejects. */
  readonly received?: (headers: IncomingHttpHeaders) => Promise<void>
}

interface ApiClientOptions<Secret> {
  /** Name of the server in error reasons, such as "115 server". */
  readonly server: string
  readonly http: HttpClient
  readonly gate: RateGate
  /** Absent: no call has credentials. */
  readonly credentials?: ApiCredentials<Secret> | undefined
  /** Called with each answer in JSON, whatever its status. */
  readonly meaningOf: (answer: ApiAnswer, call: ApiCall) => AnswerMeaning
}

const maxAttempts = 3
/** Statuses of the pages of HTML by which a firewall refuses requests. */
const firewallStatuses = [403, 405, 418, 429]
/** Seconds without requests after such a page. */
const firewallPause = 300
/** Seconds of a pause for which the server does not say how long it should be. */
const defaultPause = 5
/** Maximum number of bytes of an answer that is not a list of items. */
const maxAnswer = 16 * 1024 * 1024
/** Maximum characters of a response that are looked at to see whether it is a page. */
const maxMarkup = 200
const markupStart = /^\s*</
/** Like `markupStart`, for answers that may begin with any byte. */
const documentStart = /^\s*<(?:!doctype|html|head|title|body)\b/i
/** Milliseconds that `close` waits for a running renewal: a token that the server has replaced must be stored. */
const closeTimeout = 5000

export class ApiClient<Secret = never> {
  /** Makes requests that are not calls: of content, to any host. They have no credentials and do not pass the gate. */
  readonly http: HttpClient
  readonly #closed = new AbortController()

  constructor(private readonly options: ApiClientOptions<Secret>) {
    this.http = options.http
  }

  /**
   * Resolves to an answer that `meaningOf` has accepted. Rejects with the error that `meaningOf` returns, with `denied`
   * if renewed credentials are refused too, and with `unavailable`, `timeout` and `aborted`.
   */
  async call(call: ApiCall): Promise<ApiAnswer> {
    return this.#attempts(call, async (response) => {
      const answer = { ...factsOf(response), data: await this.#data(response, call) }
      return { result: answer, verdict: this.options.meaningOf(answer, call) }
    })
  }

  /**
   * Like `call`, for an answer with a long list, to which the keys `path` lead. Yields its items while they arrive, and
   * returns the answer with an empty list in its place. An answer whose list has items is judged when it is complete.
   */
  async *items(call: ApiCall, path: readonly string[]): AsyncGenerator<readonly unknown[], ApiAnswer> {
    const { meaningOf } = this.options
    const judged = (response: HttpResponse, data: unknown) => {
      const answer = { ...factsOf(response), data }
      return { answer, verdict: meaningOf(answer, call) }
    }
    const { response, items, first } = await this.#attempts(call, async (response) => {
      await this.#assertNoPage(response)
      const items = readItems(response.body as AsyncIterable<Buffer>, path)
      const first = await this.#reading(items.next())
      const verdict = first.done === true ? judged(response, first.value).verdict : 'ok'
      return { result: { response, items, first }, verdict }
    })
    try {
      let step = first
      while (step.done !== true) {
        yield step.value
        step = await this.#reading(items.next())
      }
      const { answer, verdict } = judged(response, step.value)
      if (verdict === 'ok') return answer
      throw verdict instanceof GatewayError ? verdict : this.#unavailable('broke off a listing')
    } finally {
      response.body.destroy()
    }
  }

  /** Waits some seconds for a running renewal, then ends all calls. */
  async close(): Promise<void> {
    const renewal = this.options.credentials?.renewal
    if (renewal) await settlesWithin(renewal.settled(), closeTimeout)
    this.#closed.abort()
    this.options.gate.close()
    this.http.close()
    renewal?.close()
  }

  async #attempts<Result>(
    call: ApiCall,
    read: (response: HttpResponse) => Promise<ReadOutcome<Result>>,
  ): Promise<Result> {
    const { gate } = this.options
    const { method = hasBody(call) ? 'POST' : 'GET' } = call
    const { repeatable = method === 'GET' || method === 'HEAD' } = call
    let renewed = false
    const deadline = performance.now() + maxPatience
    for (let attempt = 1; ; attempt++) {
      const mayRepeat = repeatable && !isOneShot(call.body) && attempt < maxAttempts
      // Before the turn at the gate: a renewal needs turns of its own.
      const renewal = call.isAnonymous === true ? undefined : this.options.credentials?.renewal
      await renewal?.get(call.signal)
      await gate.pass(call.signal, call.rateClass)
      const secret = renewal?.current
      let outcome: Outcome<Result>
      let response: HttpResponse
      try {
        response = await this.#send({ ...call, method, repeatable }, secret)
        const isOwn = response.url.origin === call.url.origin
        if (secret !== undefined && isOwn) await this.options.credentials?.received?.(response.headers)
        if (isTransient(response) && mayRepeat) {
          await drain(response.body)
          await this.#wait(delayAfter(attempt, 'status'), call.signal)
          continue
        }
        outcome = await this.#outcome(response, read)
      } catch (error) {
        if (!mayRepeat || !isGatewayError(error, 'unavailable') || !isNetworkFailure(error)) throw error
        await this.#wait(delayAfter(attempt, 'connection'), call.signal)
        continue
      }
      if ('result' in outcome && outcome.verdict === 'ok') return outcome.result
      const { verdict } = outcome
      if (verdict instanceof GatewayError) throw verdict
      if (verdict === 'expired') {
        if (secret === undefined || renewed) throw this.#refused()
        await renewal?.replace(secret, call.signal)
        renewed = renewal?.isTaken !== true
        // The server has not processed the call. Its body is gone, though, if it was sent.
        if (isOneShot(call.body) && response.isBodySent) throw this.#unavailable('asked for new credentials too late')
        attempt--
        continue
      }
      const asked = typeof verdict === 'object' ? verdict.slowDownFor : retryAfter(response.headers)
      const seconds = asked ?? defaultPause * 2 ** (attempt - 1)
      await gate.pause(seconds)
      // The server has refused the call, so that also one that changes something may be made again.
      const isRefused =
        response.status !== 503 && attempt < maxAttempts && !(isOneShot(call.body) && response.isBodySent)
      if ((mayRepeat || isRefused) && performance.now() + seconds * 1000 <= deadline) continue
      throw new GatewayError('unavailable', {
        reason: `the ${this.options.server} asks for fewer requests`,
        retryAfter: Math.ceil(seconds),
      })
    }
  }

  async #outcome<Result>(
    response: HttpResponse,
    read: (response: HttpResponse) => Promise<ReadOutcome<Result>>,
  ): Promise<Outcome<Result>> {
    // Without a time, a page is that of a firewall.
    const isFirewall = isPage(response) && retryAfter(response.headers) === undefined
    if (!asksForPause(response) || isFirewall) return read(response)
    await drain(response.body)
    return { verdict: 'slow down' }
  }

  #send(
    call: ApiCall & Required<Pick<ApiCall, 'method' | 'repeatable'>>,
    secret: Secret | undefined,
  ): Promise<HttpResponse> {
    const { method, url, signal, timeout, repeatable, rateClass } = call
    const encoded = encodedBody(call)
    const credentials = secret === undefined ? undefined : this.options.credentials?.headers(secret)
    return this.http.request({
      method,
      url,
      headers: { accept: 'application/json', ...encoded.headers, ...credentials, ...call.headers },
      ...(encoded.body !== undefined && { body: encoded.body }),
      ...(timeout !== undefined && { timeout }),
      signal,
      // This class repeats it.
      repeatable: false,
      once: !repeatable,
      beforeAgain: () => this.options.gate.pass(signal, rateClass),
    })
  }

  async #data(response: HttpResponse, { decode }: ApiCall): Promise<unknown> {
    const body = await this.#body(response)
    const text = decode ? body.toString('latin1', 0, maxMarkup) : body.toString()
    // Some servers send JSON with the media type of a page, so the content decides.
    const isMarkup = (decode ? documentStart : markupStart).test(text)
    if (isMarkup || (isPage(response) && text.trim() === '')) return this.#rejectPage(response)
    if (decode) return decode(body)
    if (text.trim() === '') return undefined
    try {
      return parseJson(text)
    } catch {
      if (isPage(response)) return this.#rejectPage(response)
      throw this.#unavailable(`sent an answer that is not JSON (status ${response.status})`)
    }
  }

  async #body(response: HttpResponse): Promise<Buffer> {
    const chunks: Buffer[] = []
    let size = 0
    const read = async () => {
      for await (const chunk of response.body as AsyncIterable<Buffer>) {
        size += chunk.length
        if (size > maxAnswer) throw this.#unavailable('sent an answer that is too long')
        chunks.push(chunk)
      }
    }
    await this.#reading(read())
    return Buffer.concat(chunks)
  }

  /** Rejects if the answer is a page of HTML. */
  async #assertNoPage(response: HttpResponse): Promise<void> {
    if (!isPage(response)) return
    await drain(response.body)
    await this.#rejectPage(response)
  }

  /** Rejects. After a page of a firewall, the gate is closed. */
  async #rejectPage({ status, headers }: HttpResponse): Promise<never> {
    const { gate } = this.options
    const demanded = retryAfter(headers)
    const isFirewall = firewallStatuses.includes(status)
    if (!isFirewall && demanded === undefined) {
      throw this.#unavailable(`sent a page instead of JSON (status ${status})`)
    }
    const seconds = Math.max(isFirewall ? firewallPause : 0, demanded ?? 0)
    await gate.pause(seconds)
    throw new GatewayError('unavailable', {
      reason: isFirewall
        ? `the firewall of the ${this.options.server} refuses requests; none is sent for ${seconds} seconds`
        : `the ${this.options.server} asks for a pause of ${seconds} seconds`,
      retryAfter: seconds,
    })
  }

  /** Converts errors of a body that is read. */
  async #reading<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      if (this.#closed.signal.aborted) throw new GatewayError('aborted', { cause: error })
      throw isGatewayError(error) ? error : networkError(error, this.options.server)
    }
  }

  /** Waits before the call is repeated. */
  async #wait(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await sleep(milliseconds, undefined, { signal: signal ?? this.#closed.signal })
    } catch (error) {
      throw new GatewayError('aborted', { cause: error })
    }
  }

  #refused(): GatewayError {
    const reason = `the ${this.options.server} refuses the credentials of the storage`
    return new GatewayError('denied', { detail: 'storage_refused', reason })
  }

  #unavailable(what: string): GatewayError {
    return new GatewayError('unavailable', { reason: `the ${this.options.server} ${what}` })
  }
}

interface ReadOutcome<Result> {
  readonly result: Result
  readonly verdict: AnswerMeaning
}

type Outcome<Result> = ReadOutcome<Result> | { readonly verdict: 'slow down' }

/** Whether the server says that it fails now. These servers do not mean by 500 that they will always fail. */
function isTransient(response: HttpResponse): boolean {
  return (response.status === 500 || transientStatuses.has(response.status)) && !asksForPause(response)
}

/** Whether the status says that the server wants fewer requests (RFC 6585 §4, RFC 9110 §10.2.3). */
function asksForPause({ status, headers }: HttpResponse): boolean {
  return status === 429 || (status === 503 && retryAfter(headers) !== undefined)
}

function isPage({ headers }: HttpResponse): boolean {
  return /^text\/html\b/i.test(headers['content-type'] ?? '')
}

function factsOf({ status, headers }: HttpResponse) {
  return { status, headers }
}

function hasBody({ json, form, body }: ApiCall): boolean {
  return json !== undefined || form !== undefined || body !== undefined
}

function encodedBody({ json, form, body }: ApiCall): {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: ApiCall['body'] | undefined
} {
  if (json !== undefined) return { headers: { 'content-type': 'application/json' }, body: JSON.stringify(json) }
  if (form !== undefined) {
    const fields = new URLSearchParams()
    for (const [name, value] of Object.entries(form)) fields.append(name, String(value))
    return { headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: fields.toString() }
  }
  return { body }
}
