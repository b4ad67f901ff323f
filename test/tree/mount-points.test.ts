/** Storages in the tree: mount points, folders above them, broken storages, load balancing. */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import {
  altered,
  newTree,
  sourceOf,
  type MountAsk,
  overwrite,
  keep,
  fill,
  failing,
  names,
  pagesOf,
} from './tree-fixture.js'

const p = asPath

void t.test('mount points cannot be removed, moved or replaced', async (t) => {
  const { as } = await newTree(t, { '/': {}, '/m/one': {} })
  const ada = as()
  await fill(ada, { '/x': 'abc', '/d/y': 'abc' })
  for (const path of ['/', '/m', '/m/one']) {
    await t.rejects(ada.remove(p(path)), { code: 'denied' }, path)
    await t.rejects(ada.write(p(path), sourceOf('')), { code: 'is_folder' }, path)
    await t.rejects(ada.mkdir(p(path)), { code: 'exists' }, path)
    await t.rejects(ada.open(p(path), 'replace'), { code: 'is_folder' }, path)
    if (path === '/') continue
    await t.rejects(ada.move(p(path), p('/other'), keep), { code: 'denied' }, path)
    await t.rejects(ada.copy(p('/x'), p(path), overwrite), { code: 'denied' }, path)
    await t.rejects(ada.move(p('/d'), p(path), overwrite), { code: 'denied' }, path)
  }
  t.same(await names(ada, '/'), ['d', 'x', 'm'])
  t.same(await names(ada, '/m'), ['one'])
})

void t.test('a mount point covers a file of its name, alone and in listings', async (t) => {
  const { as, mount } = await newTree(t, { '/': {} })
  await fill(as(), { '/m': 'covered', '/d/e': 'abc' })
  for (const path of ['/m', '/d']) await mount(path)
  const kinds = (entries: readonly Entry[]) => entries.map(({ name, kind }) => `${name} ${kind}`).sort()
  t.same(kinds((await as().list(p('/'))).entries), ['d folder', 'm folder'])
  t.same((await pagesOf(as(), '/')).toSorted(), ['d', 'm'])
  t.match(await as().stat(p('/m')), { kind: 'folder' })
})

void t.test('entries can be created in a folder that exists only because a storage is mounted below it', async (t) => {
  const changes: Record<string, (ada: VirtualFs) => Promise<unknown>> = {
    mkdir: (ada) => ada.mkdir(p('/m/n/new')),
    'mkdir with parents': (ada) => ada.mkdir(p('/m/n/new/below'), { parents: true }),
    write: (ada) => ada.write(p('/m/n/new'), sourceOf('abc')),
    'write with parents': (ada) => ada.write(p('/m/n/new/below'), sourceOf('abc'), { parents: true }),
    open: async (ada) => {
      const file = await ada.open(p('/m/n/new'), 'replace')
      await file.write([Buffer.from('abc')], 0)
      await file.commit?.()
      await file.close()
    },
    move: (ada) => ada.move(p('/x'), p('/m/n/new'), keep),
    copy: (ada) => ada.copy(p('/x'), p('/m/n/new'), keep),
    'copy of a folder': (ada) => ada.copy(p('/d'), p('/m/n/new'), keep),
    'move from another storage': (ada) => ada.move(p('/m/n/one/z'), p('/m/n/new'), keep),
    'a new base folder': (ada) => ada.list(p('/')),
  }
  for (const kind of ['memory', 'store of objects'] as const) {
    for (const [change, work] of Object.entries(changes)) {
      const { as } = await newTree(t, {
        '/': kind === 'memory' ? {} : { traits: { emptyFolders: false } },
        '/m/n/one': {},
      })
      await fill(as(), { '/x': 'abc', '/d/y': 'abc', '/m/n/one/z': 'abc' })
      await work(change === 'a new base folder' ? as({ base: '/m/n/new' }) : as())
      t.same((await names(as(), '/m/n')).sort(), ['new', 'one'], `${change}, ${kind}`)
    }
  }
})

