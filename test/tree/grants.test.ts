/** Grants in the whole tree: what is seen, refused, left out and never asked of a backend, and how grants follow. */
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, nameOf, parentOf, type Path } from '../../src/base/path.js'
import { openSearchIndex } from '../../src/database/search/search-index.js'
import { Decisions, needsSignature } from '../../src/tree/decisions.js'
import type { Grant } from '../../src/tree/grants.js'
import { etagOf } from '../../src/tree/preconditions.js'
import { findNames, VisibleNames } from '../../src/tree/search-results.js'
import type { Asker } from '../accounts/principals.js'
import { grantRow, groupRow, userRow } from '../database/store-rows.js'
import { openLocal } from '../drivers/env.js'
import {
  altered,
  bare,
  contents,
  fill,
  keep,
  lockAsk,
  names,
  newTree,
  overwrite,
  pagesOf,
  property,
  sourceOf,
  text,
  type MountAsk,
  type Over,
  type Test,
  type Tree,
} from './tree-fixture.js'
import t from 'tap'

const p = asPath
const every = ['see', 'read', 'write', 'rename', 'move', 'copy', 'remove', 'share'] as const

interface Granting extends Tree {
  /** Gives user 1 a grant. */
  readonly grant: (path: string, fields: Partial<Grant>) => Promise<void>
  readonly stored: () => Promise<readonly string[]>
}

async function granting(t: Test, mounted?: Readonly<Record<string, MountAsk>>): Promise<Granting> {
  const tree = await newTree(t, mounted)
  await tree.store.users.insert(userRow({ username: 'ada' }))
  return {
    ...tree,
    grant: async (path, fields) => {
      await tree.store.grants.insert(grantRow({ userId: 1, path: p(path), ...fields }))
      await tree.dependencies.grants.reload()
    },
    stored: async () => (await tree.store.grants.all()).map(({ path }) => path).sort(),
  }
}

const admin: Asker = { role: 'admin', userId: 9 }
const none: Asker = { may: [] }
const only: Asker = { may: [], grantedOnly: true }

/** A driver that records which paths it is asked for. */
function recording(asked: string[], caseSensitive = true): MountAsk {
  const driverOf = async (): Promise<Driver> =>
    new Proxy(new MemoryDriver(0, caseSensitive), {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== 'function') return value
        return (...args: readonly unknown[]): unknown => {
          if (typeof args[0] === 'string') asked.push(args[0])
          return Reflect.apply(value, target, args) as unknown
        }
      },
    })
  return { driverOf }
}

for (const caseSensitive of [true, false]) {
  const which = caseSensitive ? 'a backend' : 'a backend that ignores case'
  void t.test(`what is not seen is not found, and ${which} is never asked for it`, async (t) => {
    const asked: string[] = []
    const { as, grant } = await granting(t, { '/': recording(asked, caseSensitive) })
    await fill(as(admin), { '/open/x': 'x', '/secret/x': 'x', '/open/pay/x': 'x' })
    await grant('/secret', { deny: ['see'] })
    await grant('/open/pay', { deny: ['see'] })
    asked.length = 0
    const ada = as()
    for (const path of ['/secret', '/secret/x', '/secret/gone', '/open/pay', '/open/pay/x', '/open/pay/gone']) {
      const at = p(path)
      const missing = { code: 'not_found', detail: undefined }
      await t.rejects(ada.stat(at), missing)
      await t.rejects(ada.list(at), missing)
      await t.rejects(ada.read(at), missing)
      await t.rejects(ada.open(at, 'read'), missing)
      await t.rejects(ada.open(at, 'update'), missing)
      await t.rejects(ada.remove(at), missing)
      await t.rejects(ada.move(at, p('/open/y'), keep), missing)
      await t.rejects(ada.copy(at, p('/open/y'), keep), missing)
      await t.rejects(ada.setAttributes(at, { modified: new Date(0) }), missing)
      await t.rejects(ada.setProperties(at, [{ set: property }]), missing)
      await t.rejects(ada.usage(at), missing)
      await t.rejects(ada.downloadRoute(at, { route: 'file details' }), missing)
      await t.rejects(ada.write(at, sourceOf('')), { code: 'parent_missing' })
      await t.rejects(ada.write(at, sourceOf(''), { parents: true, createOnly: true }), { code: 'parent_missing' })
      await t.rejects(ada.mkdir(at), { code: 'parent_missing' })
      await t.rejects(ada.lock(at, lockAsk), { code: 'parent_missing' })
    }
    t.same(
      asked.filter((path) => /secret|pay/i.test(path)),
      [],
    )
    await t.rejects(ada.move(p('/open/x'), p('/secret/x'), overwrite), { code: 'parent_missing' })
    await t.rejects(ada.copy(p('/open/x'), p('/open/pay'), overwrite), { code: 'parent_missing' })
    await t.rejects(ada.move(p('/open/x'), p('/open/pay'), overwrite), { code: 'parent_missing' })
    if (!caseSensitive) await t.rejects(ada.stat(p('/SECRET/x')), { code: 'not_found' })
    t.same(
      asked.filter((path) => /secret|pay/i.test(path)),
      [],
      'not as a target either',
    )
    t.same(await names(ada, '/'), ['open'])
    t.same(await names(ada, '/open'), ['x'])
    t.same(await pagesOf(ada, '/open'), ['x'])
    t.equal((await ada.list(p('/open'))).total, 1)
    t.same(await names(as(admin), '/'), ['open', 'secret'], 'an admin sees it')
  })
}

