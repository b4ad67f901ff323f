/** Small files that the worker thread copies: only the listed files are read, and no staged file remains. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startedWorker } from '../../../drivers/local/worker-thread.js'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { FileBundle } from '../../../src/contract/capabilities.js'
import type { Driver } from '../../../src/contract/driver.js'
import type { Entry } from '../../../src/contract/entry.js'
import { GatewayError } from '../../../src/base/errors.js'
import { at, listed, refuses } from '../../driver-conformance/subject.js'
import { openLocal } from '../env.js'

const count = 40

interface Ends {
  readonly host: string
  readonly source: Driver
  readonly target: Driver
  readonly files: readonly Entry[]
  readonly copy: (over?: Partial<FileBundle>) => Promise<readonly (Entry | undefined)[]>
}

/** Two storages, one of them with small files. */
async function newEnds(t: Test): Promise<Ends> {
  const from = Object.fromEntries(Array.from({ length: count }, (_, index) => [`file-${index}`, `text ${index}`]))
  const host = t.testdir({ source: { from }, target: { to: {} }, outside: { secret: 'secret' } })
  const [source, target] = [await openLocal(join(host, 'source')), await openLocal(join(host, 'target'))]
  t.teardown(() => Promise.all([source.close?.(), target.close?.()]))
  const files = await listed(source, '/from')
  const beforePublish = (names: readonly string[]) => Promise.resolve(new Set(names))
  const copy = async (over: Partial<FileBundle> = {}) => {
    const bundle: FileBundle = { source, from: at('/from'), to: at('/to'), files, beforePublish, ...over }
    return (await target.copyFiles?.(bundle)) ?? []
  }
  return { host, source, target, files, copy }
}

function namesBelow(folder: string): readonly string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name)
}

await t.test('copyFiles() copies files between two Local storages and leaves no staged file', async (t) => {
  const { host, copy } = await newEnds(t)
  const copies = await copy()
  t.ok(copies.every((each) => each !== undefined))
  t.equal(readFileSync(join(host, 'target/to/file-11'), 'utf8'), 'text 11')
  await copy({ beforePublish: async () => new Set() })
  await refuses(t, () => copy({ beforePublish: () => Promise.reject(new GatewayError('busy')) }), 'busy', 'a refusal')
  t.equal(namesBelow(join(host, 'target')).length, count)
})

await t.test('copyFiles() follows neither a symlink in place of a file nor one in place of a folder', async (t) => {
  const { host, copy } = await newEnds(t)
  unlinkSync(join(host, 'source/from/file-3'))
  symlinkSync(join(host, 'outside/secret'), join(host, 'source/from/file-3'))
  const swapped = (await copy()).map((each, index) => [each, index] as const).filter(([each]) => each === undefined)
  t.equal(swapped.length, 1)
  t.notOk(readdirSync(join(host, 'target/to')).includes('file-3'))
  for (const [end, name] of [
    ['source', 'from'],
    ['target', 'to'],
  ] as const) {
    renameSync(join(host, end, name), join(host, end, 'elsewhere'))
    symlinkSync(join(host, 'outside'), join(host, end, name))
    await refuses(t, copy, 'denied', name)
    unlinkSync(join(host, end, name))
    renameSync(join(host, end, 'elsewhere'), join(host, end, name))
  }
  t.same(readdirSync(join(host, 'outside')), ['secret'])
})

await t.test('a folder that is replaced while the files are staged receives none of them', async (t) => {
  const { host, copy } = await newEnds(t)
  const swap = async (names: readonly string[]) => {
    renameSync(join(host, 'target/to'), join(host, 'target/moved'))
    symlinkSync(join(host, 'outside'), join(host, 'target/to'))
    return new Set(names)
  }
  await refuses(t, () => copy({ beforePublish: swap }), 'denied', 'a swapped folder')
  t.same(namesBelow(join(host, 'target')), ['to'])
  t.same(readdirSync(join(host, 'outside')), ['secret'])
})

await t.test('copyFiles() skips a file that was changed after it was listed', async (t) => {
  const { host, files, copy } = await newEnds(t)
  writeFileSync(join(host, 'source/from/file-9'), 'text 0')
  const left = (await copy()).flatMap((each, index) => (each ? [] : [files[index]?.name]))
  t.same(left, ['file-9'])
})

await t.test('copyFiles() does not open a named pipe', async (t) => {
  const { host, source, copy } = await newEnds(t)
  await promisify(execFile)('mkfifo', [join(host, 'source/from/pipe')])
  const files = await listed(source, '/from')
  const copies = await copy({ files })
  t.same(
    copies.flatMap((each, index) => (each ? [] : [files[index]?.name])),
    ['pipe'],
  )
})

await t.test(
  'copyFiles() leaves no staged file and reports every result if the thread ends before it answers',
  async (t) => {
    const thread = await startedWorker()
    if (!thread) throw new Error('there is no second thread')
    const ask = thread.run.bind(thread)
    t.teardown(() => (thread.run = ask))
    for (const kind of ['stage', 'take', 'discard'] as const) {
      for (const isDone of [true, false]) {
        const { host, copy } = await newEnds(t)
        thread.run = async (order, ...rest) => {
          const answer = order !== kind || isDone ? await ask(order, ...rest) : undefined
          return order === kind ? undefined : (answer as never)
        }
        const isRefused = kind === 'discard'
        const copies = await copy(isRefused ? { beforePublish: async () => new Set() } : {})
        const expected = kind === 'take' ? count : 0
        const title = `${kind}, ${isDone ? 'done' : 'not begun'}`
        t.equal(copies.filter((each) => each !== undefined).length, expected, title)
        t.equal(namesBelow(join(host, 'target')).length, expected, `${title}: no other file`)
      }
    }
  },
)

await t.test('copyFiles() rejects files of another driver, and is absent on a storage with sync', async (t) => {
  const { host, copy } = await newEnds(t)
  await refuses(t, () => copy({ source: new MemoryDriver(0) }), 'unsupported', 'files of another driver')
  const syncing = await openLocal(join(host, 'target'), { sync: true })
  t.teardown(() => syncing.close?.())
  t.equal(typeof syncing.copyFiles, 'undefined')
})
