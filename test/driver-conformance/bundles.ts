/** The contract of `copyFiles()`, which copies many files of one folder in one call. */
import type { FileBundle } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import {
  at,
  listed,
  namesIn,
  put,
  refuses,
  textAt,
  without,
  type Run,
  type WritableDriver,
  type Subject,
} from './subject.js'

const count = 40
const names = Array.from({ length: count }, (_, index) => `file-${index}`)
const time = new Date(1_000_000_000_000)

/** Creates two folders, one of them with small files. Returns the files as they are listed. */
async function filled(driver: WritableDriver): Promise<readonly Entry[]> {
  for (const folder of ['/from', '/to']) await driver.mkdir(at(folder))
  for (const name of names) await put(driver, `/from/${name}`, `text of ${name}`)
  await driver.setAttributes?.(at('/from/file-7'), { modified: time, mode: 0o640 })
  return listed(driver, '/from')
}

function all(asked: readonly string[]): Promise<ReadonlySet<string>> {
  return Promise.resolve(new Set(asked))
}

export async function bundleTests(run: Run): Promise<void> {
  const copying = ({ driver, own }: Subject) => {
    return async (files: readonly Entry[], over: Partial<FileBundle> = {}, signal?: AbortSignal) => {
      const bundle: FileBundle = { source: own, from: at('/from'), to: at('/to'), files, beforePublish: all, ...over }
      return (await driver.copyFiles?.(bundle, { signal })) ?? []
    }
  }

  await run(
    'copyFiles() copies files that match their reported entries, under free names only',
    async (t, subject) => {
      const { driver } = subject
      const copy = copying(subject)
      const files = await filled(driver)
      await put(driver, '/to/file-3', 'somebody else’s')
      await put(driver, '/from/file-5', 'it was changed meanwhile')
      const gone = files.slice(0, 1).map((entry) => ({ ...entry, name: 'never-there' }))
      const copies = await copy([...files, ...gone])
      t.equal(copies.length, count + 1)
      for (const [index, copied] of copies.entries()) {
        const name = files[index]?.name ?? ''
        if (['file-3', 'file-5', ''].includes(name)) t.equal(copied, undefined, `${name} was not copied`)
        else t.same(copied, await driver.stat(at(`/to/${name}`)), `${name} is returned as stat() returns it`)
      }
      t.equal(await textAt(driver, '/to/file-3'), 'somebody else’s')
      t.equal(await textAt(driver, '/to/file-12'), 'text of file-12')
      t.match(await driver.stat(at('/to/file-7')), { modified: time, mode: 0o640 })
      t.same(await namesIn(driver, '/to'), names.filter((name) => name !== 'file-5').sort())
      t.equal((await listed(driver, '/from')).length, count, 'the sources remain')
    },
    without('copyFiles'),
  )

  await run(
    'copyFiles() asks once which names may be published, and leaves no staged file of the others',
    async (t, subject) => {
      const { driver } = subject
      const copy = copying(subject)
      const files = await filled(driver)
      const asked: (readonly string[])[] = []
      const beforePublish = async (wanted: readonly string[]) => {
        t.same(await namesIn(driver, '/to'), [], 'no file is visible before')
        asked.push(wanted)
        return new Set(wanted.slice(0, 2))
      }
      const copies = await copy(files, { beforePublish })
      t.equal(asked.length, 1)
      t.equal(copies.filter((each) => each !== undefined).length, 2)
      t.equal((await namesIn(driver, '/to')).length, 2)
      const refusal = new GatewayError('busy')
      await refuses(t, () => copy(files, { beforePublish: () => Promise.reject(refusal) }), 'busy', 'a rejection')
      t.equal((await namesIn(driver, '/to')).length, 2, 'a rejection leaves the folder as it was')
    },
    without('copyFiles'),
  )

  await run(
    'copyFiles() rejects after an abort, and if a folder is missing',
    async (t, subject) => {
      const { driver } = subject
      const copy = copying(subject)
      const files = await filled(driver)
      const controller = new AbortController()
      const beforePublish = (wanted: readonly string[]) => {
        controller.abort()
        return all(wanted)
      }
      await refuses(t, () => copy(files, { beforePublish }, controller.signal), 'aborted', 'the abort')
      t.same(await namesIn(driver, '/to'), [])
      for (const [end, message] of [
        ['from', 'the source'],
        ['to', 'the target'],
      ] as const) {
        await refuses(t, () => copy(files, { [end]: at('/no') }), ['not_found', 'parent_missing'], message)
      }
      t.equal((await copy(files)).filter((each) => each !== undefined).length, count, 'a later call succeeds')
    },
    without('copyFiles'),
  )
}
