/** How often each network begins a sign-in: the limit in front of the database. */
import { tooManyAttempts } from '../accounts/errors.js'
import { put } from '../base/bounded-tables.js'

/** Beginnings of one network within `time` milliseconds, in this process. Others are refused. */
export const begunLimit = { count: 60, time: 60_000 }

export class Beginnings {
  /** How often networks have begun something, and since when that is counted. */
  readonly #begun = new Map<string, { readonly since: number; readonly count: number }>()

  /** `now`: milliseconds. */
  constructor(private readonly now: () => number) {}

  /** Counts one. Throws `throttled` with the detail `sign_in_throttled` if the network has begun too many. */
  count(network: string): void {
    const now = this.now()
    const known = this.#begun.get(network)
    const { since, count } = known && now - known.since < begunLimit.time ? known : { since: now, count: 0 }
    if (count >= begunLimit.count) throw tooManyAttempts((since + begunLimit.time - now) / 1000)
    put(this.#begun, network, { since, count: count + 1 })
  }
}
