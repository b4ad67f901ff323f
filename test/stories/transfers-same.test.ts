/**
 * Transfers whose source and target are the same file by different paths: nothing is lost, with any kind of storage.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { aliasFields, aliasType } from '../../drivers/alias/index.js'
import { cryptFields, cryptType } from '../../drivers/crypt/index.js'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath as p } from '../../src/base/path.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { onDisk } from '../drivers/composite-tree.js'
import { openLocal, testEnv } from '../drivers/env.js'
import { altered, bare, contents, newTree, sourceOf, text, type Test, type Tree } from '../tree/tree-fixture.js'

const overwrite = { overwrite: true }
const same = { code: 'invalid', message: /one and the same/ }
const sameWithin = { code: 'invalid', failures: [{ error: same }] }

interface Local extends Tree {
  readonly folder: string
}

/** Folders of one disk, by mount path. */
async function locals(t: Test, mounted: Readonly<Record<string, string>>): Promise<Local> {
  const { folder } = onDisk(t)
  const asks: Record<string, { driverOf: () => Promise<Driver> }> = {}
  for (const [path, name] of Object.entries(mounted)) {
    await mkdir(join(folder, name), { recursive: true })
    asks[path] = { driverOf: () => openLocal(join(folder, name)) }
  }
  return { ...(await newTree(t, asks)), folder }
}

/** The files below a folder of the disk. */
async function filesIn(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) found[path.slice(folder.length + 1)] = await readFile(path, 'utf8')
  }
  return found
}

void t.test('copies and moves between two mounts of one folder lose nothing', async (t) => {
  const { folder, as } = await locals(t, { '/one': 'disk', '/two': 'disk' })
  const fs = as()
  const files = { '/one/file': 'content', '/one/tree/a': 'aa', '/one/tree/sub/b': 'bb' }
  for (const [path, content] of Object.entries(files)) await fs.write(p(path), sourceOf(content), { parents: true })
  await fs.mkdir(p('/one/tree/empty'))
  const before = await contents(fs, p('/one'))
  for (const kind of ['move', 'copy'] as const) {
    await t.rejects(fs[kind](p('/one/file'), p('/two/file'), overwrite), sameWithin, `${kind} of a file`)
    await t.rejects(fs[kind](p('/one/tree'), p('/two/tree'), overwrite), sameWithin, `${kind} of a tree`)
    await t.rejects(fs[kind](p('/one/tree'), p('/two/tree'), { overwrite: false, merge: true }), sameWithin)
    await t.rejects(fs[kind](p('/one/tree'), p('/two/tree/sub/tree'), overwrite), { code: 'invalid' }, 'into itself')
    t.same(await contents(fs, p('/one')), before, kind)
  }
  const other = { '/one/tree/a': 'aa' }
  await fs.move(p('/one/tree/a'), p('/two/b'), overwrite)
  t.equal(await text(fs.read(p('/one/b'))), other['/one/tree/a'], 'another name is another file')
  t.equal((await filesIn(folder))['disk/tree/a'], undefined)
})

void t.test('copies and moves between a mount and a mount of its subfolder lose nothing', async (t) => {
  const { folder, as } = await locals(t, { '/whole': 'disk', '/part': 'disk/a/b' })
  const fs = as()
  await fs.write(p('/whole/a/b/file'), sourceOf('content'))
  await fs.write(p('/whole/a/other'), sourceOf('other'))
  const before = await filesIn(folder)
  for (const kind of ['move', 'copy'] as const) {
    await t.rejects(fs[kind](p('/whole/a/b/file'), p('/part/file'), overwrite), sameWithin)
    await t.rejects(fs[kind](p('/part/file'), p('/whole/a/b/file'), overwrite), sameWithin)
    t.same(await filesIn(folder), before)
  }
  for (const kind of ['move', 'copy'] as const) {
    await t.rejects(fs[kind](p('/whole/a'), p('/part/a'), overwrite), { code: 'invalid' }, 'the copy would not end')
    const { 'disk/a/b/file': file, 'disk/a/other': stayed, 'disk/a/b/a/other': gone } = await filesIn(folder)
    t.match({ file, other: stayed ?? gone }, { file: 'content', other: 'other' })
  }
})

void t.test('copies and moves between an alias and its storages lose nothing', async (t) => {
  const { folder, as, mount, supervisor } = await locals(t, { '/one': 'first', '/two': 'second' })
  const policies = { write_conflict_policy: 'all', put_conflict_policy: 'all' }
  const alias = (paths: string) => () =>
    aliasType.open(checkOptions(aliasFields, { paths, ...policies }), testEnv({ tree: supervisor.dependencies.tree }))
  await mount('/single', { driverOf: alias('x:/one') })
  await mount('/named', { driverOf: alias('a:/one\nb:/one') })
  await mount('/merged', { driverOf: alias('x:/one\nx:/two') })
  const fs = as()
  const reset = async () => {
    for (const path of ['first/file', 'first/tree/a', 'second/both']) {
      await mkdir(join(folder, path, '..'), { recursive: true })
      await writeFile(join(folder, path), path)
    }
    await writeFile(join(folder, 'first/both'), 'second/both')
  }
  await reset()
  const before = await filesIn(folder)
  for (const [from, to] of [
    ['/single/file', '/one/file'],
    ['/one/file', '/single/file'],
    ['/single/tree', '/one/tree'],
    ['/named/a/tree', '/named/b/tree'],
    ['/named/a/file', '/one/file'],
    // A removal from a merged view removes from both storages.
    ['/merged/both', '/two/both'],
    ['/merged/file', '/two/file'],
    ['/one/both', '/merged/both'],
  ] as const) {
    await fs.move(p(from), p(to), overwrite).catch(() => undefined)
    const left = new Set(Object.values(await filesIn(folder)))
    t.same(
      [...new Set(Object.values(before))].filter((content) => !left.has(content)),
      [],
      `${from} to ${to}`,
    )
    await fs.remove(p('/two/file')).catch(() => undefined)
    await reset()
  }
})

