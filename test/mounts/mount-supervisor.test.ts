/**
 * Storages start, fail, restart and close, while requests wait for them and other processes change their configuration.
 */
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { ChangeElsewhere, DriverEnv } from '../../src/contract/driver-env.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { storedStateOf } from '../../src/mounts/mounts.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { storageRow } from '../database/store-rows.js'
import { altered, newTree, sourceOf } from '../tree/tree-fixture.js'

const refused = async (): Promise<Driver> => {
  throw new GatewayError('unavailable', { reason: 'no <b>answer</b>', cause: new Error('/srv/secret') })
}
const crashed = async (): Promise<Driver> => {
  throw new Error("ENOENT: no such file or directory, scandir '/srv/secret'")
}

void t.test('a storage that does not start reports why, does not affect others, and can be removed', async (t) => {
  const { mounts, supervisor, store } = await newTree(t, {
    '/bad': { driverOf: refused },
    '/worse': { driverOf: crashed },
    '/good': {},
  })
  t.equal(mounts.find(asPath('/good')).storage.mountPoint, '/good')
  t.throws(() => mounts.find(asPath('/bad/x')), { code: 'unavailable', message: /no <b>answer/ })
  t.throws(
    () => mounts.find(asPath('/worse/x')),
    { detail: 'storage_failed', message: 'internal error' },
    'a reason for the admin only is in the status',
  )
  const status = new Map((await store.storages.all()).map((row) => [row.mountPath as string, row.status]))
  t.match(status.get('/bad'), 'no <b>answer')
  t.match(status.get('/worse'), '/srv/secret')
  t.equal(status.get('/good'), 'work')
  const bad = mounts.rows().find((row) => row.mountPath === '/bad')
  await supervisor.remove(bad?.id ?? 0)
  t.notOk(mounts.isMountPoint(asPath('/bad')))
})

void t.test('an invalid configuration is reported, and its storage stays in the table', async (t) => {
  const tree = await newTree(t, {})
  await t.rejects(tree.mount('/a', { addition: '[1]' }), { code: 'unavailable', reason: /must be the JSON text/ })
  await t.rejects(tree.mount('/b', { addition: 'nonsense' }), { code: 'unavailable' })
  t.same(
    tree.mounts.rows().map(({ mountPath }) => mountPath),
    ['/a', '/b'],
  )
  t.equal(tree.mounts.rowOf(asPath('/a/x'))?.mountPath, '/a')
})

void t.test('a storage that is removed while it starts is closed', async (t) => {
  let arrive: (driver: Driver) => void = () => undefined
  let closed = 0
  const driver = altered(new MemoryDriver(0), {
    close: async () => {
      closed++
    },
  })
  const tree = await newTree(t, {})
  const mounting = tree.mount('/late', { driverOf: () => new Promise((resolve) => (arrive = resolve)) })
  while (!tree.mounts.isMountPoint(asPath('/late'))) await turn()
  t.throws(() => tree.mounts.find(asPath('/late')), { code: 'unavailable' })
  const [row] = tree.mounts.rows()
  const removing = tree.supervisor.remove(row?.id ?? 0)
  arrive(driver)
  await t.rejects(mounting)
  await removing
  t.equal(closed, 1)
  t.same(tree.mounts.rows(), [])
})

void t.test('requests wait for a storage that is being started', async (t) => {
  const tree = await newTree(t, {})
  let arrive: () => void = () => undefined
  const driverOf = () =>
    new Promise<Driver>((resolve) => {
      arrive = () => resolve(new MemoryDriver(0))
    })
  const mounting = tree.mount('/late', { driverOf })
  await tree.mount('/')
  while (!tree.mounts.isMountPoint(asPath('/late'))) await turn()
  t.throws(() => tree.mounts.find(asPath('/late/x')), {
    code: 'unavailable',
    detail: 'storage_starting',
  })
  t.equal(tree.mounts.whenStarted(asPath('/x')), undefined, 'a path of another storage does not wait')
  const gone = new AbortController()
  const asked = [
    tree.as().list(asPath('/late')),
    tree.as().mkdir(asPath('/late/d/e'), { parents: true }),
    tree.as({ base: '/late/home' }).write(asPath('/y'), sourceOf('abc')),
    tree
      .as()
      .copy(asPath('/late/none'), asPath('/late/copy'), { overwrite: false })
      .catch((error: unknown) => (isGatewayError(error) ? error.code : error)),
  ]
  const left = tree.as().list(asPath('/late'), { signal: gone.signal })
  gone.abort()
  await t.rejects(left, { code: 'aborted' })
  arrive()
  await mounting
  t.equal((await Promise.all(asked)).at(-1), 'not_found')
  t.same((await tree.as().list(asPath('/late'))).entries.map(({ name }) => name).sort(), ['d', 'home'])
})

