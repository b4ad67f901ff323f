import t from 'tap'
import { virtualFields, virtualType, type VirtualOptions } from '../../drivers/virtual/index.js'
import { checkOptions } from '../../src/storage/fields.js'
import { at, bytesAt, listed, refuses } from '../conformance/subject.js'
import { testEnv } from './env.js'

const small = { num_file: 5, num_folder: 3, min_file_size: 1, max_file_size: 300_000 }
const open = (options: Partial<VirtualOptions> = {}) =>
  virtualType.open(checkOptions(virtualFields, { ...small, ...options }), testEnv())

await t.test('what is listed is there, and the same each time', async (t) => {
  const [one, again, other] = [await open(), await open(), await open({ root_folder_path: '/other' })]
  const entries = await listed(one, '/')
  t.equal(entries.filter(({ kind }) => kind === 'file').length, 5)
  t.equal(entries.filter(({ kind }) => kind === 'folder').length, 3)
  t.same(await listed(again, '/'), entries)
  t.notSame(await listed(other, '/'), entries)
  for (const entry of entries) {
    const path = `/${entry.name}`
    t.match(entry.name, /^[A-Za-z0-9]{10}$/)
    t.same(await one.stat(at(path)), entry)
    if (entry.kind === 'folder') {
      t.equal((await listed(one, path)).length, 8)
      await refuses(t, () => one.read(at(path)), 'is_dir', 'read of a folder')
      continue
    }
    const whole = await bytesAt(one, path)
    t.equal(whole.length, entry.size)
    t.ok((await bytesAt(again, path)).equals(whole))
    for (const [offset, length] of [
      [0, 1],
      [15, 2],
      [16, 16],
      [17, 100_000],
      [entry.size, 5],
      [3, undefined],
    ] as const) {
      const end = length === undefined ? undefined : offset + length
      t.ok((await bytesAt(one, path, offset, length)).equals(whole.subarray(offset, end)), `${offset}, ${length}`)
    }
    await refuses(t, () => listed(one, path), 'not_dir', 'list of a file')
    await refuses(t, () => one.stat(at(`${path}/x`)), 'not_found', 'below a file')
  }
})

await t.test('a walk of the whole tree comes to an end', async (t) => {
  const driver = await open()
  let files = 0
  const walk = async (path: string): Promise<void> => {
    for (const { name, kind } of await listed(driver, path)) {
      if (kind === 'folder') await walk(`${path === '/' ? '' : path}/${name}`)
      else files++
    }
  }
  await walk('/')
  t.equal(files, 5 * (1 + 3 + 9))
  await refuses(t, () => driver.stat(at('/none')), 'not_found', 'what is not made up')
  await refuses(t, () => driver.stat(at('/'), { signal: AbortSignal.abort() }), 'aborted', 'aborted')
})

await t.test('numbers that make no sense keep it from starting', async (t) => {
  for (const options of [{ num_file: -1 }, { num_folder: 1e6 }, { min_file_size: -5 }, { num_file: 1.5 }]) {
    await refuses(t, () => open(options), 'invalid', JSON.stringify(options))
  }
})
