/** Files by ids: changes in several calls that fail or are interrupted, and what is left of runs that have ended. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { IdFiles } from '../../../../drivers/lib/cloud/id-files.js'
import type { IdVendor } from '../../../../drivers/lib/cloud/id-vendor.js'
import { IdReplacements, type ItemPlace } from '../../../../drivers/lib/cloud/id-replacements.js'
import type { Instance } from '../../../../src/contract/driver-env.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { thisInstance } from '../../../../src/installation/instance.js'
import { at, namesIn, put, refuses, textAt, type WritableDriver } from '../../../driver-conformance/subject.js'
import { testEnv } from '../../env.js'
import { IdDrive, IdDriveDriver, rootId, vendorOf } from '../../id-drive.js'
import { until } from '../../../until.js'
import { entriesOf, memoryState } from './vendor.js'

type Node = NonNullable<ReturnType<IdDrive['get']>>

/** Files of a drive, some calls of which fail. */
function filesOf(over: Partial<IdVendor<Node>> = {}, uploads: readonly string[] = []) {
  const drive = new IdDrive()
  const memory = memoryState()
  const { state } = memory
  const instance: Instance = { ...thisInstance(), isOver: (name) => name === 'dead' }
  const env = testEnv({ state, instance, resumableUploads: async () => uploads })
  const again = (more: Partial<IdVendor<Node>> = {}) =>
    new IdFiles({ vendor: { ...vendorOf(drive), ...more }, rootId, lag: 0, env })
  const names = async () => (await drive.list(rootId)).map(({ name }) => name).sort()
  return { drive, memory, files: again(over), again, names }
}

/** What the driver knows of a file that it has uploaded. */
const content = { size: 3 }

const unavailable = async () => Promise.reject(new GatewayError('unavailable'))

await t.test('an old file that could not be removed is removed by the next run', async (t) => {
  const { drive, files, again, names } = filesOf({ remove: unavailable })
  const old = await drive.create(rootId, 'file', Buffer.from('old'))
  const staging = await files.stage(at('/file'))
  t.same([staging.folder, staging.replaces], [rootId, true])
  const { id } = await drive.create(rootId, staging.name, Buffer.from('new'))
  const entry = await files.publish(at('/file'), id, staging, content)
  t.match(entry, { name: 'file', size: 3, revision: id })
  t.same(await names(), ['file', 'file'])
  await again().resume()
  t.same(await names(), ['file'])
  t.equal(drive.get(old.id), undefined)
  t.ok(drive.get(id))
})

await t.test('a publication whose step fails leaves the old file alone, now and later', async (t) => {
  const { drive, files, again, memory } = filesOf({ rename: unavailable })
  const old = await drive.create(rootId, 'file', Buffer.from('old'))
  const staging = await files.stage(at('/file'))
  const { id } = await drive.create(rootId, staging.name, Buffer.from('new'))
  await t.rejects(files.publish(at('/file'), id, staging, content), { code: 'unavailable' })
  t.same(entriesOf(memory, 'publications'), [])
  await again().resume()
  t.ok(drive.get(old.id))
})

await t.test('a change whose outcome is unknown is completed by the next run', async (t) => {
  const drive = new IdDrive()
  const memory = memoryState()
  const { state } = memory
  const vendor = vendorOf(drive)
  let isBroken = false
  const broken = { state, env: testEnv({ state }) }
  const rename: typeof vendor.rename = async (...parameters) => {
    await vendor.rename(...parameters)
    isBroken = true
    await unavailable()
  }
  const info: typeof vendor.info = (...parameters) => (isBroken ? unavailable() : vendor.info(...parameters))
  const open = (over: Partial<IdVendor<Node>> = {}) =>
    new IdFiles({ vendor: { ...vendor, ...over }, rootId, lag: 0, env: broken.env })
  const old = await drive.create(rootId, 'file', Buffer.from('old'))
  const files = open({ rename, info })
  const staging = await files.stage(at('/file'))
  const { id } = await drive.create(rootId, staging.name, Buffer.from('new'))
  await t.rejects(files.publish(at('/file'), id, staging, content), { code: 'unavailable' })
  files.abandon(staging, id)
  await wait(20)
  t.ok(drive.get(old.id) && drive.get(id), 'nothing is removed')
  await files.close()
  await open().resume()
  t.equal(drive.get(old.id), undefined)
  t.equal(drive.get(id)?.name, 'file')

  // The second step of a move.
  isBroken = false
  const folder = await drive.create(rootId, 'folder')
  const moving = open({ rename, info })
  await t.rejects(moving.move(at('/file'), at('/folder/other')), { code: 'unavailable' })
  await moving.close()
  await open().resume()
  t.match(drive.get(id), { parent: folder.id, name: 'other' })
  t.same(entriesOf(memory, 'publications'), [])
})

