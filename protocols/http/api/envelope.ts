/**
 * The envelope of API responses. The HTTP status is 200, except for a method that an endpoint does not have; `code`
 * holds the result. Clients that name problem documents in Accept receive one for a failure.
 */
import { STATUS_CODES, type IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { Context, Middleware, ParameterizedContext } from 'koa'
import { drain } from '../../lib/request-body.js'
import type { HttpApi, State } from './http-api.js'
import { logUnexpected, toErrorResponse, type ErrorName } from './errors.js'

export interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

/** The envelope of a failure: it also has the name of the failure. */
interface FailureEnvelope extends Envelope {
  readonly error: ErrorName
}

/**
 * A problem document (RFC 9457 §3) with two extension members. Its `type` is `about:blank`, because there is no address
 * to which the types of Tidegate could be bound: `status` is the type, and `error` refines it.
 */
interface Problem {
  readonly type: 'about:blank'
  /** The phrase of the status (RFC 9457 §4.2.1). */
  readonly title: string
  readonly status: number
  /** The `message` of the envelope. */
  readonly detail: string
  /** The name of the failure. */
  readonly error: ErrorName
  /** The `data` of the envelope, unless it is null. */
  readonly data?: object
}

export function success(data: unknown = null, message = 'success'): Envelope {
  return { code: 200, message, data }
}

/** Maximum length of a message, in UTF-16 units. Messages may quote input of any length. */
const messageLimit = 400

/** Sets a body of JSON. */
export function sendJson(context: Context, body: string | Readable, status = 200): void {
  // A handler that answered by itself has failed afterwards.
  if (context.headerSent) return
  // Set directly: Koa would look the type up for every response.
  context.res.setHeader('Content-Type', 'application/json; charset=utf-8')
  context.status = status
  context.body = body
}

/** Sets a problem document as the body. */
function sendProblem(context: Context, problem: Problem): void {
  if (context.headerSent) return
  context.status = problem.status
  // RFC 9110 §15.5.2 requires a challenge.
  if (problem.status === 401) context.set('WWW-Authenticate', 'Bearer')
  context.set('Content-Type', problemType)
  context.body = JSON.stringify(problem)
}

const problemType = 'application/problem+json'

/** Whether Accept names the type. A wildcard does not: clients that send one expect an envelope. */
export function acceptNames({ headers: { accept = '' } }: IncomingMessage, named: string): boolean {
  return accept.split(',').some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    return type === named && !parameters.some((parameter) => /^q=0(?:\.0{0,3})?$/.test(parameter))
  })
}

/**
 * Returns middleware that runs `handle` and turns its errors into envelopes or problem documents. Discards the rest of
 * the request body, so that clients that send the whole body before they read can receive the response.
 */
export function withErrorEnvelopes(
  api: HttpApi,
  handle: (context: ParameterizedContext<State>) => Promise<unknown>,
): Middleware<State> {
  return async (context) => {
    try {
      await handle(context)
    } catch (error) {
      const { code, status, message, error: name, retryAfter } = toErrorResponse(error)
      logUnexpected(api.gateway.log, error, { protocol: api.protocol.name, method: context.method, url: context.path })
      if (retryAfter !== undefined) context.set('Retry-After', String(Math.ceil(retryAfter)))
      const { refusalData: data, refusalStatus, isAdminCall } = context.state
      const line = toSingleLine(message)
      const text = isAdminCall === true && name === 'invalid' ? line : api.masks.apply(line)
      if (!context.headerSent) context.vary('Accept')
      if (acceptNames(context.req, problemType)) {
        const title = STATUS_CODES[status] ?? ''
        sendProblem(context, { type: 'about:blank', title, status, detail: text, error: name, ...(data && { data }) })
      } else {
        const envelope: FailureEnvelope = { code, message: text, data: data ?? null, error: name }
        sendJson(context, JSON.stringify(envelope), refusalStatus)
      }
      void drain(context.req)
    }
  }
}

/** The message as one line of at most `messageLimit`. */
function toSingleLine(message: string): string {
  const lines = message.slice(0, 10 * messageLimit).split('\n')
  return (lines.length > 1 ? lines.map((line) => line.trim()).join(' ') : message).slice(0, messageLimit)
}
