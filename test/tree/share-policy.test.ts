/** Principals of shares in the whole tree: modes, the base of the creator, symlinks, groups and grants. */
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Groups } from '../../src/accounts/groups.js'
import { allPermissions } from '../../src/accounts/principal.js'
import { asPath as p, root, within } from '../../src/base/path.js'
import type { ShareMode } from '../../src/base/rights.js'
import type { Asker } from '../accounts/principals.js'
import { grantRow, userRow } from '../database/store-rows.js'
import { openLocal } from '../drivers/env.js'
import { fill, lockAsk, names, newTree, overwrite, sourceOf, text } from './tree-fixture.js'
import t from 'tap'

/** A visitor of a share of user 1. */
function visitor(base: string, mode: ShareMode = 'read', accountBase = '/', fields: Asker = {}): Asker {
  return { base, folder: within(p(accountBase), p(base)), share: { id: 'x', pseudonym: 'p', mode }, ...fields }
}

const admin: Asker = { role: 'admin', userId: 9 }

void t.test('each mode permits what it is for, and the root of a share is not changed', async (t) => {
  const { as } = await newTree(t)
  await fill(as(admin), { '/docs/a': 'a', '/docs/deep/b': 'b', '/beside': 'x' })
  const can = async (work: Promise<unknown>) =>
    work.then(
      () => true,
      () => false,
    )
  const tries = async (mode: ShareMode) => {
    const fs = as(visitor('/docs', mode))
    return {
      list: await can(fs.list(root)),
      read: await can(text(fs.read(p('/a')))),
      add: await can(fs.write(p('/new'), sourceOf('new'))),
      replace: await can(fs.write(p('/new'), sourceOf('newer'))),
      folder: await can(fs.mkdir(p('/made'))),
      time: await can(fs.setAttributes(p('/a'), { modified: new Date(1000) })),
      properties: await can(fs.setProperties(p('/a'), [])),
      lock: await can(fs.lock(p('/a'), lockAsk)),
      refresh: await can(fs.list(root, { refresh: true })),
      rename: await can(fs.move(p('/a'), p('/c'), overwrite)),
      move: await can(fs.move(p('/a'), p('/deep/a'), overwrite)),
      copy: await can(fs.copy(p('/a'), p('/c'), overwrite)),
      remove: await can(fs.remove(p('/a'))),
      root: (await can(fs.write(root, sourceOf('')))) || (await can(fs.mkdir(root))) || (await can(fs.remove(root))),
    }
  }
  const nothing = {
    ...{ list: false, read: false, add: false, replace: false, folder: false, time: false, lock: false },
    ...{ properties: false, refresh: false, rename: false, move: false, copy: false, remove: false, root: false },
  }
  t.same(await tries('read'), { ...nothing, list: true, read: true })
  t.same(await tries('upload'), { ...nothing, add: true, replace: true })
  const changes = { add: true, replace: true, folder: true, time: true, lock: true, properties: true, copy: true }
  t.same(await tries('both'), { ...nothing, list: true, read: true, ...changes })
})

void t.test('visitors copy if the creator may, replace no folder, and see few properties', async (t) => {
  const { as } = await newTree(t)
  await fill(as(admin), { '/docs/a': 'a', '/docs/deep/b': 'b' })
  const set = (name: string, value = '1', namespace = 'urn:schemas-microsoft-com:') => [
    { set: { namespace, name, value, language: '' } },
  ]
  await as(admin).setProperties(p('/docs/a'), [...set('note', 'of the admin'), ...set('Win32FileAttributes')])
  const fs = as(visitor('/docs', 'both'))
  t.match(await fs.properties(p('/a')), [{ name: 'Win32FileAttributes' }])
  t.match((await fs.memberProperties(root))?.get('a'), [{ name: 'Win32FileAttributes' }])
  for (const change of [set('note'), set('Win32FileAttributes', 'long'), set('Win32FileAttributes', '1', 'DAV:')]) {
    await t.rejects(fs.setProperties(p('/a'), change), { code: 'denied' })
  }
  await fs.setProperties(p('/a'), set('Win32FileAttributes', '00000020'))
  await t.rejects(fs.copy(p('/a'), p('/deep'), overwrite), { code: 'denied' })
  await t.rejects(fs.copy(p('/deep'), root, overwrite))
  t.equal(await text(fs.read(p('/deep/b'))), 'b')
  for (const may of [
    ['share', 'write'],
    ['share', 'copy'],
  ] as const) {
    const bare = as(visitor('/docs', 'both', '/', { may: [...may] }))
    await t.rejects(bare.copy(p('/a'), p('/c'), overwrite), { code: 'denied' }, may.join())
  }
})

