import { getEventListeners } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, TreeError } from '../../src/contract/errors.js'
import { asPath, type Path } from '../../src/contract/path.js'
import { LockedError } from '../../src/tree/locks.js'
import { etagOf } from '../../src/tree/preconditions.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { openLocal } from '../drivers/env.js'
import { altered, bare, contents, newTree, openBody, sourceOf, text, type MountAsk } from './tree-fixture.js'

const p = asPath
const lockAsk = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
const property = { namespace: 'urn:x', name: 'note', value: 'hello', language: '' }
const overwrite = { overwrite: true } as const
const keep = { overwrite: false } as const

/** Creates a tree: a string is the content of a file, null a folder. */
async function fill(tree: VirtualFs, files: Readonly<Record<string, string | null>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    if (content === null) await tree.mkdir(p(path), { parents: true })
    else await tree.write(p(path), sourceOf(content), { parents: true })
  }
}

/** A listing that fails like `call`. */
function failing(call: () => Promise<never>): Driver['pages'] {
  return () => ({ [Symbol.asyncIterator]: () => ({ next: call }) })
}

const names = async (tree: VirtualFs, path: string) => (await tree.list(p(path))).entries.map(({ name }) => name)

async function pagesOf(tree: VirtualFs, path: string): Promise<string[]> {
  const found: string[] = []
  for await (const page of tree.pages(p(path))) found.push(...page.map(({ name }) => name))
  return found.sort()
}

void t.test("a user's base folder is their root, and paths outside of it do not exist", async (t) => {
  const { as } = await newTree(t)
  await fill(as(), { '/home/ada/x': 'ada', '/home/bob/x': 'bob' })
  const ada = as({ base: '/home/ada' })
  t.same(await contents(ada), { '/x': 'ada' })
  t.match(await ada.stat(p('/')), { name: '', kind: 'folder' })
  await t.rejects(ada.read(p('/home/bob/x')), { code: 'not_found' })
  await t.rejects(ada.remove(p('/')), { code: 'denied' })
  await t.rejects(ada.move(p('/'), p('/y'), keep), { code: 'denied' })
})

void t.test("errors do not reveal a user's base folder, the mount or paths of the host", async (t) => {
  const broken = async () => {
    throw Object.assign(new Error("EIO: i/o error, open '/srv/disk/home/ada/x'"), { code: 'EIO' })
  }
  const { as, mount } = await newTree(t, { '/home': {} })
  await fill(as(), { '/home/ada/d/x': 'abc' })
  await as().lock(p('/home/ada/d'), lockAsk)
  await mount('/home/ada/broken', { over: { stat: broken, pages: failing(broken), read: broken, write: broken } })
  await mount('/home/ada/down', { driverOf: broken }).catch(() => undefined)
  const ada = as({ base: '/home/ada', userId: 2, username: 'ada' })
  const lost = as({ base: '/nowhere/at/all' })
  const calls: readonly (() => Promise<unknown>)[] = [
    () => ada.stat(p('/none')),
    () => ada.stat(p('/broken/x')),
    () => ada.list(p('/broken')),
    () => ada.read(p('/broken/x')),
    () => ada.write(p('/broken/x'), sourceOf('abc')),
    () => ada.read(p('/down/x')),
    () => ada.remove(p('/d')),
    () => ada.write(p('/d/y'), sourceOf('abc')),
    () => ada.lock(p('/d'), lockAsk),
    () => ada.copy(p('/d'), p('/broken/d'), overwrite),
    () => ada.move(p('/d/x'), p('/none/x'), overwrite),
    () => lost.stat(p('/x')),
    () => lost.list(p('/')),
    () => lost.write(p('/x'), sourceOf('')),
  ]
  for (const call of calls) {
    try {
      await call()
      t.fail(`succeeds: ${call.toString()}`)
    } catch (error) {
      t.ok(error instanceof GatewayError, call.toString())
      const { message, path, reason } = error as GatewayError
      const told = [
        message,
        path,
        reason,
        ...(error instanceof TreeError ? error.failures.flatMap((each) => [each.path, each.error.message]) : []),
      ]
      if (error instanceof LockedError) told.push(error.lock.path)
      t.notMatch(told.join('\n'), /home|srv|nowhere|EIO/, call.toString())
    }
  }
})