void t.test('what is not seen is answered in the words for what is missing', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/hid/x': 'x', '/open/y': 'y' })
  await grant('/hid', { deny: ['see'] })
  const ada = as()
  const ofToken = { not: false, kind: 'token', value: 'token' } as const
  const operations: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
    stat: (path) => ada.stat(p(path)),
    list: (path) => ada.list(p(path)),
    read: (path) => ada.read(p(path)),
    open: (path) => ada.open(p(path), 'read'),
    remove: (path) => ada.remove(p(path)),
    rename: (path) => ada.move(p(path), p(`${path}2`), keep),
    move: (path) => ada.move(p(path), p('/open/z'), keep),
    copy: (path) => ada.copy(p(path), p('/open/z'), keep),
    'set attributes': (path) => ada.setAttributes(p(path), { modified: new Date(0) }),
    'set properties': (path) => ada.setProperties(p(path), [{ set: property }]),
    'open to change': (path) => ada.open(p(path), 'update'),
    'open to replace': (path) => ada.open(p(path), 'replace'),
    'lock what exists': (path) => ada.lock(p(path), lockAsk, { makesFile: false }),
    'refresh a lock': (path) => ada.refreshLock(p(path), 'token', 60, { if: [{ lists: [[ofToken]] }] }),
    unlock: (path) => ada.unlock(p(path), 'token'),
    write: (path) => ada.write(p(path), sourceOf('')),
    mkdir: (path) => ada.mkdir(p(path)),
    lock: (path) => ada.lock(p(path), lockAsk),
    'move to': (path) => ada.move(p('/open/y'), p(path), overwrite),
    'copy to': (path) => ada.copy(p('/open/y'), p(path), overwrite),
  }
  for (const [name, operation] of Object.entries(operations)) {
    const told = async (path: string) => {
      const error = (await operation(path).catch((thrown: unknown) => thrown)) as GatewayError
      const { code, detail, reason, op } = error
      return { code, detail, reason, op, path: error.path?.replace(path, ''), message: error.message.replace(path, '') }
    }
    t.same(await told('/hid/x'), await told('/not/x'), name)
  }
})

void t.test('a user who is granted only sees the ways to its grants and what they allow', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/b/c/x': 'x', '/a/b/y': 'y', '/a/z': 'z', '/q': 'q' })
  t.same(await contents(as(only)), {}, 'without a grant, the root is empty')
  await grant('/a/b/c', { allow: ['read', 'write'] })
  const ada = as(only)
  t.same(await contents(ada), { '/a': null, '/a/b': null, '/a/b/c': null, '/a/b/c/x': 'x' })
  await ada.write(p('/a/b/c/new'), sourceOf('new'))
  await t.rejects(ada.write(p('/a/b/new'), sourceOf('')), { code: 'parent_missing' })
  await t.rejects(ada.remove(p('/a/b')), { code: 'denied' })
  await t.rejects(ada.remove(p('/a/b/c')), { code: 'denied' })
  await t.rejects(ada.read(p('/a/z')), { code: 'not_found' })
  t.match(await ada.stat(p('/a/b')), { kind: 'folder' })
})

void t.test('the grants of a group hold for its members', async (t) => {
  const { as, grant, store } = await granting(t)
  await fill(as(admin), { '/a/x': 'x' })
  const { id } = await store.groups.insert(groupRow({}))
  await grant('/a', { userId: undefined, groupId: id, allow: ['read', 'remove'] })
  const groups = {
    of: () => ({ groups: [id], permissions: 0, isAdmin: false, requiresTwoStep: false, requiresProvider: false }),
  }
  await t.rejects(as(none).remove(p('/a/x')), { code: 'denied' })
  await as({ ...none, groups }).remove(p('/a/x'))
})

void t.test('what is seen and not readable is listed, and its content is not given in any form', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/a/d/y': 'y' })
  await grant('/a', { allow: ['write'], deny: ['read'] })
  const ada = as(none)
  t.same(await names(ada, '/a'), ['d', 'x'])
  t.match(await ada.stat(p('/a/x')), { size: 1 })
  const refused = { code: 'denied' }
  await t.rejects(ada.read(p('/a/x')), refused)
  await t.rejects(ada.open(p('/a/x'), 'read'), refused)
  await t.rejects(ada.openToSend(p('/a/x')), refused)
  await t.rejects(ada.downloadRoute(p('/a/x'), { route: 'file details' }), refused)
  await t.rejects(ada.directUrl(p('/a/x')), refused)
  await t.rejects(ada.thumbnail(p('/a/x'), 'image'), refused)
  await t.rejects(ada.assertMembersReadable(p('/'), ['a']), refused)
  await t.rejects(ada.copy(p('/a/x'), p('/x'), keep), refused)
  await t.rejects(ada.open(p('/a/x'), 'update'), refused, 'a handle that also reads')
  await t.rejects(ada.open(p('/a/x'), 'replace', { readable: true }), refused)
  await t.rejects(ada.assertContentGranted(p('/a/x')), refused)
  await (await ada.open(p('/a/x'), 'update', { readable: false })).close()
  await ada.write(p('/a/x'), sourceOf('new'))
  t.equal(await text(as(admin).read(p('/a/x'))), 'new')
})

