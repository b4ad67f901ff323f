/** Repeated credentials of one connection: verified once, and refused as soon as the account changes. */
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import t from 'tap'
import { permissionBits } from '../../../src/accounts/principal.js'
import { root } from '../../../src/base/path.js'
import { startGateway } from '../../gateway.js'
import { basic } from './dav-client.js'

void t.test('a connection that repeats its credentials is verified once', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { accounts } = running.gateway
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const user = await accounts.users.create({
    ...{ username: 'reader', password: 'first', basePath: root, role: 'general', disabled: false, ssoId: '' },
    permission: permissionBits.webdavRead,
  })
  let count = 0
  const verify = accounts.signIn.byPassword.bind(accounts.signIn)
  accounts.signIn.byPassword = (...args) => {
    count += 1
    return verify(...args)
  }
  const statusOf = async (authorization: string) => {
    const get = request(`${running.url}/dav/none`, { agent, headers: { authorization } })
    get.end()
    const [response] = (await once(get, 'response')) as [IncomingMessage]
    response.resume()
    await once(response, 'end')
    return response.statusCode
  }
  const right = basic('reader', 'first')
  for (let round = 0; round < 3; round++) t.equal(await statusOf(right), 404)
  t.equal(count, 1)
  t.equal(await statusOf(basic('reader', 'wrong')), 401)
  t.equal(await statusOf(right), 404)
  const before = count

  await accounts.users.update(user.id, { disabled: true })
  t.equal(await statusOf(right), 403, 'a disabled account')
  await accounts.users.update(user.id, { disabled: false })
  t.equal(await statusOf(right), 404)
  await accounts.users.update(user.id, { password: 'second' })
  t.equal(await statusOf(right), 401, 'an old password')
  t.equal(await statusOf(basic('reader', 'second')), 404)
  await accounts.users.update(user.id, { permission: 0 })
  t.equal(await statusOf(basic('reader', 'second')), 403, 'permissions that were taken away')
  t.ok(count > before)
})
