/** The rows of the bench, their aims, and the verdict on a figure. */
import type { Ground, Peer, PeerName } from './peers/peer.js'
import type { Sample } from './samples.js'

/** `times`: how many times as long something takes as something else. */
export type Unit = 's' | 'ms' | '/s' | 'MiB' | 'bytes' | 'hits' | 'times'

/**
 * At least `factor` times the speed of the fastest of `peers`, or an absolute limit. SFTPGo and OpenList are in no
 * distribution: if they are the reference, another peer represents them, with the factor by which they were faster when
 * all were measured together.
 */
export type Aim = { readonly factor: number; readonly peers: readonly PeerName[] } | { readonly atMost: number }

export interface Figure {
  readonly title: string
  readonly unit: Unit
  readonly aims: readonly Aim[]
  /** Set if this is the peak memory of a daemon that only this row used: `--limit` judges it. */
  readonly isPeak?: true
}

export interface Bench extends Ground {
  /** Size of a large file in bytes. */
  readonly size: number
  /** A file of `size` bytes below the served folder. */
  readonly bigFile: string
  /** Factor of all other amounts of work: 1 for reliable figures, less for a quick run. */
  readonly scale: number
}

/** An amount of work at the scale of this run. */
export function scaled({ scale }: Bench, amount: number): number {
  return Math.max(1, Math.round(amount * scale))
}

/** A measurement that yields one or several figures. */
export interface Row {
  /** The name for `--only`. */
  readonly name: string
  readonly figures: (bench: Bench) => readonly Figure[]
  /** A note on what the row cannot measure on this machine. */
  readonly note?: () => Promise<string | undefined>
  /** Prepares the files, once for all peers that serve the same folder. */
  readonly prepare?: (bench: Bench) => Promise<unknown>
  /** Stops what the row has started, after all measurements. */
  readonly finish?: () => Promise<void>
  /**
   * Bytes that one measurement leaves in the page cache: a virtual machine may have to request that memory from its
   * host.
   */
  readonly writes?: (bench: Bench) => number
  /** Measures all figures once, in their order; undefined if the peer does not support the work. */
  readonly measure: (peer: Peer, bench: Bench) => Promise<readonly (number | Sample)[] | undefined>
}

/** How many times faster ours is: above 1 is better, for every unit. */
export function ratio(unit: Unit, ours: number, theirs: number): number {
  return unit === '/s' ? ours / theirs : theirs / ours
}

export interface Verdict {
  readonly aim: string
  /** Undefined if no reference peer was measured. */
  readonly met: boolean | undefined
}

/** `results`: the median of each measured peer. */
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

/** A count as in titles: `10,000`. */
export function counted(count: number): string {
  return count.toLocaleString('en')
}
