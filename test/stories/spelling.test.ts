/** Over a storage that folds case: no door lets anybody past a rule by another spelling, and each can change a spelling. */
import t from 'tap'
import { asPath, root } from '../../src/path.js'
import { permissionBits } from '../../src/principal.js'
import { startGateway } from '../gateway.js'
import { ruleRow } from '../src/store-rows.js'
import { connectAll } from './doors.js'

void t.test('names that differ in case alone are one name at all three doors', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory', addition: { case_sensitive: false } } })
  const { gateway, adminPassword } = running
  const admins = await connectAll(running, { username: 'admin', password: adminPassword })
  const [admin] = admins
  if (!admin) throw new Error('no door')
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
    role: 0,
    permission,
    disabled: false,
    ssoId: '',
  })

  const users = await connectAll(running, { username: 'user', password: 'password' })
  for (const door of users) {
    await t.test(`no rule is passed by another spelling over ${door.door}`, async (t) => {
      for (const folder of ['/Locked', '/LOCKED', '/locked']) {
        t.equal(await door.names(folder), 'refused', folder)
        t.equal(await door.get(`${folder}/FILE`), 'refused', folder)
        t.equal(await door.put(`${folder}/file`, Buffer.from('x')), 'refused', folder)
        t.equal(await door.rename(`${folder}/FILE`, '/Open/File'), 'refused', folder)
      }
      for (const name of ['secret', 'SECRET']) {
        t.match(await door.get(`/RULED/${name}`), /^(refused|missing)$/, name)
        t.match(await door.put(`/ruled/${name}`, Buffer.from('x')), /^(refused|missing)$/, name)
      }
      t.same(await door.names('/RULED'), ['seen'])
    })
  }

  for (const door of admins) {
    await t.test(`another spelling is another name for the same thing over ${door.door}`, async (t) => {
      t.equal(await door.put('/Open/Name', Buffer.from(door.door)), 'done')
      t.equal(await door.rename('/Open/Name', '/Open/NAME'), 'done')
      t.same(await door.names('/OPEN'), ['NAME'])
      t.equal(await door.rename('/Open', '/Open2'), 'done')
      t.equal(await door.rename('/open2', '/Open'), 'done')
      t.same(await door.names('/open'), ['NAME'])
      t.equal(await door.remove('/open/name'), 'done')
    })
  }
  t.same(await admin.get('/locked/file'), Buffer.from('/Locked/File'), 'what the rules protect is whole')
  for (const door of [...admins, ...users]) await door.close()
})
