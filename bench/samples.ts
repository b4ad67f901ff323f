/** What is taken of one measurement: the figure itself, and the processor time that the server spent on it. */
import type { Peer } from './peers/peer.js'

export interface Sample {
  /** In the unit of its figure. */
  readonly value: number
  /** Processor time of the server, in seconds; absent where the figure is not about time. */
  readonly processor?: number
  /** The requests that took this time, 1 unless given: processor time is reported for each of them. */
  readonly requests?: number
}

/** Seconds that `work` takes. */
export async function seconds(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now()
  await work()
  return (performance.now() - begin) / 1000
}

/** Runs `work`, which resolves to the figure, and adds the processor time that the peer used meanwhile. */
export async function sampled(peer: Peer, work: () => Promise<number | Sample>): Promise<Sample> {
  const before = await processorTime(peer)
  const result = await work()
  const processor = (await processorTime(peer)) - before
  return { ...(typeof result === 'number' ? { value: result } : result), processor }
}

async function processorTime({ processes }: Peer): Promise<number> {
  let total = 0
  for (const each of processes) total += await each.processorTime()
  return total
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2
}