void t.test('a broken storage does not affect the other storages', async (t) => {
  const down = async () => {
    throw new GatewayError('unavailable')
  }
  for (const mounted of [
    { '/': { driverOf: down }, '/good': {}, '/d/deep': {} },
    { '/': { over: { pages: failing(down), revision: down, stat: down } }, '/good': {}, '/d/deep': {} },
  ]) {
    const { as } = await newTree(t, mounted)
    t.same((await names(as(), '/')).sort(), ['d', 'good'])
    t.same(await pagesOf(as(), '/'), ['d', 'good'])
    t.same(await names(as(), '/d'), ['deep'])
    t.match(await as().stat(p('/d')), { kind: 'folder' })
    await fill(as(), { '/good/x': 'abc' })
  }
})

void t.test('a listing that fails halfway rejects, even if a storage is mounted below the folder', async (t) => {
  const inner = new MemoryDriver(0)
  const list: Driver['pages'] = async function* (path) {
    yield* inner.pages(path)
    throw new GatewayError('unavailable')
  }
  const { as } = await newTree(t, { '/': { driverOf: async () => altered(inner, { pages: list }) }, '/good': {} })
  await fill(as(), { '/x': 'abc' })
  await t.rejects(pagesOf(as(), '/'), { code: 'unavailable' })
})

void t.test('a rename on a load-balanced mount changes only one of its storages', async (t) => {
  const { as, mounts, drivers } = await newTree(t, { '/a.balance1': {}, '/a.balance2': {} })
  for (const driver of drivers.values()) await driver.write?.(p('/x'), sourceOf('abc'))
  await as().move(p('/a/x'), p('/a/y'), keep)
  const found = await Promise.all(
    [...drivers.values()].map(async (driver) => {
      for await (const page of driver.pages(p('/'))) return page.map(({ name }) => name)
      return []
    }),
  )
  t.same(found.flat().sort(), ['x', 'y'])
  t.ok(mounts.isMountPoint(p('/a')))
})

void t.test('an operation on a load-balanced mount uses one storage for all of its steps', async (t) => {
  const used: string[] = []
  const noting = (name: string): MountAsk => {
    const inner = new MemoryDriver(0)
    const note = (target: MemoryDriver, key: string | symbol) => {
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      return (...args: readonly unknown[]) => {
        // A symlink is followed only where all storages agree on its target.
        if (!['realPath', 'folderRevision', 'close'].includes(String(key))) used.push(name)
        return Reflect.apply(value, target, args) as unknown
      }
    }
    return { cacheExpiration: 0, driverOf: async () => new Proxy<Driver>(inner, { get: (_, key) => note(inner, key) }) }
  }
  const { as, drivers } = await newTree(t, { '/a.balance1': noting('one'), '/a.balance2': noting('two') })
  for (const driver of drivers.values()) {
    await driver.mkdir?.(p('/folder'))
    for (const path of ['/x', '/y', '/folder/x']) await driver.write?.(p(path), sourceOf('old'))
  }
  const fs = as()
  const replace = async () => {
    const handle = await fs.open(p('/a/x'), 'replace')
    await handle.write([Buffer.from('new')], 0)
    await handle.commit?.()
    await handle.close()
  }
  const ifMatch = '*' as const
  const operations: Readonly<Record<string, () => Promise<unknown>>> = {
    write: () => fs.write(p('/a/x'), sourceOf('new'), { ifMatch }),
    parents: () => fs.write(p('/a/new/deep/x'), sourceOf('new'), { parents: true }),
    mkdir: () => fs.mkdir(p('/a/made/deep'), { parents: true }),
    replace,
    list: () => fs.list(p('/a/folder'), { limit: 10 }),
    copy: () => fs.copy(p('/a/x'), p('/a/copy'), keep),
    'copy into a folder': () => fs.copy(p('/a/x'), p('/a/folder/copy'), keep),
    move: () => fs.move(p('/a/y'), p('/a/folder/x'), overwrite),
    attributes: () => fs.setAttributes(p('/a/x'), { modified: new Date(0) }),
    'attributes of the mount': () => fs.setAttributes(p('/a'), { modified: new Date(0) }),
    remove: () => fs.remove(p('/a/folder')),
  }
  for (const [name, operation] of Object.entries(operations)) {
    used.length = 0
    await operation()
    t.equal(new Set(used).size, 1, `${name}: ${used.join(' ')}`)
  }
})
