/** Intents: interrupted operations on a storage are completed or undone when it starts, or later if that fails. */
import { EventEmitter, once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath as p } from '../../src/base/path.js'
import type { Intent } from '../../src/database/tables/intents.js'
import { altered, bare, contents, newTree, sourceOf, type Over, type Test, type Tree } from '../tree/tree-fixture.js'

const backup = p('/.tidegate-backup-1')
const overwrite = { overwrite: true } as const

/** A storage at `/disk` that can be started again with the same files. */
async function newDisk(t: Test, over: Over = {}) {
  const driver = altered(new MemoryDriver(0), over)
  const tree: Tree = await newTree(t, { '/': {}, '/disk': { driverOf: async () => driver } })
  const row = tree.mounts.rows().find(({ mountPath }) => mountPath === '/disk')
  if (!row) throw new Error('no disk')
  const cutOff = (fields: Partial<Intent> = {}) =>
    tree.store.intents.insert({
      storageId: row.id,
      kind: 'backup',
      from: p('/x'),
      to: backup,
      ...fields,
    })
  return { ...tree, driver, row, cutOff, start: () => tree.supervisor.apply(row) }
}

void t.test('a backup is restored when its storage starts, also at another mount path', async (t) => {
  const { driver, row, cutOff, supervisor, store, as } = await newDisk(t)
  await driver.write?.(backup, sourceOf('old'))
  await cutOff()
  await supervisor.apply({ ...row, disabled: true })
  t.equal((await store.intents.all()).length, 1, 'the intent remains')
  await supervisor.apply({ ...row, mountPath: p('/elsewhere') })
  t.same(await contents(as(), p('/elsewhere')), { '/elsewhere/x': 'old' })
  t.same(await store.intents.all(), [])
})

void t.test('of a remainder, nothing is removed at the target, until the remainder is gone', async (t) => {
  const { cutOff, start, store, as } = await newDisk(t)
  const fs = as()
  await fs.write(p('/disk/a/b/left'), sourceOf('left'), { parents: true })
  await fs.write(p('/t/b/moved'), sourceOf('moved'), { parents: true })
  await fs.write(p('/t/old'), sourceOf('old'))
  await cutOff({ kind: 'removal', from: p('/a/b'), to: p('/t/b') })
  await start()
  await fs.move(p('/disk/a'), p('/t'), overwrite)
  t.same(
    await contents(fs, p('/t')),
    { '/t/b': null, '/t/b/left': 'left', '/t/b/moved': 'moved' },
    'a folder above it is moved',
  )
  t.same(await store.intents.all(), [])

  await fs.mkdir(p('/disk/a'))
  await cutOff({ kind: 'removal', from: p('/a'), to: p('/t') })
  await start()
  await fs.remove(p('/disk/a'))
  t.same(await store.intents.all(), [], 'a remainder that is removed')
})

void t.test('the intent of a backup remains while neither the backup nor its original path exists', async (t) => {
  const { driver, cutOff, start, store, as } = await newDisk(t)
  await cutOff()
  await start()
  t.equal((await store.intents.all()).length, 1)
  await driver.write?.(backup, sourceOf('old'))
  await start()
  t.same(await contents(as(), p('/disk')), { '/disk/x': 'old' })
  t.same(await store.intents.all(), [])
})

void t.test('the intent of a backup remains while the storage below a composite storage is not mounted', async (t) => {
  const over: { stat?: Driver['stat'] } = {
    stat: async (path) => {
      throw new GatewayError('not_found', { detail: 'no_storage', path })
    },
  }
  const { driver, cutOff, start, store, as } = await newDisk(t, over)
  await driver.write?.(backup, sourceOf('old'))
  await cutOff({ kind: 'spare backup' })
  await start()
  t.equal((await store.intents.all()).length, 1)
  delete over.stat
  await start()
  t.same(await contents(as(), p('/disk')), { '/disk/x': 'old' })
  t.same(await store.intents.all(), [])
})