void t.test(
  'a waiting request is rejected when the storage does not start, and waits for a replacement that starts',
  async (t) => {
    const tree = await newTree(t, {})
    const settle: ((driver?: Driver) => void)[] = []
    const driverOf = () =>
      new Promise<Driver>((resolve, reject) => {
        settle.push((driver) => (driver ? resolve(driver) : reject(new GatewayError('unavailable', { reason: 'no' }))))
      })
    const mounting = tree.mount('/late', { driverOf })
    while (settle.length === 0) await turn()
    const refused = t.rejects(tree.as().list(asPath('/late')), {
      code: 'unavailable',
      detail: 'storage_failed',
      reason: /^no/,
    })
    settle[0]?.()
    await t.rejects(mounting)
    await refused
    const [row] = tree.mounts.rows()
    if (!row) throw new Error('there is no row')
    const second = tree.supervisor.apply(row)
    while (settle.length < 2) await turn()
    const waiting = tree.as().list(asPath('/late'))
    const third = tree.supervisor.apply(row)
    settle[1]?.(new MemoryDriver(0))
    await second
    while (settle.length < 3) await turn()
    settle[2]?.(new MemoryDriver(0))
    await third
    t.same((await waiting).entries, [])
  },
)

void t.test('concurrent changes of one storage leave one driver open', async (t) => {
  let open = 0
  const tree = await newTree(t, {})
  const driverOf = async () => {
    open++
    await turn()
    return altered(new MemoryDriver(0), {
      close: async () => {
        await turn()
        open--
      },
    })
  }
  const row = await tree.mount('/a', { driverOf })
  await Promise.all([1, 2, 3].map((order) => tree.supervisor.apply({ ...row, order })))
  t.equal(open, 1)
  t.equal(tree.mounts.rowOf(asPath('/a'))?.order, 3)
  await tree.supervisor.stop()
  t.equal(open, 0)
})

void t.test('reload() applies changes of another process, and other storages continue to run', async (t) => {
  const { mounts, supervisor, store, mount, as } = await newTree(t, { '/a': {}, '/b': {} })
  await as().write(asPath('/a/x'), sourceOf('abc'))
  const [a, b] = mounts.rows()
  if (!a || !b) throw new Error('no rows')
  await store.storages.delete(b.id)
  await store.storages.insert(storageRow({ mountPath: asPath('/c'), driver: a.driver }))
  await supervisor.reload()
  t.same(
    mounts.rows().map(({ mountPath }) => mountPath),
    ['/a', '/c'],
  )
  t.equal((await as().stat(asPath('/a/x'))).size, 3, 'the same storage')
  await store.storages.update(a.id, { disabled: true })
  await supervisor.reload()
  t.notOk(mounts.isMountPoint(asPath('/a')))
  t.equal(mounts.rows().find(({ id }) => id === a.id)?.status, 'disabled')
  const all = store.storages.all.bind(store.storages)
  let read: () => void = () => undefined
  store.storages.all = async () => {
    const rows = await all()
    await new Promise<void>((resolve) => (read = resolve))
    return rows
  }
  const reloading = supervisor.reload()
  await new Promise((resolve) => setTimeout(resolve, 20))
  await mount('/new')
  read()
  await reloading
  t.ok(mounts.isMountPoint(asPath('/new')), 'a storage that was mounted while the rows were read remains')
})

