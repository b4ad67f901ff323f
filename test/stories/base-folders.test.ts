/** Folders that are users' roots, and what operating systems leave behind: the same at all three doors. */
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { cleanPath } from '../../src/path.js'
import { permissionBits, type Permission } from '../../src/principal.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { connectAll, connectHttp, connectSftp, connectWebDav, type DoorClient } from './doors.js'

const password = 'a good password'
const doors: readonly Permission[] = ['webdavRead', 'webdavManage', 'sftpRead', 'sftpManage']
const every: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove']

async function addUser(running: RunningGateway, username: string, base: string, may: readonly Permission[]) {
  await running.gateway.accounts.users.create({
    username,
    password,
    basePath: cleanPath(base),
    role: 0,
    permission: [...doors, ...may].reduce((sum, each) => sum | permissionBits[each], 0),
    disabled: false,
    ssoId: '',
  })
  return { username, password }
}

const connects = { http: connectHttp, webdav: connectWebDav, sftp: connectSftp }

/** What each door does first for a user who has just come in. */
const firsts: readonly { readonly title: string; readonly act: (door: DoorClient) => Promise<unknown> }[] = [
  { title: 'a listing', act: (door) => door.names('/') },
  { title: 'an upload', act: (door) => door.put('/file', Buffer.from('x')) },
  { title: 'a new folder', act: (door) => door.makeFolder('/folder') },
]

void t.test('the base folder of a user who may write is made when that user first comes to it', async (t) => {
  const running = await startGateway(t)
  const files = join(running.dataFolder, 'files')
  for (const [number, { title, act }] of firsts.entries()) {
    for (const [name, connect] of Object.entries(connects)) {
      const base = `/homes/${name}/${number}`
      const door = await connect(running, await addUser(running, `${name}${number}`, base, every))
      t.same(await act(door), number === 0 ? [] : 'done', `${title} over ${name}`)
      t.same(await door.names('/'), [[], ['file'], ['folder']][number], `${title} over ${name} is seen`)
      await rm(join(files, base), { recursive: true })
      // What another program took away is noticed by the request that misses it.
      if (number === 0) t.equal(await door.names('/'), 'missing', name)
      t.same(await door.names('/').then(() => door.names('/')), [], `${name}: made anew`)
      await door.close()
    }
  }
})

void t.test('a user who may not write finds no base folder, and none is made', async (t) => {
  const running = await startGateway(t)
  for (const door of await connectAll(running, await addUser(running, 'reader', '/nowhere/at all', []))) {
    t.equal(await door.names('/'), 'missing', door.door)
    t.equal(await door.put('/file', Buffer.from('x')), 'refused', door.door)
    await door.close()
  }
  t.same(await readdir(join(running.dataFolder, 'files')), [])
})

void t.test('a base that is a file, or lies in no storage, is not made into anything', async (t) => {
  const running = await startGateway(t)
  const [admin] = await connectAll(running, { username: 'admin', password: running.adminPassword })
  await admin?.put('/file', Buffer.from('x'))
  for (const door of await connectAll(running, await addUser(running, 'ann', '/file/home', every))) {
    t.match(await door.put('/new', Buffer.from('x')), /missing|failed/, door.door)
    await door.close()
  }
  t.same(await admin?.get('/file'), Buffer.from('x'))
})

void t.test('system files are refused where a setting says so, by every door and in every way', async (t) => {
  const running = await startGateway(t)
  const files = join(running.dataFolder, 'files')
  await mkdir(join(files, 'a'))
  const all = await connectAll(running, { username: 'admin', password: running.adminPassword })
  for (const door of all) t.equal(await door.put('/a/.DS_Store', Buffer.from('old')), 'done', door.door)
  await running.gateway.settings.set(new Map([['ignore_system_files', 'true']]))
  for (const door of all) {
    for (const name of ['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir', '._file']) {
      t.equal(await door.put(`/a/${name}`, Buffer.from('x')), 'refused', `${door.door} ${name}`)
    }
    t.equal(await door.makeFolder('/a/@eaDir'), 'refused', door.door)
    t.equal(await door.put(`/a/${door.door}`, Buffer.from('x')), 'done', door.door)
    t.equal(await door.rename(`/a/${door.door}`, '/a/Thumbs.db'), 'refused', `${door.door} by another name first`)
    t.equal(await door.put('/a/thumbs.db.txt', Buffer.from('x')), 'done', `${door.door} a name that is like one`)
  }
  const [http] = all
  t.same(await http?.get('/a/.DS_Store'), Buffer.from('old'), 'what is there can be read')
  t.equal(await http?.makeFolder('/b'), 'done')
  t.equal(await http?.rename('/a/.DS_Store', '/b/.DS_Store'), 'done', 'and moved')
  t.equal(await http?.remove('/b/.DS_Store'), 'done', 'and removed')
  for (const door of all) await door.close()
})