void t.test('entries that may not be read have no hashes and thumbnails', async (t) => {
  const driver = new MemoryDriver(0)
  const content = { hashes: { md5: 'abc' }, thumbnailUrl: '/thumbnail' }
  const over: Over = {
    stat: async (path) => ({ ...(await driver.stat(path)), ...content }),
    pages: (path) => mapped(driver.pages(path), (page) => page.map((entry) => ({ ...entry, ...content }))),
  }
  const { as, grant } = await granting(t, { '/': { driverOf: async () => altered(driver, over) } })
  await fill(as(admin), { '/a/x': 'x', '/a/y': 'y' })
  await grant('/a/x', { deny: ['read'] })
  const told = async (who: Asker) => {
    const { entries } = await as(who).list(p('/a'))
    const stats = [await as(who).stat(p('/a/x')), await as(who).stat(p('/a/y'))]
    return [...entries, ...stats].map(({ hashes, thumbnailUrl }) => [hashes !== undefined, thumbnailUrl !== undefined])
  }
  const [open, closed] = [
    [true, true],
    [false, false],
  ]
  t.same(await told({}), [closed, open, closed, open])
  t.same(await told({ userId: 5 }), [open, open, open, open])
})

void t.test('the entity tag of what may not be read is not made of its content', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/a/y': 'y' })
  for (const path of ['/a/x', '/a/z']) await grant(path, { deny: ['read'] })
  const real = etagOf(await as(admin).stat(p('/a/x')))
  const ada = as()
  const [x, y] = (await ada.list(p('/a'))).entries
  t.notOk(x?.revision)
  t.ok(y?.revision)
  const told = etagOf(await ada.stat(p('/a/x')))
  t.not(told, real)
  t.equal(told, x && etagOf(x))
  t.equal(told, etagOf((await ada.view(p('/a/x'))).entry))
  const failed = { code: 'precondition_failed' }
  await t.rejects(ada.write(p('/a/x'), sourceOf('new'), { ifMatch: [real] }), failed, 'the right one cannot be guessed')
  await t.rejects(ada.check(p('/a/x'), { ifMatch: [real] }), failed)
  const { entry } = await ada.write(p('/a/x'), sourceOf('new'), { ifMatch: [told] })
  t.equal(etagOf(entry), etagOf(await ada.stat(p('/a/x'))))
  const reservation = await ada.reserve(p('/a/z'))
  t.equal(etagOf(reservation.entry), etagOf(await ada.stat(p('/a/z'))))
  await reservation.release()
  t.same(await names(ada, '/a'), ['x', 'y'])
})

async function* mapped<T>(pages: AsyncIterable<T>, map: (page: T) => T): AsyncGenerator<T> {
  for await (const page of pages) yield map(page)
}

void t.test('a listing shares the cached text of those entries that grants leave as they are', async (t) => {
  const { as, grant } = await granting(t, { '/': { over: { folderRevision: undefined }, cacheExpiration: 30 } })
  await fill(as(admin), { '/plain/x': 'x', '/plain/sub/y': 'y', '/open/x': 'x', '/open/sub/y': 'y', '/dark/x': 'x' })
  await grant('/plain/sub', { allow: ['write'] })
  await grant('/open/sub', { deny: ['see'] })
  await grant('/dark', { deny: ['read'] })
  const shared = async (who: ReturnType<typeof as>, path: string) => {
    await who.list(p(path))
    const { entries, cached } = await who.list(p(path))
    return entries.filter((entry) => cached?.entries.includes(entry)).map(({ name }) => name)
  }
  t.same(await shared(as(admin), '/open'), ['sub', 'x'])
  t.same(await shared(as(admin), '/dark'), ['x'])
  t.same(await shared(as(), '/plain'), ['sub', 'x'], 'a member has a grant, and is told as it is')
  t.same(await shared(as(), '/open'), ['x'], 'what is not seen is left out')
  t.same(await shared(as(), '/dark'), [], 'what is not readable has no hashes')
})

void t.test('a request about what is not seen does not wait for a storage that starts there', async (t) => {
  const { as, grant, dependencies } = await granting(t)
  const { mounts } = dependencies
  await fill(as(admin), { '/closed/x': 'x', '/open/x': 'x' })
  await grant('/closed', { deny: ['see'] })
  t.capture(mounts, 'isAsNamed', () => false)
  const waits = t.capture(mounts, 'whenStarted', async () => undefined)
  const paths = () => new Set(waits().map(({ args }) => args[0]))
  await t.rejects(as().stat(p('/closed/x')), { code: 'not_found' })
  await t.rejects(as().move(p('/closed/x'), p('/open/y'), overwrite), { code: 'not_found' })
  await t.rejects(as().move(p('/open/x'), p('/closed/y'), overwrite), { code: 'parent_missing' })
  t.same(paths(), new Set([p('/open/x')]))
  await as(admin).stat(p('/closed/x'))
  t.same(paths(), new Set([p('/closed/x')]), 'who sees it waits')
})