await t.test('a replaced file that could not be removed is removed later, also if the new one is gone', async (t) => {
  const { drive, files, names, memory } = filesOf({ remove: failingOnce() })
  await drive.create(rootId, 'file', Buffer.from('old'))
  const staging = await files.stage(at('/file'))
  const { id } = await drive.create(rootId, staging.name, Buffer.from('new'))
  await files.publish(at('/file'), id, staging, content)
  await drive.remove(id)
  while (entriesOf(memory, 'publications').length > 0) await wait(5)
  t.same(await names(), [])

  /** Rejects once, and then removes by the calls of the drive. */
  function failingOnce(): IdVendor<Node>['remove'] {
    let isFirst = true
    return async (item) => {
      if (isFirst) {
        isFirst = false
        return unavailable()
      }
      await drive.remove(item.id)
    }
  }
})

await t.test('the answer to a step that was lost does not matter if the step is done', async (t) => {
  const drive = new IdDrive()
  const vendor = vendorOf(drive)
  const lost = async (...parameters: Parameters<typeof vendor.rename>) => {
    await vendor.rename(...parameters)
    await unavailable()
  }
  const files = new IdFiles({ vendor: { ...vendor, rename: lost }, rootId, lag: 0, env: testEnv() })
  const { id } = await drive.create(rootId, 'one', Buffer.from('1'))
  await files.move(at('/one'), at('/two'))
  t.equal(drive.get(id)?.name, 'two')
})

await t.test('a move in two steps is undone if the second fails, and completed if the process has ended', async (t) => {
  const { drive, files, again, memory } = filesOf({ rename: unavailable })
  const folder = await drive.create(rootId, 'folder')
  const moved = await drive.create(rootId, 'one', Buffer.from('1'))
  const taken = await drive.create(folder.id, 'two', Buffer.from('2'))
  await t.rejects(files.move(at('/one'), at('/folder/two')), { code: 'unavailable' })
  t.match(drive.get(moved.id), { parent: rootId, name: 'one' })
  t.ok(drive.get(taken.id))

  // As a process leaves it that ends after the first step.
  const places: ItemPlace[] = [
    { parent: folder.id, name: 'one' },
    { parent: folder.id, name: 'two' },
  ]
  const left = { id: moved.id, places, replaced: { id: taken.id, parent: folder.id } }
  await memory.state.set('publications', JSON.stringify([left]))
  await again().resume()
  t.match(drive.get(moved.id), { parent: rootId }, 'not begun, it is forgotten')
  t.ok(drive.get(taken.id))
  await drive.move(moved.id, folder.id, 'one')
  await memory.state.set('publications', JSON.stringify([left]))
  await again().resume()
  t.match(drive.get(moved.id), { parent: folder.id, name: 'two' })
  t.equal(drive.get(taken.id), undefined)
  t.same(entriesOf(memory, 'publications'), [])
})

await t.test('what cannot be read in the state is ignored', async (t) => {
  const { state } = memoryState()
  await state.set('publications', '{"id":')
  const calls = { rename: unavailable, move: unavailable, remove: unavailable, placeOf: unavailable }
  const resume = async () => {
    const replacements = new IdReplacements({ calls, env: testEnv({ state }) })
    await replacements.load()
    await replacements.settle()
  }
  await resume()
  await state.set('publications', JSON.stringify([{ id: 'x' }, 5, null]))
  await resume()
  t.pass('nothing is rejected')
})

