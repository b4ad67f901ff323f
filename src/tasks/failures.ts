/** What is told of failures, which of them may pass by themselves, and how long that is waited for. */
import { TreeError } from '../change.js'
import { mayPass, type GatewayError } from '../errors.js'

/** Seconds before the second run, the third, and so on. */
const delays = [2, 10, 60, 300] as const

/** Seconds after which another run is worth it; undefined where it would end the same, or enough were made. */
export function retryDelay(error: GatewayError, tries: number): number | undefined {
  const delay = delays[tries - 1]
  const errors = error instanceof TreeError ? error.failures.map((failure) => failure.error) : [error]
  const passing = errors.filter(mayPass)
  if (delay === undefined || passing.length === 0) return undefined
  return Math.max(delay, ...passing.map(({ retryAfter = 0 }) => retryAfter))
}

/** Items that a text names. */
const named = 10

/** Why it failed, item by item where only some of it did. Paths are those that the error tells of. */
export function failureText(error: GatewayError): string {
  if (!(error instanceof TreeError)) return error.reason
  const texts = error.failures.slice(0, named).map(({ from, path, error: { reason } }) => `${from ?? path}: ${reason}`)
  const more = error.failures.length - texts.length
  return [...texts, ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}