void t.test('URLs at and below a denial need a signature', async (t) => {
  const { as, grant, dependencies } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/b/x': 'x' })
  await grant('/a', { deny: ['read'] })
  await grant('/b', { deny: ['write'] })
  t.equal(needsSignature(dependencies, p('/a/x')), true)
  t.equal(needsSignature(dependencies, p('/b/x')), false)
  t.equal((await as({ userId: 5 }).list(p('/a'))).folder.signed, true, 'for everybody')
})

void t.test('whole folders: a grant below that denies is asked before anything changes', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/a/b/y': 'y', '/t/z': 'z', '/o/f': 'f' })
  await grant('/a/b', { deny: ['see'] })
  const ada = as()
  const refused = { code: 'denied' }
  await t.rejects(ada.remove(p('/a')), refused)
  await t.rejects(ada.move(p('/a'), p('/a2'), keep), refused)
  await t.rejects(ada.move(p('/a'), p('/t/a'), keep), refused)
  await t.rejects(ada.lock(p('/a'), { ...lockAsk, deep: true }), refused)
  await t.rejects(ada.move(p('/o'), p('/a'), overwrite), refused, 'the replaced folder')
  await t.rejects(ada.copy(p('/o'), p('/a'), overwrite), refused)
  await grant('/gone/deep', { deny: ['remove'] })
  await ada.mkdir(p('/gone'))
  await t.rejects(ada.remove(p('/gone')), refused, 'whether or not anything exists there')
  await ada.copy(p('/a'), p('/c'), keep)
  t.same(await contents(as(admin), p('/c')), { '/c/x': 'x' }, 'a copy leaves out what is not seen')
  await grant('/a/x', { deny: ['read'] })
  await t.rejects(ada.copy(p('/a'), p('/d'), keep), refused)
  await t.rejects(ada.assertMembersReadable(p('/a'), []), { code: 'denied', path: '/a/x' })
  t.same(await names(as(admin), '/'), ['a', 'c', 'gone', 'o', 't'])
})

void t.test('a folder with what may not be removed is not moved to another storage in part', async (t) => {
  const { as, grant } = await granting(t, { '/': {}, '/s2': {} })
  await fill(as(admin), { '/a/keep/x': 'x', '/a/y': 'y' })
  await grant('/a/keep', { deny: ['remove'] })
  await t.rejects(as().move(p('/a'), p('/s2/a'), keep), { code: 'denied' })
  t.same(await contents(as(admin)), { '/a': null, '/a/keep': null, '/a/keep/x': 'x', '/a/y': 'y', '/s2': null })
})

void t.test(
  'a copy into existing folders does not tell what is there, and changes nothing that is denied',
  async (t) => {
    const asked: string[] = []
    const { as, grant, rule } = await granting(t, { '/': recording(asked, false) })
    await fill(as(admin), { '/shared/secret/x': 'x', '/shared/closed/x': 'x', '/shared/fixed/x': 'x' })
    await fill(as(admin), { '/one/secret/x': '1', '/two/secret/y': '2', '/three/closed/x': '3', '/four/fixed/x': '4' })
    await as(admin).setAttributes(p('/four/fixed'), { modified: new Date(1000), mode: 0o700 })
    const before = await as(admin).stat(p('/shared/fixed'))
    await grant('/shared/secret', { deny: ['see'] })
    await grant('/shared/fixed', { deny: ['write'] })
    await rule('/shared', { hide: '^closed$' })
    const merging = { overwrite: false, merge: true } as const
    const user: Asker = { may: ['copy', 'write'] }
    asked.length = 0
    await t.rejects(as(user).copy(p('/one'), p('/shared'), merging), { code: 'parent_missing' }, 'exists')
    await t.rejects(as(user).copy(p('/two'), p('/shared'), merging), { code: 'parent_missing' }, 'does not exist')
    t.same(
      asked.filter((path) => path.startsWith('/shared/secret')),
      [],
    )
    await t.rejects(as(user).copy(p('/three'), p('/shared'), merging), { code: 'hidden' })
    await as(user).copy(p('/four'), p('/shared'), merging)
    const { modified, mode } = await as(admin).stat(p('/shared/fixed'))
    t.same({ modified, mode }, { modified: before.modified, mode: before.mode })
  },
)

void t.test('a copy leaves out the properties of what is not seen', async (t) => {
  const { as, grant, dependencies } = await granting(t)
  await fill(as(admin), { '/a/secret/x': 'x', '/a/y': 'y', '/b/y': 'old' })
  for (const path of ['/a', '/a/secret/x', '/a/y']) await as(admin).setProperties(p(path), [{ set: property }])
  await as(admin).setProperties(p('/b/y'), [{ set: { ...property, name: 'old' } }])
  await as(admin).lock(p('/b/y'), lockAsk)
  await grant('/a/secret', { deny: ['see'] })
  for (const lock of dependencies.locks.list()) await as(admin).unlock(lock.path, lock.token)
  await as().copy(p('/a'), p('/b'), overwrite)
  await fill(as(), { '/b/secret/x': 'mine' })
  t.same(await as().properties(p('/b/secret/x')), [])
  t.same(await as().properties(p('/b/y')), [property])
  t.same(await as().properties(p('/b')), [property])
})

void t.test('a zip holds what is seen and readable only', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/a/b/y': 'y' })
  await grant('/a/b', { deny: ['see'] })
  await grant('/a/gone', { deny: ['read'] })
  const ada = as()
  await ada.assertMembersReadable(p('/'), ['a'])
  const found: string[] = []
  for await (const { path } of ada.members(p('/'), ['a'])) found.push(path)
  t.same(found, ['/a', '/a/x'])
})

