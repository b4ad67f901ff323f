/** Moves and copies, in one step, item by item and between storages, complete and partly failed. */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, type Path } from '../../src/base/path.js'
import {
  altered,
  bare,
  contents,
  newTree,
  sourceOf,
  text,
  type MountAsk,
  lockAsk,
  property,
  overwrite,
  keep,
  fill,
  names,
} from './tree-fixture.js'

const p = asPath

const kinds: readonly (readonly [string, Record<string, MountAsk>, string, string])[] = [
  ['in one step', { '/': {} }, '/a', '/b'],
  ['item by item', { '/': { over: bare } }, '/a', '/b'],
  ['between storages', { '/a': {}, '/b': {} }, '/a/from', '/b/to'],
]

for (const [how, mounted, from, to] of kinds) {
  void t.test(`moves and copies ${how}`, async (t) => {
    const { as, store, rule, dependencies } = await newTree(t, mounted)
    const ada = as()
    const modified = new Date(1_600_000_000_000)
    const tree = { [from]: null, [`${from}/d`]: null, [`${from}/d/y`]: 'why', [`${from}/x`]: 'ex' }
    await fill(ada, tree)
    await ada.setAttributes(p(`${from}/x`), { modified })
    await ada.setProperties(p(`${from}/x`), [{ set: property }])
    const at = (base: string, path = '') => p(base + path)

    t.match(await ada.copy(at(from), at(to), keep), { created: true })
    t.same(await contents(ada, at(to)), { [`${to}/d`]: null, [`${to}/d/y`]: 'why', [`${to}/x`]: 'ex' })
    t.same((await ada.stat(at(to, '/x'))).modified, modified)
    t.match(await ada.properties(at(to, '/x')), [property], 'properties are copied')
    t.match(await ada.properties(at(from, '/x')), [property])
    await t.rejects(ada.copy(at(from), at(to), keep), { code: 'exists' })

    await ada.write(at(to, '/extraneous'), sourceOf('old'))
    await ada.setProperties(at(to, '/extraneous'), [{ set: property }])
    t.match(await ada.copy(at(from), at(to), overwrite), { created: false })
    t.same(await names(ada, to), ['d', 'x'], 'extraneous files of the target are removed')
    t.same(await ada.properties(at(to, '/extraneous')), [])

    await ada.write(at(to, '/x'), sourceOf('theirs'))
    await ada.write(at(to, '/more'), sourceOf('more'))
    await ada.remove(at(to, '/d'))
    await ada.copy(at(from), at(to), { overwrite: false, merge: true })
    t.equal(await text(ada.read(at(to, '/x'))), 'theirs', 'a merge without overwrite keeps existing files')
    t.same(await names(ada, to), ['d', 'more', 'x'])

    const ruled = await rule(from, { readme: 'read me' })
    await ada.lock(at(from, '/x'), lockAsk)
    await t.rejects(ada.move(at(from), at(to), overwrite), { code: 'locked' })
    for (const lock of dependencies.locks.list()) await dependencies.locks.break(lock.token)
    t.match(await ada.move(at(from), at(to), overwrite), { created: false })
    t.same(await contents(ada, at(to)), { [`${to}/d`]: null, [`${to}/d/y`]: 'why', [`${to}/x`]: 'ex' })
    t.same((await ada.stat(at(to, '/x'))).modified, modified)
    t.match(await ada.properties(at(to, '/x')), [property], 'properties are moved')
    t.same(await ada.properties(at(from, '/x')), [])
    await t.rejects(ada.stat(at(from)), { code: 'not_found' })
    t.equal(dependencies.rules.list().find(({ id }) => id === ruled.id)?.path, to, 'rules follow a move')
    t.same(await store.intents.all(), [])

    await ada.remove(at(to, '/x'))
    t.same(await ada.properties(at(to, '/x')), [], 'properties are deleted with their file')
  })

  void t.test(`a file replaces a folder and a folder replaces a file, ${how}`, async (t) => {
    const { as, store, drivers } = await newTree(t, mounted)
    const ada = as()
    for (const move of [true, false]) {
      await fill(ada, { [from]: 'file', [to]: null, [`${to}/deep/x`]: 'old' })
      await (move ? ada.move(p(from), p(to), overwrite) : ada.copy(p(from), p(to), overwrite))
      t.equal(await text(ada.read(p(to))), 'file')
      if (!move) await ada.remove(p(from))
      await fill(ada, { [from]: null, [`${from}/x`]: 'new' })
      await (move ? ada.move(p(from), p(to), overwrite) : ada.copy(p(from), p(to), overwrite))
      t.same(await contents(ada, p(to)), { [`${to}/x`]: 'new' })
      if (!move) await ada.remove(p(from))
      await ada.remove(p(to))
    }
    t.same(await store.intents.all(), [])
    for (const driver of drivers.values()) {
      for await (const page of driver.pages(p('/')))
        t.same(
          page.map(({ name }) => name),
          [],
          'no temporary files are left',
        )
    }
  })
}

