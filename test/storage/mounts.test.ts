import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError, isGatewayError, isWithoutStorage } from '../../src/contract/errors.js'
import { asPath } from '../../src/contract/path.js'
import { storageRow } from '../store/store-rows.js'
import { altered, newTree, sourceOf } from '../tree/tree-fixture.js'

const refused = async (): Promise<Driver> => {
  throw new GatewayError('unavailable', { reason: 'no <b>answer</b>', cause: new Error('/srv/secret') })
}
const crashed = async (): Promise<Driver> => {
  throw new Error("ENOENT: no such file or directory, scandir '/srv/secret'")
}

void t.test('the longest mount that covers a path owns it', async (t) => {
  const { mounts } = await newTree(t, { '/': {}, '/a': {}, '/a/b/c': {} })
  const rows: readonly (readonly [string, string, string])[] = [
    ['/', '/', '/'],
    ['/x', '/', '/x'],
    ['/a', '/a', '/'],
    ['/a/b', '/a', '/b'],
    ['/a/b/c', '/a/b/c', '/'],
    ['/a/b/c/d', '/a/b/c', '/d'],
    ['/a/b/cd', '/a', '/b/cd'],
    ['/ab', '/', '/ab'],
  ]
  for (const [path, mount, inner] of rows) {
    const place = mounts.find(asPath(path))
    t.equal(place.storage.mount, mount, path)
    t.equal(place.inner, inner, path)
  }
})

void t.test('where nothing is mounted, that is said', async (t) => {
  const empty = await newTree(t, {})
  t.throws(() => empty.mounts.find(asPath('/')), { code: 'not_found', detail: 'nothing_mounted' })
  const { mounts } = await newTree(t, { '/a': {} })
  t.throws(() => mounts.find(asPath('/b')), { code: 'not_found', detail: 'no_storage' })
  const told = new GatewayError('not_found', { detail: 'no_storage', path: '/home/ada/x' }).at('list', '/x')
  t.ok(isWithoutStorage(told))
  t.notMatch(told.message, 'home')
})

void t.test('folders lead to mounts, each name once, in the order of the storages', async (t) => {
  const { mounts } = await newTree(t, {
    '/m/b': { order: 2 },
    '/m/a': { order: 3 },
    '/m/c/deep/er': { order: 1 },
    '/m/c/other': { order: 9 },
    '/off': { disabled: true },
  })
  const names = (path: string) => mounts.foldersIn(asPath(path)).map(({ name }) => name)
  t.same(names('/'), ['m'])
  t.same(names('/m'), ['c', 'b', 'a'])
  t.same(names('/m/c'), ['deep', 'other'])
  t.same(names('/m/a'), [])
  t.match(mounts.virtualEntry(asPath('/m/c')), { name: 'c', kind: 'folder' })
  t.equal(mounts.virtualEntry(asPath('/m/d')), undefined)
  t.equal(mounts.virtualEntry(asPath('/off')), undefined)
  t.match(mounts.virtualEntry(asPath('/')), { name: '', kind: 'folder' })
  t.ok(mounts.isVirtual(asPath('/m/c')))
  t.ok(mounts.isVirtual(asPath('/m/a')))
  t.notOk(mounts.isMountPoint(asPath('/m/c')))
  t.notOk(mounts.isVirtual(asPath('/m/c/x')))
  t.notOk(mounts.isMountAncestor(asPath('/m/a')))
})

void t.test('mounts that differ after .balance are one folder and take turns', async (t) => {
  const { mounts } = await newTree(t, { '/a.balance1': {}, '/a.balance2': {}, '/a': {}, '/.balance': {} })
  const found = Array.from({ length: 6 }, () => mounts.find(asPath('/a/x')).storage.row.mountPath)
  t.same([...new Set(found)].sort(), ['/a', '/a.balance1', '/a.balance2'])
  t.same(found.slice(0, 3), found.slice(3), 'each in turn')
  t.same(
    mounts
      .foldersIn(asPath('/'))
      .map(({ name }) => name)
      .sort(),
    ['.balance', 'a'],
  )
  const { storage } = mounts.find(asPath('/a/x'))
  for (let i = 0; i < 4; i++)
    t.equal(mounts.find(asPath('/a/y'), storage).storage, storage, 'but one that is asked for')
})

void t.test('of several that take turns, one that did not start is passed over', async (t) => {
  const { mounts } = await newTree(t, { '/a.balance1': {}, '/a.balance2': { driverOf: refused } })
  for (let i = 0; i < 3; i++) t.equal(mounts.find(asPath('/a')).storage.row.mountPath, '/a.balance1')
})