void t.test('copies and moves between an encrypted storage and its underlying one lose nothing', async (t) => {
  const { folder, as, mount, supervisor } = await locals(t, { '/plain': 'disk' })
  const open = () =>
    cryptType.open(
      checkOptions(cryptFields, { remote_path: '/plain', password: 'secret', filename_encryption: 'off' }),
      testEnv({ tree: supervisor.dependencies.tree }),
    )
  await mount('/crypt', { driverOf: open })
  const fs = as()
  await fs.write(p('/crypt/file'), sourceOf('content'))
  const [name = ''] = Object.keys(await filesIn(join(folder, 'disk')))
  await t.rejects(fs.move(p('/crypt/file'), p(`/plain/${name}`), overwrite), sameWithin)
  await t.rejects(fs.move(p(`/plain/${name}`), p('/crypt/file'), overwrite), sameWithin)
  t.equal(await text(fs.read(p('/crypt/file'))), 'content')
})

/** A backend that reports only names, kinds, sizes and times of its entries. */
function silent(over: Partial<Record<keyof Driver, undefined>>): Driver {
  const inner = new MemoryDriver(0)
  const told = ({ revision: _revision, ...entry }: Entry): Entry => entry
  return altered(inner, {
    ...over,
    stat: async (...args) => told(await inner.stat(...args)),
    write: async (...args) => told(await inner.write(...args)),
    async *pages(...args) {
      for await (const page of inner.pages(...args)) yield page.map(told)
    },
    folderRevision: undefined,
  })
}

for (const [what, over] of [
  ['that can rename', { copy: undefined }],
  ['that can copy', { move: undefined }],
  ['that can do neither', bare],
] as const) {
  void t.test(`two mounts of a backend without identities, ${what}`, async (t) => {
    const driver = silent(over as Partial<Record<keyof Driver, undefined>>)
    const shared = { driverOf: async () => driver, cacheExpiration: 0 }
    const { as, store } = await newTree(t, { '/one': shared, '/two': shared, '/far': {} })
    const fs = as()
    await fs.write(p('/one/file'), sourceOf('content'))
    await fs.write(p('/one/tree/a'), sourceOf('aa'), { parents: true })
    await fs.mkdir(p('/one/tree/empty'))
    const before = await contents(fs, p('/one'))
    await t.rejects(fs.move(p('/one/file'), p('/two/file'), overwrite), sameWithin)
    await t.rejects(fs.move(p('/one/tree'), p('/two/tree'), overwrite), { code: 'invalid' })
    t.same(await contents(fs, p('/one')), before)
    await fs.write(p('/far/again/again/x'), sourceOf('x'), { parents: true })
    await fs.move(p('/far/again'), p('/one/again'), { overwrite: false })
    t.same(
      await contents(fs, p('/one/again')),
      { '/one/again/again': null, '/one/again/again/x': 'x' },
      'no other files are left',
    )
    await t.rejects(
      fs.copy(p('/one/again'), p('/two/again/again/again'), { overwrite: false }),
      sameWithin,
      'the copy would not end',
    )
    t.equal(await text(fs.read(p('/one/again/again/x'))), 'x')
    await fs.write(p('/far/file'), sourceOf('CONTENT'))
    await fs.move(p('/one/file'), p('/far/file'), overwrite)
    t.equal(await text(fs.read(p('/far/file'))), 'content', 'another file is moved')
    await t.rejects(fs.stat(p('/one/file')), { code: 'not_found' })
    t.same(await store.intents.all(), [])
  })
}

void t.test('a backend that hides dot files is recognized as the target', async (t) => {
  const driver = silent({ copy: undefined })
  const hides = (path: string) => path.split('/').some((name) => name.startsWith('.tidegate'))
  const seen = altered(driver, {
    stat: async (path, options) => {
      if (hides(path)) throw new GatewayError('not_found')
      return driver.stat(path, options)
    },
  })
  const ways = { '/one': { driverOf: async () => seen }, '/two': { driverOf: async () => driver, cacheExpiration: 0 } }
  const { as } = await newTree(t, ways)
  const fs = as()
  await fs.write(p('/two/tree/tree/x'), sourceOf('x'), { parents: true })
  await t.rejects(
    fs.copy(p('/one/tree'), p('/two/tree/tree/tree'), { overwrite: false }),
    sameWithin,
    'the copy would not end',
  )
  const left = Object.keys(await contents(fs, p('/two/tree')))
  t.notOk(
    left.some((path) => path.includes('tidegate-marker-')),
    'no other files are left',
  )
})

void t.test('a target that rejects unusual names accepts a folder within one of the same name', async (t) => {
  const inner = new MemoryDriver(0)
  const strict = altered(inner, {
    write: async (path, source, options) => {
      if (path.includes('tidegate-marker-')) throw new GatewayError('denied')
      return inner.write(path, source, options)
    },
  })
  const { as } = await newTree(t, { '/far': {}, '/strict': { driverOf: async () => strict, cacheExpiration: 0 } })
  const fs = as()
  await fs.write(p('/far/again/again/x'), sourceOf('x'), { parents: true })
  await fs.copy(p('/far/again'), p('/strict/again'), { overwrite: false })
  t.same(await contents(fs, p('/strict/again')), { '/strict/again/again': null, '/strict/again/again/x': 'x' })
})