void t.test('a hidden name is not listed, read, created or copied', async (t) => {
  const { as, rule } = await newTree(t)
  await fill(as(), { '/a/secret': 'x', '/a/open': 'x', '/a/d/secret': 'x' })
  await rule('/a', { hide: '^secret$', hideSub: true })
  const ada = as({ may: ['write', 'rename', 'move', 'copy', 'remove'] })
  t.same(await names(ada, '/a'), ['d', 'open'])
  t.same(await pagesOf(ada, '/a'), ['d', 'open'])
  t.same(await names(ada, '/a/d'), [])
  t.same(await names(as(), '/a/d'), ['secret'])
  const ask = { code: 'hidden' }
  await t.rejects(ada.stat(p('/a/secret')), ask)
  await t.rejects(ada.read(p('/a/d/secret')), ask)
  await t.rejects(ada.write(p('/a/new/secret'), sourceOf(''), { parents: true }), ask)
  await t.rejects(ada.move(p('/a/open'), p('/a/secret'), overwrite), ask)
  await t.rejects(ada.copy(p('/a/open'), p('/a/d/secret'), overwrite), ask)
  await ada.copy(p('/a'), p('/b'), keep)
  t.same(await contents(as(), p('/b')), { '/b/d': null, '/b/open': 'x' }, 'a copy of the folder leaves it out')
})

void t.test('a move that would make hidden entries visible to the user is denied', async (t) => {
  const { as, rule } = await newTree(t)
  await fill(as(), { '/a/d/secret': 'x', '/a/e': null, '/open': null, '/dots': null })
  await rule('/a', { hide: '^secret$', hideSub: true })
  await rule('/dots', { hide: '^[.]', hideSub: true })
  const ada = as({ may: ['write', 'rename', 'move', 'copy', 'remove'] })
  await t.rejects(ada.move(p('/a/d'), p('/open/d'), keep), { code: 'denied' })
  await t.rejects(ada.move(p('/a/d'), p('/dots/d'), keep), { code: 'denied' })
  await ada.move(p('/a/d'), p('/a/e/d'), keep)
  t.same(await names(ada, '/a/e/d'), [], 'it stays hidden below the folder of the rule')
  await ada.move(p('/a'), p('/open/a'), keep)
  t.same(await names(ada, '/open/a/e/d'), [], 'the rule of the moved folder follows')
  await as().move(p('/open/a/e/d'), p('/open/d'), keep)
  t.same(await names(ada, '/open/d'), ['secret'])
})

void t.test('a user without the write permission may not overwrite a file by a rename, move or copy', async (t) => {
  const { as } = await newTree(t, { '/': {} })
  await fill(as(), { '/x': 'new', '/y': 'old', '/d/z': 'old' })
  const ann = as({ may: ['rename', 'move', 'copy'] })
  await t.rejects(ann.move(asPath('/x'), asPath('/y'), overwrite), { code: 'denied' })
  await t.rejects(ann.copy(asPath('/x'), asPath('/y'), overwrite), { code: 'denied' })
  await t.rejects(ann.move(asPath('/x'), asPath('/d/z'), overwrite), { code: 'denied' })
  t.equal(await text(as().read(asPath('/y'))), 'old')
  await ann.copy(asPath('/x'), asPath('/fresh'), { overwrite: false })
})

void t.test('a folder with a password is listed, and operations in it require the password', async (t) => {
  const { as, rule } = await newTree(t)
  await fill(as(), { '/a/closed/x': 'abc', '/a/closed/d/y': 'abc' })
  await rule('/a/closed', { password: 'sesame', passwordSub: true })
  const ada = as({ may: ['write', 'rename', 'move', 'copy', 'remove'] })
  const key = { password: 'sesame' }
  t.same(await names(ada, '/a'), ['closed'])
  for (const call of [
    () => ada.list(p('/a/closed')),
    () => ada.read(p('/a/closed/x')),
    () => ada.write(p('/a/closed/x'), sourceOf('')),
    () => ada.remove(p('/a/closed/x')),
    () => ada.remove(p('/a/closed')),
    () => ada.remove(p('/a')),
    () => ada.move(p('/a/closed'), p('/b'), keep),
    () => ada.move(p('/a'), p('/b'), keep),
    () => ada.copy(p('/a'), p('/b'), keep),
    () => ada.copy(p('/a/closed/x'), p('/b'), keep),
  ]) {
    await t.rejects(
      async () => {
        await call()
      },
      { code: 'password_required' },
      call.toString(),
    )
  }
  t.same(
    (await ada.list(p('/a/closed'), key)).entries.map(({ name }) => name),
    ['d', 'x'],
  )
  t.equal(await text(ada.read(p('/a/closed/d/y'), undefined, key)), 'abc')
  await ada.copy(p('/a'), p('/b'), { ...keep, ...key })
  await ada.remove(p('/a'), key)
})