void t.test('a backup is deleted if the transfer has published, otherwise renamed beside the new file', async (t) => {
  const { driver, cutOff, start, store, as } = await newDisk(t)
  await driver.write?.(backup, sourceOf('old'))
  await driver.write?.(p('/x'), sourceOf('new'))
  await cutOff({ kind: 'spare backup' })
  await start()
  t.same(await contents(as(), p('/disk')), { '/disk/x': 'new' })
  await driver.write?.(backup, sourceOf('old'))
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

void t.test('after an interrupted move, the backup is deleted and attributes follow', async (t) => {
  const { driver, cutOff, start, store, as } = await newDisk(t)
  await driver.write?.(backup, sourceOf('old'))
  await driver.write?.(p('/x'), sourceOf('moved'))
  await store.attributes.set(p('/disk/from'), { mode: 0o600 })
  await cutOff()
  await cutOff({ kind: 'move', from: p('/from'), to: p('/x') })
  await start()
  t.same(await contents(as(), p('/disk')), { '/disk/x': 'moved' })
  t.match(await store.attributes.of(p('/disk/x')), { mode: 0o600 })
  t.same(await store.intents.all(), [])
})

void t.test('the intent of a move that did not happen is deleted; it remains if neither path exists', async (t) => {
  const { driver, cutOff, start, store } = await newDisk(t)
  await driver.write?.(p('/from'), sourceOf('here'))
  await cutOff({ kind: 'move', from: p('/from'), to: p('/x') })
  const waiting = await cutOff({ kind: 'move', from: p('/gone'), to: p('/nowhere') })
  await start()
  t.match(await store.intents.all(), [{ id: waiting }])
})

void t.test('an intent that could not be completed is retried without a restart', async (t) => {
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

void t.test('the intent of a move remains until it is known whether the backend has moved', async (t) => {
  const outcomes = [
    { hasMoved: true, byOther: false },
    { hasMoved: false, byOther: false },
    { hasMoved: false, byOther: true },
  ]
  for (const { hasMoved, byOther } of outcomes) {
    const inner = new MemoryDriver(0)
    let broken = false
    const driver = altered(inner, {
      ...bare,
      stat: async (...args) => {
        if (broken) throw new GatewayError('unavailable')
        return inner.stat(...args)
      },
      move: async (...args) => {
        if (hasMoved) await inner.move(...args)
        broken = true
        throw new GatewayError('unavailable')
      },
    })
    const { as, store, rule, dependencies } = await newTree(t, { '/': { driverOf: async () => driver } })
    await inner.mkdir(p('/secret'))
    await rule('/secret', { password: 'open sesame', passwordSub: true })
    await t.rejects(as().move(p('/secret'), p('/public'), overwrite), { code: 'unavailable' })
    const intents = await store.intents.all()
    t.equal(intents.length, 1)
    for (const path of ['/secret', '/public']) t.ok(dependencies.rules.nearest(p(path)), `${path} may be the folder`)
    // Another node has taken the intent, and has found out.
    if (byOther) for (const { id } of intents) await store.intents.drop(id)
    broken = false
    while ((await store.intents.all()).length > 0) await wait(50)
    while (dependencies.rules.nearest(p(hasMoved ? '/secret' : '/public'))) await wait(50)
    t.ok(dependencies.rules.nearest(p(hasMoved ? '/public' : '/secret')))
  }
})

void t.test('a failed copy that left something at its target does not delete the replaced content', async (t) => {
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

void t.test('a rename records an intent only if rows of the database follow it', async (t) => {
  const inner = new MemoryDriver(0)
  let journaled = 0
  const driver = altered(inner, {
    ...bare,
    move: async (...args) => {
      journaled = (await store.intents.all()).length
      return inner.move(...args)
    },
  })
  const { as, store, rule } = await newTree(t, { '/': { driverOf: async () => driver } })
  const ada = as()
  const property = { namespace: 'urn:x', name: 'x', value: '1', language: '' }
  const set = (path: string) => ada.setProperties(p(path), [{ set: property }])
  /** Number of intents while the backend moves the entry. */
  const intentsOf = async (from: string, to: string) => {
    journaled = -1
    await ada.move(p(from), p(to), overwrite)
    t.same(await store.intents.all(), [], 'none is left')
    return journaled
  }
  for (const path of ['/a', '/b', '/c', '/d']) await ada.write(p(path), sourceOf(path))
  await ada.mkdir(p('/folder'))
  await ada.write(p('/folder/file'), sourceOf('in it'))

  t.equal(await intentsOf('/a', '/plain'), 0, 'no path has rows')
  await set('/b')
  t.equal(await intentsOf('/plain', '/again'), 0, 'neither path has rows')
  t.equal(await intentsOf('/b', '/carrying'), 1, 'the source has properties')
  t.match(await ada.properties(p('/carrying')), [property])
  t.equal(await intentsOf('/again', '/carrying'), 1, 'the replaced file has properties')
  t.same(await ada.properties(p('/carrying')), [], 'the properties of the replaced file are deleted')
  await set('/folder/file')
  t.equal(await intentsOf('/folder', '/other'), 1, 'a file in the folder has properties')
  t.match(await ada.properties(p('/other/file')), [property])
  await ada.setAttributes(p('/c'), { modified: new Date(5000) })
  t.equal(await intentsOf('/c', '/timed'), 1, 'the source has times that the backend cannot store')
  t.equal((await ada.stat(p('/timed'))).modified.getTime(), 5000)
  await rule('/d', { readme: 'text' })
  t.equal(await intentsOf('/d', '/ruled'), 1, 'the source has a rule')
  t.match(await store.rules.all(), [{ path: '/ruled' }])
  t.equal(await intentsOf('/timed', '/other'), 2, 'a folder is renamed to a backup')
})

void t.test('a rule that is created during a rename follows, with and without an intent', async (t) => {
  const inner = new MemoryDriver(0)
  let during: (() => Promise<unknown>) | undefined
  const driver = altered(inner, {
    ...bare,
    move: async (...args) => {
      await during?.()
      return inner.move(...args)
    },
  })
  const { as, rule, dependencies: parts } = await newTree(t, { '/': { driverOf: async () => driver } })
  const ada = as()
  for (const name of ['plain', 'carrying']) {
    await ada.mkdir(p(`/${name}`))
    await ada.write(p(`/${name}/file`), sourceOf(name))
  }
  const property = { namespace: 'urn:x', name: 'x', value: '1', language: '' }
  await ada.setProperties(p('/carrying/file'), [{ set: property }])
  for (const name of ['plain', 'carrying']) {
    during = () => rule(`/${name}`, { password: 'secret', passwordSub: true })
    await ada.move(p(`/${name}`), p(`/${name}-moved`), overwrite)
    during = undefined
    t.equal(parts.rules.ruleOf(p(`/${name}`)), undefined, name)
    t.equal(parts.rules.ruleOf(p(`/${name}-moved`))?.password, 'secret', name)
  }
})

void t.test('attributes that are set during a rename are not stored for the old name', async (t) => {
  const inner = new MemoryDriver(0)
  const steps = new EventEmitter()
  const driver = altered(inner, {
    ...bare,
    move: async (...args) => {
      const go = once(steps, 'go')
      steps.emit('begun')
      await go
      return inner.move(...args)
    },
  })
  const { as, store } = await newTree(t, { '/': { driverOf: async () => driver } })
  const ada = as()
  await ada.write(p('/old'), sourceOf('content'))
  const begun = once(steps, 'begun')
  const moving = ada.move(p('/old'), p('/new'), overwrite)
  await begun
  const setting = t.rejects(ada.setAttributes(p('/old'), { mode: 0o600 }), { code: 'not_found' })
  await wait(50)
  steps.emit('go')
  await Promise.all([moving, setting])
  t.equal(await store.attributes.of(p('/old')), undefined)
})
