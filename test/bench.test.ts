/**
 * The bench runs: every row against Tidegate with minimal work, and a comparison of two builds. Its figures are not
 * checked.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { compare, overLimit, verdict, type Comparison } from '../bench/compare.js'
import { appendRecord, historyTables, readRecords, type RunRecord } from '../bench/history.js'
import { startProcess } from '../bench/peers/process.js'
import type { Row } from '../bench/row.js'
import { ceilingOf, median, processorTimes } from '../bench/samples.js'
import type { ResultObject } from '../bench/table.js'
import { lacks, onlyWithVariants } from './programs.js'

const run = promisify(execFile)
const program = fileURLToPath(new URL('../bench/run.js', import.meta.url))
const checkout = fileURLToPath(new URL('../..', import.meta.url))

interface Printed {
  readonly stdout: string
  readonly stderr: string
}

/** Runs the bench with minimal work. Checks its exit status, and that it has removed its folders. */
async function runBench(t: Test, expected: number, ...words: readonly string[]): Promise<Printed> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-bench-test-'))
  const stop = new AbortController()
  t.teardown(async () => {
    stop.abort() // The bench stops its daemons itself, also if this test times out.
    await rm(folder, { recursive: true, force: true })
  })
  const options = { cwd: checkout, env: { ...process.env, TMPDIR: folder }, maxBuffer: 1 << 24, signal: stop.signal }
  const tiny = ['--size', '0.1', '--scale', '0.001', '--repeat', '1', '--json']
  const printed = await run(process.execPath, [program, ...tiny, ...words], options).then(
    (output) => ({ status: 0, ...output }),
    (error: unknown) => {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
      return { status: code, stdout, stderr }
    },
  )
  if (!t.equal(printed.status, expected, 'the status')) t.comment(printed.stderr)
  t.same(await readdir(folder), [], 'no folder remains')
  return printed
}

const skip = lacks('wrk', 'curl', 'rclone', 'sftp', 'ssh-keygen', 'sshd', 'git')

interface Shown {
  readonly row: string
  readonly title: string
  readonly medians: Readonly<Record<string, number>>
}

/**
 * All rows except those of storages on servers, which have their own suites, and five of the six memory rows. The
 * second list is left to TIDEGATE_VARIANTS=all.
 */
const rows = [
  ...['put-small', 'get-small-webdav', 'move', 'ping', 'fs', 'sftp-rclone'],
  ...(onlyWithVariants === false
    ? [
        'get',
        'put',
        'propfind',
        'list',
        'wrk',
        'search',
        'rights',
        'thumbnails',
        'tiles',
        'sftp',
        'start',
        'copy',
        'memory-sftp-get',
        'memory-connections',
      ]
    : []),
]

void t.test('every kind of row measures Tidegate', { skip }, async (t) => {
  const { stdout } = await runBench(t, 0, '--peers', 'tidegate', '--only', ...rows)
  const figures = JSON.parse(stdout) as readonly Shown[]
  t.same(
    figures.filter(({ medians }) => !Number.isFinite(medians.tidegate)).map(({ row, title }) => `${row}: ${title}`),
    [],
    'each figure has a value',
  )
  const measured = new Set(figures.map(({ row }) => row))
  for (const row of ['move', 'ping', 'fs-get', 'fs-list', 'get-small-webdav', 'sftp-rclone', 'memory-run']) {
    t.ok(measured.has(row), row)
  }
})

void t.test('the bare Node server supports the file rows', { skip }, async (t) => {
  const { stdout } = await runBench(t, 0, '--peers', 'node', '--only', 'get-http', 'put', 'move', 'ping')
  const figures = JSON.parse(stdout) as readonly Shown[]
  t.ok(figures.length > 8)
  t.same(
    figures.filter(({ medians }) => !Number.isFinite(medians.node)).map(({ row, title }) => `${row}: ${title}`),
    [],
  )
})

