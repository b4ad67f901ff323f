/**
 * Benchmarks Tidegate against other servers, or against another commit, with the same work in the same run. Prints
 * medians and ratios. `npm run bench -- --help` lists the options.
 */
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { auditRows } from './audit.js'
import { backendRows } from './backends.js'
import { build } from './build.js'
import { allowed, compare, overLimit, type Side } from './compare.js'
import { writeContent } from './content.js'
import { copyRows } from './copies.js'
import { appendRecord, commitOfCheckout, historyTables, machine, readRecords, resultsFolder } from './history.js'
import { listingRows } from './listings.js'
import { memoryOver, memoryRows, runMemoryFigures, rest } from './memory.js'
import { apache } from './peers/apache.js'
import { cp } from './peers/cp.js'
import { nginx } from './peers/nginx.js'
import { node } from './peers/node.js'
import { openssh } from './peers/openssh.js'
import type { Peer, PeerName, PeerType } from './peers/peer.js'
import { rclone } from './peers/rclone.js'
import { dataFolder, ownMain, startTidegate, tidegate } from './peers/tidegate.js'
import { run } from './programs.js'
import { ratio, type Bench, type Row } from './row.js'
import { ceilingOf, median, processorTimes } from './samples.js'
import { rightsRows } from './rights.js'
import { searchRows } from './search.js'
import { sftpRows } from './sftp.js'
import { smallRequestRows } from './small-requests.js'
import {
  comparisonColumns,
  comparisonLine,
  comparisonObject,
  resultLine,
  resultObject,
  shown,
  tableHead,
  tableLine,
  type Result,
} from './table.js'
import { thumbnailRows } from './thumbnails.js'
import { transferRows } from './transfers.js'
import { takeTurns, type Contender } from './turns.js'

const peerTypes: readonly PeerType[] = [tidegate, node, rclone, nginx, apache, openssh, cp]
const allRows: readonly Row[] = [
  ...transferRows,
  ...smallRequestRows,
  ...listingRows,
  ...searchRows,
  ...rightsRows,
  ...auditRows,
  ...thumbnailRows,
  ...sftpRows,
  ...memoryRows,
  ...backendRows,
  ...copyRows,
]

/** Rows in which several connections keep the server busy. */
const workerRows: readonly string[] = ['get-small-webdav', 'put-small', 'sftp-small']

interface Options {
  readonly only?: readonly string[]
  readonly peers?: readonly string[]
  readonly size: string
  readonly scale: string
  readonly repeat?: string
  readonly compare?: string
  readonly limit?: string
  readonly json?: boolean
  /** A folder; true: the default one. */
  readonly record?: string | true
  readonly history?: string | true
  readonly workers?: string
}

/** Cleanup functions, called in reverse order at the end or when the bench is interrupted. */
const undo: (() => Promise<unknown>)[] = []

async function cleanUp(): Promise<void> {
  for (let step = undo.pop(); step !== undefined; step = undo.pop()) {
    await step().catch((error: unknown) => console.error(`cleaning up: ${String(error)}`))
  }
}

function positive(option: string, text: string): number {
  if (Number(text) > 0) return Number(text)
  throw new Error(`--${option} takes a number above 0`)
}

/** The items whose names start with one of the given names; all items if no name is given. */
function named<T extends { readonly name: string }>(
  option: string,
  all: readonly T[],
  words: readonly string[] | undefined,
): readonly T[] {
  if (words === undefined) return all
  const matches = (word: string) => all.filter(({ name }) => name === word || name.startsWith(`${word}-`))
  const unknown = words.find((word) => matches(word).length === 0)
  if (unknown !== undefined) throw new Error(`--${option} ${unknown}: there is ${names(all)}`)
  return all.filter((each) => words.some((word) => matches(word).includes(each)))
}

const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name).join(', ')

interface Plan {
  readonly rows: readonly Row[]
  readonly rounds: number
  /** The load of the machine before the run. */
  readonly load: number
  /** Deleted at the end. */
  readonly folder: string
  /** Creates a folder of this name to serve, with the files that the rows need. */
  readonly place: (name: string) => Promise<Bench>
  /** Prints a progress line; to standard error if the results are JSON. */
  readonly say: (line: string) => void
}

