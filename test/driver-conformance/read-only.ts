/** The contract of a read-only driver, tested on the files and folders that it has. */
import type { Test } from 'tap'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { childOf, type Path } from '../../src/base/path.js'
import { endsWithSignal, leavesNothingOpen } from './reading.js'
import { at, bytesAt, listed, refuses, type Run } from './subject.js'

/** Methods that change something. A driver has all of the first three or none of these at all. */
const changes: readonly (keyof Driver)[] = [
  ...(['write', 'mkdir', 'remove', 'move', 'copy', 'copyFiles', 'removeTree', 'upload', 'dropUpload'] as const),
  ...(['setAttributes', 'setSymlinkTime', 'symlink', 'hardLink'] as const),
]

interface Found {
  readonly path: Path
  readonly entry: Entry
}

/** Every file and folder below a folder. */
async function* walk(driver: Driver, folder: Path): AsyncGenerator<Found> {
  for (const entry of await listed(driver, folder)) {
    const path = childOf(folder, entry.name)
    yield { path, entry }
    if (entry.kind === 'folder') yield* walk(driver, path)
  }
}

/** The first file that is not empty, and the first folder. The suite needs both. */
async function samples(t: Test, driver: Driver): Promise<{ file: Found; folder: Found }> {
  let file: Found | undefined
  let folder: Found | undefined
  for await (const found of walk(driver, at('/'))) {
    if (found.entry.kind === 'folder') folder ??= found
    else if (found.entry.size > 0) file ??= found
    if (file && folder) return { file, folder }
  }
  t.fail('the driver has a file and a folder')
  throw new Error('the mount lacks a file or a folder')
}

export async function readOnlyTests(run: Run): Promise<void> {
  await run('a read-only driver has no method that changes anything', async (t, { own }) => {
    for (const method of changes) t.notOk(method in own, method)
  })

  await run('a listing has the same entries as stat(), in pages, each name once', async (t, { driver }) => {
    t.match(await driver.stat(at('/')), { kind: 'folder', size: 0 })
    const folders = [at('/')]
    for await (const { path, entry } of walk(driver, at('/'))) {
      t.same(await driver.stat(path), entry, path)
      if (entry.kind === 'folder') folders.push(path)
    }
    for (const folder of folders) {
      const names: string[] = []
      for await (const page of driver.pages(folder)) {
        t.ok(page.length <= 1000, 'a page has at most 1,000 entries')
        names.push(...page.map(({ name }) => name))
      }
      t.equal(new Set(names).size, names.length, folder)
    }
  })

  await run('a missing path rejects with not_found, also below a file', async (t, { driver }) => {
    const { file, folder } = await samples(t, driver)
    for (const path of ['/no', '/no/where', `${file.path}/below`, `${folder.path}/no`].map(at)) {
      await refuses(t, () => driver.stat(path), 'not_found', `stat ${path}`)
      await refuses(t, () => driver.read(path), 'not_found', `read ${path}`)
      await refuses(t, () => listed(driver, path), 'not_found', `list ${path}`)
    }
    await refuses(t, () => listed(driver, file.path), 'not_folder', 'list of a file')
  })

  await run('read() of a folder rejects, and its stream never fails instead', async (t, { driver }) => {
    const { folder } = await samples(t, driver)
    for (const path of [folder.path, at('/')]) await refuses(t, () => driver.read(path), 'is_folder', path)
  })

  await run('read() returns exactly the bytes of the range', async (t, { driver }) => {
    for await (const { path, entry } of walk(driver, at('/'))) {
      if (entry.kind !== 'file') continue
      const whole = await bytesAt(driver, path)
      t.equal(whole.length, entry.size, path)
      const ranges: readonly (readonly [offset: number, length?: number])[] = [
        ...([[0], [0, 1], [15, 2], [16, 16], [17, 100_000], [3], [1, 0]] as const),
        ...([[Math.max(0, entry.size - 1)], [entry.size, 5], [entry.size + 1_000_000]] as const),
      ]
      for (const [offset, length] of ranges) {
        const expected = whole.subarray(offset, length === undefined ? undefined : offset + length)
        t.ok((await bytesAt(driver, path, offset, length)).equals(expected), `${offset}, ${length}`)
      }
    }
  })

  await run('closing unread streams leaves no descriptor open', async (t, { driver }) => {
    const { file } = await samples(t, driver)
    await leavesNothingOpen(t, () => driver.read(file.path))
  })

  await run('calls with an aborted signal reject with aborted', async (t, { driver }) => {
    const { file } = await samples(t, driver)
    const signal = AbortSignal.abort()
    await refuses(t, () => driver.stat(file.path, { signal }), 'aborted', 'stat')
    await refuses(t, () => driver.read(file.path, undefined, { signal }), 'aborted', 'read')
    await refuses(t, () => driver.pages(at('/'), { signal })[Symbol.asyncIterator]().next(), 'aborted', 'list')
    await endsWithSignal(t, driver, file.path)
  })
}
