/** When requests are sent again after failures that may pass by themselves. */

/** Statuses of answers after which the same request may succeed later (RFC 9110 §15.6). */
export const transientStatuses: ReadonlySet<number> = new Set([502, 503, 504])
/**
 * Milliseconds that a request waits at most because its server wants it to: clients wait for the answer. Tasks are
 * repeated later, when the error says so.
 */
export const maxPatience = 25_000

/** Milliseconds before the first repetition; doubled for each further one, and longer by up to a half. */
const initialDelays = {
  /** The connection was lost, which says nothing about the server. */
  connection: 200,
  /** The server has answered that it fails. */
  status: 1000,
} as const

/**
 * Milliseconds before a request is repeated. `attempt`: the number of the last one, from 1. `demanded`: seconds that
 * the server wants to be left alone.
 */
export function delayAfter(attempt: number, failure: keyof typeof initialDelays, demanded = 0): number {
  const delay = initialDelays[failure] * 2 ** (attempt - 1) * (1 + Math.random() / 2)
  return Math.max(delay, demanded * 1000)
}