async function plan({ only, size, scale, repeat, json }: Options, defaultRounds: number): Promise<Plan> {
  const rounds = positive('repeat', repeat ?? String(defaultRounds))
  if (!Number.isInteger(rounds)) throw new Error('--repeat takes a whole number')
  const amounts = { size: Math.ceil(positive('size', size) * 2 ** 20), scale: positive('scale', scale) }
  const rows = named('only', allRows, only)
  const say = (line: string) => (json ? console.error(line) : console.log(line))
  const load = loadavg()[0] ?? 0
  const { cores, processor } = machine()
  say(`${cores} × ${processor}, medians of ${rounds}, load before ${load.toFixed(1)}\n`)
  for (const row of rows) {
    const note = await row.note?.()
    if (note !== undefined) say(`Note on ${row.name}: ${note}\n`)
  }
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-bench-'))
  undo.push(() => rm(folder, { recursive: true, force: true }))
  // If root runs the bench, Apache's child processes run as another user.
  await chmod(folder, 0o711)
  const clientKey = join(folder, 'client-key')
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', clientKey])
  for (const row of rows) undo.push(async () => row.finish?.())
  const place = async (name: string): Promise<Bench> => {
    const own = join(folder, name)
    const files = join(own, 'data', 'files')
    await mkdir(files, { recursive: true })
    for (const each of [own, join(own, 'data')]) await chmod(each, 0o711)
    await chmod(files, 0o777)
    const bench = { folder: own, files, clientKey, bigFile: 'big.bin', ...amounts }
    await writeContent(join(files, bench.bigFile), bench.size)
    for (const row of rows) await row.prepare?.(bench)
    return bench
  }
  return { rows, rounds, load, folder, place, say }
}

async function startPeers(types: readonly PeerType[], bench: Bench, say: (line: string) => void): Promise<Peer[]> {
  const peers: Peer[] = []
  for (const type of types) {
    const version = await type.version()
    if (version === undefined) {
      say(`- ${type.name}: not installed`)
      continue
    }
    try {
      const peer = await type.start(bench)
      undo.push(() => Promise.all(peer.processes.map((each) => each.stop())))
      peers.push(peer)
      say(`- ${type.name}: ${version}`)
    } catch (error) {
      say(`- ${type.name}: does not start: ${message(error)}`)
      process.exitCode = 1
    }
  }
  return peers
}

const message = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Reports a failed measurement. The run continues without it, and exits with status 1. */
function reportFailure(row: Row, { name }: Contender, error: unknown): void {
  console.error(`${row.name}, ${name}: ${message(error)}`)
  process.exitCode = 1
}

async function besidePeers(options: Options): Promise<void> {
  const types = named('peers', peerTypes, options.peers)
  const record =
    options.record === undefined ? undefined : { folder: folderOf(options.record), commit: await commitOfCheckout() }
  const { rows, rounds, load, place, say } = await plan(options, 3)
  // Before the peers start: some of them cache a listing for minutes.
  const bench = await place('served')
  const peers = await startPeers(types, bench, say)
  const columns = peers.map(({ name }) => name)
  say(`\n${tableHead(['work', ...columns, 'aim'])}`)
  const results: Result[] = []
  const add = (result: Result) => {
    results.push(result)
    say(resultLine(result, columns))
  }
  const contenders = peers.map((peer) => ({ name: peer.name, peer, bench }))
  const memory = await memoryOver(peers, rest(bench), async () => {
    for (const row of rows) {
      const samples = await takeTurns(row, contenders, { rounds }, (contender, error) =>
        reportFailure(row, contender, error),
      )
      row.figures(bench).forEach((figure, index) => {
        const [medians, processor] = [new Map<PeerName, number>(), new Map<PeerName, number>()]
        for (const [name, figures] of samples) {
          const taken = figures[index]
          if (taken) medians.set(name, median(taken.map(({ value }) => value)))
          const times = taken && processorTimes(taken)
          if (times) processor.set(name, median(times))
        }
        add({ row: row.name, figure, medians, processor })
      })
    }
  })
  runMemoryFigures.forEach((figure, index) => {
    const medians = new Map<PeerName, number>()
    peers.forEach(({ name }, peer) => {
      const value = memory[peer]?.[index]
      if (value !== undefined) medians.set(name, value)
    })
    add({ row: 'memory-run', figure, medians, processor: new Map() })
  })
  const objects = results.map(resultObject)
  if (options.json) console.log(JSON.stringify(objects, undefined, 2))
  if (record === undefined) return
  const file = await appendRecord(record.folder, {
    date: new Date().toISOString(),
    commit: record.commit,
    machine: machine(),
    node: process.version,
    load,
    rounds,
    results: objects,
  })
  say(`\nrecorded in ${file}`)
}

const folderOf = (option: string | true): string => (option === true ? resultsFolder : option)

/** Prints the recorded figures of the rows that `only` names. */
async function showHistory(folder: string, only: readonly string[] | undefined): Promise<void> {
  const records = await readRecords(folder)
  const recorded = new Set(records.flatMap(({ results }) => results.map(({ row }) => row)))
  const rows = named(
    'only',
    [...recorded].map((name) => ({ name })),
    only,
  )
  for (const { name } of rows) console.log(`${historyTables(records, name)}\n`)
}