void t.test('a folder with read_users is hidden from other users, who cannot remove, move or replace it', async (t) => {
  const { as, rule } = await newTree(t)
  await fill(as(), { '/a/theirs/x': 'abc' })
  await rule('/a/theirs', { readUsers: [2], readUsersSub: true })
  t.same(await names(as(), '/a'), [])
  t.same(await names(as({ userId: 2 }), '/a'), ['theirs'])
  await t.rejects(as().read(p('/a/theirs/x')), { code: 'hidden' })
  await t.rejects(as().remove(p('/a')), { code: 'hidden' })
  await t.rejects(as().move(p('/a'), p('/b'), keep), { code: 'hidden' })
  await fill(as(), { '/c/x': 'new' })
  await t.rejects(as().move(p('/c'), p('/a'), overwrite), { code: 'hidden' }, 'replacing a folder that contains it')
})

void t.test('a write creates missing parent folders only if the user may write to each', async (t) => {
  const { as, rule } = await newTree(t)
  await fill(as(), { '/a': null })
  await rule('/a', { writeUsers: [2] })
  await rule('/a/b', { write: true })
  const ada = as()
  await t.rejects(ada.write(p('/a/b/x'), sourceOf(''), { parents: true }), { code: 'denied' })
  t.same(await names(as(), '/a'), [])
})

void t.test('names of new entries are validated, and existing entries with invalid names remain usable', async (t) => {
  const { as, drivers } = await newTree(t)
  await drivers.get('/')?.write?.('/odd\tname' as Path, sourceOf('abc'))
  const ada = as()
  for (const name of ['a\n', 'a\u0001', 'x'.repeat(256), 'a\\b']) {
    const at = `/${name}` as Path
    await t.rejects(ada.write(at, sourceOf('')), { code: 'invalid' })
    await t.rejects(ada.mkdir(at), { code: 'invalid' })
    await t.rejects(ada.open(at, 'replace'), { code: 'invalid' })
    await t.rejects(ada.copy('/odd\tname' as Path, at, keep), { code: 'invalid' })
    await t.rejects(ada.move('/odd\tname' as Path, at, keep), { code: 'invalid' })
    await t.rejects(ada.write(`${at}/x` as Path, sourceOf(''), { parents: true }), { code: 'invalid' })
  }
  t.equal(await text(ada.read('/odd\tname' as Path)), 'abc')
  await ada.remove('/odd\tname' as Path)
  for (const name of ['.tidegate-backup-x', '.TIDEGATE-staging']) {
    await t.rejects(
      ada.write(p(`/${name}`), sourceOf('')),
      { code: 'not_found' },
      'reserved names do not exist for users',
    )
  }
})

void t.test('of several concurrent createOnly writes, one succeeds', async (t) => {
  const { as } = await newTree(t, { '/': { over: bare } })
  const writers = Array.from({ length: 5 }, (_, index) => {
    const { source, body } = openBody()
    body.push(`from ${index}`)
    return { done: as().write(p('/x'), source, { createOnly: true }), body }
  })
  await turn()
  for (const { body } of writers) body.push(null)
  const ended = await Promise.allSettled(writers.map(({ done }) => done))
  t.equal(ended.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const each of ended) if (each.status === 'rejected') t.match(each.reason, { code: 'exists' })
  await as().write(p('/x'), sourceOf('free again'))
})

void t.test('preconditions are checked before the body is read and again before publishing', async (t) => {
  const { as } = await newTree(t)
  const ada = as()
  const { entry } = await ada.write(p('/x'), sourceOf('one'))
  const ifMatch = [etagOf(entry)]
  await t.rejects(ada.write(p('/x'), sourceOf('two'), { ifMatch: ['"other"'] }), { code: 'precondition_failed' })
  const { source, body } = openBody()
  const slow = ada.write(p('/x'), source, { ifMatch })
  await turn()
  await ada.write(p('/x'), sourceOf('meanwhile'))
  body.push('slow')
  body.push(null)
  await t.rejects(slow, { code: 'precondition_failed' })
  t.equal(await text(ada.read(p('/x'))), 'meanwhile')
  for (const call of [
    () => ada.remove(p('/x'), { ifMatch }),
    () => ada.move(p('/x'), p('/y'), { ...keep, ifMatch }),
    () => ada.copy(p('/x'), p('/y'), { ...keep, ifMatch }),
    () => ada.setAttributes(p('/x'), { mode: 0o600 }, { ifMatch }),
    () => ada.setProperties(p('/x'), [], { ifMatch }),
    () => ada.check(p('/x'), { ifMatch }),
    () => ada.open(p('/x'), 'update', { ifMatch }),
  ]) {
    await t.rejects(
      async () => {
        await call()
      },
      { code: 'precondition_failed' },
      call.toString(),
    )
  }
})