await t.test('staged files are hidden, and those of dead runs and failed uploads are removed', async (t) => {
  const kept = '.~tidegate-part-dead-000000000001'
  const { drive, files } = filesOf({}, [`token of ${kept}`])
  const dead = await drive.create(rootId, '.~tidegate-part-dead-000000000002', Buffer.from('x'))
  await drive.create(rootId, kept, Buffer.from('x'))
  const staging = await files.stage(at('/file'))
  const failed = await drive.create(staging.folder, staging.name, Buffer.from('x'))
  const shown = async () => {
    const names: string[] = []
    for await (const page of files.pages(at('/'))) names.push(...page.map(({ name }) => name))
    return names
  }
  t.same(await shown(), [])
  while (drive.get(dead.id)) await wait(5)
  t.ok(drive.get(failed.id), 'its upload may still be running')
  files.abandon(staging)
  t.same(await shown(), [])
  while (drive.get(failed.id)) await wait(5)
  t.same(
    (await drive.list(rootId)).map(({ name }) => name),
    [kept],
  )
})

await t.test('a file that was published is not removed as one of a failed upload', async (t) => {
  const { drive, files } = filesOf()
  const staging = await files.stage(at('/file'))
  const { id } = await drive.create(rootId, staging.name, Buffer.from('x'))
  await files.publish(at('/file'), id, staging, content)
  files.abandon(staging, id)
  await wait(50)
  t.ok(drive.get(id))
})

await t.test('a file whose answer was lost is found by its staged name', async (t) => {
  const { drive, files } = filesOf()
  const staging = await files.stage(at('/file'))
  const lost = async (): Promise<string> => {
    await drive.create(rootId, staging.name, Buffer.from('whole'))
    throw new GatewayError('unavailable')
  }
  const id = await files.stored(staging, ({ content }) => content.length === 5, lost)
  t.equal(drive.get(id)?.name, staging.name)
  await t.rejects(
    files.stored(await files.stage(at('/other')), () => true, unavailable),
    { code: 'unavailable' },
  )
  const gone = async () => Promise.reject(new GatewayError('not_found'))
  const folder = await drive.create(rootId, 'folder')
  const inFolder = await files.stage(at('/folder/file'))
  await t.rejects(
    files.stored(inFolder, () => true, gone),
    { code: 'not_found' },
    'a source that has vanished',
  )
  await drive.remove(folder.id)
  await t.rejects(
    files.stored(inFolder, () => true, gone),
    { code: 'parent_missing' },
  )
})

await t.test('a file that was replaced is not shown by another name while a listing still has it', async (t) => {
  const drive = new IdDrive()
  const vendor = vendorOf(drive)
  const old = await drive.create(rootId, 'file', Buffer.from('old'))
  const list: typeof vendor.list = async function* (id, options) {
    yield* vendor.list(id, options)
    if (!drive.get(old.id)) yield [old]
  }
  const files = new IdFiles({ vendor: { ...vendor, list }, rootId, lag: 60_000, env: testEnv() })
  const staging = await files.stage(at('/file'))
  const { id } = await drive.create(rootId, staging.name, Buffer.from('new'))
  await files.publish(at('/file'), id, staging, content)
  const shown = async () => {
    const names: string[] = []
    for await (const page of files.pages(at('/'))) names.push(...page.map(({ name }) => name))
    return names
  }
  t.same(await shown(), ['file'])
  const now = performance.now.bind(performance)
  t.capture(performance, 'now', () => now() + 60_000)
  // The cache of changes reads the clock once in a millisecond.
  t.ok(await until(async () => (await shown()).length === 2), 'the listing may be right after all')
})

