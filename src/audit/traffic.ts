/**
 * What goes through the gateway, for the dashboard: bytes, changes and refusals of each minute of the last hour and of
 * each day of the last month, of all processes together.
 */
import type { Log } from '../base/log.js'
import type { EventKind } from '../base/event-kinds.js'
import type { EventFacts } from '../database/audit-rows.js'
import type { TrafficSums } from '../database/tables/traffic.js'
import type { Store } from '../database/tables.js'

/** Milliseconds until the sums of this process are stored. */
const storeInterval = 10_000

const changes: ReadonlySet<EventKind> = new Set<EventKind>([
  ...(['file.stored', 'file.replaced', 'folder.made', 'link.made', 'moved', 'copied', 'removed'] as const),
])

/** Milliseconds of the periods, and how many are shown with the current one. Days are those of UTC. */
export const trafficPeriods = {
  minute: { length: 60_000, shown: 60 },
  day: { length: 24 * 3600_000, shown: 31 },
} as const
export type TrafficPeriod = keyof typeof trafficPeriods

export interface TrafficOf extends TrafficSums {
  /** When the period has begun: milliseconds since 1970. */
  readonly start: number
}

const none: TrafficSums = { bytesIn: 0, bytesOut: 0, changes: 0, refusals: 0 }

export class Traffic {
  /** The sums of this process since they were stored last, by minute. */
  readonly #sums = new Map<number, TrafficSums>()
  readonly #timer: NodeJS.Timeout

  constructor(
    private readonly table: Store['traffic'],
    private readonly log: Pick<Log, 'warn'>,
    private readonly now: () => number = Date.now,
  ) {
    this.#timer = setInterval(() => void this.#store(), storeInterval).unref()
  }

  /** Counts what clients do. What tasks transfer between storages is none of their traffic. */
  readonly count = ({ kind, result, actor, size = 0, count = 1 }: EventFacts): void => {
    const isDone = result === 'done'
    const isClient = actor.protocol !== 'task'
    const bytesIn = isDone && isClient && (kind === 'file.stored' || kind === 'file.replaced') ? size : 0
    const bytesOut = isClient && kind === 'read' ? size : 0
    const changed = isDone && changes.has(kind) ? 1 : 0
    const refusals = result === 'refused' ? count : 0
    if (bytesIn + bytesOut + changed + refusals === 0) return
    this.#add(this.now() - (this.now() % 60_000), { bytesIn, bytesOut, changes: changed, refusals })
  }

  /** The sums of each period until now, oldest first: also those in which nothing happened. */
  async of(period: TrafficPeriod): Promise<readonly TrafficOf[]> {
    const { length, shown } = trafficPeriods[period]
    const last = Math.floor(this.now() / length) * length
    const first = last - (shown - 1) * length
    const stored = await this.table.since(period, first)
    return Array.from({ length: shown }, (_, index) => {
      const start = first + index * length
      const own = [...this.#sums].filter(([minute]) => minute >= start && minute < start + length)
      const sums = [stored.get(start) ?? none, ...own.map(([, each]) => each)].reduce(sumOf)
      return { start, ...sums }
    })
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#store()
  }

  #add(minute: number, added: TrafficSums): void {
    this.#sums.set(minute, sumOf(this.#sums.get(minute) ?? none, added))
  }

  async #store(): Promise<void> {
    const sums = [...this.#sums]
    if (sums.length === 0) return
    this.#sums.clear()
    const rows = sums.flatMap(([minute, each]) =>
      (['minute', 'day'] as const).map((period) => {
        const { length } = trafficPeriods[period]
        return { period, start: minute - (minute % length), ...each }
      }),
    )
    const oldest = (period: TrafficPeriod) => this.now() - trafficPeriods[period].shown * trafficPeriods[period].length
    try {
      await this.table.add(rows, { minute: oldest('minute'), day: oldest('day') })
    } catch (error) {
      // If this fails, the sums are stored with the next ones.
      for (const [minute, each] of sums.slice(-trafficPeriods.minute.shown)) this.#add(minute, each)
      this.log.warn({ err: error }, 'the sums of the traffic cannot be stored')
    }
  }
}

function sumOf(one: TrafficSums, other: TrafficSums): TrafficSums {
  return {
    bytesIn: one.bytesIn + other.bytesIn,
    bytesOut: one.bytesOut + other.bytesOut,
    changes: one.changes + other.changes,
    refusals: one.refusals + other.refusals,
  }
}
