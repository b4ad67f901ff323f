/** Symlinks on disk: rules, locks and base folders apply to the target of a symlink. */
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { flags, symlinkTypes, names, status, string, type PacketClient } from '../protocols/sftp/packet-client.js'
import { everyField } from './fields.js'
import { addRule, addUser, busy, closedFolders, giveaways, mark, packets, send, startWorld, store } from './world.js'

const makeSymlink = (session: PacketClient, target: string, at: string) =>
  session.status(symlinkTypes.symlink, string(target), string(at))

void t.test('a rule applies to a path that is reached through a symlink to an ancestor', async (t) => {
  const world = await startWorld(t)
  const session = await packets(t, world, 'mallory')
  t.equal(await makeSymlink(session, '/', '/open/self'), status.ok, 'a symlink to a readable folder is allowed')
  const before = await world.untouched()
  for (const field of (await everyField(t, world)).filter(({ kind }) => kind === 'path')) {
    for (const target of [
      '/locked',
      '/theirs',
      '/veiled',
      '/veiled.txt',
      ...closedFolders.map((each) => `${each}/there.txt`),
    ]) {
      await store(world.all, '/team/open/bait', 'mine')
      const answer = await field.say(`/open/self${target}`)
      const given = giveaways.find((giveaway) => answer.includes(giveaway))
      if (given !== undefined) t.fail(`${field.title} of /open/self${target} gives away ${given}`, { answer })
      for (const { token } of world.gateway.locks.list()) await world.gateway.locks.break(token)
      if ((await session.stat('/open/self', 7)) === status.noSuchFile) await makeSymlink(session, '/', '/open/self')
    }
    t.same(await world.untouched(), before, field.title)
    t.same(await world.loot('/team/open/sub'), [], field.title)
  }
  t.equal(await session.get('/open/self/open/sub/file'), 'mine', 'a readable file is reached')
  const through = await session.list('/open/self')
  t.notOk(
    [...through.keys()].some((name) => name.startsWith('veiled') || name === 'theirs'),
    'hidden entries are hidden here, too',
  )
})

void t.test('no chain of symlinks leads out of the base folder', async (t) => {
  const world = await startWorld(t)
  const session = await packets(t, world, 'mallory')
  for (const folder of ['/open/a', '/open/a/b', '/open/a/b/c']) await world.all.mkdir(asPath(`/team${folder}`))
  await makeSymlink(session, '/', '/open/self')
  await makeSymlink(session, '../../..', '/open/a/b/top')
  const tries: readonly (readonly [target: string, at: string, read: string])[] = [
    ['../there.txt', '/up', '/up'],
    ['self/../there.txt', '/open/up', '/open/up'],
    ['self/../team-secret', '/open/up2', '/open/up2/there.txt'],
    ['a/b/top/../there.txt', '/open/up3', '/open/up3'],
    ['../../there.txt', '/open/self/up4', '/up4'],
    ['../there.txt', '/open/self/up5', '/up5'],
    ['../../../there.txt', '/open/a/b/top/up6', '/up6'],
    ['./x/../../../there.txt', '/open/up7', '/open/up7'],
    ['/../there.txt', '/open/up8', '/open/up8'],
    ['/open/self/../../there.txt', '/open/up9', '/open/up9'],
  ]
  for (const [target, at, read] of tries) {
    await makeSymlink(session, target, at)
    t.notMatch(await session.get(read), mark, `${at} -> ${target}`)
  }
  // A symlink whose target is within the base folder, until it is moved through another symlink.
  await store(world.all, '/team/open/a/b/there.txt', 'mine')
  t.equal(await makeSymlink(session, '../there.txt', '/open/a/b/c/moving'), status.ok)
  t.equal(await session.get('/open/a/b/c/moving'), 'mine')
  await session.status(names.rename, string('/open/a/b/c/moving'), string('/open/self/moving'))
  t.notMatch(await session.get('/moving'), mark)
  t.notMatch(await session.get('/open/self/moving'), mark)
})

