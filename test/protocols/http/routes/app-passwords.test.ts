/** The API of app passwords: they are shown once, listed and deleted, and sign in to WebDAV. */
import t from 'tap'
import { startGateway } from '../../../gateway.js'
import { Served, serve } from '../served.js'
import { http } from '../../../../protocols/http/index.js'

interface AppPassword {
  readonly id: number
  readonly name: string
  readonly password: string
}

const done = { code: 200, message: 'success', data: null }

void t.test('app passwords are created, shown once, listed and deleted', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', ['webdavRead'])
  const add = (fields: object) => ann.post('/api/me/app_password/add', fields)
  const list = async () =>
    (await ann.get('/api/me/app_password/list')).data as { content: AppPassword[]; total: number }
  t.strictSame(await list(), { content: [], total: 0 })

  const { data } = await add({ name: 'phone', protocols: ['webdav'], read_only: true })
  const { password, ...shown } = data as AppPassword
  t.match(password, /^tg-[a-z2-9]{8}-[a-z2-9]{32}$/)
  t.match(shown, {
    name: 'phone',
    prefix: password.slice(0, 11),
    protocols: ['webdav'],
    read_only: true,
    added_time: /^20/,
    last_used_time: null,
  })
  t.strictSame(await list(), { content: [shown], total: 1 })
  t.match(await add({ name: 'laptop' }), { data: { protocols: ['webdav', 'sftp'], read_only: false } })
  t.match(await ann.get('/api/me/app_password/list?page=2&per_page=1'), {
    data: { content: [{ name: 'laptop' }], total: 2 },
  })
  t.match(await add({ name: 'phone' }), { code: 500, message: 'app password with the same name already exists' })
  t.match(await add({}), { code: 400, message: /^name: / })
  t.match(await add({ name: 'x', protocols: ['http'] }), { code: 400, message: /^protocols/ })
  t.match(await add({ name: 'x', protocols: [] }), { code: 400 })

  const bob = await admin.as('bob', [])
  t.match(await bob.post(`/api/me/app_password/delete?id=${shown.id}`), {
    code: 404,
    message: 'app password not found',
  })
  t.match(await ann.post('/api/me/app_password/delete'), { code: 400, message: 'id format invalid' })
  t.strictSame(await ann.post(`/api/me/app_password/delete?id=${shown.id}`), done)
  t.match(await ann.post(`/api/me/app_password/delete?id=${shown.id}`), { code: 404 })

  const { userId } = await admin.gateway.accounts.tokens.principalOf(ann.token, http)
  const path = '/api/admin/user/app_password'
  const { data: seen } = await admin.get(`${path}/list?uid=${userId}`)
  const [laptop] = (seen as { content: AppPassword[] }).content
  t.match(seen, { content: [{ name: 'laptop' }], total: 1 })
  t.notOk(JSON.stringify(seen).includes('digest'))
  t.match(await admin.get(`${path}/list?uid=999`), { code: 404, message: 'user invalid' })
  t.match(await ann.get(`${path}/list?uid=${userId}`), { code: 403 })
  t.strictSame(await admin.post(`${path}/delete?id=${laptop?.id}`), done)
  t.strictSame(await admin.post(`${path}/delete?id=${laptop?.id}`), done, 'a repeated delete succeeds')
  t.strictSame(await list(), { content: [], total: 0 })
})

void t.test('an app password signs in to WebDAV for an account with two-step verification', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { gateway, url, davUrl, adminPassword } = running
  const admin = new Served(url, gateway)
  const { data } = await admin.post('/api/auth/login', { username: 'admin', password: adminPassword })
  admin.token = (data as { token: string }).token
  const made = async (fields: object) =>
    ((await admin.post('/api/me/app_password/add', fields)).data as AppPassword).password
  const writer = await made({ name: 'writer' })
  const reader = await made({ name: 'reader', read_only: true })
  const stranger = await made({ name: 'stranger', protocols: ['sftp'] })
  const { userId } = await gateway.accounts.tokens.principalOf(admin.token, http)
  await gateway.accounts.users.update(userId, { otpSecret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' })

  const ask = async (method: string, password: string, body?: string) => {
    const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
    const response = await fetch(`${davUrl}file`, { method, headers: { authorization }, body: body ?? null })
    await response.arrayBuffer()
    return response.status
  }
  t.equal(await ask('PUT', writer, 'content'), 201)
  t.equal(await ask('GET', reader), 200)
  t.equal(await ask('PUT', reader, 'changed'), 403)
  t.ok([401, 403].includes(await ask('GET', stranger)))
  t.ok([401, 403].includes(await ask('GET', adminPassword)))
  const { data: listed } = await admin.get('/api/me/app_password/list')
  t.match(listed, { content: [{ last_used_time: /^20/ }, { last_used_time: /^20/ }, { last_used_time: null }] })
})
