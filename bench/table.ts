/** Formats the results as Markdown tables and as JSON. */
import type { Comparison, Pair } from './compare.js'
import type { PeerName } from './peers/peer.js'
import { judgeAim, ratio, type Figure, type Unit, type Verdict } from './row.js'

export interface Result {
  readonly row: string
  readonly figure: Figure
  /** The median of each measured peer. */
  readonly medians: ReadonlyMap<PeerName, number>
  /** Milliseconds of processor time for each request, of each peer that used enough to be judged. */
  readonly processor: ReadonlyMap<PeerName, number>
}

type ByPeer = Readonly<Partial<Record<PeerName, number>>>

/** A result in JSON. */
export interface ResultObject {
  readonly row: string
  readonly title: string
  readonly unit: Unit
  readonly medians: ByPeer
  readonly processor: ByPeer
  readonly aims: readonly Verdict[]
}

const decimals: Readonly<Record<Unit, number>> = { s: 2, ms: 1, '/s': 0, MiB: 0, bytes: 3, hits: 0, times: 2 }

export const shown = (unit: Unit, value: number): string =>
  value.toFixed(unit === 'ms' && value < 10 ? 3 : decimals[unit])

export const tableLine = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

export function tableHead(columns: readonly string[]): string {
  return `${tableLine(columns)}\n${tableLine(columns.map(() => '---'))}`
}

/** `0.61 (×1.3)`: the peer's figure, and how many times faster ours is. */
export function cell(unit: Unit, medians: ByPeer, peer: PeerName): string {
  const value = medians[peer]
  if (value === undefined) return '–'
  const ours = medians.tidegate
  if (peer === 'tidegate' || ours === undefined) return shown(unit, value)
  return `${shown(unit, value)} (×${ratio(unit, ours, value).toFixed(2)})`
}

function verdicts({ figure, medians }: Result): string {
  if (figure.aims.length === 0) return 'no aim'
  return figure.aims
    .map((aim) => judgeAim(aim, figure.unit, medians))
    .map(({ aim, met }) => `${aim}: ${met === undefined ? 'not compared' : met ? 'met' : '**missed**'}`)
    .join('; ')
}

export function resultLine(result: Result, peers: readonly PeerName[]): string {
  const { title, unit } = result.figure
  const medians: ByPeer = Object.fromEntries(result.medians)
  return tableLine([`${title}, ${unit}`, ...peers.map((peer) => cell(unit, medians, peer)), verdicts(result)])
}

export function resultObject({ row, figure, medians, processor }: Result): ResultObject {
  return {
    row,
    title: figure.title,
    unit: figure.unit,
    medians: Object.fromEntries(medians),
    processor: Object.fromEntries(processor),
    aims: figure.aims.map((aim) => judgeAim(aim, figure.unit, medians)),
  }
}

export const comparisonColumns: readonly string[] = [
  ...['work', 'processor time of each, ms: old', 'new', 'new / old'],
  ...['measured: old', 'new', 'new / old, as time', 'verdict'],
]

export function comparisonLine({ figure: { title, unit }, processor, value, verdict }: Comparison): string {
  const cells = (pair: Pair | undefined, of: Unit) =>
    pair === undefined ? ['–', '–', '–'] : [shown(of, pair.old), shown(of, pair.new), `×${pair.ratio.toFixed(3)}`]
  return tableLine([`${title}, ${unit}`, ...cells(processor, 'ms'), ...cells(value, unit), verdict])
}

export function comparisonObject({ figure, ...rest }: Comparison): object {
  return { title: figure.title, unit: figure.unit, ...rest }
}
