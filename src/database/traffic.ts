/** The sums of the traffic, by minute and by day. */
import type { Database } from './database.js'
import type { TrafficRow, TrafficSums } from './tables/traffic.js'

interface StoredSums {
  readonly period: string
  readonly start: number | string
  readonly bytes_in: number | string
  readonly bytes_out: number | string
  readonly changes: number | string
  readonly refusals: number | string
}

const sums = ['bytes_in', 'bytes_out', 'changes', 'refusals'] as const

export class TrafficTable {
  constructor(private readonly database: Database) {}

  async since(period: TrafficRow['period'], start: number): Promise<ReadonlyMap<number, TrafficSums>> {
    const rows = await this.database.read((query) =>
      query<StoredSums>('traffic').where({ period }).andWhere('start', '>=', start).select(),
    )
    return new Map(
      rows.map((row) => [
        Number(row.start),
        {
          bytesIn: Number(row.bytes_in),
          bytesOut: Number(row.bytes_out),
          changes: Number(row.changes),
          refusals: Number(row.refusals),
        },
      ]),
    )
  }

  async add(rows: readonly TrafficRow[], oldest: Readonly<Record<TrafficRow['period'], number>>): Promise<void> {
    await this.database.transaction(async (query) => {
      // In one order, so that processes that add the same periods do not wait for each other in a circle.
      const ordered = [...rows].sort((one, other) => one.period.localeCompare(other.period) || one.start - other.start)
      for (const { period, start, bytesIn, bytesOut, changes, refusals } of ordered) {
        await query('traffic')
          .insert({ period, start, bytes_in: bytesIn, bytes_out: bytesOut, changes, refusals })
          .onConflict(['period', 'start'])
          .merge(
            Object.fromEntries(
              sums.map((name) => [name, query.raw('?? + ??', [`traffic.${name}`, `excluded.${name}`])]),
            ),
          )
      }
      for (const [period, start] of Object.entries(oldest)) {
        await query('traffic').where({ period }).andWhere('start', '<', start).delete()
      }
    })
  }
}
