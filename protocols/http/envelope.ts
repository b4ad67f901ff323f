/** The envelope around every answer of the API. The HTTP status is 200, whatever the code says. */
import type { Middleware } from 'koa'
import { drain } from '../lib/body.js'
import type { Door, State } from './context.js'
import { isUnforeseen, wireAnswer } from './errors.js'

export interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

export function success(data: unknown = null, message = 'success'): Envelope {
  return { code: 200, message, data }
}

/** Longer texts help nobody, and could hand a client its own oversize input back. */
const messageLimit = 400

/**
 * Whatever a route throws becomes an envelope here and nowhere else. What is left of the body is read and dropped, so
 * that a client which sends everything before it listens sees the answer.
 */
export function envelopes(door: Door): Middleware<State> {
  return async (ctx, next) => {
    try {
      await next()
    } catch (error) {
      const { code, message, retryAfter } = wireAnswer(error)
      if (isUnforeseen(error)) {
        door.gateway.log.error({ err: error, method: ctx.method, url: ctx.path }, 'a request failed')
      }
      if (retryAfter !== undefined) ctx.set('Retry-After', String(Math.ceil(retryAfter)))
      ctx.status = 200
      const line = lineOf(message)
      ctx.body = { code, message: door.masks.apply(line), data: ctx.state.refusalData ?? null } satisfies Envelope
      void drain(ctx.req)
    }
  }
}

/** A message as one line. What it quotes of a request may have any length. */
function lineOf(message: string): string {
  const lines = message.slice(0, 10 * messageLimit).split('\n')
  return (lines.length > 1 ? lines.map((line) => line.trim()).join(' ') : message).slice(0, messageLimit)
}