for (const [how, over] of [
  ['in one call of the backend', {}],
  ['item by item', bare],
] as const) {
  void t.test(`grants move with their folder, ${how}, and a removal leaves them`, async (t) => {
    const { as, grant, stored } = await granting(t, { '/': { over } })
    await fill(as(admin), { '/a/b/x': 'x', '/old/y': 'y' })
    await grant('/a', { allow: ['write'] })
    await grant('/a/b', { deny: ['write'] })
    await grant('/c/b', { allow: ['write'] })
    await grant('/ab', { allow: ['write'] })
    await as(admin).move(p('/a'), p('/c'), keep)
    t.same(await stored(), ['/ab', '/c', '/c/b'])
    await t.rejects(as().write(p('/c/b/x'), sourceOf('')), { code: 'denied' }, 'the moved one wins')
    await as(none).write(p('/c/new'), sourceOf(''))
    await as(admin).remove(p('/c'))
    t.same(await stored(), ['/ab', '/c', '/c/b'])
    await as(admin).mkdir(p('/c/b'), { parents: true })
    await t.rejects(as().write(p('/c/b/x'), sourceOf('')), { code: 'denied' }, 'as closed as before')
  })
}

void t.test('while a folder moves to where there is another grant, a denial of either applies', async (t) => {
  const driver = new MemoryDriver(0)
  let moved: () => Promise<void> = async () => undefined
  const over: Over = {
    move: async (from, to, options) => {
      await driver.move(from, to, options)
      await moved()
    },
  }
  const { as, grant } = await granting(t, { '/': { driverOf: async () => altered(driver, over) } })
  await fill(as(admin), { '/a/x': 'x' })
  await grant('/a', { deny: ['see'] })
  await grant('/b', { allow: ['read'] })
  moved = async () => {
    await t.rejects(as().read(p('/b/x')), { code: 'not_found' })
  }
  await as(admin).move(p('/a'), p('/b'), keep)
  await t.rejects(as().read(p('/b/x')), { code: 'not_found' })
})

for (const [how, fails] of [
  ['that succeeds', false],
  ['that fails', true],
] as const) {
  void t.test(
    `during a move item by item ${how}, rules and grants apply at both paths, but not to the move itself`,
    async (t) => {
      const driver = new MemoryDriver(0)
      let copied: () => Promise<void> = async () => undefined
      const remove: MemoryDriver['remove'] = async (...args) => {
        await copied()
        await driver.remove(...args)
      }
      const over: Over = { ...bare, remove }
      const { as, grant, rule, store, dependencies } = await granting(t, {
        '/s1': { driverOf: async () => altered(driver, over) },
        '/s2': {},
      })
      const { id } = await store.users.insert(userRow({ username: 'max' }))
      const mover: Asker = { userId: id }
      await fill(as(admin), { '/s1/a/secret/x': 'x', '/s1/a/ruled/x': 'x', '/s1/a/fixed/x': 'x', '/s1/a/y': 'y' })
      await grant('/s1/a/secret', { deny: ['see'] })
      await grant('/s1/a/fixed', { userId: id, deny: ['write'] })
      const writeUsers = [id]
      await rule('/s1/a/ruled', { readUsers: [id], readUsersSub: true, writeUsers, writeUsersSub: true })
      let given: Promise<void> | undefined
      copied = async () => {
        for (const top of ['/s1/a', '/s2/a']) {
          await t.rejects(as().stat(p(`${top}/secret/x`)), { code: 'not_found' })
          await t.rejects(as().read(p(`${top}/ruled/x`)), { code: 'hidden' })
        }
        t.same(await names(as(), '/s2/a'), ['fixed', 'y'])
        t.equal(dependencies.grants.deniesReading(p('/s2/a/secret/x')), true, 'its URL needs a signature')
        // While others use the tree, somebody gives another grant.
        given ??= grant('/s1/a/y', { deny: ['read'] })
        await given
        await t.rejects(as().read(p('/s2/a/y')), { code: 'denied' }, 'the grant was given during the move')
        t.equal(await text(as(mover).read(p('/s2/a/ruled/x'))), 'x')
        if (fails) throw new GatewayError('denied')
      }
      const moved = as(mover).move(p('/s1/a'), p('/s2/a'), keep)
      await (fails ? t.rejects(moved, { code: 'denied' }) : moved)
      t.ok(given, 'the copies were checked')
      const [there, elsewhere] = fails ? ['/s1/a', '/s2/a'] : ['/s2/a', '/s1/a']
      t.same(
        dependencies.grants.list().map(({ path }) => path),
        [`${there}/secret`, `${there}/fixed`, `${there}/y`],
      )
      t.equal(dependencies.grants.hasWithin(p(elsewhere)), false)
      t.equal(dependencies.rules.hasWithin(p(elsewhere)), false)
      await t.rejects(as().stat(p(`${there}/secret/x`)), { code: 'not_found' })
      await t.rejects(
        as(mover).write(p(`${there}/fixed/x`), sourceOf('')),
        { code: 'denied' },
        'it is no mover any more',
      )
    },
  )
}

