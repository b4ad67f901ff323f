/** Virtual passes the conformance suite for read-only drivers, and generates the same finite tree each time. */
import t from 'tap'
import { virtualFields, virtualType, type VirtualOptions } from '../../../drivers/virtual/index.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, bytesAt, listed, refuses } from '../../driver-conformance/subject.js'
import { testEnv } from '../env.js'

const small = { num_file: 5, num_folder: 3, min_file_size: 1, max_file_size: 300_000 }
const open = (options: Partial<VirtualOptions> = {}) =>
  virtualType.open(checkOptions(virtualFields, { ...small, ...options }), testEnv())

await t.test('Virtual passes the conformance suite', async (t) => {
  await conformance(t, {
    type: virtualType,
    open: async () => ({ driver: await open(), dispose: async () => undefined }),
  })
})

await t.test('Virtual lists a large folder in pages', async (t) => {
  const driver = await open({ num_file: 2500, num_folder: 0 })
  const pages: number[] = []
  for await (const page of driver.pages(at('/'))) pages.push(page.length)
  t.same(pages, [1000, 1000, 500])
})

await t.test('Virtual generates the same files each time, and other files in another root', async (t) => {
  const [one, again, other] = [await open(), await open(), await open({ root_folder_path: '/other' })]
  const entries = await listed(one, '/')
  t.equal(entries.filter(({ kind }) => kind === 'file').length, 5)
  t.equal(entries.filter(({ kind }) => kind === 'folder').length, 3)
  t.same(await listed(again, '/'), entries)
  t.notSame(await listed(other, '/'), entries)
  for (const { name, kind } of entries) {
    t.match(name, /^[A-Za-z0-9]{10}$/)
    if (kind === 'folder') t.equal((await listed(one, `/${name}`)).length, 8)
    else t.ok((await bytesAt(again, `/${name}`)).equals(await bytesAt(one, `/${name}`)))
  }
})

await t.test('Virtual has a finite tree', async (t) => {
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
})

await t.test('Virtual rejects invalid numbers in its options', async (t) => {
  for (const options of [{ num_file: -1 }, { num_folder: 1e6 }, { min_file_size: -5 }, { num_file: 1.5 }]) {
    await refuses(t, () => open(options), 'invalid', JSON.stringify(options))
  }
})
