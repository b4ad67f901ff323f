/** Base folders of users, and system files of operating systems: all three protocols behave the same. */
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { permissionBits, type Permission } from '../../src/accounts/principal.js'
import { cleanPath } from '../../src/base/path.js'
import { nodesOfTests, startGateway, type RunningGateway } from '../gateway.js'
import { marker } from '../stored-files.js'
import { connectAll, connectHttp, connectSftp, connectWebDav, type ProtocolClient } from './protocols.js'

const password = 'a good password'
const protocols: readonly Permission[] = ['webdavRead', 'webdavManage', 'sftpRead', 'sftpManage']
const every: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove']

async function addUser(running: RunningGateway, username: string, base: string, may: readonly Permission[]) {
  await running.gateway.accounts.users.create({
    username,
    password,
    basePath: cleanPath(base),
    role: 'general',
    permission: [...protocols, ...may].reduce((sum, each) => sum | permissionBits[each], 0),
    disabled: false,
    ssoId: '',
  })
  return { username, password }
}

const connects = { http: connectHttp, webdav: connectWebDav, sftp: connectSftp }

/** The first request of a signed-in user, for each protocol. */
const firsts: readonly { readonly title: string; readonly act: (protocol: ProtocolClient) => Promise<unknown> }[] = [
  { title: 'a listing', act: (protocol) => protocol.names('/') },
  { title: 'an upload', act: (protocol) => protocol.put('/file', Buffer.from('x')) },
  { title: 'a new folder', act: (protocol) => protocol.makeFolder('/folder') },
]

void t.test('the base folder of a user who may write is created at the first access', async (t) => {
  const running = await startGateway(t)
  const files = join(running.dataFolder, 'files')
  for (const [number, { title, act }] of firsts.entries()) {
    for (const [name, connect] of Object.entries(connects)) {
      const base = `/homes/${name}/${number}`
      const protocol = await connect(running, await addUser(running, `${name}${number}`, base, every))
      t.same(await act(protocol), number === 0 ? [] : 'done', `${title} over ${name}`)
      t.same(
        await protocol.names('/'),
        [[], ['file'], ['folder']][number],
        `${title} over ${name} has a visible effect`,
      )
      await rm(join(files, base), { recursive: true })
      // If another program removes the folder, the next request that misses it creates it again, in each process.
      if (number === 0) t.equal(await protocol.names('/'), 'missing', name)
      const requests = nodesOfTests === 1 ? 1 : 4 * nodesOfTests
      for (let sent = 0; sent < requests; sent++) await protocol.names('/')
      t.same(await protocol.names('/'), [], `${name}: created again`)
      await protocol.close()
    }
  }
})

void t.test('no base folder is created for a user who may not write', async (t) => {
  const running = await startGateway(t)
  for (const protocol of await connectAll(running, await addUser(running, 'reader', '/nowhere/at all', []))) {
    t.equal(await protocol.names('/'), 'missing', protocol.protocol)
    t.equal(await protocol.put('/file', Buffer.from('x')), 'refused', protocol.protocol)
    await protocol.close()
  }
  const names = await readdir(join(running.dataFolder, 'files'))
  t.same(
    names.filter((name) => name !== marker),
    [],
  )
})

void t.test('no base folder is created where a file exists or no storage is mounted', async (t) => {
  const running = await startGateway(t)
  const [admin] = await connectAll(running, { username: 'admin', password: running.adminPassword })
  await admin?.put('/file', Buffer.from('x'))
  for (const protocol of await connectAll(running, await addUser(running, 'ann', '/file/home', every))) {
    t.match(await protocol.put('/new', Buffer.from('x')), /missing|failed/, protocol.protocol)
    await protocol.close()
  }
  t.same(await admin?.get('/file'), Buffer.from('x'))
})

void t.test('with the setting, every protocol rejects the names of system files', async (t) => {
  const running = await startGateway(t)
  const files = join(running.dataFolder, 'files')
  await mkdir(join(files, 'a'))
  const all = await connectAll(running, { username: 'admin', password: running.adminPassword })
  for (const protocol of all) t.equal(await protocol.put('/a/.DS_Store', Buffer.from('old')), 'done', protocol.protocol)
  await running.gateway.settings.set(new Map([['ignore_system_files', 'true']]))
  for (const protocol of all) {
    for (const name of ['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir', '._file']) {
      t.equal(await protocol.put(`/a/${name}`, Buffer.from('x')), 'refused', `${protocol.protocol} ${name}`)
    }
    t.equal(await protocol.makeFolder('/a/@eaDir'), 'refused', protocol.protocol)
    t.equal(await protocol.put(`/a/${protocol.protocol}`, Buffer.from('x')), 'done', protocol.protocol)
    t.equal(
      await protocol.rename(`/a/${protocol.protocol}`, '/a/Thumbs.db'),
      'refused',
      `${protocol.protocol} with a rename from another name`,
    )
    t.equal(await protocol.put('/a/thumbs.db.txt', Buffer.from('x')), 'done', `${protocol.protocol} a similar name`)
  }
  const [http] = all
  t.same(await http?.get('/a/.DS_Store'), Buffer.from('old'), 'existing files can be read')
  t.equal(await http?.makeFolder('/b'), 'done')
  t.equal(await http?.rename('/a/.DS_Store', '/b/.DS_Store'), 'done', 'existing files can be moved')
  t.equal(await http?.remove('/b/.DS_Store'), 'done', 'existing files can be removed')
  for (const protocol of all) await protocol.close()
})
