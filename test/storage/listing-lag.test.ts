/** A storage whose listings lag shows its own changes at once, for as long as the trait says. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, childOf, nameOf, parentOf, type Path } from '../../src/base/path.js'
import { newStorage, sourceOf } from '../tree/tree-fixture.js'
import { newGuardedDriver } from './new-guarded-driver.js'

const lag = 3000
const root = asPath('/')

/** A memory driver whose listings and entries are those of `freeze()`, until `thaw()`. */
function lagging() {
  const inner = new MemoryDriver(0)
  let frozen: Map<Path, readonly Entry[]> | undefined
  const snapshot = async (folder: Path, into: Map<Path, readonly Entry[]>): Promise<Map<Path, readonly Entry[]>> => {
    const entries: Entry[] = []
    for await (const page of inner.pages(folder)) entries.push(...page)
    into.set(folder, entries)
    for (const { name, kind } of entries) if (kind === 'folder') await snapshot(childOf(folder, name), into)
    return into
  }
  const over: Partial<Driver> = {
    stat: async (path) => {
      if (!frozen || path === '/') return inner.stat(path)
      const entry = frozen.get(parentOf(path))?.find(({ name }) => name === nameOf(path))
      if (!entry) throw new GatewayError('not_found')
      return entry
    },
    pages: async function* (path) {
      const entries = frozen?.get(path)
      if (!frozen) yield* inner.pages(path)
      else if (entries) yield entries
      else throw new GatewayError('not_found')
    },
    write: (...call) => inner.write(...call),
    mkdir: (...call) => inner.mkdir(...call),
    remove: (...call) => inner.remove(...call),
    removeTree: (...call) => inner.removeTree(...call),
    move: (...call) => inner.move(...call),
    copy: (...call) => inner.copy(...call),
    setAttributes: (...call) => inner.setAttributes(...call),
  }
  return {
    inner,
    over,
    freeze: async () => void (frozen = await snapshot(root, new Map())),
    thaw: () => void (frozen = undefined),
  }
}

async function opened(t: Test) {
  const backend = lagging()
  const { storage } = await newStorage(
    t,
    { ...backend.over, folderRevision: undefined, open: undefined },
    {},
    { listingLag: lag },
  )
  const names = async (path: string) =>
    (await storage.list(asPath(path), { refresh: true })).entries.map(({ name }) => name).sort()
  const write = (path: string, content = 'x') => storage.write(asPath(path), sourceOf(content))
  for (const folder of ['/a', '/a/b', '/c']) await backend.inner.mkdir(asPath(folder))
  for (const file of ['/a/old', '/a/b/deep', '/gone']) await backend.inner.write(asPath(file), sourceOf('x'))
  await backend.freeze()
  return { storage, names, write, ...backend }
}

await t.test('what was written, created, removed and moved is shown at once', async (t) => {
  const { storage, names, write } = await opened(t)
  await write('/a/new', 'new')
  await write('/a/old', 'longer')
  await storage.mkdir(asPath('/folder'))
  await write('/folder/file')
  await storage.remove(asPath('/gone'))
  t.same(await names('/'), ['a', 'c', 'folder'])
  t.same(await names('/a'), ['b', 'new', 'old'])
  t.same(await names('/folder'), ['file'], 'a folder that the backend does not list yet')
  t.equal((await storage.stat(asPath('/a/new'), { refresh: true })).size, 3)
  t.equal((await storage.stat(asPath('/a/old'), { refresh: true })).size, 6)
  const { entries } = await storage.list(asPath('/a'), { refresh: true })
  t.equal(entries.find(({ name }) => name === 'old')?.size, 6, 'the new content of an old name')
  await t.rejects(storage.stat(asPath('/gone'), { refresh: true }), { code: 'not_found' })
  await storage.remove(asPath('/a/new'))
  t.same(await names('/a'), ['b', 'old'], 'the last change counts')
})

