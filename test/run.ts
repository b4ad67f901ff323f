/**
 * Runs the compiled tests: `node dist/test/run.js [--fast] [--jobs N] [--minutes N] [PATTERN…]`, with N files
 * concurrently and a limit of N minutes for each. A pattern is a part of a test file's path, such as
 * `test/base/path.test.ts` or `webdav`. With `--fast`, only files of the fast ring (test/rings.ts). The last line is
 * `N passed, N failed, N skipped`; the status is 1 if anything failed.
 *
 * With TIDEGATE_TEST_STORE=postgres, gateways have their database in PostgreSQL. With TIDEGATE_TEST_NODES=N too, those
 * that `startGateway` of test/gateway.ts starts are N nodes behind HAProxy.
 */
import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { setUpPrograms } from './programs.js'
import { openStore } from '../src/database/store.js'
import { startPostgres, type PostgresServer } from './servers/postgres.js'
import { isFast } from './rings.js'
import { templateDatabase } from './store-location.js'
import { killRunning, runSuite, type Totals } from './suite.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  // Many tests mostly wait for disks, timers and other programs.
  options: {
    jobs: { type: 'string', default: String(Math.ceil(2.5 * availableParallelism())) },
    minutes: { type: 'string', default: '20' },
    fast: { type: 'boolean', default: false },
  },
})

/** Folders of long-running files, which start first while no durations are known. */
const slowFolders = ['test/web/', 'test/drivers/', 'test/stories/', 'test/offline-downloads/', 'test/security/']

/** Files that measure time or memory, which other load would falsify, or that need the whole machine. */
const quiet = [
  'test/cluster/chaos.test.ts',
  'test/cluster/nodes.test.ts',
  'test/stories/driver-streams.test.ts',
  'test/stories/first-run.test.ts',
  'test/stories/many-connections.test.ts',
  'test/stories/memory.test.ts',
  'test/stories/search-speed.test.ts',
  'test/web/speed.test.ts',
]

const say = (line: string): void => void process.stdout.write(`${line}\n`)

function testFiles(patterns: readonly string[]): string[] {
  const isSlow = (file: string) => slowFolders.some((folder) => file.startsWith(folder))
  // The sources are listed, because dist/ may still have the output of a deleted test.
  return readdirSync('test', { recursive: true, encoding: 'utf8' })
    .map((name) => join('test', name))
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => !values.fast || isFast(file))
    .filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern.replace(/^\.\//, ''))))
    .sort((one, other) => Number(isSlow(other)) - Number(isSlow(one)) || (one < other ? -1 : 1))
}

/** Starts the PostgreSQL server on which the tests keep their databases, if TIDEGATE_TEST_STORE says so. */
async function startSharedServer(): Promise<PostgresServer | undefined> {
  if (process.env.TIDEGATE_TEST_STORE !== 'postgres') return undefined
  const server = await startPostgres(['max_connections=1000'])
  await server.query(`create database ${templateDatabase}`)
  await (await openStore(server.urlOf(templateDatabase))).close()
  process.env.TIDEGATE_TEST_POSTGRES = server.urlOf('').replace(/\/$/, '')
  return server
}

async function main(): Promise<number> {
  const before: Totals = { passed: 0, failed: 0, skipped: 0 }
  const missing = values.fast ? Promise.resolve([]) : setUpPrograms(say)
  const files = testFiles(positionals)
  for (const pattern of positionals.filter((each) => testFiles([each]).length === 0)) {
    say(`not ok  no test file has ${pattern} in its path`)
    before.failed++
  }
  for (const named of quiet) {
    if (existsSync(named)) continue
    say(`not ok  ${named} is named in test/run.ts, and is not there`)
    before.failed++
  }
  if (process.env.TIDEGATE_TEST_STORE === 'postgres') {
    const unmet = (await missing).filter(({ name }) => ['initdb', 'haproxy'].includes(name))
    if (unmet.length > 0 && process.env.CI !== 'true') {
      say(`skipped: ${unmet.map((program) => program.package).join(' and ')} cannot be installed`)
      say(`0 passed, ${before.failed} failed, ${files.length} skipped`)
      return before.failed === 0 ? 0 : 1
    }
  }
  const server = values.fast ? undefined : await startSharedServer()
  const { passed, failed, skipped } = await runSuite({
    files: files.map((name) => ({ name, program: join('dist', name.replace(/\.ts$/, '.js')) })),
    jobs: Math.max(1, Number(values.jobs) || 1),
    seconds: Math.max(1, Number(values.minutes) || 20) * 60,
    quiet,
    preloaded: ['without-async-hooks.js', ...(values.fast ? ['no-processes.js'] : [])],
    durations: join('dist', 'test', 'durations.json'),
    // The fast ring needs no programs: its files run while they are installed.
    after: { needs: ({ name }) => !isFast(name), done: missing },
    say,
  })
  await server?.stop()
  if (process.env.CI === 'true') {
    for (const program of await missing) say(`not ok  ${program.name} is not installed (package ${program.package})`)
    before.failed += (await missing).length
  }
  say(`${passed} passed, ${failed + before.failed} failed, ${skipped} skipped`)
  return failed + before.failed === 0 ? 0 : 1
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    killRunning()
    process.exit(1)
  })
}
process.exitCode = await main()