void t.test('--compare measures two builds, here the same one twice', { skip }, async (t) => {
  // Enough moves that the processor time of each round can be judged.
  const words = ['--compare', '.', '--only', 'move', '--scale', '4', '--limit', '0.001']
  const { stdout, stderr } = await runBench(t, 1, ...words)
  t.match(stderr, /over the limit of 0.001, measured again: move\n/)
  t.match(stderr, /over the limit of 0.001: /)
  const comparisons = JSON.parse(stdout) as readonly Comparison[]
  t.same(
    comparisons.map(({ row }) => row),
    ['move', 'memory-run', 'memory-run', 'memory-run'],
  )
  for (const { row, value, samples } of comparisons) {
    t.ok(value && value.old > 0 && value.new > 0 && value.ratio > 0, row)
    const rounds = row === 'move' ? 3 : 1
    t.equal(samples.old.length, rounds)
    t.equal(samples.new.length, rounds)
  }
  const [move] = comparisons
  t.ok(Number(move?.samples.new[0]?.processor) > 0, 'the daemon used processor time')
  t.equal(Number(move?.samples.new[0]?.requests) % 5, 0, 'processor time is reported for each request')
})

void t.test('--workers measures several workers by turns with one process', { skip }, async (t) => {
  const { stdout } = await runBench(t, 0, '--workers', '2', '--only', 'put-small')
  const results = JSON.parse(stdout) as readonly { readonly row: string; readonly faster: number }[]
  t.match(results, [{ row: 'put-small', title: '2 × 1 KiB PUT over WebDAV, 8 connections' }])
  t.ok(results.every(({ faster }) => faster > 0))
})

void t.test('the ceiling of several processes is that of the cores that the client leaves', async (t) => {
  const one = { value: 1, processor: 1 }
  t.equal(ceilingOf([{ ...one, others: 0 }], 2), 2)
  t.equal(ceilingOf([{ ...one, others: 0.25 }], 2), 1.6)
  t.equal(ceilingOf([{ ...one, others: 1 }], 4), 2)
  t.ok(Number.isNaN(ceilingOf([], 2)))
})

void t.test('an unknown commit and an unknown row end the bench with an error message', async (t) => {
  const commit = await runBench(t, 1, '--compare', 'no-such-commit', '--only', 'ping')
  t.match(commit.stderr, /no-such-commit/)
  const row = await runBench(t, 1, '--only', 'no-such-row')
  t.match(row.stderr, /--only no-such-row: there is get-http/)
})

void t.test('processor time includes that of running and of ended child processes', async (t) => {
  const burn = 'const end = performance.now() + 300; while (performance.now() < end);'
  const spawned = `require('node:child_process').spawnSync(process.execPath, ['-e', ${JSON.stringify(burn)}]);`
  const running = await startProcess(
    process.execPath,
    ['-e', `${burn}${spawned}console.log('done');setInterval(() => undefined, 1000)`],
    { isReady: (output) => output.includes('done') },
  )
  try {
    const used = await running.processorTime()
    t.ok(used > 0.1, `${used} s`)
    const rest = await running.processorTime()
    t.ok(rest - used < 0.2, 'an idle process uses none')
    t.ok((await running.lifetimePeak()) > 2 ** 20)
  } finally {
    await running.stop()
  }
})

void t.test('a program that ends before it accepts connections is reported at once', async (t) => {
  const words = ['-e', 'console.log("no such module"); process.exit(3)']
  await t.rejects(startProcess(process.execPath, words, { isReady: () => false }), /it ended with 3: no such module/)
})

void t.test('a row passes with at most 5 % more processor time and 15 % more wall-clock time', async (t) => {
  t.equal(verdict(1.05, 1.15), 'not slower')
  t.equal(verdict(1.06, 1.1), '**slower**: processor time')
  t.equal(verdict(1, 1.16), '**slower**: wall clock')
  t.equal(verdict(1.06, 1.16), '**slower**: processor time, wall clock')
  t.equal(verdict(undefined, 1.16), '**slower**: wall clock')
  t.equal(verdict(undefined, 1), 'not slower by the wall clock alone')
  t.equal(verdict(undefined, undefined), 'not measured')
})

/** One figure of a comparison; `processor` and `value` are ratios of new to old, each of `samples` samples. */
function comparison(processor: number | undefined, value: number, { row = 'row', isPeak = false, samples = 1 } = {}) {
  return {
    row,
    figure: { title: 'work', unit: 's', aims: [], ...(isPeak && { isPeak }) },
    processor: processor === undefined ? undefined : { old: 1, new: processor, ratio: processor },
    value: { old: 1, new: value, ratio: value },
    verdict: '',
    samples: { old: [{ value: 1 }], new: Array.from({ length: samples }, () => ({ value })) },
  } satisfies Comparison
}