for (const [how, over] of [
  ['in one call of the backend', {}],
  ['item by item', bare],
] as const) {
  void t.test(`a move ${how} makes nothing readable to the user that moves it`, async (t) => {
    const { as, grant } = await granting(t, { '/': { over } })
    await fill(as(admin), { '/a/secret/x': 'x', '/a/y': 'y' })
    await as(admin).mkdir(p('/closed'))
    await grant('/a/secret', { deny: ['read'] })
    const ada = as({ may: ['move', 'rename', 'remove', 'write'] })
    if (how === 'item by item') {
      await t.rejects(ada.move(p('/a'), p('/b'), keep), { code: 'denied', reason: /below this folder/ })
      t.same(await names(as(admin), '/'), ['a', 'closed'], 'nothing was copied')
      await grant('/closed', { deny: ['read'] })
      await ada.move(p('/a'), p('/closed/a'), keep)
    } else {
      await ada.move(p('/a'), p('/b'), keep)
      await t.rejects(ada.read(p('/b/secret/x')), { code: 'denied' }, 'the grant has moved too')
    }
  })
}

void t.test('a move item by item gives its user nothing while it lasts, and ends with the right to read', async (t) => {
  const driver = new MemoryDriver(0)
  const target = new MemoryDriver(0)
  let made: (path: Path) => Promise<void> = async () => undefined
  const mkdir: MemoryDriver['mkdir'] = async (path, options) => {
    await target.mkdir(path, options)
    await made(path)
  }
  const { as, grant } = await granting(t, {
    '/s1': { driverOf: async () => altered(driver, bare) },
    '/s2': { driverOf: async () => altered(target, { ...bare, mkdir }) },
  })
  await fill(as(admin), { '/s1/a/fixed/x': 'x', '/s1/a/late/x': 'x' })
  await grant('/s1/a/fixed', { deny: ['write'] })
  const ada = as({ may: ['move', 'rename', 'remove', 'write'] })
  const seen: Path[] = []
  made = async (path) => {
    seen.push(path)
    if (path === '/a/fixed') await t.rejects(ada.write(p('/s2/a/fixed/mine'), sourceOf('')), { code: 'denied' })
    if (path !== '/a/late') return
    await grant('/s1/a/late', { deny: ['read'] })
    await t.rejects(ada.stat(p('/s2/a/late/x')), { code: 'not_found' })
  }
  await t.rejects(ada.move(p('/s1/a'), p('/s2/a'), keep))
  t.same(seen.sort(), ['/a', '/a/fixed', '/a/late'])
  const there = { '/s2/a/fixed': null, '/s2/a/fixed/x': 'x', '/s2/a/late': null }
  t.same(await contents(as(admin), p('/s2/a')), there)
  t.same(await contents(as(admin), p('/s1/a')), { '/s1/a/late': null, '/s1/a/late/x': 'x' })
})

void t.test('grants get the spelling of a folder that is renamed on a backend that ignores case', async (t) => {
  const { as, grant, stored } = await granting(t, {
    '/': { driverOf: async () => new MemoryDriver(0, false) },
  })
  await fill(as(admin), { '/Sales/x': 'x' })
  await grant('/SALES', { deny: ['write'] })
  await as(admin).move(p('/Sales'), p('/Market'), keep)
  t.same(await stored(), ['/Market'])
  await t.rejects(as().write(p('/Market/x'), sourceOf('')), { code: 'denied' })
})

void t.test('grants at two spellings of one path apply together, and move as one', async (t) => {
  const { as, grant, dependencies } = await granting(t, {
    '/': { driverOf: async () => new MemoryDriver(0, false) },
  })
  await fill(as(admin), { '/Sales/x': 'x', '/Sales/Pay/x': 'x' })
  await grant('/sales', { allow: ['read', 'write'] })
  await grant('/Sales', { allow: ['copy'], deny: ['write'] })
  await grant('/SALES', { deny: ['read'] })
  await grant('/sales/PAY', { allow: ['read'] })
  await grant('/sales/pay', { deny: ['see'] })
  const closed = async (top: string) => {
    for (const path of [top, top.toLowerCase(), top.toUpperCase()]) {
      await t.rejects(as().read(p(`${path}/x`)), { code: 'denied' })
      await t.rejects(as().write(p(`${path}/x`), sourceOf('')), { code: 'denied' })
      await t.rejects(as().read(p(`${path}/pay/x`)), { code: 'not_found' })
    }
    t.same(await names(as(none), top), ['x'], 'it is seen')
  }
  await closed('/Sales')
  await as(admin).move(p('/Sales'), p('/Market'), keep)
  await closed('/Market')
  t.same(
    dependencies.grants.list().map(({ path, allow, deny }) => ({ path, allow, deny })),
    [
      { path: '/Market', allow: ['see', 'copy'], deny: ['read', 'write'] },
      { path: '/Market/PAY', allow: ['read'], deny: [] },
      { path: '/Market/pay', allow: [], deny: ['see'] },
    ],
  )
})

