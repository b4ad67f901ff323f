/** The envelope of API responses. The HTTP status is always 200; `code` holds the result. */
import type { Middleware } from 'koa'
import { drain } from '../lib/request-body.js'
import type { HttpApi, State } from './http-api.js'
import { logUnexpected, toErrorResponse } from './errors.js'
import { http } from './index.js'

export interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

export function success(data: unknown = null, message = 'success'): Envelope {
  return { code: 200, message, data }
}

/** Maximum length of a message, in UTF-16 units. Messages may quote input of any length. */
const messageLimit = 400

/**
 * Middleware that turns errors of routes into envelopes. Discards the rest of the request body, so that clients that
 * send the whole body before they read can receive the response.
 */
export function envelopeMiddleware(api: HttpApi): Middleware<State> {
  return async (context, next) => {
    try {
      await next()
    } catch (error) {
      const { code, message, retryAfter } = toErrorResponse(error)
      logUnexpected(api.gateway.log, error, { protocol: http.name, method: context.method, url: context.path })
      if (retryAfter !== undefined) context.set('Retry-After', String(Math.ceil(retryAfter)))
      context.status = 200
      const line = toSingleLine(message)
      context.body = {
        code,
        message: api.masks.apply(line),
        data: context.state.refusalData ?? null,
      } satisfies Envelope
      void drain(context.req)
    }
  }
}

/** The message as one line of at most `messageLimit`. */
function toSingleLine(message: string): string {
  const lines = message.slice(0, 10 * messageLimit).split('\n')
  return (lines.length > 1 ? lines.map((line) => line.trim()).join(' ') : message).slice(0, messageLimit)
}
