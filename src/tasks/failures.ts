/** The texts of task failures, and which failures are retried after which delay. */
import { isTransient, TreeError, type GatewayError } from '../base/errors.js'

/** Seconds before the second run, the third run, and so on. */
const delays = [2, 10, 60, 300] as const

/** Maximum delay that a backend may request, in seconds. */
const maxDelay = 3600

/** Seconds until the next run; undefined if the error is permanent or all retries are used. */
export function retryDelay(error: GatewayError, tries: number): number | undefined {
  const delay = delays[tries - 1]
  const errors = error instanceof TreeError ? error.failures.map((failure) => failure.error) : [error]
  const transient = errors.filter(isTransient)
  if (delay === undefined || transient.length === 0) return undefined
  return Math.min(maxDelay, Math.max(delay, ...transient.map(({ retryAfter = 0 }) => retryAfter)))
}

/** Maximum characters of the texts that a run leaves in its task. The failed items are stored in full beside it. */
export const maxText = 2048

/** The text, or the beginning of a longer one: at most `maxText` characters. */
export function shortened(text: string): string {
  return text.length <= maxText ? text : `${text.slice(0, maxText - 1)}…`
}

/** Maximum number of items that a text lists. */
const maxNamed = 10

/** The reason of the error; for a `TreeError`, the reasons of its first failures with their paths. */
export function failureText(error: GatewayError): string {
  if (!(error instanceof TreeError)) return error.reason
  const first = error.failures.slice(0, maxNamed)
  const texts = first.map(({ from, path, error: { reason } }) => `${from ?? path}: ${reason}`)
  return listed(texts, error.count)
}

/** The first of `count` items, and how many more there are. */
function listed(first: readonly string[], count: number): string {
  const more = count - first.length
  return [...first, ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}

/** The items that a run left undone without failing: their number, and the first of them. */
export class ItemReport {
  #count = 0
  readonly #first: string[] = []

  constructor(private readonly describe: (count: number, items: string) => string) {}

  /** `items`: the first of `count` items. */
  add(items: readonly string[], count = items.length): void {
    this.#count += count
    this.#first.push(...items.slice(0, maxNamed - this.#first.length))
  }

  /** Empty if there is no such item. */
  get text(): string {
    return this.#count === 0 ? '' : this.describe(this.#count, listed(this.#first, this.#count))
  }
}
