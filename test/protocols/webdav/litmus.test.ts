/** litmus, the conformance suite of WebDAV: every test passes, and none of them warns. */
import { spawn } from 'node:child_process'
import t from 'tap'
import { memoryType } from '../../../drivers/memory/index.js'
import { testEnv } from '../../drivers/env.js'
import { flaky } from '../../drivers/flaky.js'
import { limitedTypes } from '../../drivers/limited.js'
import { startGateway } from '../../gateway.js'

const suites = ['basic', 'copymove', 'props', 'locks', 'http']

interface Run {
  readonly code: number | null
  readonly output: string
}

/** Resolves to undefined where litmus is not installed. It leaves its traces in `folder`. */
function litmus(folder: string, url: string, password: string): Promise<Run | undefined> {
  return new Promise((resolve, reject) => {
    const child = spawn('litmus', ['-k', url, 'admin', password], {
      cwd: folder,
      env: { ...process.env, TESTS: suites.join(' ') },
    })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') resolve(undefined)
      else reject(error)
    })
    child.on('close', (code) => resolve({ code, output }))
  })
}

const driverTypes = [
  ...limitedTypes(),
  {
    ...memoryType,
    name: 'Wrapped',
    open: async () => flaky(await memoryType.open({ size_limit: 0 }, testEnv()), []).driver,
  },
]

for (const name of ['Local', 'Memory', ...driverTypes.map((type) => type.name)]) {
  const title = `litmus passes on ${name} without a failure, a warning or a skipped test`
  void t.test(title, { timeout: 120_000 }, async (t) => {
    const running = await startGateway(t, name === 'Local' ? {} : { driver: { name }, driverTypes })
    const run = await litmus(t.testdir(), running.davUrl, running.adminPassword)
    if (run === undefined) {
      t.pass('litmus is not installed', { skip: true })
      return
    }
    t.equal(run.code, 0)
    const complaints = run.output.split('\n').filter((line) => /FAIL|WARNING|SKIPPED/.test(line))
    t.same(complaints, [])
    for (const suite of suites) {
      const summary = new RegExp(`summary for \`${suite}': of (\\d+) tests run: \\1 passed, 0 failed`)
      t.match(run.output, summary)
    }
  })
}
