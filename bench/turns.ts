/** Measurements by turns: what else the machine does falls on all contenders alike. */
import { join } from 'node:path'
import { warmPageCache } from './content.js'
import type { Peer } from './peers/peer.js'
import type { Bench, Row } from './row.js'
import type { Sample } from './samples.js'

/** A server in a run, over the files of `bench`. */
export interface Contender<Name extends string = string> {
  readonly name: Name
  readonly peer: Peer
  readonly bench: Bench
}

/** For each contender and each figure of a row, a sample of every round; no figures where it does not do such work. */
export type Samples<Name extends string> = ReadonlyMap<Name, readonly (readonly Sample[])[]>

/** One measurement after the other, `times` in all, as one sample of each figure. */
async function measure(row: Row, { peer, bench }: Contender, times: number): Promise<readonly Sample[] | undefined> {
  const taken: (readonly Sample[])[] = []
  for (let time = 0; time < times; time++) {
    const bytes = row.writes?.(bench) ?? 0
    if (bytes > 0) await warmPageCache(join(bench.folder, 'warm'), bytes)
    const measured = await row.measure(peer, bench)
    if (measured === undefined) return undefined
    taken.push(measured.map((each) => (typeof each === 'number' ? { value: each } : each)))
  }
  return taken[0]?.map((_, figure) => joined(taken.map((samples) => samples[figure] ?? { value: NaN })))
}

function joined(samples: readonly Sample[]): Sample {
  const sum = (figure: (sample: Sample) => number) => samples.reduce((total, sample) => total + figure(sample), 0)
  return {
    value: sum(({ value }) => value) / samples.length,
    ...(samples[0]?.processor === undefined ? {} : { processor: sum(({ processor = 0 }) => processor) }),
    requests: sum(({ requests = 1 }) => requests),
  }
}

/**
 * Contender after contender, `times` measurements each, then all again from the next one on. A measurement that fails is
 * reported to `onFailure`, and left out.
 */
export async function takeTurns<Name extends string>(
  row: Row,
  contenders: readonly Contender<Name>[],
  { rounds, times = 1 }: { readonly rounds: number; readonly times?: number },
  onFailure: (contender: Contender<Name>, error: unknown) => void,
): Promise<Samples<Name>> {
  const samples = new Map<Name, Sample[][]>(contenders.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    const first = round % contenders.length
    for (const contender of [...contenders.slice(first), ...contenders.slice(0, first)]) {
      try {
        const taken = await measure(row, contender, times)
        taken?.forEach((sample, figure) => ((samples.get(contender.name) ?? [])[figure] ??= []).push(sample))
      } catch (error) {
        onFailure(contender, error)
      }
    }
  }
  return samples
}