void t.test('a move within a folder asks to rename both paths, and a move sheds no denial', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/a/y': 'y', '/b/z': 'z' })
  await grant('/a', { allow: every })
  const ada = as(none)
  await ada.move(p('/a/x'), p('/a/x2'), keep)
  await grant('/a/x3', { deny: ['rename'] })
  await t.rejects(ada.move(p('/a/x2'), p('/a/x3'), keep), { code: 'denied' })
  await t.rejects(ada.move(p('/b/z'), p('/a/z'), keep), { code: 'denied' })
  await ada.move(p('/a/y'), p('/b/y'), keep)
  await grant('/b', { deny: ['read'], allow: ['move', 'remove'] })
  await t.rejects(ada.move(p('/b/y'), p('/a/y'), keep), { code: 'denied' }, 'it would become readable')
})

void t.test('a precondition about a path that is not seen does not tell whether it exists', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/s/x': 'x' })
  await grant('/s', { deny: ['see'] })
  const ask = (path: string) => {
    const lists = [[{ not: true, kind: 'etag', value: '"other"' } as const]]
    return outcome(as().check(p('/a/x'), { if: [{ path: p(path), lists }] }))
  }
  t.same(await ask('/s/x'), await ask('/s/gone'))
  t.same(await ask('/s/x'), await ask('/gone'))
})

async function outcome(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'done',
    (error: unknown) => (error as { readonly code?: string }).code,
  )
}

void t.test('a search finds what is seen only, and asks the index for nothing else', async (t) => {
  const { as, grant, dependencies } = await granting(t)
  const index = await openSearchIndex(join(t.testdir(), 'search.db'))
  t.teardown(() => index.close())
  const paths = ['/a', '/a/x1', '/a/pay', '/a/pay/x2', '/a/pay/own', '/a/pay/own/x3', '/x4', '/b', '/b/x5']
  await index.writer.put(
    paths.map((path) => ({
      parent: parentOf(p(path)),
      name: nameOf(p(path)),
      kind: nameOf(p(path)).startsWith('x') ? 'file' : 'folder',
      size: 0,
    })),
  )
  const found = async (who: Asker, keywords: string) => {
    const { principal } = as(who)
    const visible = new VisibleNames(dependencies.rules, new Decisions(dependencies, principal), p('/'), undefined)
    const asked = { keywords, kind: 'any', offset: 0, limit: 100 } as const
    const { names: all, total } = await findNames(index.reader, visible, p('/'), asked)
    t.equal(total, all.length)
    return all.map(({ name }) => name)
  }
  t.same(await found(only, 'x'), [], 'without a grant')
  await grant('/a', { allow: ['read'] })
  t.same(await found(only, 'x'), ['x1', 'x2', 'x3'])
  await grant('/a/pay', { deny: ['see'] })
  t.same(await found(only, 'x'), ['x1'])
  t.same(await found({ may: [] }, 'x'), ['x1', 'x4', 'x5'])
  t.same(await found({ may: [] }, 'pay'), [])
  await grant('/a/pay/own', { allow: ['see'] })
  t.same(await found(only, 'x'), ['x1', 'x3'])
  t.same(await found(only, 'pay'), ['pay'], 'the way to a grant is seen')
  t.same(await found(admin, 'x'), ['x1', 'x2', 'x3', 'x4', 'x5'])
})

void t.test('a search with more grants than a query names asks about each folder once', async (t) => {
  const { as, grant, dependencies } = await granting(t)
  const index = await openSearchIndex(join(t.testdir(), 'search.db'))
  t.teardown(() => index.close())
  const boxes = Array.from({ length: 60 }, (_, at) => p(`/box ${at}`))
  const files = boxes.flatMap((box) => ['x1', 'x2', 'x3'].map((name) => ({ parent: box, name, kind: 'file' as const })))
  const folders = boxes.map((box) => ({ parent: p('/'), name: nameOf(box), kind: 'folder' as const }))
  await index.writer.put([...folders, ...files].map((entry) => ({ ...entry, size: 0 })))
  for (const box of boxes.slice(0, 50)) await grant(box, { deny: ['see'] })
  const decisions = new Decisions(dependencies, as({ may: [] }).principal)
  const asked: string[] = []
  const counting = {
    isRestricted: decisions.isRestricted,
    hidesNames: (top: Path) => decisions.hidesNames(top),
    seenNames: (top: Path, maxPaths: number) => decisions.seenNames(top, maxPaths),
    verdict: (...args: Parameters<Decisions['verdict']>) => decisions.verdict(...args),
    listed: (folder: Path, password: string | undefined) => {
      asked.push(folder)
      return decisions.listed(folder, password)
    },
  }
  const visible = new VisibleNames(dependencies.rules, counting, p('/'), undefined)
  const options = { keywords: 'x', kind: 'files', offset: 0, limit: 100 } as const
  const { names, total } = await findNames(index.reader, visible, p('/'), options)
  t.equal(total, 30)
  t.same(new Set(names.map(({ parent }) => parent)), new Set(boxes.slice(50)))
  t.same(asked.sort(), ['/', ...boxes.slice(50)].sort(), 'and about none that is not seen')
})