async function besideCommit(options: Options, commit: string): Promise<void> {
  if (options.peers !== undefined) throw new Error('--compare runs no peers')
  if (options.record !== undefined) throw new Error('--compare is not recorded')
  const limit = options.limit === undefined ? undefined : positive('limit', options.limit)
  const { rows, rounds, folder, place, say } = await plan(options, 9)
  const old = await build(commit, join(folder, 'commit'), say, (step) => undo.push(step))
  const places: Readonly<Record<Side, Bench>> = { old: await place('old'), new: await place('new') }
  const comparisons = await compare(
    {
      programs: { old: old.main, new: ownMain },
      places,
      rows,
      rounds,
      say: (line) => console.error(line),
      onStart: (stop) => undo.push(stop),
      onFailure: reportFailure,
    },
    limit,
  )
  say(`\nold: ${old.title}; new: this checkout\n\n${tableHead(comparisonColumns)}`)
  for (const each of comparisons) say(comparisonLine(each))
  if (options.json) console.log(JSON.stringify(comparisons.map(comparisonObject), undefined, 2))
  if (limit === undefined) return
  for (const fault of overLimit(comparisons, limit)) {
    console.error(`over the limit of ${limit}: ${fault}`)
    process.exitCode = 1
  }
}

async function besideOneProcess(options: Options, workers: number): Promise<void> {
  const { rows, rounds, place, say } = await plan({ ...options, only: options.only ?? workerRows }, 5)
  const places = { one: await place('one'), several: await place('several') }
  const contenders: Contender<'one' | 'several'>[] = []
  for (const name of ['one', 'several'] as const) {
    const count = String(name === 'one' ? 1 : workers)
    const peer = await startTidegate(ownMain, places[name], dataFolder(places[name]), ['--workers', count])
    undo.push(() => Promise.all(peer.processes.map((each) => each.stop())))
    contenders.push({ name, peer, bench: places[name] })
  }
  say(tableHead(['work', 'one process', `${workers} workers`, 'faster', 'ceiling', 'of the ceiling']))
  const results: object[] = []
  for (const row of rows) {
    const failed = (contender: Contender, error: unknown) => reportFailure(row, contender, error)
    // The first measurement warms up the compiler.
    await takeTurns(row, contenders, { rounds: 1 }, failed)
    const samples = await takeTurns(row, contenders, { rounds }, failed)
    row.figures(places.one).forEach(({ title, unit }, index) => {
      const taken = { one: samples.get('one')?.[index] ?? [], several: samples.get('several')?.[index] ?? [] }
      const [one, several] = [taken.one, taken.several].map((of) => median(of.map(({ value }) => value)))
      const faster = ratio(unit, several ?? NaN, one ?? NaN)
      const ceiling = ceilingOf(taken.one, machine().cores)
      results.push({ row: row.name, title, unit, one, several, faster, ceiling, samples: taken })
      const values = [shown(unit, one ?? NaN), shown(unit, several ?? NaN), `×${faster.toFixed(2)}`]
      say(tableLine([`${title}, ${unit}`, ...values, `×${ceiling.toFixed(2)}`, (faster / ceiling).toFixed(2)]))
    })
  }
  if (options.json) console.log(JSON.stringify(results, undefined, 2))
}

async function bench(options: Options): Promise<void> {
  if (options.history !== undefined) return showHistory(folderOf(options.history), options.only)
  if (options.workers !== undefined) return besideOneProcess(options, positive('workers', options.workers))
  if (options.compare !== undefined) return besideCommit(options, options.compare)
  if (options.limit !== undefined) throw new Error('--limit needs --compare')
  return besidePeers(options)
}

const program = new Command('bench')
  .description('Measures Tidegate beside the servers that are installed, or beside another commit of Tidegate.')
  .option('--only <rows...>', `names of rows, or how they begin: ${names(allRows)}`)
  .option('--peers <names...>', `only these servers: ${names(peerTypes)}`)
  .option('--size <MiB>', 'size of a large file', '1024')
  .option('--scale <factor>', 'factor of all other amounts of work', '1')
  .option('--repeat <rounds>', 'measurements to take the median of (default: 3, with --compare 9)')
  .option(
    '--compare <commit>',
    'builds this commit, or takes the built checkout in this folder, and runs it by turns with this checkout: processor ' +
      `time of the daemon and wall clock. Not slower is at most ${allowed.processor} and ${allowed.wall} times the old`,
  )
  .option(
    '--limit <ratio>',
    'with --compare: status 1 where a figure takes more than this times the processor time or the peak memory, also ' +
      'when its row is measured again with three times the rounds',
  )
  .option('--workers <n>', `measures n workers by turns with one process (default rows: ${workerRows.join(', ')})`)
  .option('--json', 'print the results as JSON to standard output, all else to standard error')
  .option('--record [folder]', 'append the results to a file in this folder (default: bench/results)')
  .option('--history [folder]', 'measure nothing: print the recorded figures of the rows of --only, run by run')
  .addHelpText(
    'after',
    '\nMemory at rest and at its peak is reported for every run.\n' +
      'The environment variable RCLONE names the rclone to run; its copies rename from version 1.63 on.\n' +
      'The status is 1 where a measurement failed.',
  )
  .action(bench)

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void cleanUp().finally(() => process.exit(130)))
}
try {
  await program.parseAsync()
} catch (error) {
  console.error(`bench: ${message(error)}`)
  process.exitCode = 1
} finally {
  await cleanUp()
}
