/** The envelope of API responses. The HTTP status is always 200; `code` holds the result. */
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

export function success(data: unknown = null, message = 'success'): Envelope {
  return { code: 200, message, data }
}

/** Maximum length of a message, in UTF-16 units. Messages may quote input of any length. */
const messageLimit = 400

/** Sets a body of JSON, with the status 200. */
export function sendJson(context: Context, body: string | Readable): void {
  // A handler that answered by itself has failed afterwards.
  if (context.headerSent) return
  // Set directly: Koa would look the type up for every response.
  context.res.setHeader('Content-Type', 'application/json; charset=utf-8')
  context.status = 200
  context.body = body
}

/**
 * Returns middleware that runs `handle` and turns its errors into envelopes. Discards the rest of the request body, so
 * that clients that send the whole body before they read can receive the response.
 */
export function withErrorEnvelopes(
  api: HttpApi,
  handle: (context: ParameterizedContext<State>) => Promise<unknown>,
): Middleware<State> {
  return async (context) => {
    try {
      await handle(context)
    } catch (error) {
      const { code, message, error: name, retryAfter } = toErrorResponse(error)
      logUnexpected(api.gateway.log, error, { protocol: api.protocol.name, method: context.method, url: context.path })
      if (retryAfter !== undefined) context.set('Retry-After', String(Math.ceil(retryAfter)))
      const text = api.masks.apply(toSingleLine(message))
      const { refusalData: data } = context.state
      const envelope: FailureEnvelope = { code, message: text, data: data ?? null, error: name }
      sendJson(context, JSON.stringify(envelope))
      void drain(context.req)
    }
  }
}

/** The message as one line of at most `messageLimit`. */
function toSingleLine(message: string): string {
  const lines = message.slice(0, 10 * messageLimit).split('\n')
  return (lines.length > 1 ? lines.map((line) => line.trim()).join(' ') : message).slice(0, messageLimit)
}
