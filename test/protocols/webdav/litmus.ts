/** litmus, the conformance suite of WebDAV. */
import { spawn } from 'node:child_process'
import type { Test } from 'tap'

export const suites = ['basic', 'copymove', 'props', 'locks', 'http'] as const
export type Suite = (typeof suites)[number]

/** What litmus is given to open a folder. */
export interface LitmusTarget {
  readonly url: string
  readonly user: string
  readonly password: string
}

interface LitmusRun {
  readonly code: number | null
  readonly output: string
}

/** Checks that every test passes without warnings. litmus writes its traces to a folder of the test. */
export async function litmusPasses(t: Test, url: string, password: string): Promise<void> {
  const { code, output } = await run(t.testdir(), { url, user: 'admin', password }, suites)
  t.equal(code, 0)
  // litmus skips this suite with TLS.
  const untried = url.startsWith('https:') ? /expect100.*SKIPPED/ : undefined
  const complaints = output.split('\n').filter((line) => /FAIL|WARNING|SKIPPED/.test(line) && !untried?.test(line))
  t.same(complaints, [])
  for (const suite of suites) {
    t.match(output, new RegExp(`summary for \`${suite}': of (\\d+) tests run: \\1 passed, 0 failed`), suite)
  }
}

/**
 * The tests of one suite that fail, are skipped or warn, in their order, such as `delete FAIL`. Checks that the suite
 * ends. The folder must be empty: litmus does not begin on what an earlier suite has left.
 */
export async function complaintsOf(t: Test, suite: Suite, target: LitmusTarget): Promise<readonly string[]> {
  const { output } = await run(t.testdir(), target, [suite])
  t.match(output, `summary for \`${suite}'`)
  const complaints: string[] = []
  let test = ''
  for (const line of output.split(/[\r\n]+/)) {
    test = /^ *\d+\. (\w+)/.exec(line)?.[1] ?? test
    const result = /FAIL|SKIPPED|WARNING/.exec(line)?.[0]
    // A test may warn several times.
    if (result !== undefined && complaints.at(-1) !== `${test} ${result}`) complaints.push(`${test} ${result}`)
  }
  return complaints
}

function run(folder: string, { url, user, password }: LitmusTarget, tests: readonly Suite[]): Promise<LitmusRun> {
  return new Promise((resolve, reject) => {
    const child = spawn('litmus', ['-k', url, user, password], {
      cwd: folder,
      env: { ...process.env, TESTS: tests.join(' ') },
    })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}