void t.test('a broken storage says so, keeps nobody else from working, and can be removed', async (t) => {
  const { mounts, store } = await newTree(t, {
    '/bad': { driverOf: refused },
    '/worse': { driverOf: crashed },
    '/good': {},
  })
  t.equal(mounts.find(asPath('/good')).storage.mount, '/good')
  t.throws(() => mounts.find(asPath('/bad/x')), { code: 'unavailable', message: /no <b>answer/ })
  t.throws(
    () => mounts.find(asPath('/worse/x')),
    { detail: 'storage_failed', message: 'internal error' },
    'what only the admin may see stays in the status',
  )
  const status = new Map((await store.storages.all()).map((row) => [row.mountPath as string, row.status]))
  t.match(status.get('/bad'), 'no <b>answer')
  t.match(status.get('/worse'), '/srv/secret')
  t.equal(status.get('/good'), 'work')
  const bad = mounts.rows().find((row) => row.mountPath === '/bad')
  await mounts.remove(bad?.id ?? 0)
  t.notOk(mounts.isMountPoint(asPath('/bad')))
})

void t.test('a faulty configuration is told, and the row stays', async (t) => {
  const tree = await newTree(t, {})
  await t.rejects(tree.mount('/a', { addition: '[1]' }), { code: 'unavailable', reason: /must be the JSON text/ })
  await t.rejects(tree.mount('/b', { addition: 'nonsense' }), { code: 'unavailable' })
  t.same(
    tree.mounts.rows().map(({ mountPath }) => mountPath),
    ['/a', '/b'],
  )
  t.equal(tree.mounts.rowOf(asPath('/a/x'))?.mountPath, '/a')
})

void t.test(
  'a storage that comes up late is used when it is there, or closed when it is no longer wanted',
  async (t) => {
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
    const removing = tree.mounts.remove(row?.id ?? 0)
    arrive(driver)
    await t.rejects(mounting)
    await removing
    t.equal(closed, 1)
    t.same(tree.mounts.rows(), [])
  },
)

void t.test('whoever asks while a storage starts waits for it', async (t) => {
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
  t.equal(tree.mounts.whenStarted(asPath('/x')), undefined, 'what others own waits for nothing')
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
  'whoever waits for a storage is told when it does not start, and waits for the one that replaces it',
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
      reason: 'no',
    })
    settle[0]?.()
    await t.rejects(mounting)
    await refused
    const [row] = tree.mounts.rows()
    if (!row) throw new Error('there is no row')
    const second = tree.mounts.apply(row)
    while (settle.length < 2) await turn()
    const waiting = tree.as().list(asPath('/late'))
    const third = tree.mounts.apply(row)
    settle[1]?.(new MemoryDriver(0))
    await second
    while (settle.length < 3) await turn()
    settle[2]?.(new MemoryDriver(0))
    await third
    t.same((await waiting).entries, [])
  },
)

void t.test('two who change one storage at once leave one of it', async (t) => {
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
  await Promise.all([1, 2, 3].map((order) => tree.mounts.apply({ ...row, order })))
  t.equal(open, 1)
  t.equal(tree.mounts.rowOf(asPath('/a'))?.order, 3)
  await tree.mounts.stop()
  t.equal(open, 0)
})

void t.test('what another process changed is taken up, what stayed is left running', async (t) => {
  const { mounts, store, mount, as } = await newTree(t, { '/a': {}, '/b': {} })
  await as().write(asPath('/a/x'), sourceOf('abc'))
  const [a, b] = mounts.rows()
  if (!a || !b) throw new Error('no rows')
  await store.storages.delete(b.id)
  await store.storages.insert(storageRow({ mountPath: asPath('/c'), driver: a.driver }))
  await mounts.reload()
  t.same(
    mounts.rows().map(({ mountPath }) => mountPath),
    ['/a', '/c'],
  )
  t.equal((await as().stat(asPath('/a/x'))).size, 3, 'the same storage')
  await store.storages.update(a.id, { disabled: true })
  await mounts.reload()
  t.notOk(mounts.isMountPoint(asPath('/a')))
  t.equal(mounts.rows().find(({ id }) => id === a.id)?.status, 'disabled')
  const all = store.storages.all.bind(store.storages)
  let read: () => void = () => undefined
  store.storages.all = async () => {
    const rows = await all()
    await new Promise<void>((resolve) => (read = resolve))
    return rows
  }
  const reloading = mounts.reload()
  await new Promise((resolve) => setTimeout(resolve, 20))
  await mount('/new')
  read()
  await reloading
  t.ok(mounts.isMountPoint(asPath('/new')), 'what was added while it read is kept')
})

void t.test('a driver stores changed options and has a small store of its own', async (t) => {
  const tree = await newTree(t, {})
  const row = await tree.store.storages.insert(storageRow({ mountPath: asPath('/s'), driver: 'saves' }))
  ;(tree.mounts.parts.driverTypes as AnyDriverType[]).push({
    name: 'saves',
    fields: { token: { type: 'string' } },
    open: async (options: { token: string }, env) => {
      await env.save({ token: `${options.token}+` })
      await env.state.set('seen', 'yes')
      t.equal(await env.state.get('seen'), 'yes')
      return new MemoryDriver(0)
    },
  })
  await tree.mounts.apply(row)
  await tree.mounts.reload()
  const stored = (await tree.store.storages.all()).find(({ id }) => id === row.id)
  t.match(JSON.parse(stored?.addition ?? '{}'), { token: '+' }, 'once: saving restarts nothing')
})
