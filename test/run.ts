/**
 * Runs the compiled tests: `node dist/test/run.js [--jobs N] [--minutes N] [PATTERN…]`: so many files at once, so many
 * minutes for each at the most. A pattern is a part of a test file's path, such as `test/contract/path.test.ts` or `webdav`.
 * The last line is `N passed, N failed, N skipped`; the status is 1 where anything failed.
 */
import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { setUpPrograms } from './programs.js'
import { killRunning, runSuite, type Totals } from './suite.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  // Many tests wait for disks, clocks and other programs more than they compute.
  options: {
    jobs: { type: 'string', default: String(2 * availableParallelism()) },
    minutes: { type: 'string', default: '20' },
  },
})

/** Where the files are that take long: before anything is known of their durations, these run first. */
const slowFolders = ['test/drivers/', 'test/stories/', 'test/downloads/', 'test/security/']

/** What judges time or memory by figures that a busy machine spoils. */
const quiet = [
  'test/stories/driver-streams.test.ts',
  'test/stories/many-connections.test.ts',
  'test/stories/memory.test.ts',
  'test/stories/search-speed.test.ts',
]

const say = (line: string): void => void process.stdout.write(`${line}\n`)

function testFiles(patterns: readonly string[]): string[] {
  const isSlow = (file: string) => slowFolders.some((folder) => file.startsWith(folder))
  // The sources are listed, not dist/: what was compiled from a deleted test may still lie there.
  return readdirSync('test', { recursive: true, encoding: 'utf8' })
    .map((name) => join('test', name))
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern.replace(/^\.\//, ''))))
    .sort((one, other) => Number(isSlow(other)) - Number(isSlow(one)) || (one < other ? -1 : 1))
}

async function main(): Promise<number> {
  const before: Totals = { passed: 0, failed: 0, skipped: 0 }
  const missing = setUpPrograms(say)
  if (process.env.CI === 'true') {
    for (const program of missing) say(`not ok  ${program.name} is not installed (package ${program.package})`)
    before.failed += missing.length
  }

  const files = testFiles(positionals)
  if (files.length === 0) {
    say(`not ok  no test file has ${positionals.join(' or ')} in its path`)
    before.failed++
  }
  for (const named of quiet) {
    if (existsSync(named)) continue
    say(`not ok  ${named} is named in test/run.ts, and is not there`)
    before.failed++
  }
  const { passed, failed, skipped } = await runSuite({
    files: files.map((name) => ({ name, program: join('dist', name.replace(/\.ts$/, '.js')) })),
    jobs: Math.max(1, Number(values.jobs) || 1),
    seconds: Math.max(1, Number(values.minutes) || 20) * 60,
    quiet,
    durations: join('dist', 'test', 'durations.json'),
    say,
  })
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
