/** litmus, the conformance suite of WebDAV. */
import { spawn } from 'node:child_process'
import type { Test } from 'tap'

const suites = ['basic', 'copymove', 'props', 'locks', 'http']

/** Checks that every test passes without warnings. litmus writes its traces to a folder of the test. */
export async function litmusPasses(t: Test, url: string, password: string): Promise<void> {
  const { code, output } = await run(t.testdir(), url, password)
  t.equal(code, 0)
  // litmus skips this suite with TLS.
  const untried = url.startsWith('https:') ? /expect100.*SKIPPED/ : undefined
  const complaints = output.split('\n').filter((line) => /FAIL|WARNING|SKIPPED/.test(line) && !untried?.test(line))
  t.same(complaints, [])
  for (const suite of suites) {
    t.match(output, new RegExp(`summary for \`${suite}': of (\\d+) tests run: \\1 passed, 0 failed`), suite)
  }
}

function run(folder: string, url: string, password: string): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn('litmus', ['-k', url, 'admin', password], {
      cwd: folder,
      env: { ...process.env, TESTS: suites.join(' ') },
    })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}