void t.test('the target of a symlink is asked too, and a symlink to what is not seen leads nowhere', async (t) => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'tidegate-grants-')))
  t.teardown(() => rm(folder, { recursive: true }))
  const { as, grant } = await granting(t, { '/': { driverOf: () => openLocal(folder) } })
  await fill(as(admin), { '/secret/x': 'x', '/open/y': 'y', '/closed/z': 'z' })
  for (const name of ['secret/x', 'secret/gone', 'closed/z']) {
    await as(admin).symlink(p(`/open/${name.replace('/', '-')}`), `/${name}`)
  }
  await grant('/secret', { deny: ['see'] })
  await grant('/closed', { deny: ['read'] })
  const ada = as()
  const { entries } = await ada.list(p('/open'))
  const kinds = Object.fromEntries(entries.map(({ name, kind }) => [name, kind]))
  t.same(kinds, { 'closed-z': 'file', 'secret-gone': 'symlink', 'secret-x': 'symlink', y: 'file' })
  await t.rejects(ada.read(p('/open/secret-x')), { code: 'not_found' })
  await t.rejects(ada.read(p('/open/secret-gone')), { code: 'not_found' })
  await t.rejects(ada.read(p('/open/closed-z')), { code: 'denied' })
  await t.rejects(ada.write(p('/open/secret-x'), sourceOf('')), { code: 'parent_missing' })
  await as(admin).symlink(p('/closed/y'), '/open/y')
  await t.rejects(ada.read(p('/closed/y')), { code: 'denied' })
  await t.rejects(ada.open(p('/closed/y'), 'update'), { code: 'denied' }, 'a handle that also reads')
  await as(admin).symlink(p('/open/closed'), '/closed')
  await t.rejects(ada.assertMembersReadable(p('/open'), ['closed']), { code: 'denied' }, 'before the zip begins')
  t.match(await ada.stat(p('/open/closed-z')), { kind: 'file', size: 1 })
})

void t.test('the URL of a symlink to where a grant denies to read needs a signature of the target', async (t) => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'tidegate-grants-')))
  t.teardown(() => rm(folder, { recursive: true }))
  const { as, grant } = await granting(t, { '/': { driverOf: () => openLocal(folder) } })
  await fill(as(admin), { '/secret/x': 'x', '/open/y': 'y' })
  await as(admin).symlink(p('/open/x'), '/secret/x')
  await as(admin).symlink(p('/secret/y'), '/secret/x')
  await as(admin).symlink(p('/way'), '/open')
  const reader = (path: string) => as({ userId: 0, role: 'guest', may: [], onlyPath: p(path) })
  t.equal(await text(reader('/open/x').read(p('/open/x'))), 'x')
  await grant('/secret', { deny: ['read'] })
  await t.rejects(reader('/open/x').read(p('/open/x')), { code: 'denied' })
  for (const path of ['/secret/x', '/secret/y', '/open/y', '/way/y']) await reader(path).read(p(path))
})

void t.test('a signed URL asks no grant, whoever it is of', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x' })
  await grant('/a', { deny: ['see'] })
  const signed = as({ ...none, onlyPath: p('/a/x') })
  t.equal(await text(signed.read(p('/a/x'))), 'x')
  t.match(await signed.stat(p('/a/x')), { size: 1 })
})

void t.test('a move asks the credential before it tells what is not seen', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/s/x': 'x' })
  await grant('/s', { deny: ['see'] })
  const answers = async (who: Asker) => {
    const moves = [as(who).move(p('/s/x'), p('/a/y'), keep), as(who).move(p('/a/x'), p('/s/y'), keep)]
    return Promise.all(moves.map(outcome))
  }
  t.same(await answers({}), ['not_found', 'parent_missing'])
  t.same(await answers({ readOnly: true }), ['denied', 'denied'])
  t.same(await answers({ signal: AbortSignal.abort() }), ['unauthenticated', 'unauthenticated'])
})

void t.test('a base folder that a grant does not let a user see is not found', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/home/x': 'x' })
  await grant('/home', { deny: ['see'] })
  const ada = as({ base: '/home' })
  t.equal(await outcome(ada.stat(p('/'))), 'not_found')
  t.equal(await outcome(ada.list(p('/'))), 'not_found')
  t.same(await names(as({ ...only, base: '/home' }), '/'), [], 'empty for who is granted only')
  await grant('/home/x', { allow: ['see'] })
  t.same(await names(ada, '/'), ['x'], 'the way to a grant')
})

void t.test('locks of members that are not seen are not shown', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x', '/a/s': 's' })
  await as(admin).lock(p('/a/s'), lockAsk)
  await grant('/a/s', { deny: ['see'] })
  t.same(await as().locks(p('/a'), { members: ['x', 's'] }), [])
})

void t.test('an upload is judged again when it is published', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x' })
  const file = await as().open(p('/a/new'), 'replace')
  await file.write([Buffer.from('new')], 0)
  await grant('/a', { deny: ['write'] })
  await t.rejects(async () => file.commit?.(), { code: 'denied' })
  await file.close()
  t.same(await names(as(admin), '/a'), ['x'])
})

void t.test('a grant outside of the base folder has no effect in it', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/home/ada/x': 'x', '/other/y': 'y' })
  await grant('/other', { allow: every })
  const ada = as({ ...only, base: '/home/ada' })
  t.same(await names(ada, '/'), [])
  await grant('/home', { allow: ['read'] })
  t.same(await contents(ada), { '/x': 'x' }, 'one above it holds')
})

void t.test('users without grants are answered as before', async (t) => {
  const { as, grant } = await granting(t)
  await fill(as(admin), { '/a/x': 'x' })
  await grant('/a', { deny: ['see'] })
  t.same(await contents(as({ userId: 5 })), { '/a': null, '/a/x': 'x' })
})