await t.test('a tree that is moved or removed takes its own changes with it', async (t) => {
  const { storage, names, write } = await opened(t)
  await write('/a/b/new')
  t.ok(await storage.tryMove(asPath('/a/b'), asPath('/c/moved')))
  t.same(await names('/a'), ['old'])
  t.same(await names('/c'), ['moved'])
  t.same(await names('/c/moved'), ['new'], 'the own change moved too')
  await storage.removeTree(asPath('/a'))
  t.same(await names('/'), ['c', 'gone'])
  await t.rejects(names('/a/b'), { code: 'not_found' })
  await t.rejects(storage.stat(asPath('/a/b/deep'), { refresh: true }), { code: 'not_found' }, 'below a removed folder')
})

await t.test('copies and new times are shown at once', async (t) => {
  const { storage, names, write } = await opened(t)
  await write('/new', 'new')
  await storage.copy(asPath('/new'), asPath('/c/copy'))
  t.same(await names('/c'), ['copy'])
  t.equal((await storage.stat(asPath('/c/copy'), { refresh: true })).size, 3)
  const modified = new Date('2001-02-03T04:05:06Z')
  await storage.setAttributes(asPath('/new'), { modified })
  t.same(await names('/'), ['a', 'c', 'gone', 'new'])
  t.same((await storage.stat(asPath('/new'), { refresh: true })).modified, modified)
})

await t.test('later, the backend is believed', async (t) => {
  const { storage, names, write, thaw } = await opened(t)
  await write('/a/new')
  await storage.remove(asPath('/gone'))
  await wait(lag + 20)
  t.same(await names('/a'), ['b', 'old'])
  t.same(await names('/'), ['a', 'c', 'gone'])
  thaw()
  t.same(await names('/a'), ['b', 'new', 'old'])
  t.same(await names('/'), ['a', 'c'])
})

await t.test('a failed change is not shown', async (t) => {
  const { storage, names } = await opened(t)
  await t.rejects(storage.remove(asPath('/a')), { code: 'not_empty' })
  await t.rejects(storage.write(asPath('/none/file'), sourceOf('x')), { code: 'parent_missing' })
  t.same(await names('/'), ['a', 'c', 'gone'])
})

await t.test(
  'what a handle publishes, copies of many files, symlinks and second names are shown at once',
  async (t) => {
    const { inner, over, freeze } = lagging()
    await inner.mkdir(asPath('/a'))
    await inner.write(asPath('/file'), sourceOf('x'))
    await freeze()
    const copy: Entry = { name: 'copied', kind: 'file', size: 7, modified: new Date(1000) }
    const driver = newGuardedDriver(
      {
        ...(over as Driver),
        open: (...call) => inner.open(...call),
        copyFiles: async () => [copy, undefined],
        symlink: async () => undefined,
        hardLink: async () => undefined,
      },
      { listingLag: lag },
    )
    const file = await driver.open(asPath('/a/new'), 'replace')
    await file.write?.([Buffer.from('new')], 0)
    await t.rejects(driver.stat(asPath('/a/new')), { code: 'not_found' }, 'before it is published')
    await file.commit?.()
    await file.close()
    t.equal((await driver.stat(asPath('/a/new'))).size, 3)
    const source = inner
    const bundle = { source, from: root, to: asPath('/a'), files: [copy, copy], beforePublish: async () => new Set('') }
    await driver.copyFiles(bundle)
    await driver.symlink(asPath('/a/link'), '/file')
    await driver.hardLink(asPath('/file'), asPath('/a/second'))
    const listed: Entry[] = []
    for await (const page of driver.pages(asPath('/a'))) listed.push(...page)
    t.same(
      listed.map(({ name, kind, size }) => [name, kind, size]),
      [
        ['new', 'file', 3],
        ['copied', 'file', 7],
        ['link', 'symlink', 0],
        ['second', 'file', 1],
      ],
    )
  },
)
