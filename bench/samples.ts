/** The result of one measurement: the figure, and the processor time that the server used for it. */
import { readFile } from 'node:fs/promises'
import type { Peer } from './peers/peer.js'
import { ticksOfSecond } from './peers/process.js'

export interface Sample {
  /** The figure, in its unit. */
  readonly value: number
  /** Processor time of the server in seconds; absent if the figure is not a time. */
  readonly processor?: number
  /** Processor time of everything else on the machine in seconds, which on a quiet one is the client. */
  readonly others?: number
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
  const [before, busy] = [await processorTime(peer), await busyTime()]
  const result = await work()
  const others = (await busyTime()) - busy
  const processor = (await processorTime(peer)) - before
  return { ...(typeof result === 'number' ? { value: result } : result), processor, others: others - processor }
}

/** Seconds that all cores together have been busy since the machine started: `/proc/stat` (proc(5)). */
async function busyTime(): Promise<number> {
  const [line = ''] = (await readFile('/proc/stat', 'utf8')).split('\n')
  const [user = 0, nice = 0, system = 0, , , interrupts = 0, softInterrupts = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number)
  return (user + nice + system + interrupts + softInterrupts) / ticksOfSecond
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

/**
 * Milliseconds of processor time for each request, by sample; undefined if there are none or one is too short to judge.
 */
export function processorTimes(samples: readonly Sample[]): readonly number[] | undefined {
  if (samples.length === 0 || samples.some(({ processor = 0 }) => processor < shortest)) return undefined
  return samples.map(({ processor = 0, requests = 1 }) => (processor * 1000) / requests)
}

/**
 * How many times faster than one process several could be at most on this many cores, which the client shares: with the
 * processor time s of the server and w of the client for the same work, one process takes s, and all cores together
 * take (s + w) / cores. `one`: samples of one process that was busy all the time.
 */
export function ceilingOf(one: readonly Sample[], cores: number): number {
  const server = median(one.map(({ processor = NaN }) => processor))
  return (cores * server) / (server + median(one.map(({ others = NaN }) => others)))
}

/** NaN if there are no values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2
}
