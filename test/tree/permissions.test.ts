/** What a principal may see and change: base folders, hidden names, passwords, permissions, symlinks. */
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { GatewayError, TreeError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { LockedError } from '../../src/locks/webdav-locks.js'
import { openLocal } from '../drivers/env.js'
import {
  altered,
  contents,
  newTree,
  sourceOf,
  text,
  lockAsk,
  overwrite,
  keep,
  fill,
  failing,
  names,
  pagesOf,
} from './tree-fixture.js'

const p = asPath

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

void t.test('the error of a member that cannot be read names the member', async (t) => {
  const { as, rule } = await newTree(t)
  await fill(as(), { '/home/ada/a/open/x': 'x', '/home/ada/a/closed/x': 'x', '/home/ada/a/hidden/x': 'x' })
  await rule('/home/ada/a/closed', { password: 'secret' })
  await rule('/home/ada/a/hidden', { readUsers: [99], password: 'secret' })
  const ada = as({ base: '/home/ada', may: [] })
  const closed = { code: 'password_required', op: 'list', path: '/a/closed' }
  await t.rejects(ada.assertMembersReadable(p('/a'), []), closed)
  await t.rejects(ada.assertMembersReadable(p('/'), ['a']), closed)
  await t.rejects(ada.assertMembersReadable(p('/a'), ['open', 'closed']), closed)
  await t.rejects(ada.assertMembersReadable(p('/a'), ['gone']), { code: 'not_found', path: '/a/gone' })
  for (const [path, given] of [
    ['/', []],
    ['/a', []],
    ['/a', ['closed']],
  ] as const) {
    const visited = async () => {
      for await (const member of ada.members(p(path), given)) t.notMatch(member.path, /hidden/)
    }
    await t.rejects(visited(), closed)
  }
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