void t.test('no permission is passed on but those of the mode, by groups and grants neither', async (t) => {
  const { as, store, rule, dependencies } = await newTree(t)
  await fill(as(admin), { '/docs/.hidden': 'x', '/docs/closed/y': 'y', '/docs/a': 'a' })
  await rule('/docs', { hide: '^\\.', hideSub: true })
  await rule('/docs/closed', { password: 'x', passwordSub: true })
  const groups: Pick<Groups, 'of'> = {
    of: () => ({
      groups: [1],
      permissions: allPermissions,
      isAdmin: true,
      requiresTwoStep: false,
      requiresProvider: false,
    }),
  }
  const fs = as(visitor('/docs', 'both', '/', { groups }))
  t.equal(fs.principal.role, 'general')
  t.same(await names(fs, '/'), ['a', 'closed'])
  await t.rejects(fs.list(p('/closed')), { code: 'password_required' })
  await t.rejects(fs.remove(p('/a')), { code: 'denied' })
  t.throws(() => fs.principal.withWholeTree(), { code: 'denied' })
  t.throws(() => fs.principal.withDownloadPermissions(), { code: 'denied' })
  await store.users.insert(userRow({ username: 'ada' }))
  await store.grants.insert(grantRow({ userId: 1, path: p('/docs'), allow: ['remove', 'write', 'share'] }))
  await dependencies.grants.reload()
  const granted = as(visitor('/docs', 'read', '/', { may: [] }))
  t.same(await names(granted, '/'), ['a', 'closed'], 'a grant permits to share')
  await t.rejects(granted.remove(p('/a')), { code: 'denied' })
  await t.rejects(granted.write(p('/b'), sourceOf('b')), { code: 'denied' })
})

void t.test('what the creator may not share is not seen, and grants do not apply to an admin', async (t) => {
  const { as, store, dependencies } = await newTree(t)
  await fill(as(admin), { '/docs/open/a': 'a', '/docs/kept/way/b': 'b', '/docs/c': 'c' })
  await store.users.insert(userRow({ username: 'ada' }))
  const put = async (path: string, fields: Parameters<typeof grantRow>[0]) => {
    await store.grants.insert(grantRow({ userId: 1, path: p(path), ...fields }))
    await dependencies.grants.reload()
  }
  await put('/docs/kept', { deny: ['share'] })
  const fs = as(visitor('/docs'))
  t.same(await names(fs, '/'), ['c', 'open'])
  await t.rejects(fs.stat(p('/kept')), { code: 'not_found' })
  await put('/docs/kept/way', { allow: ['see', 'share'] })
  t.same(await names(fs, '/'), ['c', 'kept', 'open'], 'the way to it is seen')
  t.same(await names(fs, '/kept'), ['way'])
  t.equal(await text(fs.read(p('/kept/way/b'))), 'b')
  t.same(await names(as(visitor('/docs', 'read', '/', { role: 'admin' })), '/'), ['c', 'kept', 'open'])
  const bare = as(visitor('/docs', 'read', '/', { may: [] }))
  await t.rejects(bare.assertAllowed('share', root), { code: 'denied' }, 'without the permission to share')
  t.same(await names(bare, '/'), ['kept'], 'only what a grant permits')
  const only = as(visitor('/docs', 'read', '/', { may: ['share'], grantedOnly: true }))
  await t.rejects(only.stat(p('/c')), { code: 'not_found' })
})

void t.test('a share is below the base of its creator, by whole names, and so are targets of symlinks', async (t) => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'tidegate-shares-')))
  t.teardown(() => rm(folder, { recursive: true }))
  const { as } = await newTree(t, { '/': { driverOf: () => openLocal(folder) } })
  await fill(as(admin), { '/home/ann/docs/a': 'a', '/home/ann/b': 'b', '/home/bob/c': 'c', '/data/cy/d': 'd' })
  const link = (path: string, target: string) => as(admin).symlink(p(path), target)
  await link('/home/ann/docs/beside', '/home/ann/b')
  await link('/home/ann/docs/own', '/home/ann/docs/a')
  await link('/home/ann/docs/out', '/home/bob/c')
  await link('/home/ann/bob', '/home/bob')
  await link('/home/ann/docs2', '/home/ann/docs')
  await link('/home/cy', '/data/cy')
  const fs = as(visitor('/home/ann/docs', 'read', '/home/ann'))
  t.equal(await text(fs.read(p('/own'))), 'a')
  for (const name of ['/beside', '/out']) await t.rejects(fs.read(p(name)), { code: 'denied' }, name)
  await t.rejects(as(visitor('/home/ann/bob', 'read', '/home/ann')).list(root), { code: 'denied' })
  t.same(await names(as(visitor('/home/ann/docs2', 'read', '/home/ann')), '/'), ['a', 'beside', 'out', 'own'])
  t.equal(await text(as(visitor('/home/cy', 'read', '/home/cy')).read(p('/d'))), 'd', 'the base may be a symlink')
  await t.rejects(as(visitor('/home/ann/none', 'both', '/home/ann')).write(p('/x'), sourceOf('x'), { parents: true }))
  t.same(await names(as(admin), '/home/ann'), ['b', 'bob', 'docs', 'docs2'], 'nothing is made')
})

void t.test('hidden segments of a root hide it, except those that an administrator has assigned', async (t) => {
  const { as, rule } = await newTree(t)
  await fill(as(admin), { '/home/ann/docs/a': 'a' })
  await rule('/', { hide: '^(ann|docs)$', hideSub: true })
  await t.rejects(as(visitor('/home/ann/docs', 'read', '/home/ann')).list(root), { code: 'hidden' })
  await as({ base: '/home/ann/docs', may: [] }).list(root)
  await as(visitor('/home/ann/docs', 'read', '/home/ann/docs')).list(root)
})
