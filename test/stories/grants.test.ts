/** Grants of a user and of a group, which the API stores, over three protocols: all permit and refuse the same. */
import t from 'tap'
import { permissionBits, type Permission } from '../../src/accounts/principal.js'
import { root } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import { connectAll, type Answer, type ProtocolClient } from './protocols.js'

const held: readonly Permission[] = ['webdavRead', 'webdavManage', 'sftpRead', 'sftpManage']
const text = Buffer.from('x')
/** For what would be made in a folder that is missing, or is not seen. */
const noParent = { http: 'missing', webdav: 'failed', sftp: 'missing' } as const satisfies Readonly<
  Record<ProtocolClient['protocol'], Answer>
>

interface Stage {
  readonly clients: readonly ProtocolClient[]
  /** The tree as an admin sees it. */
  readonly admin: ProtocolClient
}

async function stage(t: Parameters<typeof startGateway>[0]): Promise<Stage> {
  const { gateway, url, davUrl, sftpPort, adminPassword } = await startGateway(t, { driver: { name: 'Memory' } })
  const where = { url, davUrl, sftpPort }
  const [admin] = await connectAll(where, { username: 'admin', password: adminPassword })
  if (admin === undefined) throw new Error('no client')
  for (const folder of ['/open', '/shut', '/shut/way', '/shut/way/goal', '/read', '/team'])
    await admin.makeFolder(folder)
  for (const folder of ['/open', '/shut', '/shut/way', '/shut/way/goal', '/read', '/team']) {
    await admin.put(`${folder}/file`, text)
  }
  const { users, groups } = gateway.accounts
  const { id } = await users.create({
    username: 'ann',
    password: 'password',
    basePath: root,
    role: 'general',
    permission: [...held, 'write', 'rename', 'move', 'copy', 'remove'].reduce(
      (sum, each) => sum + permissionBits[each as Permission],
      0,
    ),
    disabled: false,
    ssoId: '',
  })
  const team = await groups.create({ name: 'team', description: '', permission: 0, admin: false, members: [id] })
  const every = ['write', 'rename', 'move', 'copy', 'remove']
  await gateway.grants.replace({ userId: id }, [
    { path: '/shut', allow: [], deny: ['see'] },
    { path: '/shut/way/goal', allow: ['see', 'read'], deny: [] },
    { path: '/read', allow: [], deny: every },
    { path: '/open/dark', allow: [], deny: ['read'] },
  ])
  await gateway.grants.replace({ groupId: team.id }, [{ path: '/team/inner', allow: [], deny: ['see'] }])
  const clients = await connectAll(where, { username: 'ann', password: 'password' })
  t.teardown(async () => {
    for (const client of [admin, ...clients]) await client.close()
  })
  return { clients, admin }
}

void t.test('what is not seen is not found, and the way to a grant is seen and cannot be changed', async (t) => {
  const { clients } = await stage(t)
  for (const client of clients) {
    await t.test(client.protocol, async (t) => {
      t.same(await client.names('/'), ['open', 'read', 'shut', 'team'])
      t.same(await client.names('/shut'), ['way'], 'a way lists ways and grants only')
      t.same(await client.names('/shut/way'), ['goal'])
      t.same(await client.names('/shut/way/goal'), ['file'])
      t.same(await client.get('/shut/way/goal/file'), text)
      for (const path of ['/shut/file', '/shut/way/file', '/shut/gone']) {
        t.equal(await client.get(path), 'missing', path)
        t.equal(await client.remove(path), await client.remove('/open/gone'), path)
        t.equal(await client.rename(path, '/gone'), await client.rename('/open/gone', '/gone'), path)
        t.equal(await client.put(path, text), noParent[client.protocol], path)
      }
      t.equal(await client.remove('/shut/way'), 'refused', 'it is seen')
      t.equal(await client.rename('/shut', '/shown'), 'refused')
    })
  }
})

void t.test('what a grant lets a user only read cannot be changed', async (t) => {
  const { clients } = await stage(t)
  for (const client of clients) {
    await t.test(client.protocol, async (t) => {
      t.same(await client.names('/read'), ['file'])
      t.same(await client.get('/read/file'), text)
      t.equal(await client.put('/read/file', text), 'refused')
      t.equal(await client.put('/read/new', text), 'refused')
      t.equal(await client.makeFolder('/read/folder'), 'refused')
      t.equal(await client.rename('/read/file', '/read/other'), 'refused')
      t.equal(await client.rename('/read/file', '/open/other'), 'refused')
      t.equal(await client.put('/open/mine', text), 'done')
      t.equal(await client.rename('/open/mine', '/read/mine'), 'refused')
      t.equal(await client.remove('/read/file'), 'refused')
      t.equal(await client.put(`/open/${client.protocol}`, text), 'done', 'permissions hold elsewhere')
    })
  }
})

void t.test('what is seen and not readable is listed, and its content is refused', async (t) => {
  const { clients, admin } = await stage(t)
  await admin.put('/open/dark', text)
  for (const client of clients) {
    await t.test(client.protocol, async (t) => {
      t.same(await client.names('/open'), ['dark', 'file'])
      t.equal(await client.get('/open/dark'), 'refused')
      t.equal(await client.put('/open/dark', text), 'done', 'it may be written')
    })
  }
})

void t.test('a grant of a group follows its folder when that is renamed', async (t) => {
  const { clients, admin } = await stage(t)
  await admin.makeFolder('/team/inner')
  await admin.put('/team/inner/file', text)
  let folder = '/team'
  for (const client of clients) {
    await t.test(client.protocol, async (t) => {
      t.same(await client.names(folder), ['file'])
      t.equal(await client.rename(folder, '/mine'), 'refused', 'what denies below is not shed')
      const renamed = `/team-${client.protocol}`
      t.equal(await admin.rename(folder, renamed), 'done')
      folder = renamed
      t.same(await client.names(folder), ['file'])
      t.equal(await client.get(`${folder}/inner/file`), 'missing')
    })
  }
})
