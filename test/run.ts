/**
 * Runs the compiled tests: `node dist/test/run.js [--jobs N] [--minutes N] [PATTERN…]`: so many files at once, so many
 * minutes for each at the most. A pattern is a part of a test file's path,
 * such as `test/src/path.test.ts` or `webdav`. Every file is a process of its own. The longest begin first, so that none
 * of them goes on alone at the end; what measures needs quiet, and has the machine for itself after all others. A few
 * files that failed beside others run once more by themselves, and that run counts: real programs have patience of their
 * own, which a machine with more work than processors uses up. The last line is `N passed, N failed, N skipped`; the
 * status is 1 where anything failed.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { setUpPrograms } from './programs.js'
import { parseResults, type FileResults } from './results.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { jobs: { type: 'string', default: '3' }, minutes: { type: 'string', default: '10' } },
})

/** How long one test file may take. tap's own limit comes first, because it can say which test was running. */
const fileSeconds = Math.max(1, Number(values.minutes) || 10) * 60

/** What takes a minute and more, the longest first; the others follow in the order of their names. */
const longest = [
  'test/stories/driver-doors.test.ts',
  'test/protocols/webdav/litmus.test.ts',
  'test/drivers/s3.test.ts',
  'test/drivers/sftp-faults.test.ts',
  'test/stories/resume.test.ts',
  'test/stories/mounts.test.ts',
  'test/security/paths.test.ts',
  'test/stories/kill.test.ts',
  'test/stories/transfers-faults.test.ts',
  'test/stories/webdav-clients.test.ts',
  'test/downloads/programs.test.ts',
]

/** What judges time or memory by figures that a busy machine spoils. */
const quiet = [
  'test/protocols/webdav/if-header.test.ts',
  'test/src/accounts-limiter.test.ts',
  'test/src/locks.test.ts',
  'test/src/patient-usage.test.ts',
  'test/src/rules.test.ts',
  'test/src/storage.test.ts',
  'test/stories/first-run.test.ts',
  'test/stories/many-connections.test.ts',
  'test/stories/memory.test.ts',
  'test/stories/search-speed.test.ts',
]

/** So many files at the most get a second run: where more of them fail, it is not the machine. */
const secondRuns = 3

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const running = new Set<ChildProcess>()

function testFiles(patterns: readonly string[]): string[] {
  // The sources are listed, not dist/: what was compiled from a deleted test may still lie there.
  return readdirSync('test', { recursive: true, encoding: 'utf8' })
    .map((name) => join('test', name))
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern.replace(/^\.\//, ''))))
    .sort()
}

/** Runs one file to its end. Whatever goes wrong is told as a failure of that file. */
async function runFile(file: string): Promise<FileResults & { readonly output: string }> {
  const program = join('dist', file.replace(/\.ts$/, '.js'))
  const child = spawn(process.execPath, ['--enable-source-maps', program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TAP_TIMEOUT: String(fileSeconds - 30) },
  })
  running.add(child)
  let output = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-65_536)
  })
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    child.kill('SIGKILL')
  }, fileSeconds * 1000)

  const parsed = new Promise<FileResults>((resolve) => {
    const parser = parseResults(resolve)
    child.stdout.on('data', (chunk: Buffer) => parser.write(chunk)).on('end', () => parser.end())
  })
  const ended = new Promise<string | undefined>((resolve) => {
    child.on('error', (error) => {
      resolve(error.message)
    })
    child.on('close', (status, signal) => {
      if (timedOut) resolve(`did not end within ${fileSeconds} s: something is left open, or hangs`)
      else if (signal !== null) resolve(`ended by ${signal}`)
      else resolve(status === 0 ? undefined : `ended with status ${String(status)}`)
    })
  })
  const [results, problem] = await Promise.all([parsed, ended])
  clearTimeout(timer)
  running.delete(child)
  // tap ends with status 1 for each failure that is counted already.
  if (problem !== undefined && results.failed === 0) {
    results.failed++
    results.failures.push({ name: problem, details: [] })
  }
  return { ...results, output }
}

async function main(): Promise<number> {
  const total = { passed: 0, failed: 0, skipped: 0 }
  const missing = setUpPrograms(say)
  if (process.env.CI === 'true') {
    for (const program of missing) say(`not ok  ${program.name} is not installed (package ${program.package})`)
    total.failed += missing.length
  }

  const files = testFiles(positionals)
  if (files.length === 0) {
    say(`not ok  no test file has ${positionals.join(' or ')} in its path`)
    total.failed++
  }
  for (const named of [...longest, ...quiet]) {
    if (existsSync(named)) continue
    say(`not ok  ${named} is named in test/run.ts, and is not there`)
    total.failed++
  }
  const run = async (file: string) => {
    const start = performance.now()
    const results = await runFile(file)
    const seconds = ((performance.now() - start) / 1000).toFixed(1)
    const skipped = results.skipped > 0 ? `, ${results.skipped} skipped` : ''
    say(`${results.failed === 0 ? 'ok    ' : 'not ok'}  ${file}  ${results.passed} passed${skipped}, ${seconds} s`)
    for (const failure of results.failures) {
      say(`  failed: ${failure.name}`)
      for (const line of failure.details) say(`    ${line}`)
    }
    if (results.failed > 0 && results.output !== '') say(`  stderr:\n${results.output.replaceAll(/^/gm, '    ')}`)
    return results
  }
  const outcomes = new Map<string, FileResults>()
  const worker = async (waiting: string[]): Promise<void> => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) outcomes.set(file, await run(file))
  }
  const rank = (file: string) => (longest.includes(file) ? longest.indexOf(file) : longest.length)
  const beside = files.filter((file) => !quiet.includes(file)).sort((one, other) => rank(one) - rank(other))
  await Promise.all(Array.from({ length: Math.max(1, Number(values.jobs) || 1) }, () => worker(beside)))
  await worker(files.filter((file) => quiet.includes(file)))
  const failed = [...outcomes].filter(([, results]) => results.failed > 0).map(([file]) => file)
  if (files.length > 1 && failed.length > 0 && failed.length <= secondRuns) {
    say(`once more, by themselves: ${failed.join(', ')}`)
    await worker(failed)
  }
  for (const results of outcomes.values()) {
    total.passed += results.passed
    total.failed += results.failed
    total.skipped += results.skipped
  }
  say(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`)
  return total.failed === 0 ? 0 : 1
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    for (const child of running) child.kill('SIGKILL')
    process.exit(1)
  })
}
process.exitCode = await main()
