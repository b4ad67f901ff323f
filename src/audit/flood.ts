/** Counts refusals that are too many to be recorded one by one: many of one kind from one network within a minute. */
import type { EventFacts } from '../database/audit-rows.js'
import { networkOf } from '../net/addresses.js'

/** Refusals that are recorded one by one within `time` milliseconds, and the networks and kinds that are known. */
const limits = { each: 100, time: 60_000, keys: 10_000 }

interface Counted {
  readonly until: number
  seen: number
  /** How many refusals were not recorded, and the last of them. */
  held: number
  last: EventFacts
}

export class Flood {
  /** In the order in which their minutes end. */
  readonly #counted = new Map<string, Counted>()
  #timer: NodeJS.Timeout | undefined

  /**
   * `record`: gets those that were held, at the end of their minute, as one event with their number. `now`:
   * milliseconds since any time.
   */
  constructor(
    private readonly record: (facts: EventFacts) => void,
    private readonly now: () => number,
  ) {}

  /** Whether the refusal is only counted. */
  holds(facts: EventFacts): boolean {
    const { kind, error, actor } = facts
    const from = actor.address === undefined ? `user ${actor.name}` : networkOf(actor.address)
    const key = `${kind} ${error} ${from}`
    this.#release()
    const counted = this.#counted.get(key)
    if (counted === undefined) {
      this.#release(limits.keys - 1)
      this.#counted.set(key, { until: this.now() + limits.time, seen: 1, held: 0, last: facts })
      return false
    }
    if (++counted.seen <= limits.each) return false
    counted.held++
    counted.last = facts
    this.#timer ??= setTimeout(() => this.#timeHasCome(), limits.time).unref()
    return true
  }

  /** Records all that are held. */
  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#release(0)
  }

  #timeHasCome(): void {
    this.#timer = undefined
    this.#release()
    const next = [...this.#counted.values()].find(({ held }) => held > 0)
    if (next) this.#timer = setTimeout(() => this.#timeHasCome(), Math.max(0, next.until - this.now())).unref()
  }

  /** Forgets those whose minute has ended, and the oldest of the others beyond `keep`. */
  #release(keep = Infinity): void {
    for (const [key, { until, held, last }] of this.#counted) {
      if (until > this.now() && this.#counted.size <= keep) return
      this.#counted.delete(key)
      // What differs between them is not said of all.
      const { kind, actor, result, error } = last
      if (held > 0) this.record({ kind, actor, result, error, ...(held > 1 && { count: held }) })
    }
  }
}
