/** What is told of failures, which of them may pass by themselves, and how long that is waited for. */
import { TreeError } from '../change.js'
import { mayPass, type GatewayError } from '../errors.js'
import type { LeftOut } from '../listed-names.js'
import { root, type Path } from '../path.js'

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

/** Names that copies left out, because no path can hold them: how many, and the first of them. */
export class LeftOutNames {
  #count = 0
  readonly #paths: string[] = []

  add(folder: Path, { count, names }: LeftOut): void {
    this.#count += count
    const paths = names.map((name) => `${folder === root ? '' : folder}/${name.replace(/\p{Cc}/gu, '\ufffd')}`)
    this.#paths.push(...paths.slice(0, named - this.#paths.length))
  }

  get text(): string {
    const more = this.#count - this.#paths.length
    const all = [...this.#paths, ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
    return `left out ${this.#count} whose names no path can hold: ${all}`
  }
}
