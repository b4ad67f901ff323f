/** Requests for the handle of a file that is being renamed. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { Driver } from '../../../src/contract/driver.js'
import { startGateway } from '../../gateway.js'
import { altered } from '../../tree/tree-fixture.js'
import { flags, names, PacketClient, status, string, uint32 } from './packet-client.js'
import { openChannel, serveProtocol } from './server-fixture.js'

const { read, write, create, truncate } = flags

void t.test('WRITEs that follow a RENAME without waiting for it change the renamed file', async (t) => {
  const memory = new MemoryDriver(0)
  const slow = altered(memory, {
    move: async (...call) => {
      await memory.move(...call)
      await wait(100)
    },
  })
  const driverTypes = [{ name: 'Slow', fields: {}, open: async () => slow }]
  const { gateway } = await startGateway(t, { config: { sftp: 'off' }, driver: { name: 'Slow' }, driverTypes })
  const client = new PacketClient(await openChannel(await (await serveProtocol(t, gateway)).connect()))
  await client.start()
  const handle = await client.mustOpen('/a', write | create | truncate)
  t.equal(await client.write(handle, 0, 'first'), status.ok)
  const answers = await Promise.all([
    client.status(names.rename, string('/a'), string('/b')),
    client.write(handle, 5, ' second'),
    client.close(handle),
  ])
  t.same(answers, [status.ok, status.ok, status.ok])
  t.equal(await client.get('/b'), 'first second')
  t.equal(await client.get('/a'), status.noSuchFile)

  const failing = await client.mustOpen('/c', write | create | truncate)
  const refused = await Promise.all([
    client.status(names.rename, string('/c'), string('/b')),
    client.write(failing, 0, 'content'),
    client.close(failing),
  ])
  t.same(refused.slice(1), [status.ok, status.ok], 'a rename that fails holds nothing up')
  t.not(refused[0], status.ok)
  t.equal(await client.get('/c'), 'content')
})

/** The storages `/one` and `/two`, which hold their files in memory, and `/still`, whose backend cannot rename. */
async function startStorages(t: Test) {
  const two = new MemoryDriver(0)
  const still = altered(new MemoryDriver(0), { move: undefined })
  const driverTypes = [
    { name: 'Two', fields: {}, open: async (): Promise<Driver> => two },
    { name: 'Still', fields: {}, open: async (): Promise<Driver> => still },
  ]
  const { gateway } = await startGateway(t, { config: { sftp: 'off' }, driver: { name: 'Memory' }, driverTypes })
  const [first] = gateway.storages.list()
  if (!first) throw new Error('nothing is mounted')
  const { id: _id, ...like } = first
  const aliased = { paths: 'd:/d1\nd:/d2', write_conflict_policy: 'first', put_conflict_policy: 'random' }
  const storages = [
    ['/one', 'Memory', {}],
    ['/two', 'Two', {}],
    ['/still', 'Still', {}],
    ['/d1', 'Memory', {}],
    ['/d2', 'Memory', {}],
    ['/alias', 'Alias', aliased],
  ] as const
  for (const [mountPath, driver, options] of storages) {
    await gateway.storages.create({ ...like, mountPath, driver, addition: JSON.stringify(options) })
  }
  const protocol = await serveProtocol(t, gateway)
  const session = async () => {
    const client = new PacketClient(await openChannel(await protocol.connect()))
    await client.start()
    return client
  }
  return { two, session }
}

/** Renames that copy and remove: by path, the file that is opened and its path after the rename. */
const copyingRenames = [
  { title: 'between two storages', from: '/one/a', to: '/two/a', file: '/one/a', moved: '/two/a' },
  { title: 'on a storage that cannot rename', from: '/still/a', to: '/still/b', file: '/still/a', moved: '/still/b' },
  { title: 'on an Alias that distributes', from: '/alias/a', to: '/alias/b', file: '/alias/a', moved: '/alias/b' },
  { title: 'of the folder above', from: '/one/f', to: '/two/f', file: '/one/f/a', moved: '/two/f/a' },
  { title: 'of a folder on one storage', from: '/still/f', to: '/still/g', file: '/still/f/a', moved: '/still/g/a' },
] as const

void t.test('a handle follows a RENAME that copies the file and removes the source', async (t) => {
  const { session } = await startStorages(t)
  const client = await session()
  for (const opened of [write, read | write, write | create | truncate]) {
    for (const { title, from, to, file, moved } of copyingRenames) {
      if (from !== file) await client.status(names.mkdir, string(from), uint32(0))
      t.equal(await client.put(file, '----------'), status.ok)
      const handle = await client.mustOpen(file, opened)
      const done = await Promise.all([
        client.write(handle, 0, 'one'),
        client.status(names.rename, string(from), string(to)),
        client.write(handle, 3, 'two'),
      ])
      done.push(await client.write(handle, 6, 'last'), await client.close(handle))
      t.same(done, Array(5).fill(status.ok), title)
      t.equal(await client.get(moved), 'onetwolast', title)
      t.equal(await client.get(file), status.noSuchFile, title)
      t.equal(await client.status(names.remove, string(moved)), status.ok)
      if (from !== file) await client.status(names.rmdir, string(to))
    }
  }
})

void t.test('a handle of another session does not write to a file that a RENAME has copied and removed', async (t) => {
  const { session } = await startStorages(t)
  const [client, other] = [await session(), await session()]
  for (const { title, from, to, file, moved } of copyingRenames) {
    if (from !== file) await client.status(names.mkdir, string(from), uint32(0))
    await client.put(file, '----------')
    const handle = await other.mustOpen(file, write)
    t.equal(await other.write(handle, 0, 'before'), status.ok)
    const isSpooled = file.startsWith('/alias')
    t.equal(await client.status(names.rename, string(from), string(to)), status.ok, title)
    const after = [await other.write(handle, 0, 'lost!!'), await other.close(handle)]
    // A handle of a storage without handles stores what it was given at CLOSE.
    t.same(after, isSpooled ? [status.ok, status.noSuchFile] : [status.failure, status.ok], title)
    t.equal(await client.get(moved), isSpooled ? '----------' : 'before----', title)
    t.equal(await client.get(file), status.noSuchFile, title)
  }
  await client.put('/one/x', 'x')
  const renamed = await other.mustOpen('/one/x', write)
  t.equal(await client.status(names.rename, string('/one/x'), string('/one/y')), status.ok)
  t.equal(await other.write(renamed, 0, 'y'), status.ok, 'a rename by the backend takes the handle along')
  t.equal(await client.status(names.rename, string('/one/y'), string('/two/y')), status.ok)
  t.equal(await other.write(renamed, 0, 'z'), status.failure)
  t.equal(await client.get('/two/y'), 'y')
})

void t.test('a RENAME that copies fails if another session writes meanwhile', async (t) => {
  const { two, session } = await startStorages(t)
  const [client, other] = [await session(), await session()]
  await client.put('/one/a', '----------')
  const handle = await other.mustOpen('/one/a', write)
  const store = two.write.bind(two)
  two.write = async (...call) => {
    const entry = await store(...call)
    t.equal(await other.write(handle, 0, 'meanwhile'), status.ok)
    return entry
  }
  t.equal(await client.status(names.rename, string('/one/a'), string('/two/a')), status.failure)
  t.equal(await other.close(handle), status.ok)
  t.equal(await client.get('/one/a'), 'meanwhile-')
})
