/** The result of one measurement: the figure, and the processor time that the server used for it. */
import type { Peer } from './peers/peer.js'

export interface Sample {
  /** The figure, in its unit. */
  readonly value: number
  /** Processor time of the server in seconds; absent if the figure is not a time. */
  readonly processor?: number
  /** Number of measured requests, 1 by default. Processor time is reported per request. */
  readonly requests?: number
}

/** The duration of `work` in seconds. */
export async function seconds(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now()
  await work()
  return (performance.now() - begin) / 1000
}

/** Runs `work`, which resolves to the figure, and adds the processor time that the peer used during it. */
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

/**
 * The shortest processor time in seconds from which a sample is judged: it has a resolution of 10 ms, and is measured
 * from outside.
 */
const shortest = 0.1

/** Milliseconds of processor time for each request, by sample; undefined if there are none or one is too short to judge. */
export function processorTimes(samples: readonly Sample[]): readonly number[] | undefined {
  if (samples.length === 0 || samples.some(({ processor = 0 }) => processor < shortest)) return undefined
  return samples.map(({ processor = 0, requests = 1 }) => (processor * 1000) / requests)
}

/** NaN if there are no values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2
}
