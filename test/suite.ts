/** Runs compiled test files, each in its own process, and reports their results. */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { parseResults, type FileResults } from './results.js'

export interface TestFile {
  /** The name in reports. */
  readonly name: string
  /** The compiled file. */
  readonly program: string
}

interface SuiteOptions {
  readonly files: readonly TestFile[]
  /** Number of files that run concurrently. */
  readonly jobs: number
  /** Time limit of a file. */
  readonly seconds: number
  /** Names of files that run one at a time, after all others. */
  readonly quiet?: readonly string[]
  /**
   * File with the duration of each test file. The longest start first, so that none runs alone at the end. Files
   * without a known duration start before them, in the order of `files`.
   */
  readonly durations?: string
  /** Files that start only once `done` has resolved. Files that need nothing of it start meanwhile. */
  readonly after?: { readonly needs: (file: TestFile) => boolean; readonly done: Promise<unknown> }
  /** Compiled files beside this one that are loaded before each test file. */
  readonly preloaded: readonly string[]
  readonly say: (line: string) => void
}

export interface Totals {
  passed: number
  failed: number
  skipped: number
}

/** Maximum number of failed files that are run again. If more fail, a busy machine is not the cause. */
const maxSecondRuns = 3

const running = new Set<ChildProcess>()

/** Ends the running files. */
export function killRunning(): void {
  for (const child of running) child.kill('SIGKILL')
}

/**
 * Runs the files and resolves to the number of tests. A few failed files are run again, alone, to show whether the
 * failure is repeatable. The second run does not change the totals.
 */
export async function runSuite(options: SuiteOptions): Promise<Totals> {
  const { files, jobs, quiet = [], durations, after, say } = options
  const total: Totals = { passed: 0, failed: 0, skipped: 0 }
  const took = new Map(readDurations(durations))
  const failed: TestFile[] = []
  const run = async (file: TestFile): Promise<void> => {
    const begin = performance.now()
    const results = await runFile(file, options)
    took.set(file.name, (performance.now() - begin) / 1000)
    report(file, results, took.get(file.name) ?? 0, say)
    total.passed += results.passed
    total.failed += results.failed
    total.skipped += results.skipped
    if (results.failed > 0) failed.push(file)
  }
  let isDone = after === undefined
  void after?.done.then(() => (isDone = true))
  /** Takes the next file out of the list. */
  const next = async (waiting: TestFile[]): Promise<TestFile | undefined> => {
    const index = waiting.findIndex((file) => isDone || after?.needs(file) === false)
    if (index < 0 && waiting.length > 0) await after?.done
    return waiting.splice(Math.max(index, 0), 1)[0]
  }
  const worker = async (waiting: TestFile[]): Promise<void> => {
    for (let file = await next(waiting); file !== undefined; file = await next(waiting)) await run(file)
  }
  const length = ({ name }: TestFile) => took.get(name) ?? 1e6
  const beside = files.filter(({ name }) => !quiet.includes(name)).sort((one, other) => length(other) - length(one))
  await Promise.all(Array.from({ length: jobs }, () => worker(beside)))
  await worker(files.filter(({ name }) => quiet.includes(name)))
  if (durations !== undefined) writeFileSync(durations, JSON.stringify([...took], null, 1))
  if (files.length > 1 && failed.length <= maxSecondRuns) {
    for (const file of failed) {
      const { failed: again } = await runFile(file, options)
      say(`${file.name} failed; run again by itself, it ${again === 0 ? 'passed' : 'failed'}`)
    }
  }
  return total
}

function readDurations(file: string | undefined): [string, number][] {
  return file !== undefined && existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as [string, number][]) : []
}

function report(
  { name }: TestFile,
  { passed, failed, skipped, failures, output }: FileResults & { readonly output: string },
  seconds: number,
  say: (line: string) => void,
): void {
  const skips = skipped > 0 ? `, ${skipped} skipped` : ''
  say(`${failed === 0 ? 'ok    ' : 'not ok'}  ${name}  ${passed} passed${skips}, ${seconds.toFixed(1)} s`)
  for (const failure of failures) {
    say(`  failed: ${failure.name}`)
    for (const line of failure.details) say(`    ${line}`)
  }
  if (failed > 0 && output !== '') say(`  stderr:\n${output.replaceAll(/^/gm, '    ')}`)
}

/** Runs one file. A crash and a timeout are failures of that file. */
async function runFile(
  { program }: TestFile,
  { seconds, preloaded }: SuiteOptions,
): Promise<FileResults & { readonly output: string }> {
  const imports = preloaded.flatMap((name) => ['--import', import.meta.resolve(`./${name}`)])
  const child = spawn(process.execPath, ['--enable-source-maps', ...imports, program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // tap's own limit is shorter, because tap can report which test was running.
    env: { ...process.env, TAP_TIMEOUT: String(seconds - 30) },
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
  }, seconds * 1000)

  const parsed = new Promise<FileResults>((resolve) => {
    const parser = parseResults(resolve)
    child.stdout.on('data', (chunk: Buffer) => parser.write(chunk)).on('end', () => parser.end())
  })
  const ended = new Promise<string | undefined>((resolve) => {
    child.on('error', (error) => {
      resolve(error.message)
    })
    child.on('close', (status, signal) => {
      if (timedOut) resolve(`did not end within ${seconds} s: something is left open, or hangs`)
      else if (signal !== null) resolve(`ended by ${signal}`)
      else resolve(status === 0 ? undefined : `ended with status ${String(status)}`)
    })
  })
  const [results, problem] = await Promise.all([parsed, ended])
  clearTimeout(timer)
  running.delete(child)
  // Status 1 means failures that are already counted.
  if (problem !== undefined && results.failed === 0) {
    results.failed++
    results.failures.push({ name: problem, details: [] })
  }
  return { ...results, output }
}