void t.test('the limit applies to measured ratios of processor time only', async (t) => {
  t.same(overLimit([comparison(1.05, 9)], 1.05), [], 'wall-clock time is not compared')
  t.same(overLimit([comparison(1.06, 1)], 1.05), ['row: work: 1.060 times the processor time'])
  t.same(overLimit([comparison(1, 1), comparison(undefined, 1)], 1.05), [], 'a short measurement is not compared')
  t.same(overLimit([comparison(undefined, 1)], 1.05), ['no figure took enough processor time to be judged'])
  t.same(overLimit([comparison(1, 1), comparison(1, 1, { samples: 0 })], 1.05), ['row: work: not measured'])
})

void t.test('a limit is passed by ratios of peak memory', async (t) => {
  t.same(overLimit([comparison(undefined, 1.05, { isPeak: true })], 1.05), [])
  t.same(overLimit([comparison(undefined, 1.06, { isPeak: true })], 1.05), ['row: work: 1.060 times the memory'])
})

/** Compares two rows; the results of each look are given. Resolves to what was measured, and the result. */
async function lookTwice(limit: number, ...looks: readonly (readonly Comparison[])[]) {
  const measured: { readonly rows: readonly string[]; readonly rounds: number }[] = []
  const never = () => t.fail('nothing is started')
  const row = (name: string): Row => ({ name, figures: () => [], measure: async () => undefined })
  const place = { folder: '', files: '', clientKey: '', bigFile: '', size: 1, scale: 1 }
  const result = await compare(
    {
      programs: { old: '', new: '' },
      places: { old: place, new: place },
      rows: [row('even'), row('slow')],
      rounds: 3,
      say: () => undefined,
      onStart: never,
      onFailure: never,
    },
    limit,
    async ({ rows, rounds }) => {
      measured.push({ rows: rows.map(({ name }) => name), rounds })
      return looks[measured.length - 1] ?? []
    },
  )
  return { measured, result }
}

void t.test('a row over the limit is measured again, and the second result alone counts', async (t) => {
  const even = comparison(1, 1, { row: 'even' })
  const slow = comparison(1.5, 1, { row: 'slow' })
  const first = { rows: ['even', 'slow'], rounds: 3 }
  const second = { rows: ['slow'], rounds: 9 }
  const memory = comparison(undefined, 2, { row: 'memory-run' })

  const passes = comparison(1.1, 1, { row: 'slow' })
  t.same(await lookTwice(1.25, [even, slow, memory], [passes, memory]), {
    measured: [first, second],
    result: [even, passes, memory],
  })
  const slower = comparison(1.4, 1, { row: 'slow' })
  t.same(await lookTwice(1.25, [even, slow], [slower]), { measured: [first, second], result: [even, slower] })
  const large = comparison(undefined, 1.5, { row: 'slow', isPeak: true })
  t.same((await lookTwice(1.25, [even, large], [large])).measured, [first, second], 'also for memory')
  const short = comparison(undefined, 1, { row: 'slow' })
  t.same((await lookTwice(1.25, [even, slow], [short])).result, [even, slow], 'unless it cannot be judged')
  t.same(await lookTwice(1.5, [even, slow]), { measured: [first], result: [even, slow] }, 'none is over the limit')
})