void t.test('a driver stores changed options, and has a state of its own', async (t) => {
  const tree = await newTree(t, {})
  const row = await tree.store.storages.insert(storageRow({ mountPath: asPath('/s'), driver: 'saves' }))
  ;(tree.supervisor.dependencies.driverTypes as AnyDriverType[]).push({
    name: 'saves',
    fields: { token: { type: 'string' } },
    open: async (options: { token: string }, env) => {
      await env.save({ token: `${options.token}+` })
      await env.state.set('seen', 'yes')
      t.equal(await env.state.get('seen'), 'yes')
      return new MemoryDriver(0)
    },
  })
  await tree.supervisor.apply(row)
  await tree.supervisor.reload()
  const stored = (await tree.store.storages.all()).find(({ id }) => id === row.id)
  t.match(JSON.parse(stored?.addition ?? '{}'), { token: '+' }, 'stored once: saving does not restart the storage')
})

void t.test('options that a driver stores while reload() reads the rows do not restart its storage', async (t) => {
  const envs: DriverEnv[] = []
  const driverOf = async (env: DriverEnv) => {
    envs.push(env)
    return new MemoryDriver(0)
  }
  const { supervisor, store, mounts } = await newTree(t, { '/a': { driverOf } })
  const all = store.storages.all.bind(store.storages)
  let goOn: () => void = () => undefined
  const isSaved = new Promise<void>((resolve) => (goOn = resolve))
  let hasRead = false
  store.storages.all = async () => {
    const rows = await all()
    store.storages.all = all
    hasRead = true
    await isSaved
    return rows
  }
  const reloading = supervisor.reload()
  await until(() => hasRead)
  const saving = envs[0]?.save({ token: 'next' })
  await settled()
  goOn()
  await Promise.all([reloading, saving])
  t.equal(envs.length, 1, 'opened once')
  t.match(JSON.parse(mounts.rows()[0]?.addition ?? '{}'), { token: 'next' })
  t.match(JSON.parse((await all())[0]?.addition ?? '{}'), { token: 'next' }, 'and they are stored')
})

/** Replaces `setTimeout` for the rest of the test. */
function mockTimers(t: Test): (milliseconds: number) => void {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  return (milliseconds) => mock.timers.tick(milliseconds)
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await turn()
}

