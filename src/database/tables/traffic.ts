/** Traffic: sums of what clients did. */

/** What clients of the gateway did within a period. */
export interface TrafficSums {
  /** Content that they have sent, and received. */
  readonly bytesIn: number
  readonly bytesOut: number
  readonly changes: number
  readonly refusals: number
}

export interface TrafficRow extends TrafficSums {
  readonly period: 'minute' | 'day'
  /** When it has begun: milliseconds since 1970. */
  readonly start: number
}

/** Writes are as those of `relaxed`. */
export interface TrafficRows {
  /** The sums of the periods from `start` on, by their starts. */
  since(period: TrafficRow['period'], start: number): Promise<ReadonlyMap<number, TrafficSums>>
  /** Adds the sums to what is stored of the same periods, and deletes those before `oldest`. */
  add(rows: readonly TrafficRow[], oldest: Readonly<Record<TrafficRow['period'], number>>): Promise<void>
}