void t.test('a recorded run is one line of JSON, and is shown beside the others', { skip }, async (t) => {
  const folder = t.testdir({})
  const words = ['--only', 'move', '--peers', 'tidegate', 'node', '--record', folder]
  const { stdout } = await runBench(t, 0, ...words)
  await runBench(t, 0, ...words)
  const [name = '', ...more] = await readdir(folder)
  t.match(name, /^\d{4}\.jsonl$/)
  t.same(more, [])
  const lines = (await readFile(join(folder, name), 'utf8')).split('\n')
  t.equal(lines.length, 3, 'the last line ends')
  const record = JSON.parse(lines[0] ?? '') as RunRecord
  t.match(record, { node: process.version, rounds: 1, machine: { cores: cpus().length } })
  t.match(record.commit, /^[0-9a-f]{40}(-changed)?$/)
  t.same(record.results, JSON.parse(stdout), 'its results are those of --json')

  const history = await runBench(t, 0, '--history', folder, '--only', 'move')
  t.match(history.stdout, /^move: MOVE /)
  t.equal(history.stdout.split(record.commit.slice(0, 10)).length - 1, 2, 'a line for each run')
  const unknown = await runBench(t, 1, '--history', folder, '--only', 'no-such-row')
  t.match(unknown.stderr, /--only no-such-row: there is move, memory-run/)
  const empty = await runBench(t, 1, '--history', join(folder, 'none'))
  t.match(empty.stderr, /none has no records/)
})

/** A record of one row with these medians. */
function recordOf(date: string, title: string, medians: ResultObject['medians'], processor = {}): RunRecord {
  return {
    date,
    commit: '0123456789abcdef0123456789abcdef01234567-changed',
    machine: { processor: 'AMD EPYC', cores: 2 },
    node: 'v20.17.0',
    load: 0.25,
    rounds: 3,
    results: [{ row: 'put', title, unit: 's', medians, processor, aims: [] }],
  }
}

void t.test('the history of a row has a table for each figure, and a line for each run, oldest first', async (t) => {
  const folder = t.testdir({})
  const later = recordOf('2027-01-02T03:04:05.000Z', 'PUT 1 GiB', { tidegate: 2, nginx: 1 }, { tidegate: 510 })
  await appendRecord(folder, later)
  await appendRecord(folder, recordOf('2026-12-31T23:59:00.000Z', 'PUT 1 GiB', { tidegate: 4, rclone: 8 }))
  await appendRecord(folder, recordOf('2026-11-30T00:00:00.000Z', 'PUT 1 MiB', { tidegate: 0.5 }))
  t.same((await readdir(folder)).sort(), ['2026.jsonl', '2027.jsonl'], 'a file for each year')
  const records = await readRecords(folder)
  t.same(records.at(-1), later, 'what is read is what was written')
  const head = (...peers: readonly string[]) => [
    'date',
    'commit',
    'machine',
    'tidegate',
    'processor time of each, ms',
    ...peers,
  ]
  const line = (...cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const run = (date: string, ...cells: readonly string[]) =>
    line(date, '0123456789-changed', '2 × AMD EPYC, Node v20.17.0, load 0.3', ...cells)
  t.same(historyTables(records, 'put').split('\n'), [
    ...['put: PUT 1 MiB, s', ''],
    ...[line(...head()), line(...head().map(() => '---'))],
    run('2026-11-30 00:00', '0.50', '–'),
    ...['', 'put: PUT 1 GiB, s', ''],
    ...[line(...head('rclone', 'nginx')), line(...head('rclone', 'nginx').map(() => '---'))],
    run('2026-12-31 23:59', '4.00', '–', '8.00 (×2.00)', '–'),
    run('2027-01-02 03:04', '2.00', '510.0', '–', '1.00 (×0.50)'),
  ])
  t.equal(historyTables(records, 'get'), '')
})

void t.test('a line of the records that is not JSON is named', async (t) => {
  const folder = t.testdir({ '2026.jsonl': '{}\n\nno JSON\n' })
  await t.rejects(readRecords(folder), /2026\.jsonl, line 3: /)
})

void t.test('processor time is given in milliseconds for each request, if every sample is long enough', async (t) => {
  t.same(processorTimes([{ value: 1, processor: 0.1 }]), [100])
  t.same(processorTimes([{ value: 1, processor: 0.3, requests: 10 }]), [30])
  t.equal(
    processorTimes([
      { value: 1, processor: 0.3 },
      { value: 1, processor: 0.09 },
    ]),
    undefined,
  )
  t.equal(processorTimes([{ value: 1 }]), undefined)
  t.equal(processorTimes([]), undefined)
})

void t.test('a median is the middle value, or the mean of the two in the middle', async (t) => {
  t.equal(median([10, 9, 100]), 10)
  t.equal(median([4, 100, 2, 1]), 3)
  t.ok(Number.isNaN(median([])))
})
