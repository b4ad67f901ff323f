/** Alternates the measurements, so that other load of the machine affects all contenders equally. */
import { join } from 'node:path'
import { warmPageCache } from './content.js'
import type { Peer } from './peers/peer.js'
import type { Bench, Row } from './row.js'
import type { Sample } from './samples.js'

/** A server in a run, with the files of `bench`. */
export interface Contender<Name extends string = string> {
  readonly name: Name
  readonly peer: Peer
  readonly bench: Bench
}

/** The samples of all rounds, by contender and figure; no figures if the contender does not support the row. */
export type Samples<Name extends string> = ReadonlyMap<Name, readonly (readonly Sample[])[]>

/** Takes `times` consecutive measurements, and combines them into one sample of each figure. */
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
    ...(samples[0]?.processor === undefined
      ? {}
      : { processor: sum(({ processor = 0 }) => processor), others: sum(({ others = 0 }) => others) }),
    requests: sum(({ requests = 1 }) => requests),
  }
}

/**
 * Measures each contender `times` times per round. Each round starts with the next contender. A failed measurement is
 * reported to `onFailure` and omitted.
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
