/**
 * Counts what strangers can cause without an end, and what is too much to be recorded one by one: refusals of one kind
 * from one network, and visits of one share from one network, within a minute. Otherwise they would displace what else
 * the audit has, and fill the deliveries of webhooks.
 */
import { siteOf } from '../base/network-site.js'
import type { Actor, EventFacts } from '../database/audit-rows.js'
import { networkOf } from '../net/addresses.js'

/** Events that are recorded one by one within `time` milliseconds, and the networks and kinds that are known. */
const limits = { each: 100, time: 60_000, keys: 10_000 }

interface Counted {
  /** When its minute ends. */
  readonly until: number
  seen: number
  /** The number of events that were not recorded one by one, and the facts that all of them share. */
  held: number
  sum: EventFacts | undefined
}

export class Flood {
  /** In the order in which their minutes end. */
  readonly #counted = new Map<string, Counted>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  /**
   * `record`: gets those that were held, at the end of their minute, as one event with their number, which has what
   * they have in common. `now`: milliseconds since any time, by a clock that is never set back.
   */
  constructor(
    private readonly record: (facts: EventFacts) => void,
    private readonly now: () => number,
  ) {}

  /** Whether the event is only counted. */
  holds(facts: EventFacts): boolean {
    const { kind, result, error, actor } = facts
    const isVisit = kind === 'share.opened' && result === 'done'
    if (this.#isClosed || (result !== 'refused' && !isVisit)) return false
    const from = actor.address === undefined ? `user ${actor.name}` : siteOf(networkOf(actor.address))
    const key = `${kind} ${isVisit ? actor.name : error} ${from}`
    this.#release()
    const counted = this.#counted.get(key)
    if (counted === undefined) {
      this.#release(limits.keys - 1)
      this.#counted.set(key, { until: this.now() + limits.time, seen: 1, held: 0, sum: undefined })
      return false
    }
    if (++counted.seen <= limits.each) return false
    counted.held++
    counted.sum = counted.sum === undefined ? facts : sumOf(counted.sum, facts)
    this.#wakeAt(counted.until)
    return true
  }

  /** Records all that are held. From now on, none is. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#release(0)
  }

  #wakeAt(time: number): void {
    this.#timer ??= setTimeout(() => this.#timeHasCome(), Math.max(1, time - this.now())).unref()
  }

  #timeHasCome(): void {
    this.#timer = undefined
    this.#release()
    const next = [...this.#counted.values()].find(({ held }) => held > 0)
    if (next) this.#wakeAt(next.until)
  }

  /** Forgets those whose minute has ended, and the oldest of the others beyond `keep`. */
  #release(keep = Infinity): void {
    for (const [key, { until, held, sum }] of this.#counted) {
      if (until > this.now() && this.#counted.size <= keep) return
      this.#counted.delete(key)
      if (sum !== undefined) this.record(held > 1 ? { ...sum, count: held } : sum)
    }
  }
}

/** The facts that two events of one kind from one network share. Different addresses are replaced by their network. */
function sumOf(one: EventFacts, other: EventFacts): EventFacts {
  const { kind, result, error } = one
  const same = <Field extends keyof EventFacts>(field: Field) => common(one[field], other[field])
  return {
    ...{ kind, result, error, actor: actorOf(one.actor, other.actor) },
    ...{ path: same('path'), target: same('target'), entry: same('entry'), storage: same('storage') },
    ...{ decidedBy: same('decidedBy'), subject: same('subject') },
  }
}

function actorOf(one: Actor, other: Actor): Actor {
  const { address } = one
  return {
    userId: common(one.userId, other.userId),
    name: common(one.name, other.name) ?? '',
    protocol: common(one.protocol, other.protocol),
    address: address === undefined || other.address === undefined ? undefined : widened(address, other.address),
    credential: common(one.credential, other.credential),
  }
}

/** The address of both, their network, or the /48 of IPv6 that has both. */
function widened(one: string, other: string): string {
  const network = networkOf(one)
  return common(one, other) ?? common(network, networkOf(other)) ?? `${siteOf(network)}::/48`
}

function common<T>(one: T, other: T): T | undefined {
  return one === other ? one : undefined
}
