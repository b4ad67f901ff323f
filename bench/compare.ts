/** Compares this checkout with another commit, in alternating runs, by processor time and wall clock. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { memoryOver, runMemoryFigures, shortRest } from './memory.js'
import { dataFolder, startTidegate } from './peers/tidegate.js'
import type { Bench, Figure, Row } from './row.js'
import { median, processorTimes, type Sample } from './samples.js'
import { takeTurns, type Contender, type Samples } from './turns.js'

export type Side = 'old' | 'new'

interface Compared {
  readonly programs: Readonly<Record<Side, string>>
  /** The data of each side. */
  readonly places: Readonly<Record<Side, Bench>>
  readonly rows: readonly Row[]
  readonly rounds: number
  readonly say: (line: string) => void
  /** Called with a function that stops the process that was just started. */
  readonly onStart: (stop: () => Promise<unknown>) => void
  readonly onFailure: (row: Row, contender: Contender<Side>, error: unknown) => void
}

/** Tolerance of "not slower": smaller differences cannot be measured on a machine with other load. */
export const allowed = { processor: 1.05, wall: 1.15 } as const

/** Rounds that share one process. A process as a whole may be faster or slower because of its memory layout. */
const roundsOfProcess = 3
/**
 * Processor time has a resolution of 10 ms. In each round a row is repeated until it has used this many seconds of it,
 * at most for `longestTurn`.
 */
const enough = 0.3
const longestTurn = 5
const mostTimes = 20

export interface Pair {
  readonly old: number
  readonly new: number
  /** New divided by old: above 1 the new one takes more time or memory. */
  readonly ratio: number
}

export interface Comparison {
  readonly row: string
  readonly figure: Figure
  /** Milliseconds for each request; undefined if not a time, not measured on both sides, or too short to judge. */
  readonly processor: Pair | undefined
  /** In the unit of the figure. */
  readonly value: Pair | undefined
  readonly verdict: string
  readonly samples: Readonly<Record<Side, readonly Sample[]>>
}

async function measureOnce(compared: Compared): Promise<readonly Comparison[]> {
  const { places, rows, rounds, say, onFailure } = compared
  const taken = new Map<Row, Record<Side, Sample[][]>>(rows.map((row) => [row, { old: [], new: [] }]))
  const memory: Record<Side, Sample[][]> = { old: [], new: [] }
  const times = new Map<Row, number>()
  for (let round = 0; round < rounds; round += roundsOfProcess) {
    const ofProcess = Math.min(roundsOfProcess, rounds - round)
    const contenders = await startBoth(compared)
    const peers = contenders.map(({ peer }) => peer)
    const over = await memoryOver(peers, shortRest, async () => {
      for (const row of rows) {
        say(`rounds ${round + 1} to ${round + ofProcess} of ${rounds}: ${row.name}`)
        const failed = (contender: Contender<Side>, error: unknown) => onFailure(row, contender, error)
        // The first measurement warms up the compiler and shows how long the row takes.
        const begin = performance.now()
        const first = await takeTurns(row, contenders, { rounds: 1 }, failed)
        const repeated = times.get(row) ?? timesOf(first, (performance.now() - begin) / 1000 / contenders.length)
        times.set(row, repeated)
        add(taken.get(row), await takeTurns(row, contenders, { rounds: ofProcess, times: repeated }, failed))
      }
    })
    add(memory, new Map(contenders.map(({ name }, index) => [name, (over[index] ?? []).map((value) => [{ value }])])))
    for (const peer of peers) for (const each of peer.processes) await each.stop()
  }
  const ofRow = (row: string, figures: readonly Figure[], samples: Record<Side, Sample[][]> | undefined) =>
    figures.map((figure, index) =>
      comparison(row, figure, { old: samples?.old[index] ?? [], new: samples?.new[index] ?? [] }),
    )
  return [
    ...rows.flatMap((row) => ofRow(row.name, row.figures(places.new), taken.get(row))),
    ...ofRow('memory-run', runMemoryFigures, memory),
  ]
}

/** Starts both daemons on data folders without a database, so that neither reads the database of another commit. */
async function startBoth(compared: Compared): Promise<readonly Contender<Side>[]> {
  const contenders: Contender<Side>[] = []
  for (const name of ['old', 'new'] as const) {
    const bench = compared.places[name]
    const data = dataFolder(bench)
    for (const each of await readdir(data)) {
      if (join(data, each) !== bench.files) await rm(join(data, each), { recursive: true })
    }
    const peer = await startTidegate(compared.programs[name], bench, data)
    compared.onStart(() => Promise.all(peer.processes.map((each) => each.stop())))
    contenders.push({ name, peer, bench })
  }
  return contenders
}

