/** Which folders can be the root of a Local storage. */
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/base/errors.js'
import { startGateway } from '../../gateway.js'
import { withoutSqlite } from '../../store-location.js'
import { connectHttp } from '../../stories/protocols.js'
import { openLocal } from '../env.js'
import { http } from '../../../protocols/http/index.js'

async function folder(t: Test): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'tidegate-root-'))
  t.teardown(() => rm(made, { recursive: true, force: true }))
  return made
}

void t.test('Local rejects a root that contains the gateway’s own data or lies in it', async (t) => {
  const machine = await folder(t)
  const data = join(machine, 'srv', 'data')
  const closed = [join(data, 'ssh'), join(data, 'spool'), join(data, 'temp')]
  for (const name of ['ssh', 'spool/below', 'files', 'ssh2']) await mkdir(join(data, name), { recursive: true })
  await symlink(data, join(machine, 'link'))
  const open = (root: string) => openLocal(root, {}, { own: { data, protectedPaths: closed } })
  for (const root of [
    '/',
    machine,
    join(machine, 'srv'),
    data,
    `${data}/`,
    join(data, 'ssh'),
    join(data, 'spool/below'),
  ]) {
    await t.rejects(open(root), { code: 'invalid', message: /holds the gateway's own data/ }, root)
  }
  await t.rejects(open(join(machine, 'link')), { code: 'invalid' }, 'through a symlink')
  await t.rejects(open(join(machine, 'link', 'ssh')), { code: 'invalid' }, 'through a symlink in the middle')
  for (const root of [join(data, 'files'), join(data, 'ssh2'), 'files', './files/../files']) {
    await (await open(root)).close?.()
  }
  await t.rejects(open('nothing'), { code: 'invalid', message: `root folder ${join(data, 'nothing')} not exists` })
  await writeFile(join(data, 'file'), '')
  await symlink('circle', join(data, 'circle'))
  for (const [root, fault] of [
    ['file', 'is not a folder'],
    ['file/below', 'is not a folder'],
    ['circle', 'cannot be used: a symlink that leads nowhere'],
  ] as const) {
    await t.rejects(open(root), { code: 'invalid', message: `root folder ${join(data, root)} ${fault}` }, root)
  }
})

void t.test('the reason why such a root is rejected is shown to the admin only', async (t) => {
  const { gateway, dataFolder, url, adminPassword } = await startGateway(t)
  const admin = await connectHttp({ url, davUrl: '', sftpPort: 0 }, { username: 'admin', password: adminPassword })
  const [first] = gateway.storages.list()
  if (first === undefined) throw new Error('nothing is mounted')
  const { id: _id, status: _status, modified: _modified, ...configuration } = first
  const addition = JSON.stringify({ root_folder_path: dataFolder })
  await t.rejects(gateway.storages.create({ ...configuration, mountPath: '/own', addition }), {
    code: 'unavailable',
    reason: /holds the gateway's own data/,
  })
  t.match(gateway.storages.list().find(({ mountPath }) => mountPath === '/own')?.status, dataFolder)
  t.equal(await admin.names('/own'), 'failed')
  const fs = gateway.as(await gateway.accounts.tokens.principalOf(gateway.settings.get('token'), http))
  const failure: unknown = await fs.list('/own' as never).catch((error: unknown) => error)
  t.ok(failure instanceof GatewayError)
  t.notMatch(String(failure), dataFolder)
})

// With PostgreSQL, the first run makes no storage.
void t.test('the first storage follows its data folder when that is moved', { skip: withoutSqlite }, async (t) => {
  const parent = await folder(t)
  const first = await startGateway(t, { dataFolder: join(parent, 'one') })
  const before = await connectHttp(first, { username: 'admin', password: first.adminPassword })
  t.equal(await before.put('/file', Buffer.from('kept')), 'done')
  await first.stop()
  await rename(join(parent, 'one'), join(parent, 'two'))
  const second = await startGateway(t, { dataFolder: join(parent, 'two') })
  const after = await connectHttp(second, { username: 'admin', password: second.adminPassword })
  t.same(await after.get('/file'), Buffer.from('kept'))
  t.equal(await readFile(join(parent, 'two', 'files', 'file'), 'utf8'), 'kept')
})