void t.test('symlinks that exist on the disk do not lead a user out of their base folder', async (t) => {
  const world = await startWorld(t)
  const disk = join(world.dataFolder, 'files')
  await symlink('../../team-secret', join(disk, 'team/open/sibling'))
  await symlink('../../there.txt', join(disk, 'team/open/above'))
  await symlink(join(disk, 'team-secret'), join(disk, 'team/open/absolute'))
  await symlink('sub', join(disk, 'team/open/inside'))
  const before = await world.untouched()
  for (const field of (await everyField(t, world)).filter(({ kind }) => kind === 'path')) {
    for (const said of [
      '/open/sibling/there.txt',
      '/open/sibling/gone',
      '/open/above',
      '/open/absolute/there.txt',
      '/open',
    ]) {
      await store(world.all, '/team/open/bait', 'mine')
      const answer = await field.say(said)
      const given = giveaways.find((giveaway) => answer.includes(giveaway))
      if (given !== undefined) t.fail(`${field.title} of ${said} gives away ${given}`, { answer })
      for (const { token } of world.gateway.locks.list()) await world.gateway.locks.break(token)
    }
    t.same(await world.untouched(), before, field.title)
  }
  await world.all.mkdir(asPath('/team/open/sub'), { parents: true })
  await store(world.all, '/team/open/sub/file', 'mine')
  const session = await packets(t, world, 'mallory')
  if ((await session.stat('/open/inside', 7)) === status.noSuchFile) await makeSymlink(session, 'sub', '/open/inside')
  t.equal(await session.get('/open/inside/file'), 'mine', 'symlinks within the base folder are followed')
})

void t.test('locks and write rules apply to files that are reached through a symlink', async (t) => {
  const world = await startWorld(t)
  await addRule(world, '/shown', { writeUsers: [1], writeUsersSub: true })
  await store(world.all, '/shown/file', 'as it was')
  await store(world.all, '/free/file', 'as it was')
  await addUser(world, 'oscar', busy)
  const session = await packets(t, world, 'oscar')
  const write = async (path: string): Promise<number> => {
    const handle = await session.open(path, flags.write)
    if (typeof handle === 'number') return handle
    const written = await session.write(handle, 0, 'changed')
    return (await session.close(handle)) || written
  }
  t.equal(await makeSymlink(session, '../shown/file', '/free/link'), status.ok)
  t.equal(await makeSymlink(session, '../shown', '/free/folder'), status.ok)
  t.not(await write('/free/link'), status.ok)
  t.not(await write('/free/folder/file'), status.ok)
  t.not(await session.put('/free/folder/new', 'x').catch(() => status.denied), status.ok)
  const hardLink = await session.extended('hardlink@openssh.com', string('/shown/file'), string('/free/hard'))
  t.not(hardLink.body.readUInt32BE(0), status.ok, 'a hard link would permit writing to it')
  t.equal(await session.get('/shown/file'), 'as it was')

  t.equal(await makeSymlink(session, 'file', '/free/other'), status.ok)
  await world.all.lock(asPath('/free/file'), { scope: 'exclusive', deep: false, owner: '', seconds: 60 })
  t.not(await write('/free/other'), status.ok, 'locked by its other path')
  t.equal(await session.get('/free/file'), 'as it was')
})

void t.test('a signed URL through a symlink does not bypass the rules of the target', async (t) => {
  const world = await startWorld(t)
  const session = await packets(t, world, 'mallory')
  await store(world.all, '/team/open/own', 'mine')
  await makeSymlink(session, 'own', '/open/first')
  await makeSymlink(session, '/', '/open/self')
  const paths = ['/team/open/self/locked/there.txt', '/team/open/self/veiled.txt', '/team/open/self/theirs/there.txt']
  for (const signAll of ['true', 'false']) {
    await world.gateway.settings.set(new Map([['sign_all', signAll]]))
    for (const path of paths) {
      for (const query of ['', `?sign=${world.gateway.signedUrls.sign(asPath(path))}`]) {
        const { status: answered, text } = await send(world.url, 'GET', `/d${path}${query}`)
        t.ok(answered >= 400, `${path}${query}`)
        t.notMatch(text, mark)
      }
    }
    const sign = world.gateway.signedUrls.sign(asPath('/team/open/first'))
    t.equal((await send(world.url, 'GET', `/d/team/open/first?sign=${sign}`)).text, 'mine', 'a readable file is served')
  }
})
