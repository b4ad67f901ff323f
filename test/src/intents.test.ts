/** What was cut off on a storage is settled when the storage starts, and later where that fails. */
import t from 'tap'
import { setTimeout as wait } from 'node:timers/promises'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { GatewayError } from '../../src/errors.js'
import { asPath as p } from '../../src/path.js'
import type { Intent } from '../../src/store/rows.js'
import { altered, bare, contents, newTree, sourceOf, type Over, type Test, type Tree } from './tree-fixture.js'

const aside = p('/.tidegate-aside-1')
const overwrite = { overwrite: true } as const

/** A storage at `/disk` whose files outlive it, and a way to start it again. */
async function newDisk(t: Test, over: Over = {}) {
  const driver = altered(new MemoryDriver(0), over)
  const tree: Tree = await newTree(t, { '/': {}, '/disk': { driverOf: async () => driver } })
  const row = tree.mounts.rows().find(({ mountPath }) => mountPath === '/disk')
  if (!row) throw new Error('no disk')
  const cutOff = (fields: Partial<Intent> = {}) =>
    tree.store.intents.insert({ storageId: row.id, kind: 'aside', from: p('/x'), to: aside, spare: false, ...fields })
  return { ...tree, driver, row, cutOff, start: () => tree.mounts.apply(row) }
}

void t.test('what was set aside comes back when its storage starts, wherever it is mounted then', async (t) => {
  const { driver, row, cutOff, mounts, store, as } = await newDisk(t)
  await driver.write?.(aside, sourceOf('old'))
  await cutOff()
  await mounts.apply({ ...row, disabled: true })
  t.equal((await store.intents.all()).length, 1, 'it waits')
  await mounts.apply({ ...row, mountPath: p('/elsewhere') })
  t.same(await contents(as(), p('/elsewhere')), { '/elsewhere/x': 'old' })
  t.same(await store.intents.all(), [])
})

void t.test('it waits while neither it nor its name is found, as on a disk that is not there yet', async (t) => {
  const { driver, cutOff, start, store, as } = await newDisk(t)
  await cutOff()
  await start()
  t.equal((await store.intents.all()).length, 1)
  await driver.write?.(aside, sourceOf('old'))
  await start()
  t.same(await contents(as(), p('/disk')), { '/disk/x': 'old' })
  t.same(await store.intents.all(), [])
})

void t.test('it goes where its place is known to be taken by the transfer, and nowhere else', async (t) => {
  const { driver, cutOff, start, store, as } = await newDisk(t)
  await driver.write?.(aside, sourceOf('old'))
  await driver.write?.(p('/x'), sourceOf('new'))
  await cutOff({ spare: true })
  await start()
  t.same(await contents(as(), p('/disk')), { '/disk/x': 'new' })
  await driver.write?.(aside, sourceOf('old'))
  await cutOff()
  await start()
  const found = await contents(as(), p('/disk'))
  t.same(Object.values(found).sort(), ['new', 'old'])
  t.match(
    Object.keys(found).find((path) => found[path] === 'old'),
    /^\/disk\/x~replaced-[0-9a-f]{8}$/,
  )
  t.same(await store.intents.all(), [])
})

void t.test('a move that was cut off says that its target is its own, and is followed', async (t) => {
  const { driver, cutOff, start, store, as } = await newDisk(t)
  await driver.write?.(aside, sourceOf('old'))
  await driver.write?.(p('/x'), sourceOf('moved'))
  await store.attributes.set(p('/disk/from'), { mode: 0o600 })
  await cutOff()
  await cutOff({ kind: 'move', from: p('/from'), to: p('/x') })
  await start()
  t.same(await contents(as(), p('/disk')), { '/disk/x': 'moved' })
  t.match(await store.attributes.of(p('/disk/x')), { mode: 0o600 })
  t.same(await store.intents.all(), [])
})

void t.test('a move that was not done is forgotten, and one of which nothing is found waits', async (t) => {
  const { driver, cutOff, start, store } = await newDisk(t)
  await driver.write?.(p('/from'), sourceOf('here'))
  await cutOff({ kind: 'move', from: p('/from'), to: p('/x') })
  const waiting = await cutOff({ kind: 'move', from: p('/gone'), to: p('/nowhere') })
  await start()
  t.match(await store.intents.all(), [{ id: waiting }])
})

void t.test('what could not be settled is settled later by itself', { timeout: 20_000 }, async (t) => {
  const inner = new MemoryDriver(0)
  let broken = false
  const down = () => {
    if (broken) throw new GatewayError('unavailable')
  }
  const driver = altered(inner, {
    ...bare,
    stat: async (...args) => {
      down()
      return inner.stat(...args)
    },
    move: async (...args) => {
      down()
      return inner.move(...args)
    },
    mkdir: async () => {
      broken = true
      throw new GatewayError('unavailable')
    },
  })
  const { as, store } = await newTree(t, { '/': { driverOf: async () => driver }, '/far': {} })
  await as().mkdir(p('/far/x'))
  await inner.write(p('/x'), sourceOf('old'))
  await t.rejects(as().copy(p('/far/x'), p('/x'), overwrite), { code: 'unavailable' })
  t.equal((await store.intents.all()).length, 1)
  broken = false
  while ((await store.intents.all()).length > 0) await wait(50)
  t.equal((await inner.stat(p('/x'))).size, 3)
})

void t.test('what a copy left in its place before it failed does not take the old content away', async (t) => {
  const inner = new MemoryDriver(0)
  const driver = altered(inner, {
    ...bare,
    move: inner.move.bind(inner),
    write: async (path, source, options) => {
      if (path === '/x') await inner.mkdir(p('/x'))
      return inner.write(path, source, options)
    },
  })
  const { as } = await newTree(t, { '/disk': { driverOf: async () => driver }, '/far': {} })
  await inner.mkdir(p('/x'))
  await inner.write(p('/x/old'), sourceOf('old'))
  await as().write(p('/far/x'), sourceOf('new'))
  await t.rejects(as().copy(p('/far/x'), p('/disk/x'), overwrite))
  t.ok(Object.values(await contents(as(), p('/disk'))).includes('old'))
})