void t.test('a removal checks its preconditions after it has acquired the path lock', async (t) => {
  const { as, dependencies } = await newTree(t)
  const ada = as()
  const { entry } = await ada.write(p('/x'), sourceOf('one'))
  const release = await dependencies.pathLocks.acquire([{ path: p('/x'), tree: false }])
  const removing = ada.remove(p('/x'), { ifMatch: [etagOf(entry)] })
  for (let i = 0; i < 20; i++) await turn()
  const { storage } = dependencies.mounts.find(p('/x'))
  await storage.write(p('/x'), sourceOf('two'))
  release()
  await t.rejects(removing, { code: 'precondition_failed' })
})

void t.test('every change is rejected if the token of a lock is missing', async (t) => {
  const { as } = await newTree(t)
  const ada = as()
  await fill(ada, { '/d/x': 'abc', '/y': 'abc' })
  const { lock } = await ada.lock(p('/d/x'), lockAsk)
  const folder = (await ada.lock(p('/d'), lockAsk)).lock
  const lockTokens = [lock.token, folder.token]
  for (const call of [
    (change: object) => ada.write(p('/d/x'), sourceOf('new'), change),
    (change: object) => ada.write(p('/d/new'), sourceOf('new'), change),
    (change: object) => ada.mkdir(p('/d/folder'), change),
    (change: object) => ada.setAttributes(p('/d/x'), { mode: 0o600 }, change),
    (change: object) => ada.setProperties(p('/d/x'), [{ set: property }], change),
    (change: object) => ada.copy(p('/y'), p('/d/x'), { ...overwrite, ...change }),
    (change: object) => ada.move(p('/y'), p('/d/y'), { ...keep, ...change }),
    async (change: object) => (await ada.open(p('/d/x'), 'update', change)).close(),
    async (change: object) => (await ada.open(p('/d/z'), 'replace', change)).close(),
    (change: object) => ada.remove(p('/d'), change),
  ]) {
    await t.rejects(
      async () => {
        await call({})
      },
      { code: 'locked' },
      call.toString(),
    )
    await call({ lockTokens })
  }
  t.same(await ada.locks(p('/')), [], 'the locks are deleted with the folder')
})

void t.test('a hard link to a locked file requires the lock token', async (t) => {
  const inner = new MemoryDriver(0)
  const hardLink: Driver['hardLink'] = async (from, to) => {
    await inner.copy(from, to)
  }
  const { as } = await newTree(t, { '/': { driverOf: async () => altered(inner, { hardLink }) } })
  await fill(as(), { '/x': 'x' })
  const { lock } = await as().lock(p('/x'), lockAsk)
  await t.rejects(as({ username: 'ada' }).hardLink(p('/x'), p('/y')), { code: 'locked' })
  t.same(await names(as(), '/'), ['x'])
  await as().hardLink(p('/x'), p('/y'), { lockTokens: [lock.token] })
  await t.rejects(as().hardLink(p('/y'), p('/y')), { code: 'exists' })
  t.same(await names(as(), '/'), ['x', 'y'])
})

void t.test('a lock on a missing path creates an empty file, without truncating a concurrent one', async (t) => {
  const { as, drivers } = await newTree(t)
  const ada = as()
  t.match(await ada.lock(p('/x'), lockAsk), { created: true, lock: { path: '/x' } })
  t.equal((await ada.stat(p('/x'))).size, 0)
  await t.rejects(ada.lock(p('/none/x'), lockAsk), { code: 'parent_missing' })
  t.same(
    (await ada.locks(p('/'), { members: true })).map(({ path }) => path),
    ['/x'],
  )
  const racing = ada.lock(p('/y'), lockAsk)
  await drivers.get('/')?.write?.(p('/y'), sourceOf('came first'))
  await racing
  t.equal(await text(ada.read(p('/y'))), 'came first')
})

void t.test('a lock whose file cannot be created is released, even if the backend fails meanwhile', async (t) => {
  const memory = new MemoryDriver(0, false)
  let fails = false
  const failing = altered(memory, {
    write: async () => {
      fails = true
      throw new GatewayError('exists')
    },
    stat: async (path, options) => {
      if (fails) throw new GatewayError('unavailable')
      return memory.stat(path, options)
    },
  })
  const { as, dependencies } = await newTree(t, { '/': { driverOf: async () => failing } })
  await t.rejects(as().lock(p('/new'), lockAsk), { code: 'exists' })
  t.same(dependencies.locks.list(), [])
})