function add(samples: Record<Side, Sample[][]> | undefined, more: Samples<Side>): void {
  for (const [side, figures] of more) {
    figures.forEach((taken, figure) => ((samples?.[side] ?? [])[figure] ??= []).push(...taken))
  }
}

/** The number of measurements of a row in each round, from one measurement of `wall` seconds. */
function timesOf(samples: Samples<Side>, wall: number): number {
  const used = [...samples.values()].flat(2).flatMap(({ processor }) => (processor === undefined ? [] : [processor]))
  if (used.length === 0) return 1
  const needed = Math.ceil(enough / Math.max(0.01, Math.min(...used)))
  return Math.max(1, Math.min(needed, mostTimes, Math.floor(longestTurn / wall)))
}

function comparison(row: string, figure: Figure, samples: Record<Side, readonly Sample[]>): Comparison {
  const values = (of: readonly Sample[]) => (of.length === 0 ? undefined : of.map((sample) => sample.value))
  const value = pair(values(samples.old), values(samples.new), figure.unit === '/s')
  const processor = pair(processorTimes(samples.old), processorTimes(samples.new), false)
  const isTime = ['s', 'ms', '/s'].includes(figure.unit)
  return { row, figure, processor, value, samples, verdict: isTime ? verdict(processor?.ratio, value?.ratio) : '' }
}

function pair(
  old: readonly number[] | undefined,
  own: readonly number[] | undefined,
  isRate: boolean,
): Pair | undefined {
  if (old === undefined || own === undefined) return undefined
  const [older, newer] = [median(old), median(own)]
  return { old: older, new: newer, ratio: isRate ? older / newer : newer / older }
}

/** The verdict on two ratios of time; undefined: not judged. */
export function verdict(processor: number | undefined, wall: number | undefined): string {
  if (wall === undefined) return 'not measured'
  const slower = [
    ...(processor !== undefined && processor > allowed.processor ? ['processor time'] : []),
    ...(wall > allowed.wall ? ['wall clock'] : []),
  ]
  if (slower.length > 0) return `**slower**: ${slower.join(', ')}`
  return processor === undefined ? 'not slower by the wall clock alone' : 'not slower'
}

/** The ratio that a limit applies to: of peak memory, or of processor time; undefined if there is none. */
function limited({ figure, processor, value }: Comparison): number | undefined {
  return (figure.isPeak ? value : processor)?.ratio
}

function isOver(comparison: Comparison, limit: number): boolean {
  return (limited(comparison) ?? 0) > limit
}

/**
 * The reasons why a run exceeds `limit`, a ratio of processor time and of peak memory; empty if it passes. A row that
 * only the old side supports does not pass.
 */
export function overLimit(comparisons: readonly Comparison[], limit: number): readonly string[] {
  const faults = comparisons.flatMap((each) => {
    const named = `${each.row}: ${each.figure.title}`
    if (each.samples.new.length === 0) return [`${named}: not measured`]
    if (!isOver(each, limit)) return []
    return [`${named}: ${limited(each)?.toFixed(3)} times the ${each.figure.isPeak ? 'memory' : 'processor time'}`]
  })
  if (faults.length > 0 || comparisons.some((each) => limited(each) !== undefined)) return faults
  return ['no figure took enough processor time to be judged']
}

/** How many times more rounds a second look takes. */
const secondLook = 3

/**
 * Compares, and measures rows that exceed `limit` once more, with three times the rounds. Of these rows the second
 * result alone counts, because the first one was selected for being large, unless it is too short to judge.
 */
export async function compare(
  compared: Compared,
  limit = Infinity,
  measure: typeof measureOnce = measureOnce,
): Promise<readonly Comparison[]> {
  const first = await measure(compared)
  const rows = compared.rows.filter(({ name }) => first.some((each) => each.row === name && isOver(each, limit)))
  if (rows.length === 0) return first
  compared.say(`over the limit of ${limit}, measured again: ${rows.map(({ name }) => name).join(', ')}`)
  const second = await measure({ ...compared, rows, rounds: compared.rounds * secondLook })
  return first.map((each) => {
    if (!rows.some(({ name }) => name === each.row)) return each
    const again = second.find(({ row, figure }) => row === each.row && figure.title === each.figure.title)
    return again !== undefined && limited(again) !== undefined ? again : each
  })
}