void t.test('a folder cannot be moved or copied into itself, nor replaced by one of its members', async (t) => {
  const { as } = await newTree(t)
  const ada = as()
  await fill(ada, { '/a/b/x': 'abc' })
  await t.rejects(ada.move(p('/a'), p('/a/b/c'), keep), { code: 'invalid' })
  await t.rejects(ada.copy(p('/a'), p('/a/c'), keep), { code: 'invalid' })
  await t.rejects(ada.move(p('/a/b'), p('/a'), overwrite), { code: 'invalid' })
  await t.rejects(ada.move(p('/none'), p('/b'), keep), { code: 'not_found' })
  await t.rejects(ada.move(p('/a'), p('/none/a'), keep), { code: 'parent_missing' })
  await t.rejects(ada.move(p('/a'), p('/a/b/x/y'), keep), { code: 'invalid' })
  await t.rejects(ada.copy(p('/a/b'), p('/a/b/x/y'), keep), { code: 'invalid' })
  t.match(await ada.move(p('/a'), p('/a'), overwrite), { created: false })
  t.same(await contents(ada), { '/a': null, '/a/b': null, '/a/b/x': 'abc' })
})

/** A storage over memory whose method fails for some paths. */
function flaky(
  method: 'read' | 'write' | 'remove',
  fails: (path: string) => boolean,
  code: 'no_space' | 'denied' = 'denied',
): MountAsk {
  return {
    driverOf: async () => {
      const inner = new MemoryDriver(0)
      const call = (inner[method] as (...args: unknown[]) => Promise<unknown>).bind(inner)
      const broken = async (...args: unknown[]) => {
        if (fails(String(args[0]))) throw new GatewayError(code)
        return call(...args)
      }
      return altered(inner, { ...bare, [method]: broken })
    },
  }
}

void t.test('a failed member of a tree is reported, and the other members are moved or removed', async (t) => {
  let broken = true
  const fails = (path: string) => broken && path.endsWith('bad')
  const { as } = await newTree(t, { '/a': flaky('remove', fails), '/b': flaky('write', fails) })
  const ada = as({ base: '/' })
  const note = [{ set: property }]
  await fill(ada, { '/a/d/bad': 'bad', '/a/d/good': 'good', '/a/d/e/x': 'ex', '/a/f/bad': 'bad', '/a/f/good': 'good' })
  for (const path of ['/a/d/bad', '/a/d/good', '/a/d/e/x', '/a/f/good']) await ada.setProperties(p(path), note)
  const failed = (path: string) => ({ code: 'denied', failures: [{ path }] })
  await t.rejects(ada.move(p('/a/d'), p('/b/d'), keep), failed('/b/d/bad'))
  t.same(await contents(ada, p('/a/d')), { '/a/d/bad': 'bad' })
  t.same(await contents(ada, p('/b')), { '/b/d': null, '/b/d/e': null, '/b/d/e/x': 'ex', '/b/d/good': 'good' })
  t.match(await ada.properties(p('/b/d/good')), [property])
  t.match(await ada.properties(p('/b/d/e/x')), [property])
  t.same(await ada.properties(p('/a/d/good')), [])
  t.match(await ada.properties(p('/a/d/bad')), [property], 'the member that failed keeps its properties')
  await t.rejects(ada.remove(p('/a/f')), failed('/a/f/bad'))
  t.same(await contents(ada, p('/a/f')), { '/a/f/bad': 'bad' })
  t.same(await ada.properties(p('/a/f/good')), [], 'the properties of the removed member are deleted')
  broken = false
  await ada.remove(p('/a/f'))
  t.same(await names(ada, '/a'), ['d'])
})

