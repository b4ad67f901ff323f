/**
 * An interrupted operation belongs to one node. Two nodes that settle it lose data: one marks a copy as spare and
 * copies; the other removes the spare copy, because the original exists; the first then removes the original.
 */
import { inspect } from 'node:util'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { asPath as p } from '../../src/base/path.js'
import { joinCluster } from '../../src/cluster/cluster.js'
import { createLog } from '../../src/process/log.js'
import { PathLocksInProcess } from '../../src/locks/path-locks.js'
import { openStore } from '../../src/database/store.js'
import { Events } from '../../src/storage/events.js'
import { Rules } from '../../src/tree/folder-rules.js'
import { Intents } from '../../src/transfer/intents.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'
import { storageRow } from '../database/store-rows.js'
import { newStorage, sourceOf, type Over } from '../tree/tree-fixture.js'

const skip = lacks('postgres', 'initdb')

/** A backend that cannot rename, and whose copies wait for `proceed` when they are done. */
function pausingBackend() {
  const backend = new MemoryDriver(0)
  let proceed: () => void = () => undefined
  const paused = new Promise<void>((resolve) => (proceed = resolve))
  let copied: () => void = () => undefined
  const hasCopied = new Promise<void>((resolve) => (copied = resolve))
  const shared = Object.getOwnPropertyNames(MemoryDriver.prototype).flatMap((name) => {
    const value: unknown = Reflect.get(backend, name)
    return typeof value === 'function' && name !== 'constructor' ? [[name, value.bind(backend) as unknown]] : []
  })
  const over: Over = {
    ...(Object.fromEntries(shared) as Over),
    open: undefined,
    move: undefined,
    copy: async (from, to, options) => {
      await backend.copy(from, to, options)
      copied()
      await paused
    },
  }
  return { over, proceed, hasCopied }
}

async function node(t: Test, location: string, id: string, over: Over, storageId?: number) {
  const store = await openStore(location, { node: id })
  const log = createLog('silent')
  const runs = () => undefined
  const instance = { name: id, isOver: runs, runs }
  const { ofOthers } = await joinCluster({ store, instance, name: id, events: new Events(), log })
  const row = { ...storageRow({}), id: storageId ?? (await store.storages.insert(storageRow({}))).id }
  const { storage } = await newStorage(t, over, row)
  Object.assign(storage, { row })
  const rules = await Rules.load(store)
  const intents = new Intents({
    ...{ store, followers: rules, pathLocks: new PathLocksInProcess(), ofOthers, log },
    storageOf: () => storage,
  })
  t.teardown(async () => {
    intents.close()
    await store.close()
  })
  return { store, storage, intents, id: row.id }
}

void t.test('a node that starts leaves the operations of a living node alone', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const { over, proceed, hasCopied } = pausingBackend()
  const one = await node(t, location, 'one', over)
  await one.storage.write(p('/file'), sourceOf('content'))
  const moving = one.intents.moveToBackup({ storage: one.storage, inner: p('/file') }, new AbortController().signal)
  await hasCopied
  const two = await node(t, location, 'two', over, one.id)
  await two.intents.recover(two.storage)
  proceed()
  const backup = await moving
  t.ok(backup && (await one.storage.stat(backup.at)), 'the backup exists')
  await backup?.restoreOrDiscard()
  t.equal((await one.storage.stat(p('/file'))).size, 'content'.length)
})

void t.test(
  'what was removed after a node was killed is not restored when its work is taken over',
  { skip },
  async (t) => {
    const location = await (await thisServer()).createDatabase()
    const { over, proceed } = pausingBackend()
    proceed()
    const one = await node(t, location, 'one', over)
    const two = await node(t, location, 'two', over, one.id)
    const { storage } = two
    const pair = { storageId: one.id } as const
    const [old, inside] = [p('/old'), p('/tree/old')]
    const written = async (...paths: readonly string[]) => {
      for (const path of paths) await storage.write(p(path), sourceOf(path))
    }
    const takeOver = async () => {
      await two.store.nodes.claim('two')
      await two.intents.recover(storage)
    }
    await storage.mkdir(p('/tree'))

    // The new file has its name, and the old one was not removed yet.
    await written('/file', '/old', '/tree/file', '/tree/old', '/kept')
    await one.store.intents.insert({ ...pair, kind: 'backup', from: p('/file'), to: old })
    await one.store.intents.insert({ ...pair, kind: 'move', from: p('/new'), to: p('/file') })
    await one.store.intents.insert({ ...pair, kind: 'backup', from: p('/tree/file'), to: inside })
    await one.store.intents.insert({ ...pair, kind: 'backup', from: p('/gone'), to: p('/kept') })
    await two.store.properties.change(p('/mnt/new'), [{ set: { namespace: 'n', name: 'x', value: 'v', language: '' } }])
    for (const path of ['/file', '/tree']) await two.intents.beforeRemoval({ storage, inner: p(path) }, 'removed')
    t.equal((await two.store.intents.all()).length, 3, 'the move is complete')
    t.equal(await two.store.properties.hasWithin(p('/mnt/file'), p('/mnt/file')), true)
    await storage.remove(p('/file'))
    await storage.removeTree(p('/tree'))
    await two.store.nodes.end('one')
    await takeOver()
    for (const path of ['/file', '/old', '/tree']) t.equal(await storage.statOrUndefined(p(path)), undefined, path)
    t.ok(await storage.stat(p('/gone')), 'what was not removed is restored')
    t.same(await two.store.intents.all(), [])
  },
)

void t.test('a backup that a renamed folder takes along is not forgotten', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const { over } = pausingBackend()
  const one = await node(t, location, 'one', over)
  const two = await node(t, location, 'two', over, one.id)
  const backup = {
    storageId: one.id,
    kind: 'backup',
    from: p('/folder/file'),
    to: p('/folder/old'),
  } as const
  const id = await one.store.intents.insert(backup)
  await two.intents.beforeRemoval({ storage: two.storage, inner: p('/folder') }, 'renamed')
  t.same(await one.store.intents.get(id), { ...backup, id })
  await two.intents.beforeRemoval({ storage: two.storage, inner: p('/folder/file') }, 'renamed')
  t.match(await one.store.intents.get(id), { from: '/folder/old', kind: 'spare backup' })
})

void t.test('a node that was ended within an operation removes nothing afterwards', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const { over, proceed, hasCopied } = pausingBackend()
  const one = await node(t, location, 'one', over)
  await one.storage.write(p('/file'), sourceOf('content'))
  const moving = one.intents.moveToBackup({ storage: one.storage, inner: p('/file') }, new AbortController().signal)
  moving.catch(() => undefined)
  await hasCopied
  const two = await node(t, location, 'two', over, one.id)
  await two.store.nodes.end('one')
  t.ok((await two.store.nodes.claim('two')) > 0)
  await two.intents.recover(two.storage)
  proceed()
  const failure: unknown = await moving.catch((error: unknown) => error)
  t.match(failure, { code: 'unavailable' }, inspect(failure))
  t.equal((await two.storage.stat(p('/file'))).size, 'content'.length)
  t.same(await two.store.intents.all(), [])
})