await t.test('a file that another program has renamed is not taken for the one that has its name now', async (t) => {
  const drive = new IdDrive()
  const driver = new IdDriveDriver(drive, testEnv()) as WritableDriver
  await put(driver, '/file', 'first')
  const { id } = (await drive.list(rootId))[0] ?? { id: '' }
  await drive.move(id, rootId, 'renamed')
  await drive.create(rootId, 'file', Buffer.from('second one'))
  t.equal((await driver.stat(at('/file'))).size, 10)
  t.equal(await textAt(driver, '/file'), 'second one')
  t.same(await namesIn(driver, '/'), ['file', 'renamed'])
})

await t.test('what another program has moved away is not removed by the path that it had', async (t) => {
  const drive = new IdDrive()
  const driver = new IdDriveDriver(drive, testEnv()) as WritableDriver
  const elsewhere = await drive.create(rootId, 'elsewhere')
  const folder = await drive.create(rootId, 'folder')
  const inside = await drive.create(folder.id, 'inside', Buffer.from('x'))
  const file = await drive.create(rootId, 'file', Buffer.from('x'))
  await namesIn(driver, '/')
  for (const { id, name } of [folder, file]) await drive.move(id, elsewhere.id, name)
  await refuses(t, async () => driver.removeTree?.(at('/folder')), 'not_found', 'a folder')
  await refuses(t, () => driver.remove(at('/file')), 'not_found', 'a file')
  for (const { id } of [folder, inside, file]) t.ok(drive.get(id))
})

await t.test('a file that is published is stored, whatever the vendor reports of it then', async (t) => {
  const drive = new IdDrive()
  const vendor = vendorOf(drive)
  let isPublished = false
  const rename: typeof vendor.rename = async (...parameters) => {
    await vendor.rename(...parameters)
    isPublished = true
  }
  const broken: Pick<IdVendor<Node>, 'info' | 'list'> = {
    info: (...parameters) => (isPublished ? unavailable() : vendor.info(...parameters)),
    list: (...parameters) => {
      if (isPublished) throw new GatewayError('unavailable')
      return vendor.list(...parameters)
    },
  }
  for (const failing of [{ info: broken.info }, broken]) {
    isPublished = false
    const options = { rootId, lag: 0, env: testEnv() }
    const files = new IdFiles({ vendor: { ...vendor, rename, ...failing }, ...options })
    const staging = await files.stage(at('/file'))
    const { id } = await drive.create(rootId, staging.name, Buffer.from('new'))
    t.match(await files.publish(at('/file'), id, staging, content), { name: 'file', kind: 'file', size: 3 })
    t.equal(drive.get(id)?.name, 'file')
  }
})

await t.test(
  'a file that another program has moved or renamed is neither replaced nor removed at its old path',
  async (t) => {
    for (const name of ['file', 'other', 'file~1.txt']) {
      const drive = new IdDrive()
      const driver = new IdDriveDriver(drive, testEnv()) as WritableDriver
      await driver.mkdir(at('/there'))
      for (const path of ['/file', '/file~1.txt']) await put(driver, path, path)
      const [there, ...files] = await drive.list(rootId)
      const [plain, marked] = files
      // With both its name and another one, which may look like that of one of several files.
      await drive.move(plain!.id, there!.id, name)
      await drive.move(marked!.id, rootId, 'renamed')
      for (const path of ['/file', '/file~1.txt']) {
        await t.rejects(driver.remove(at(path)), { code: 'not_found' })
        await put(driver, path, 'new')
      }
      t.ok(drive.get(plain!.id))
      t.ok(drive.get(marked!.id))
      t.same(await namesIn(driver, '/'), ['file', 'file~1.txt', 'renamed', 'there'])
    }
  },
)

await t.test('an old file that somebody keeps under another name is not removed by the next run', async (t) => {
  const { drive, files, again, names, memory } = filesOf({ remove: unavailable })
  const old = await drive.create(rootId, 'file', Buffer.from('old'))
  const staging = await files.stage(at('/file'))
  const { id } = await drive.create(rootId, staging.name, Buffer.from('new'))
  await files.publish(at('/file'), id, staging, content)
  await drive.move(old.id, rootId, 'kept')
  await again().resume()
  t.same(await names(), ['file', 'kept'])
  t.same(entriesOf(memory, 'publications'), [])
})
