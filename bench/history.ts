/** The history of speed: records of runs in JSON lines, and the figures of a row over these runs. */
import { appendFile, mkdir, readdir, readFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { root } from './build.js'
import { peerNames } from './peers/peer.js'
import { run } from './programs.js'
import { cell, shown, tableHead, tableLine, type ResultObject } from './table.js'

/** A run beside peers: one line of a file. */
export interface RunRecord {
  /** The end of the run, in UTC, as in ISO 8601. */
  readonly date: string
  /** The hash of the measured commit, followed by `-changed` if the checkout differed from it. */
  readonly commit: string
  readonly machine: { readonly processor: string; readonly cores: number }
  /** The version of Node.js. */
  readonly node: string
  /** The load of the machine before the run: the mean of one minute. */
  readonly load: number
  /** How many measurements each median is taken from. */
  readonly rounds: number
  readonly results: readonly ResultObject[]
}

/** Where records are kept unless another folder is named. */
export const resultsFolder = join(root, 'bench', 'results')

export function machine(): RunRecord['machine'] {
  const all = cpus()
  return { processor: all[0]?.model ?? 'unknown processor', cores: all.length }
}

/** The commit of this checkout, as in a record. Records that are not committed yet do not count as a change. */
export async function commitOfCheckout(): Promise<string> {
  const git = (...words: readonly string[]) => run('git', ['-C', root, ...words])
  const changed = await git('status', '--porcelain', '--untracked-files=no', '--', '.', ':(exclude)bench/results')
  return `${(await git('rev-parse', 'HEAD')).trim()}${changed === '' ? '' : '-changed'}`
}

/** Appends a record to the file of its year in `folder`, which is created if it is missing. Resolves to the file. */
export async function appendRecord(folder: string, record: RunRecord): Promise<string> {
  await mkdir(folder, { recursive: true })
  const file = join(folder, `${record.date.slice(0, 4)}.jsonl`)
  await appendFile(file, `${JSON.stringify(record)}\n`)
  return file
}

/** All records in `folder`, oldest first. Rejects if there are none, or if a line is not JSON. */
export async function readRecords(folder: string): Promise<readonly RunRecord[]> {
  const records: RunRecord[] = []
  const names = await readdir(folder).catch(() => [])
  for (const name of names.filter((each) => each.endsWith('.jsonl'))) {
    const lines = (await readFile(join(folder, name), 'utf8')).split('\n')
    for (const [index, line] of lines.entries()) {
      if (line === '') continue
      try {
        records.push(JSON.parse(line) as RunRecord)
      } catch (error) {
        throw new Error(`${join(folder, name)}, line ${index + 1}: ${String(error)}`, { cause: error })
      }
    }
  }
  if (records.length === 0) throw new Error(`${folder} has no records: --record writes them`)
  return records.sort((a, b) => a.date.localeCompare(b.date))
}

/**
 * A table for each figure of a row, with a line for each run: our value and processor time, and each peer with its
 * ratio.
 */
export function historyTables(records: readonly RunRecord[], row: string): string {
  const figures = new Map<string, { record: RunRecord; result: ResultObject }[]>()
  for (const record of records) {
    for (const result of record.results.filter((each) => each.row === row)) {
      const title = `${result.title}, ${result.unit}`
      figures.set(title, [...(figures.get(title) ?? []), { record, result }])
    }
  }
  const tables = [...figures].map(([title, runs]) => {
    const peers = peerNames.filter(
      (name) => name !== 'tidegate' && runs.some(({ result }) => result.medians[name] !== undefined),
    )
    const lines = runs.map(({ record, result: { unit, medians, processor } }) => {
      const { date, commit, node, load } = record
      const used = processor.tidegate
      return tableLine([
        date.slice(0, 16).replace('T', ' '),
        commit.replace(/^(.{10})[0-9a-f]*/, '$1'),
        `${record.machine.cores} × ${record.machine.processor}, Node ${node}, load ${load.toFixed(1)}`,
        cell(unit, medians, 'tidegate'),
        used === undefined ? '–' : shown('ms', used),
        ...peers.map((name) => cell(unit, medians, name)),
      ])
    })
    const columns = ['date', 'commit', 'machine', 'tidegate', 'processor time of each, ms', ...peers]
    return [`${row}: ${title}\n`, tableHead(columns), ...lines].join('\n')
  })
  return tables.join('\n\n')
}
