/**
 * The program that runs the test files: a failed file is run again and counts as failed; the slowest files start first.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runSuite, type TestFile, type Totals } from './suite.js'

/** Test files with these texts. Each has `t` and its own `folder`. */
function filesOf(t: Test, texts: Readonly<Record<string, string>>): { folder: string; files: TestFile[] } {
  const folder = t.testdir()
  const files = Object.entries(texts).map(([name, text]) => {
    const program = join(folder, `${name}.mjs`)
    const imports = `import t from ${JSON.stringify(import.meta.resolve('tap'))}\nimport * as fs from 'node:fs'\n`
    writeFileSync(program, `${imports}const folder = ${JSON.stringify(folder)}\n${text}\n`)
    return { name, program }
  })
  return { folder, files }
}

async function ran(files: readonly TestFile[], over: { quiet?: string[]; durations?: string } = {}) {
  const lines: string[] = []
  const totals = await runSuite({ files, jobs: 1, seconds: 120, say: (line) => lines.push(line), ...over })
  return { totals, text: lines.join('\n') }
}

const passes = 't.test("passes", async (t) => t.pass())'
const failsOnce = `t.test('fails once', async (t) => {
  const wasHere = fs.existsSync(folder + '/was-here')
  fs.writeFileSync(folder + '/was-here', '')
  t.ok(wasHere)
})`

void t.test('a file that fails and then passes has failed, and is named', async (t) => {
  const { files } = filesOf(t, { passes, failsOnce })
  const { totals, text } = await ran(files)
  t.same(totals, { passed: 1, failed: 1, skipped: 0 } satisfies Totals)
  t.match(text, /^not ok {2}failsOnce {2}0 passed/m)
  t.match(text, 'failsOnce failed; run again by itself, it passed')
  t.match((await ran(files)).totals, { passed: 2, failed: 0 }, 'the next run is independent')
})

void t.test('a file that fails twice and one that exits without a test each count as one failure', async (t) => {
  const { files } = filesOf(t, { passes, fails: 't.test("fails", async (t) => t.fail())', ends: 'process.exit(3)' })
  const { totals, text } = await ran(files)
  t.same(totals, { passed: 1, failed: 2, skipped: 0 } satisfies Totals)
  t.match(text, 'fails failed; run again by itself, it failed')
  t.match(text, 'ends failed; run again by itself, it failed')
})

void t.test('the slowest files of the previous run start first, and quiet ones run last', async (t) => {
  const note = (name: string, wait = 0) =>
    `t.test('notes', async (t) => {
      fs.appendFileSync(folder + '/order', '${name} ')
      await new Promise((resolve) => setTimeout(resolve, ${wait}))
      t.pass()
    })`
  const { folder, files } = filesOf(t, { quiet: note('quiet'), short: note('short'), long: note('long', 3000) })
  mkdirSync(join(folder, 'cache'))
  const options = { quiet: ['quiet'], durations: join(folder, 'cache', 'durations.json') }
  for (const order of ['short long quiet ', 'long short quiet ']) {
    writeFileSync(join(folder, 'order'), '')
    t.match((await ran(files, options)).totals, { passed: 3, failed: 0 })
    t.equal(readFileSync(join(folder, 'order'), 'utf8'), order)
  }
})
