/** What is measured, what is aimed at, and how a figure is judged. */
import type { Ground, Peer, PeerName } from './peers/peer.js'
import type { Sample } from './samples.js'

export type Unit = 's' | 'ms' | '/s' | 'MiB' | 'bytes' | 'hits'

/**
 * At least `factor` times the pace of the best of `peers`, or a figure that stands by itself. SFTPGo and OpenList are in no
 * distribution: where they set the mark, a peer stands for them with the factor by which they were ahead of it when all were
 * measured together.
 */
export type Aim = { readonly factor: number; readonly peers: readonly PeerName[] } | { readonly atMost: number }

export interface Figure {
  readonly title: string
  readonly unit: Unit
  readonly aims: readonly Aim[]
}

export interface Bench extends Ground {
  /** Bytes of a large file. */
  readonly size: number
  /** A file of `size` bytes below the served folder. */
  readonly bigFile: string
  /** Factor of all other amounts of work: 1 for figures, less for a quick look. */
  readonly scale: number
}

/** An amount of work at the scale of this run. */
export function scaled({ scale }: Bench, amount: number): number {
  return Math.max(1, Math.round(amount * scale))
}

/** Work that yields one or several figures at once. */
export interface Row {
  /** For `--only`. */
  readonly name: string
  readonly figures: (bench: Bench) => readonly Figure[]
  /** A sentence on what the row cannot show on this machine. */
  readonly note?: () => Promise<string | undefined>
  /** What has to be there before, once for all peers that serve the same folder. */
  readonly prepare?: (bench: Bench) => Promise<unknown>
  /** Ends what the row has started, after all measurements. */
  readonly finish?: () => Promise<void>
  /** Bytes that one measurement leaves in the page cache: room that a virtual machine may first have to ask its host for. */
  readonly writes?: (bench: Bench) => number
  /** One measurement of all figures in their order; undefined: this peer does not do such work. */
  readonly measure: (peer: Peer, bench: Bench) => Promise<readonly (number | Sample)[] | undefined>
}

/** How much faster ours is: above 1 is better, whatever the unit. */
export function ratio(unit: Unit, ours: number, theirs: number): number {
  return unit === '/s' ? ours / theirs : theirs / ours
}

export interface Verdict {
  readonly aim: string
  /** Undefined: no peer to compare with was measured. */
  readonly met: boolean | undefined
}

/** `results` holds one median for each peer that was measured. */
export function judgeAim(aim: Aim, unit: Unit, results: ReadonlyMap<PeerName, number>): Verdict {
  const ours = results.get('tidegate')
  if ('atMost' in aim) {
    return { aim: `≤ ${aim.atMost} ${unit}`, met: ours === undefined ? undefined : ours <= aim.atMost }
  }
  const best = aim.peers.length > 1 ? `best of ${aim.peers.join(', ')}` : aim.peers.join('')
  const told = `≥ ${aim.factor} × ${best}`
  const ratios = aim.peers.flatMap((name) => {
    const theirs = results.get(name)
    return ours === undefined || theirs === undefined ? [] : [ratio(unit, ours, theirs)]
  })
  return { aim: told, met: ratios.length === 0 ? undefined : Math.min(...ratios) >= aim.factor }
}

export function mebibytes(bytes: number): string {
  return `${Number((bytes / 2 ** 20).toPrecision(3))} MiB`
}

/** A count as titles show it: `10,000`. */
export function counted(count: number): string {
  return count.toLocaleString('en')
}