void t.test("the path of a lock is relative to the user's base folder", async (t) => {
  const { as } = await newTree(t)
  await fill(as(), { '/home/ada/x': 'abc' })
  const ada = as({ base: '/home/ada', userId: 2 })
  const { lock } = await ada.lock(p('/x'), lockAsk)
  t.equal(lock.path, '/x')
  t.equal((await ada.refreshLock(p('/x'), lock.token, 60)).path, '/x')
  await t.rejects(as().lock(p('/home/ada/x'), lockAsk), { code: 'locked', lock: { path: '/home/ada/x' } })
  await t.rejects(ada.lock(p('/x'), lockAsk), { code: 'locked', lock: { path: '/x' } })
  await ada.unlock(p('/x'), lock.token)
  await ada.write(p('/x'), sourceOf('free'))
})

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

void t.test('a rule that hides everything in a folder does not prevent a copy or a move of the folder', async (t) => {
  const { as, rule } = await newTree(t, { '/': {} })
  await fill(as(), { '/a/x': 'abc', '/a/d/hidden': 'secret', '/b/d/hidden': 'secret' })
  for (const folder of ['/a/d', '/b/d']) await rule(folder, { hide: '.*' })
  const ada = as({ may: ['write', 'rename', 'move', 'copy', 'remove'] })
  await ada.copy(p('/a'), p('/copied'), keep)
  t.same(await contents(as(), p('/copied')), { '/copied/x': 'abc', '/copied/d': null })
  await ada.move(p('/b'), p('/moved'), keep)
  t.same(await contents(as(), p('/moved')), { '/moved/d': null, '/moved/d/hidden': 'secret' })
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

void t.test('listing a file fails with not_folder, and paths below a file are not_found', async (t) => {
  const { as } = await newTree(t, { '/': {}, '/disk': { driverOf: () => openLocal(t.testdir()) } })
  for (const file of ['/x', '/disk/x']) {
    await fill(as(), { [file]: 'abc' })
    await t.rejects(as().list(p(file)), { code: 'not_folder' }, file)
    await t.rejects(pagesOf(as(), file), { code: 'not_folder' }, file)
    for (const below of [`${file}/y`, `${file}/y/z`]) {
      await t.rejects(as().stat(p(below)), { code: 'not_found' }, below)
      await t.rejects(as().list(p(below)), { code: 'not_found' }, below)
      await t.rejects(pagesOf(as(), below), { code: 'not_found' }, below)
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

void t.test('no driver receives what only the tree evaluates: passwords, lock tokens and preconditions', async (t) => {
  const seen = new Map<string, Set<string>>()
  const noting = (inner: Driver): Driver =>
    new Proxy(inner, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== 'function') return value
        return (...args: readonly unknown[]) => {
          const keys = seen.get(String(key)) ?? new Set()
          for (const name of Object.keys(args.at(-1) ?? {})) keys.add(name)
          seen.set(String(key), keys)
          return Reflect.apply(value, target, args) as unknown
        }
      },
    })
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-options-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const { as } = await newTree(t, {
    '/': { driverOf: async () => noting(await openLocal(folder)) },
    '/memory': { driverOf: async () => noting(altered(new MemoryDriver(0), { revision: undefined })) },
  })
  const fs = as()
  const signal = new AbortController().signal
  const ask = { signal, password: 'secret', lockTokens: ['opaquelocktoken:x'], ifMatch: '*' } as const
  const fresh = { signal, password: 'secret', lockTokens: ['opaquelocktoken:x'] } as const
  for (const base of ['', '/memory']) {
    const at = (name: string) => p(`${base}/${name}`)
    await fs.mkdir(at('a/b'), { ...fresh, parents: true })
    await fs.mkdir(at('c'), fresh)
    await fs.write(at('a/x'), sourceOf('abc'), { ...fresh, parents: true })
    await fs.write(at('a/x'), sourceOf('abc'), ask)
    for (const mode of ['replace', 'update'] as const) {
      const handle = await fs.open(at('a/x'), mode, ask)
      await handle.write([Buffer.from('def')], 0)
      await handle.commit?.()
      await handle.close()
    }
    await (await fs.open(at('a/x'), 'read', fresh)).close()
    const sent = await fs.openToSend(at('a/x'), { ...fresh, route: 'file server' })
    if (sent.kind === 'stream') await sent.file?.close()
    await text(fs.read(at('a/x'), undefined, fresh))
    await fs.stat(at('a/x'), fresh)
    await fs.view(at('a/x'), fresh)
    await fs.list(at('a'), { ...fresh, refresh: true, limit: 1 })
    for await (const page of fs.pages(at('a'), fresh)) t.ok(page)
    await fs.usage(at('a'), fresh).catch(() => undefined)
    await fs.directUrl(at('a/x'), fresh)
    await fs.downloadRoute(at('a/x'), { ...fresh, route: 'file details' }).catch(() => undefined)
    await fs.thumbnail(at('a/x'), 'image', fresh).catch(() => undefined)
    await fs.setAttributes(at('a/x'), { modified: new Date(0) }, ask)
    await fs.setProperties(at('a/x'), [], ask)
    const { lock } = await fs.lock(at('a/x'), lockAsk, ask)
    await fs.unlock(at('a/x'), lock.token, fresh)
    await fs.copy(at('a/x'), at('a/y'), { ...ask, overwrite: false })
    await fs.copy(at('a'), at('d'), { ...ask, overwrite: false })
    await fs.move(at('d'), at('e'), { ...ask, overwrite: false })
    await fs.move(at('e/x'), at('e/y'), { ...ask, overwrite: true })
    if (base === '') {
      await fs.symlink(at('link'), 'a/x', fresh)
      await fs.readSymlink(at('link'), fresh)
      await fs.setOwnAttributes(at('link'), { modified: new Date(0) }, fresh)
      await fs.hardLink(at('a/x'), at('hard'), fresh)
    }
    await fs.remove(at('e'), ask)
  }
  await fs.copy(p('/a'), p('/memory/f'), { ...ask, overwrite: false })
  await fs.move(p('/memory/f'), p('/f'), { ...ask, overwrite: false })
  const own = ['password', 'lockTokens', 'ifMatch', 'overwrite', 'parents', 'limit', 'preferred']
  const leaked = [...seen].flatMap(([method, keys]) => {
    return own.filter((key) => keys.has(key)).map((key) => `${method}: ${key}`)
  })
  t.same(leaked, [])
  t.ok(seen.size > 12, [...seen.keys()].join(' '))
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
        if (!['realPath', 'revision', 'close'].includes(String(key))) used.push(name)
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

void t.test('operations that are running when the authority of their principal ends are aborted', async (t) => {
  const { as } = await newTree(t)
  await fill(as(), { '/x': 'x'.repeat(3_000_000) })
  const authority = new AbortController()
  const ada = as({ signal: authority.signal })
  const reading = await ada.read(p('/x'))
  const handle = await ada.open(p('/x'), 'read')
  const change = await ada.open(p('/new'), 'replace')
  await change.write([Buffer.from('abc')], 0)
  const { source, body } = openBody()
  body.push('abc')
  const writing = ada.write(p('/y'), source)
  await turn()
  authority.abort()
  await t.rejects(text(Promise.resolve(reading)))
  await t.rejects(writing, { code: 'unauthenticated' })
  await t.rejects(handle.read(Buffer.alloc(1), 0), { code: 'unauthenticated' })
  await t.rejects(async () => change.commit?.(), { code: 'unauthenticated' })
  await handle.close()
  await change.close()
  await t.rejects(ada.stat(p('/x')), { code: 'unauthenticated' })
  t.same(await names(as(), '/'), ['x'])
})

void t.test('operations that have ended leave no listeners on long-lived signals', async (t) => {
  const { as } = await newTree(t, { '/': { over: { open: undefined } } })
  const authority = new AbortController()
  const session = new AbortController()
  const ada = as({ signal: authority.signal })
  const ask = { signal: session.signal }
  for (let i = 0; i < 5; i++) {
    await ada.write(p('/x'), sourceOf('abc'), ask)
    await ada.write(p('/none/x'), sourceOf('abc'), ask).catch(() => undefined)
    await text(ada.read(p('/x'), undefined, ask))
    ;(await ada.read(p('/x'), undefined, ask)).destroy()
    await ada.read(p('/none'), undefined, ask).catch(() => undefined)
    await ada.list(p('/'), ask)
    await ada.copy(p('/x'), p('/y'), { ...overwrite, ...ask })
    await ada.move(p('/y'), p('/z'), { ...overwrite, ...ask })
    const file = await ada.open(p('/w'), 'replace', ask)
    await file.write([Buffer.from('abc')], 0)
    await file.commit?.()
    await file.close()
    await (await ada.open(p('/v'), 'replace', ask)).close()
    await ada.remove(p('/z'), ask)
  }
  await turn()
  t.equal(getEventListeners(authority.signal, 'abort').length, 0)
  t.equal(getEventListeners(session.signal, 'abort').length, 0)
})

void t.test('an upload that fails while publishing releases its path lock', async (t) => {
  const inner = new MemoryDriver(0)
  let fails = true
  const write: MemoryDriver['write'] = async (path, source, options) => {
    if (!fails) return inner.write(path, source, options)
    await options?.beforePublish?.()
    throw new GatewayError('no_space')
  }
  const driver = altered(inner, { write, open: undefined })
  const { as } = await newTree(t, { '/': { driverOf: async () => driver } })
  await t.rejects(as().write(p('/x'), sourceOf('abc')), { code: 'no_space' })
  const file = await as().open(p('/x'), 'replace')
  await t.rejects(async () => file.commit?.(), { code: 'no_space' })
  await file.close()
  fails = false
  t.match(await as().write(p('/x'), sourceOf('abc')), {}, 'a path that is still locked would be `busy`')
})

void t.test('an upload whose backend times out while it waits for the path lock does not hold the lock', async (t) => {
  const inner = new MemoryDriver(0)
  const write = async (path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> => {
    if (options.createOnly !== true) return inner.write(path, source, options)
    const asked = options.beforePublish?.().catch(() => undefined)
    await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, 20))])
    throw new GatewayError('timeout')
  }
  const { as, dependencies } = await newTree(t, { '/': { driverOf: async () => altered(inner, { write }) } })
  const release = await dependencies.pathLocks.acquire([{ path: p('/x'), tree: false }])
  await t.rejects(as().write(p('/x'), sourceOf('abc'), { createOnly: true }), { code: 'timeout' })
  release()
  await turn()
  t.match(await as().write(p('/x'), sourceOf('abc')), {}, 'a path that is still locked would be `busy`')
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
    const driver = altered(inner, { ...bare, read, revision: undefined })
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

void t.test('a symlink to a target that its creator may not read is rejected', async (t) => {
  const links: string[] = []
  const inner = altered(new MemoryDriver(0), {
    symlink: async (_path, target) => {
      links.push(target)
    },
    readSymlink: async () => '/home/ada/x',
  })
  const { as, rule } = await newTree(t, { '/m': { driverOf: async () => inner } })
  await fill(as(), { '/m/home/ada/d/x': 'abc', '/m/home/bob/x': 'abc', '/m/home/ada/closed/x': 'abc' })
  await rule('/m/home/ada/closed', { password: 'sesame' })
  const ada = as({ base: '/m/home/ada', may: ['write'] })
  for (const target of ['../../bob/x', '/../../bob/x', '../../../../../etc/passwd', '/../../../x', '../closed/x']) {
    const link = ada.symlink(p('/d/link'), target)
    if (target.startsWith('/')) await link
    else await t.rejects(link, { code: target.includes('closed') ? 'password_required' : 'denied' }, target)
  }
  t.same(
    links,
    ['/home/ada/bob/x', '/home/ada/x'],
    "an absolute target is relative to the user's base folder, and cannot leave it",
  )
  await ada.symlink(p('/d/link'), '../d/x')
  t.equal(links.at(-1), '../d/x')
  t.equal(await ada.readSymlink(p('/d/link')), '/x', "it is read relative to the user's base folder")
  await t.rejects(as({ base: '/m/home/bob' }).readSymlink(p('/link')), { code: 'denied' })
})

void t.test('moving or copying a folder is denied if a symlink in it would leave the base folder', async (t) => {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-symlinks-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const { as } = await newTree(t, { '/': { driverOf: () => openLocal(folder) } })
  await fill(as(), { '/x': 'of nobody', '/home/x': 'mine', '/home/d/e/f': null })
  const ada = as({ base: '/home' })
  await ada.symlink(p('/d/e/f/link'), '../../../x')
  t.equal(await text(ada.read(p('/d/e/f/link'))), 'mine')
  await t.rejects(ada.move(p('/d/e'), p('/e'), keep), { code: 'denied' })
  await t.rejects(ada.copy(p('/d/e'), p('/copied'), keep), { code: 'denied' })
  t.notOk('/copied/f/link' in (await contents(ada, p('/copied'))))
  t.equal(await text(ada.read(p('/d/e/f/link'))), 'mine', 'the symlink is not moved')
  await ada.move(p('/d'), p('/renamed'), keep)
  t.equal(await text(ada.read(p('/renamed/e/f/link'))), 'mine', 'its target is unchanged after a rename of its folder')
})

void t.test('changing the attributes of a symlink itself is authorized and locked by its own path', async (t) => {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-symlinks-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const { as, rule } = await newTree(t, { '/': { driverOf: () => openLocal(folder) } })
  await fill(as(), { '/open': null, '/closed/x': 'abc' })
  await as().symlink(p('/open/link'), '../closed/x')
  await as().symlink(p('/closed/link'), '../open')
  await rule('/closed', { password: 'sesame', passwordSub: true })
  const ada = as({ userId: 2, may: ['write'] })
  const modified = new Date('2001-02-03T04:05:06Z')
  const set = (path: string) => ada.setOwnAttributes(p(path), { modified })
  const time = async (path: string) => (await as().stat(p(path), { ofSymlink: true })).modified.getTime()
  await t.rejects(ada.setAttributes(p('/open/link'), { modified }), { code: 'password_required' }, 'its target')
  await set('/open/link')
  t.equal(await time('/open/link'), modified.getTime())
  t.not(await time('/closed/x'), modified.getTime())
  await t.rejects(set('/closed/link'), { code: 'password_required' })
  await t.rejects(ada.setOwnAttributes(p('/open/link'), { mode: 0o600 }), { code: 'invalid' })
  await t.rejects(set('/open/none'), { code: 'not_found' })
  await as().lock(p('/open'), { ...lockAsk, deep: true })
  await t.rejects(set('/open/link'), { code: 'locked' })
})

void t.test('setting the time of a symlink on a backend that cannot do so is unsupported', async (t) => {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-symlinks-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const driverOf = async () => altered(await openLocal(folder), { setSymlinkTime: undefined })
  const { as } = await newTree(t, { '/': { driverOf } })
  await fill(as(), { '/x': 'abc' })
  await as().symlink(p('/link'), 'x')
  await t.rejects(as().setOwnAttributes(p('/link'), { modified: new Date(0) }), { code: 'unsupported' })
  t.not((await as().stat(p('/x'))).modified.getTime(), 0, 'its target is unchanged')
})

void t.test('a driver with look() is called once for the real path and the entry of a path', async (t) => {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-looks-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const asked: string[] = []
  const counted = async (): Promise<Driver> => {
    const disk = (await openLocal(folder)) as Required<Driver>
    return altered(disk, {
      look: (path, options) => {
        asked.push(`look ${path}`)
        return disk.look(path, options)
      },
      realPath: (path, options) => {
        asked.push(`real ${path}`)
        return disk.realPath(path, options)
      },
      stat: (path, options) => {
        asked.push(`stat ${path}`)
        return disk.stat(path, options)
      },
    })
  }
  const { as } = await newTree(t, { '/': { driverOf: counted } })
  await as().mkdir(p('/d'))
  const written = async (path: string, changes: number): Promise<Entry | undefined> => {
    asked.length = 0
    const file = await as().open(p(path), 'replace')
    await file.write([Buffer.from(`${changes}`)], 0)
    await file.commit?.()
    await file.close()
    return file.old
  }
  t.equal(await written('/d/x', 1), undefined)
  t.same(asked, ['look /d/x', 'look /d/x'], 'at the opening and before publishing')
  t.match(await written('/d/x', 20), { kind: 'file', size: 1 }, 'the replaced entry is returned')
  asked.length = 0
  await as().write(p('/d/x'), sourceOf('300'))
  t.same(asked, ['look /d/x', 'look /d/x'])
  await as().symlink(p('/d/link'), 'x')
  t.match(await written('/d/link', 4), { size: 3 }, 'through a symlink, the entry of its target')
  t.equal(await text(as().read(p('/d/x'))), '4')
  await as().symlink(p('/d/nowhere'), 'missing')
  await t.rejects(
    as().open(p('/d/nowhere'), 'replace'),
    { code: 'denied' },
    'a missing target of a symlink is not created',
  )
})

void t.test('a listing resolves the spelling of its path once, whole or in pages', async (t) => {
  const asked: string[] = []
  const memory = new MemoryDriver(0, false)
  const counted = altered(memory, {
    stat: (path, options) => {
      asked.push(path)
      return memory.stat(path, options)
    },
  })
  const { as } = await newTree(t, { '/': { driverOf: async () => counted } })
  await as().mkdir(p('/Folder/Sub'), { parents: true })
  asked.length = 0
  for await (const page of as().pages(p('/folder/sub'))) t.same(page, [])
  t.equal(asked.filter((path) => path === '/Folder/sub').length, 1, 'in pages')
  asked.length = 0
  t.equal((await as().list(p('/folder/sub'))).total, 0)
  t.equal(asked.filter((path) => path === '/Folder/sub').length, 1, 'whole')
})

void t.test('properties and locks of a removed file do not reappear with a new file of that name', async (t) => {
  const { as, dependencies } = await newTree(t)
  const ada = as()
  await fill(ada, { '/d/x': 'abc' })
  await ada.setProperties(p('/d/x'), [{ set: property }])
  const { lock } = await ada.lock(p('/d/x'), lockAsk)
  await ada.remove(p('/d'), { lockTokens: [lock.token] })
  await fill(ada, { '/d/x': 'abc' })
  t.same(await ada.properties(p('/d/x')), [])
  t.same(dependencies.locks.list(), [])
})