/** Long enough for work that need not wait to end. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 50; turns++) await turn()
}

void t.test('a backend that is gone shows in the status, and one that is back too', async (t) => {
  const tree = await newTree(t, {})
  const tick = mockTimers(t)
  const minute = 60_000
  let asked = 0
  let answer = async (): Promise<void> => undefined
  const memory = new MemoryDriver(0)
  const stat: Driver['stat'] = async (path, options) => {
    asked++
    await answer()
    return memory.stat(path, options)
  }
  await tree.mount('/a', { driverOf: async () => altered(memory, { stat }) })
  await tree.as().stat(asPath('/a'))
  const status = () => tree.mounts.rows()[0]?.status
  const gone = async () => {
    throw new GatewayError('unavailable', { reason: 'no route to host' })
  }
  tick(minute)
  await settled()
  t.equal(asked, 1, 'a storage that was used within the last minute is not asked')
  answer = gone
  tick(minute)
  await settled()
  t.equal(status(), 'no route to host')
  t.same(tree.mounts.states(), ['failed'])
  t.equal((await tree.store.storages.all())[0]?.status, 'no route to host', 'and it is stored')
  for (const [index, minutes] of [2, 5, 15, 15].entries()) {
    tick(minutes * minute - 1)
    await settled()
    t.equal(asked, 2 + index)
    tick(1)
    await settled()
    t.equal(asked, 3 + index, `asked again after ${minutes} minutes`)
  }
  answer = async () => undefined
  await tree.as().stat(asPath('/a'))
  await settled()
  t.equal(status(), 'work', 'a call that succeeds ends it')
  t.same(tree.mounts.states(), ['working'])

  // The first minute after an answer.
  tick(minute)
  answer = () => new Promise(() => undefined)
  tick(minute)
  await settled()
  tick(30_000)
  await settled()
  t.equal(status(), 'timed out', 'a backend that does not answer')
  const before = asked
  tick(60 * minute)
  await settled()
  t.equal(asked, before, 'is not asked again while the call has not ended')
})

void t.test('a backend whose calls are counted is never asked', async (t) => {
  const tree = await newTree(t, {})
  const tick = mockTimers(t)
  let asked = 0
  const memory = new MemoryDriver(0)
  const stat: Driver['stat'] = (path, options) => {
    asked++
    return memory.stat(path, options)
  }
  await tree.mount('/a', { driverOf: async () => altered(memory, { stat, traits: { metered: true } }) })
  for (let minutes = 0; minutes < 30; minutes++) {
    tick(60_000)
    await settled()
  }
  t.equal(asked, 0)
})

void t.test('a storage that does not start is started again after increasing pauses', async (t) => {
  const tree = await newTree(t, {})
  const { storages } = tree.store
  const update = storages.update.bind(storages)
  let stored = 0
  storages.update = async (id, changes) => {
    const row = await update(id, changes)
    stored++
    return row
  }
  const tick = mockTimers(t)
  let attempts = 0
  const driverOf = async () => {
    if (++attempts < 7) throw new GatewayError('unavailable', { reason: `failure ${attempts}` })
    return new MemoryDriver(0)
  }
  await t.rejects(tree.mount('/a', { driverOf }), { code: 'unavailable', reason: 'failure 1' })
  for (const [index, seconds] of [5, 15, 60, 300, 300, 300].entries()) {
    tick(seconds * 1000 - 1)
    await settled()
    t.equal(attempts, index + 1, `not before ${seconds} s`)
    tick(1)
    // The next pause begins when the status is stored.
    await until(() => stored === index + 2)
    await settled()
    t.equal(attempts, index + 2)
  }
  t.equal(tree.mounts.rowOf(asPath('/a'))?.status, 'work')
  t.equal((await tree.as().list(asPath('/a'))).entries.length, 0)
})

void t.test('a storage that was removed or replaced is not started again', async (t) => {
  const tree = await newTree(t, {})
  const tick = mockTimers(t)
  let attempts = 0
  const driverOf = async () => {
    attempts++
    throw new GatewayError('unavailable')
  }
  await t.rejects(tree.mount('/a', { driverOf }))
  await t.rejects(tree.mount('/b', { driverOf }))
  const [a, b] = tree.mounts.rows()
  if (!a || !b) throw new Error('there are no rows')
  await tree.supervisor.remove(a.id)
  await tree.supervisor.apply({ ...b, disabled: true })
  tick(3600_000)
  await settled()
  t.equal(attempts, 2)
})

void t.test('after a failed start, requests do not wait for the next attempt', async (t) => {
  const tree = await newTree(t, { '/a': { driverOf: refused } })
  t.equal(tree.mounts.whenStarted(asPath('/a')), undefined)
})

void t.test('a request waits five seconds for a starting storage, and the start of the daemon less', async (t) => {
  const tree = await newTree(t, {})
  let opened = 0
  const hangs = () => {
    opened++
    return new Promise<Driver>(() => undefined)
  }
  await tree.mount('/quick')
  await tree.mount('/off', { disabled: true })
  void tree.mount('/hangs', { driverOf: hangs }).catch(() => undefined)
  await until(() => opened === 1)
  for (const { id } of tree.mounts.rows()) await tree.supervisor.remove(id)
  const tick = mockTimers(t)
  let hasStarted = false
  const starting = tree.supervisor.start().then(() => (hasStarted = true))
  await until(() => opened === 2 && tree.mounts.startOf(asPath('/quick')) === undefined)
  t.notOk(hasStarted)
  tick(1500)
  await starting
  t.equal(tree.mounts.find(asPath('/quick')).storage.mountPoint, '/quick')
  t.notOk(tree.mounts.isMountPoint(asPath('/off')))
  let hasWaited = false
  const waiting = tree.mounts.whenStarted(asPath('/hangs/x'))?.then(() => (hasWaited = true))
  tick(4999)
  await settled()
  t.notOk(hasWaited)
  tick(1)
  await waiting
  t.throws(() => tree.mounts.find(asPath('/hangs')), { code: 'unavailable', detail: 'storage_starting' })
})

void t.test('a storage that does not close is abandoned', async (t) => {
  const tree = await newTree(t, {
    '/hangs': { over: { close: () => new Promise(() => undefined) } },
    '/a': {},
  })
  const tick = mockTimers(t)
  const stopping = tree.supervisor.stop()
  await settled()
  tick(6000)
  await stopping
  t.same(tree.mounts.rows(), [])
})

void t.test('the error of closing a driver is returned, and the storage is unmounted', async (t) => {
  const close = async () => {
    throw new GatewayError('unavailable', { reason: 'the connection was lost' })
  }
  const tree = await newTree(t, { '/a': { over: { close } } })
  const [row] = tree.mounts.rows()
  t.match(await tree.supervisor.remove(row?.id ?? 0), { code: 'unavailable', reason: 'the connection was lost' })
  t.notOk(tree.mounts.isMountPoint(asPath('/a')))
  t.equal(await tree.supervisor.remove(99), undefined, 'removing an unknown storage does nothing')
})

void t.test('warnings of a driver are in the status of its storage, which works', async (t) => {
  const envs: DriverEnv[] = []
  const driverOf = async (env: DriverEnv) => {
    envs.push(env)
    env.report(['two files are named "x"'])
    return new MemoryDriver(0)
  }
  const { mounts, store } = await newTree(t, { '/a': { driverOf } })
  const status = async () => (await store.storages.all())[0]?.status ?? ''
  t.equal(await status(), 'work, but two files are named "x"')
  t.equal(storedStateOf({ status: await status() }), 'working')
  t.same(mounts.states(), ['working'])
  envs[0]?.report(['one', 'two'])
  while ((await status()) !== 'work, but one; two') await turn()
  envs[0]?.report([])
  while ((await status()) !== 'work') await turn()
  t.pass('without warnings')
})

void t.test('a change that a driver reports drops what is cached of it', async (t) => {
  const memory = new MemoryDriver(0)
  const envs: DriverEnv[] = []
  const driverOf = async (env: DriverEnv) => {
    envs.push(env)
    env.changed(asPath('/before/it/is/open'))
    return altered(memory, { folderRevision: undefined })
  }
  const tree = await newTree(t, { '/a': { driverOf } })
  const { storage } = tree.mounts.find(asPath('/a'))
  const names = async (path: string) => (await storage.list(asPath(path))).entries.map(({ name }) => name)
  await memory.mkdir(asPath('/folder'))
  t.same([await names('/'), await names('/folder')], [['folder'], []])
  await memory.write(asPath('/folder/file'), sourceOf('x'))
  t.same(await names('/folder'), [], 'cached')
  envs[0]?.changed(asPath('/folder/file'))
  t.same(await names('/folder'), ['file'])
  await memory.removeTree(asPath('/folder'))
  envs[0]?.changed(asPath('/folder'))
  t.same(await names('/'), [])
})

void t.test('a driver hears of changes by other nodes in its storage', async (t) => {
  const heard: string[] = []
  let opened = 0
  const driverOf = async (env: DriverEnv) => {
    const number = ++opened
    env.onChangeElsewhere((change: ChangeElsewhere) => {
      const { kind, path } = change
      heard.push([number, kind, ...(kind === 'moved' ? [change.from] : []), path].join(' '))
    })
    if (number === 1) throw new GatewayError('unavailable')
    return new MemoryDriver(0)
  }
  const { supervisor, store } = await newTree(t, { '/mnt/a': { driverOf }, '/mnt/other': {} })
  const { events } = supervisor.dependencies
  const [row] = await store.storages.all()
  if (!row) throw new Error('no storage')
  await supervisor.apply(row)
  events.emit({ kind: 'removed', path: asPath('/mnt/a/own') })
  events.emit({ kind: 'written', path: asPath('/mnt/other/file') }, 'elsewhere')
  t.same(heard, [], 'not of own changes, nor of those in other storages')
  events.emit({ kind: 'written', path: asPath('/mnt/a/file') }, 'elsewhere')
  events.emit({ kind: 'folder made', path: asPath('/mnt/a/folder') }, 'elsewhere')
  events.emit({ kind: 'removed', path: asPath('/mnt/a/file') }, 'elsewhere')
  events.emit({ kind: 'moved', from: asPath('/mnt/a/x'), path: asPath('/mnt/a/y') }, 'elsewhere')
  events.emit({ kind: 'changed elsewhere', path: asPath('/mnt/a/folder') }, 'elsewhere')
  // Notices were missed.
  events.emit({ kind: 'changed elsewhere', path: asPath('/') }, 'elsewhere')
  t.same(heard, [
    '2 changed /file',
    '2 changed /folder',
    '2 removed /file',
    '2 moved /x /y',
    '2 changed /folder',
    '2 changed /',
  ])
  await supervisor.remove(row.id)
  events.emit({ kind: 'changed elsewhere', path: asPath('/') }, 'elsewhere')
  t.equal(heard.length, 6, 'nothing after it was unmounted')
})
