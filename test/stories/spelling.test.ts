/**
 * On a case-insensitive storage: another spelling does not bypass a rule by any protocol, and each can change a
 * spelling.
 */
import t from 'tap'
import { permissionBits } from '../../src/accounts/principal.js'
import { asPath, root } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import { ruleRow } from '../database/store-rows.js'
import { connectAll } from './protocols.js'

void t.test('names that differ only in case are one name by all three protocols', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory', addition: { case_sensitive: false } } })
  const { gateway, adminPassword } = running
  const admins = await connectAll(running, { username: 'admin', password: adminPassword })
  const [admin] = admins
  if (!admin) throw new Error('no protocol')
  for (const folder of ['/Open', '/Locked', '/Ruled']) t.equal(await admin.makeFolder(folder), 'done')
  for (const file of ['/Locked/File', '/Ruled/secret', '/Ruled/seen']) await admin.put(file, Buffer.from(file))
  await gateway.rules.create(ruleRow({ path: asPath('/LOCKED'), password: 'open sesame', passwordSub: true }))
  await gateway.rules.create(ruleRow({ path: asPath('/Ruled'), hide: '^secret$', hideSub: true }))
  const bits = ['write', 'rename', 'move', 'remove', 'webdavRead', 'webdavManage', 'sftpRead', 'sftpManage'] as const
  const permission = bits.reduce((sum, each) => sum | permissionBits[each], 0)
  await gateway.accounts.users.create({
    username: 'user',
    password: 'password',
    basePath: root,
    role: 'general',
    permission,
    disabled: false,
    ssoId: '',
  })

  const users = await connectAll(running, { username: 'user', password: 'password' })
  for (const protocol of users) {
    await t.test(`another spelling does not circumvent a rule by ${protocol.protocol}`, async (t) => {
      for (const folder of ['/Locked', '/LOCKED', '/locked']) {
        t.equal(await protocol.names(folder), 'refused', folder)
        t.equal(await protocol.get(`${folder}/FILE`), 'refused', folder)
        t.equal(await protocol.put(`${folder}/file`, Buffer.from('x')), 'refused', folder)
        t.equal(await protocol.rename(`${folder}/FILE`, '/Open/File'), 'refused', folder)
      }
      for (const name of ['secret', 'SECRET']) {
        t.match(await protocol.get(`/RULED/${name}`), /^(refused|missing)$/, name)
        t.match(await protocol.put(`/ruled/${name}`, Buffer.from('x')), /^(refused|missing)$/, name)
      }
      t.same(await protocol.names('/RULED'), ['seen'])
    })
  }

  for (const protocol of admins) {
    await t.test(`another spelling names the same entry by ${protocol.protocol}`, async (t) => {
      t.equal(await protocol.put('/Open/Name', Buffer.from(protocol.protocol)), 'done')
      t.equal(await protocol.rename('/Open/Name', '/Open/NAME'), 'done')
      t.same(await protocol.names('/OPEN'), ['NAME'])
      t.equal(await protocol.rename('/Open', '/Open2'), 'done')
      t.equal(await protocol.rename('/open2', '/Open'), 'done')
      t.same(await protocol.names('/open'), ['NAME'])
      t.equal(await protocol.remove('/open/name'), 'done')
    })
  }
  t.same(await admin.get('/locked/file'), Buffer.from('/Locked/File'), 'the protected files are unchanged')
  for (const protocol of [...admins, ...users]) await protocol.close()
})