void t.test('a failed copy restores the folder that it would have replaced', async (t) => {
  const inner = new MemoryDriver(0)
  let fails = false
  const write: MemoryDriver['write'] = async (...args) => {
    if (fails) throw new GatewayError('no_space')
    return inner.write(...args)
  }
  const driver = altered(inner, { write, copy: undefined, open: undefined })
  const { as, store } = await newTree(t, { '/': { driverOf: async () => driver }, '/other': {} })
  const ada = as()
  await fill(ada, { '/d/x': 'precious', '/other/file': 'new' })
  fails = true
  await t.rejects(ada.copy(p('/other/file'), p('/d'), overwrite), { code: 'no_space' })
  t.equal(await text(ada.read(p('/d/x'))), 'precious')
  t.same(await store.intents.all(), [])
})

void t.test('a move whose source changes meanwhile is busy, and neither publishes nor removes', async (t) => {
  const inner = new MemoryDriver(0)
  const read: MemoryDriver['read'] = async (path, ...rest) => {
    const stream = await inner.read(path, ...rest)
    await inner.write(path, sourceOf('changed meanwhile'))
    return stream
  }
  const { as } = await newTree(t, { '/a': { driverOf: async () => altered(inner, { ...bare, read }) }, '/b': {} })
  await fill(as(), { '/a/x': 'abc', '/b/x': 'old' })
  await t.rejects(as().move(p('/a/x'), p('/b/x'), overwrite), { code: 'busy' })
  t.equal(await text(as().read(p('/b/x'))), 'old')
  await as().stat(p('/a/x'))
})

void t.test(
  'a move does not remove a source that changed at the backend, even if a cached listing shows the old state',
  async (t) => {
    const inner = new MemoryDriver(0)
    const read: MemoryDriver['read'] = async (path, ...rest) => {
      const stream = await inner.read(path, ...rest)
      await inner.write(path, sourceOf('changed meanwhile'))
      return stream
    }
    // Like most backends, it has no revisions of folders: listings are cached until they expire.
    const driver = altered(inner, { ...bare, read, folderRevision: undefined })
    const { as } = await newTree(t, { '/a': { driverOf: async () => driver, cacheExpiration: 30 }, '/b': {} })
    await fill(as(), { '/a/d/x': 'abc' })
    await names(as(), '/a/d')
    await t.rejects(as().move(p('/a/d'), p('/b/d'), keep))
    t.same(await names(as(), '/a/d'), ['x'])
  },
)

void t.test('a move whose copy has another size than its source fails, and the source remains', async (t) => {
  const inner = new MemoryDriver(0)
  const write: MemoryDriver['write'] = async (...args) => ({ ...(await inner.write(...args)), size: 1 })
  const { as } = await newTree(t, { '/a': {}, '/b': { driverOf: async () => altered(inner, { ...bare, write }) } })
  await fill(as(), { '/a/x': 'abc' })
  await t.rejects(as().move(p('/a/x'), p('/b/x'), keep), { code: 'internal' })
  t.equal(await text(as().read(p('/a/x'))), 'abc')
})

void t.test('properties follow a move that the backend completed although it reported an error', async (t) => {
  const inner = new MemoryDriver(0)
  const move: MemoryDriver['move'] = async (...args) => {
    await inner.move(...args)
    throw new GatewayError('timeout')
  }
  const { as, store } = await newTree(t, { '/': { driverOf: async () => altered(inner, { move }) } })
  await fill(as(), { '/x': 'abc' })
  await as().setProperties(p('/x'), [{ set: property }])
  await t.rejects(as().move(p('/x'), p('/y'), keep), { code: 'timeout' })
  t.same(await names(as(), '/'), ['y'])
  t.match(await as().properties(p('/y')), [property])
  t.same(await store.intents.all(), [])
})

void t.test('a move to a storage that cannot store times keeps the modification time', async (t) => {
  const modified = new Date(1_600_000_000_000)
  const inner = new MemoryDriver(0)
  const write = (path: Path, source: Source, { modified: _modified, ...options }: WriteOptions = {}): Promise<Entry> =>
    inner.write(path, { ...source, modified: undefined }, options)
  const driver = altered(inner, { ...bare, write })
  const { as } = await newTree(t, { '/a': {}, '/b': { driverOf: async () => driver } })
  await as().write(p('/a/x'), sourceOf('abc'), { modified })
  await as().move(p('/a/x'), p('/b/x'), keep)
  t.same((await as().stat(p('/b/x'))).modified, modified)
})
