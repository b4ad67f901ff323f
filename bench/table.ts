/** The results as people read them: a table in Markdown. */
import type { PeerName } from './peers/peer.js'
import { judgeAim, ratio, type Figure, type Unit } from './row.js'

export interface Result {
  readonly row: string
  readonly figure: Figure
  /** The median for each peer that was measured. */
  readonly medians: ReadonlyMap<PeerName, number>
}

const decimals: Readonly<Record<Unit, number>> = { s: 2, ms: 1, '/s': 0, MiB: 0, bytes: 3, hits: 0 }

const shown = (unit: Unit, value: number): string => value.toFixed(decimals[unit])

/** `0.61 (×1.3)`: the peer's figure, and how many times faster ours is. */
function cell({ figure: { unit }, medians }: Result, peer: PeerName): string {
  const value = medians.get(peer)
  if (value === undefined) return '–'
  const ours = medians.get('tidegate')
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
  return `| ${[`${title}, ${unit}`, ...peers.map((peer) => cell(result, peer)), verdicts(result)].join(' | ')} |`
}

export function tableHead(peers: readonly PeerName[]): string {
  const columns = ['work', ...peers, 'aim']
  return `| ${columns.join(' | ')} |\n| ${columns.map(() => '---').join(' | ')} |`
}

export function resultObject({ row, figure, medians }: Result): object {
  return {
    row,
    title: figure.title,
    unit: figure.unit,
    medians: Object.fromEntries(medians),
    aims: figure.aims.map((aim) => judgeAim(aim, figure.unit, medians)),
  }
}
