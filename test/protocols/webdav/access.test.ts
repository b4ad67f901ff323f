/** Authentication and authorization of WebDAV requests, and their errors. */
import t from 'tap'
import { permissionBits, type Permission } from '../../../src/accounts/principal.js'
import { asPath, root } from '../../../src/base/path.js'
import { startGateway, type RunningGateway } from '../../gateway.js'
import { ruleRow } from '../../database/store-rows.js'
import { basic, propfind, sender, texts } from './dav-client.js'

const password = 'p:ss wörd+/='

async function createUser(running: RunningGateway, username: string, permissions: readonly Permission[]) {
  const permission = permissions.reduce((sum, each) => sum | permissionBits[each], 0)
  const user = { username, password, basePath: root, role: 'general', permission, disabled: false, ssoId: '' } as const
  return running.gateway.accounts.users.create(user)
}

void t.test('access by WebDAV', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { gateway } = running
  const admin = sender(running)
  for (const folder of ['/open', '/ruled', '/closed']) await admin('MKCOL', folder)
  for (const file of ['/open/file', '/ruled/seen', '/ruled/secret', '/closed/file']) await admin('PUT', file, {}, file)
  await gateway.rules.create(ruleRow({ path: asPath('/ruled'), hide: '^secret', hideSub: true }))
  await gateway.rules.create(ruleRow({ path: asPath('/closed'), password: 'open sesame', passwordSub: true }))

  await t.test('a user without the WebDAV read permission is rejected', async (t) => {
    await createUser(running, 'nobody', ['write'])
    const send = sender(running, { authorization: basic('nobody', password) })
    t.equal((await send('PROPFIND', '/', { depth: '0' })).status, 403)
    t.equal((await send('GET', '/open/file')).status, 403)
  })

  await t.test('a user with the WebDAV read permission only may not change anything', async (t) => {
    await createUser(running, 'reader', ['webdavRead', 'write', 'remove'])
    const send = sender(running, { authorization: basic('reader', password) })
    t.equal((await send('GET', '/open/file')).body, '/open/file')
    t.equal((await send('PUT', '/open/file', {}, 'x')).status, 403)
    t.equal((await send('DELETE', '/open/file')).status, 403)
    t.equal((await send('MKCOL', '/open/new')).status, 403)
  })

  await t.test('a body is not interpreted before its sender is authorized', async (t) => {
    const malformed = '<D:propertyupdate'
    const nobody = sender(running, { authorization: basic('nobody', password) })
    for (const method of ['PROPFIND', 'PROPPATCH', 'LOCK']) {
      t.equal((await nobody(method, '/open/file', { depth: '0' }, malformed)).status, 403, method)
    }
    const reader = sender(running, { authorization: basic('reader', password) })
    t.equal((await reader('PROPPATCH', '/open/file', {}, malformed)).status, 403)
    t.equal((await reader('LOCK', '/open/file', {}, malformed)).status, 403)
    t.equal((await reader('PROPFIND', '/open/file', { depth: '0' }, malformed)).status, 400)
    t.equal((await reader('PROPFIND', '/ruled/secret', { depth: '0' }, malformed)).status, 404)
  })

  await t.test('hidden entries are not found and not listed', async (t) => {
    const send = sender(running, { authorization: basic('reader', password) })
    t.equal((await send('GET', '/ruled/secret')).status, 404)
    const { body } = await send('PROPFIND', '/ruled', { depth: '1' }, propfind('<D:displayname/>'))
    t.same(texts(body, 'displayname'), ['ruled', 'seen'])
  })

  await t.test('a folder with a password is listed, and access to its members is rejected', async (t) => {
    const send = sender(running, { authorization: basic('reader', password) })
    const { body } = await send('PROPFIND', '/', { depth: '1' }, propfind('<D:displayname/>'))
    t.ok(texts(body, 'displayname').includes('closed'))
    t.equal((await send('PROPFIND', '/closed', { depth: '1' })).status, 403)
    t.equal((await send('GET', '/closed/file')).status, 403)
  })

  await t.test('a Bearer token signs in like a password', async (t) => {
    const address = '127.0.0.1'
    const token = await gateway.accounts.signIn.issueToken({
      username: 'reader',
      password: { plain: password },
      address,
    })
    const send = sender(running, { authorization: `Bearer ${token}` })
    t.equal((await send('GET', '/open/file')).status, 200)
    const wrong = await sender(running, { authorization: 'Bearer nonsense' })('GET', '/open/file')
    t.match(wrong, { status: 401, headers: { 'www-authenticate': /^Basic / } })
  })

  await t.test('an enabled guest needs no credentials, and its password is used as folder password', async (t) => {
    const guest = gateway.accounts.users.byName('guest')
    if (!guest) throw new Error('there is no guest')
    t.equal((await sender(running, { authorization: '' })('GET', '/open/file')).status, 401)
    await gateway.accounts.users.update(guest.id, { disabled: false, permission: permissionBits.webdavRead })
    const anonymous = sender(running, { authorization: '' })
    t.equal((await anonymous('GET', '/open/file')).status, 200)
    t.match(await anonymous('PUT', '/open/new', {}, 'x'), { status: 401, headers: { 'www-authenticate': /^Basic / } })
    t.equal((await anonymous('GET', '/closed/file')).status, 401)
    const knowing = sender(running, { authorization: basic('guest', 'open sesame') })
    t.equal((await knowing('GET', '/closed/file')).body, '/closed/file')
    t.equal((await sender(running, { authorization: basic('guest', 'wrong') })('GET', '/closed/file')).status, 401)
  })

  await t.test('a disabled user is rejected at once', async (t) => {
    const { id } = await createUser(running, 'leaver', ['webdavRead'])
    const send = sender(running, { authorization: basic('leaver', password) })
    t.equal((await send('GET', '/open/file')).status, 200)
    await gateway.accounts.users.update(id, { disabled: true })
    t.ok([401, 403].includes((await send('GET', '/open/file')).status))
  })

  await t.test('an address with too many failed sign-ins gets 429', async (t) => {
    const send = sender(running, { authorization: basic('reader', 'wrong') })
    let last = await send('GET', '/open/file')
    for (let tries = 0; tries < 20 && last.status === 401; tries++) last = await send('GET', '/open/file')
    t.equal(last.status, 429)
    t.ok(Number(last.headers['retry-after']) > 0)
  })
})
