/**
 * `.ci/run`: what becomes of the measurement of speed. Its programs are replaced by ones that only say that they ran.
 */
import { execFile } from 'node:child_process'
import { chmod, cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { lacks } from './programs.js'

const run = promisify(execFile)
const script = fileURLToPath(new URL('../../.ci/run', import.meta.url))
const skip = lacks('git', 'bash')

async function git(folder: string, ...words: readonly string[]): Promise<string> {
  const options = ['-c', 'user.name=test', '-c', 'user.email=test@example.com', '-c', 'commit.gpgsign=false']
  return (await run('git', ['-C', folder, ...options, ...words])).stdout.trim()
}

/** A repository of two commits with `.ci/run`, whose `bench/baseline` names `commit`, by default the first one. */
async function repository(t: Test, commit?: string): Promise<string> {
  const folder = join(t.testdir({}), 'origin')
  await mkdir(join(folder, 'bench'), { recursive: true })
  await git(folder, 'init', '--quiet')
  await cp(script, join(folder, '.ci', 'run'))
  await git(folder, 'add', '.')
  await git(folder, 'commit', '--quiet', '--message', 'first')
  await writeFile(
    join(folder, 'bench', 'baseline'),
    `# a comment\n${commit ?? (await git(folder, 'rev-parse', 'HEAD'))}\n`,
  )
  await git(folder, 'add', '.')
  await git(folder, 'commit', '--quiet', '--message', 'second')
  return folder
}

/** Runs `.ci/run` in `folder`, where the bench ends with `status`, and the script `failing` of package.json fails. */
async function runCi(folder: string, { CI = '', status = 0, words = [] as readonly string[], failing = 'none' } = {}) {
  const programs = join(folder, 'programs')
  await mkdir(programs, { recursive: true })
  const nodes = 'echo "nodes: $TIDEGATE_TEST_NODES"; echo "2 passed, 0 failed, 1 skipped"'
  const bodies = {
    npm:
      'if [ "$2" = install ]; then bin="$4/node_modules/node/bin"; mkdir -p "$bin"; cp "$(command -v node)" "$bin"; ' +
      `elif [ "$3" = "${failing}" ]; then echo "$3 fails"; exit 1; fi`,
    node: `case $1 in dist/test/*) ${nodes};; *) echo "measured: $*"; exit ${status};; esac`,
  }
  for (const [name, body] of Object.entries(bodies)) {
    await writeFile(join(programs, name), `#!/bin/sh\n${body}\n`)
    await chmod(join(programs, name), 0o755)
  }
  const env = { ...process.env, CI, PATH: `${programs}:${process.env.PATH}` }
  return run(join(folder, '.ci', 'run'), words, { env }).then(
    ({ stdout }) => ({ passed: true, stdout }),
    (error: unknown) => ({ passed: false, stdout: (error as { stdout: string }).stdout }),
  )
}

void t.test('speed is compared with the commit of bench/baseline, and a loss is a failure', { skip }, async (t) => {
  const folder = await repository(t)
  const first = await git(folder, 'rev-parse', 'HEAD~')
  const passes = await runCi(folder, { CI: 'true' })
  t.ok(passes.passed)
  t.match(passes.stdout, `--compare ${first} `)
  t.match(passes.stdout, /^nodes: 3$/m, 'stories run over three nodes')
  t.match(passes.stdout, /^Node\.js 26\.\d+\.\d+\nnodes: $/m, 'and on other versions of Node.js')
  const fails = await runCi(folder, { status: 1 })
  t.notOk(fails.passed)
  t.match(fails.stdout, /\n10 passed, 1 failed, 5 skipped\n$/)
  const some = await runCi(folder, { status: 1, words: ['webdav'] })
  t.ok(some.passed, 'with patterns it is skipped')
  t.match(some.stdout, /^skipped: /m)
  t.match(some.stdout, /\n2 passed, 0 failed, 1 skipped\n$/)
})

void t.test('lint and a build that fail are failures', { skip }, async (t) => {
  const folder = await repository(t)
  const lint = await runCi(folder, { words: ['webdav'], failing: 'lint:built' })
  t.notOk(lint.passed)
  t.match(lint.stdout, /\nlint:built fails\nnot ok {2}lint\n/)
  t.match(lint.stdout, /\n2 passed, 1 failed, 1 skipped\n$/)
  const build = await runCi(folder, { words: ['webdav'], failing: 'build:all' })
  t.notOk(build.passed)
  t.match(build.stdout, /\n0 passed, 1 failed, 0 skipped\n$/)
})

void t.test('a complete clone without the commit fails with CI=true, a shallow one skips', { skip }, async (t) => {
  const complete = await repository(t, '1234567890123456789012345678901234567890')
  const fails = await runCi(complete, { CI: 'true' })
  t.notOk(fails.passed)
  t.match(fails.stdout, /^not ok .* this clone has no commit 1234567890123456789012345678901234567890$/m)
  const elsewhere = await runCi(complete)
  t.ok(elsewhere.passed, 'without CI=true it is skipped')
  t.match(elsewhere.stdout, /^skipped: /m)

  const shallow = join(complete, 'shallow')
  await run('git', ['clone', '--quiet', '--depth', '1', `file://${complete}`, shallow])
  const skips = await runCi(shallow, { CI: 'true' })
  t.ok(skips.passed)
  t.match(skips.stdout, /^skipped: /m)
})
