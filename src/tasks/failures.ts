/** The texts of task failures, and which failures are retried after which delay. */
import { isTransient, TreeError, type GatewayError } from '../base/errors.js'
import { root, type Path } from '../base/path.js'
import type { SkippedNames } from '../storage/listable-names.js'

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

/** At most the first `maxText` characters of the text. */
export function shortened(text: string): string {
  return text.length <= maxText ? text : `${text.slice(0, maxText - 1)}…`
}

/** Items that a text lists. */
const maxNamed = 10

/** The reason of the error; for a `TreeError`, the reasons of its first failures with their paths. */
export function failureText(error: GatewayError): string {
  if (!(error instanceof TreeError)) return error.reason
  const first = error.failures.slice(0, maxNamed)
  const texts = first.map(({ from, path, error: { reason } }) => `${from ?? path}: ${reason}`)
  return listed(texts, error.failures.length)
}

/** The first of `count` items, and how many more there are. */
function listed(first: readonly string[], count: number): string {
  const more = count - first.length
  return [...first, ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}

/** The count of names that a copy skipped because they are not valid in a path, and the first of those names. */
export class SkippedNamesReport {
  #count = 0
  readonly #paths: string[] = []

  add(folder: Path, { count, names }: SkippedNames): void {
    this.#count += count
    const paths = names.map((name) => `${folder === root ? '' : folder}/${name.replace(/\p{Cc}/gu, '\ufffd')}`)
    this.#paths.push(...paths.slice(0, maxNamed - this.#paths.length))
  }

  /** Empty if nothing was skipped. */
  get text(): string {
    if (this.#count === 0) return ''
    return `left out ${this.#count} whose names no path can hold: ${listed(this.#paths, this.#count)}`
  }
}

/** The count of copied folders whose time and mode could not be set, and the errors of the first of them. */
export class LostAttributesReport {
  #count = 0
  readonly #errors: string[] = []

  add(folder: Path, { reason }: GatewayError): void {
    this.#count++
    if (this.#errors.length < maxNamed) this.#errors.push(`${folder}: ${reason}`)
  }

  /** Empty if there is no such folder. */
  get text(): string {
    if (this.#count === 0) return ''
    return `time and mode of ${this.#count} folders not set: ${listed(this.#errors, this.#count)}`
  }
}
