/** Allowed networks, ends and required two-step verification in the API: how they are set, and what is answered. */
import { generateSync } from 'otplib'
import t from 'tap'
import { endpoints } from '../../../../protocols/http/endpoints.js'
import { Served, serve } from '../served.js'

const done = { code: 200, message: 'success', data: null }
const from = (address: string) => ({ 'x-forwarded-for': address })
const inside = from('192.0.2.7')
const outside = from('198.51.100.7')

/** A server behind a proxy, whose word on the address of a client counts. */
const served = (t: Parameters<typeof serve>[0]) => serve(t, '', [], { trusted_proxies: ['127.0.0.1'] })

const idOf = ({ gateway }: Served, name: string): number => gateway.accounts.users.byName(name)?.id ?? 0

async function signIn(admin: Served, username: string, headers: Record<string, string>, password = 'password') {
  const { code, message, data } = await admin.post('/api/auth/login', { username, password }, headers)
  return { code, message, token: (data as { token: string } | null)?.token ?? '' }
}

void t.test('users have allowed networks and an end, which an update without them leaves', async (t) => {
  const admin = await served(t)
  const fields = { allow_from: ['192.0.2.0/24', ' 2001:DB8::1 '], expires: '2999-12-31T23:59:59+01:00' }
  t.strictSame(await admin.post('/api/admin/user/create', { username: 'ann', password: 'password', ...fields }), done)
  const id = idOf(admin, 'ann')
  const shown = async () => (await admin.get(`/api/admin/user/get?id=${id}`)).data
  const stored = { allow_from: ['192.0.2.0/24', '2001:db8::1'], expires: '2999-12-31T22:59:59.000Z' }
  t.match(await shown(), stored)
  const update = (changes: object) => admin.post('/api/admin/user/update', { id, username: 'ann', ...changes })
  t.strictSame(await update({}), done)
  t.match(await shown(), stored, 'an update without the fields')
  t.strictSame(await update(stored), done)
  t.match(await shown(), stored, 'what is shown can be sent')
  t.strictSame(await update({ allow_from: [], expires: null }), done)
  t.match(await shown(), { allow_from: [], expires: null })
  for (const [changes, message] of [
    [{ allow_from: ['192.0.2.1/33'] }, /^192\.0\.2\.1\/33 is not an address or a network/],
    [{ allow_from: ['office'] }, /^office is not an address or a network/],
    [{ allow_from: '10.0.0.1' }, 'allow_from: must be a list of networks'],
    [{ expires: 'tomorrow' }, /^expires: must be a time such as/],
    [{ expires: '2030-12-31' }, /^expires: must be a time such as/],
    [{ expires: '9999-12-31T23:59:59-01:00' }, /^expires: must be a time such as/],
  ] as const) {
    t.match(await update(changes), { code: 400, message }, JSON.stringify(changes))
    const created = { username: 'new', password: 'password', ...changes }
    t.match(await admin.post('/api/admin/user/create', created), { code: 400, message }, JSON.stringify(changes))
  }
  t.equal(admin.gateway.accounts.users.byName('new'), undefined)
})

void t.test('an account is refused from other networks, at each request, and behind the proxy', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  const id = idOf(admin, 'ann')
  await admin.post('/api/admin/user/update', { id, username: 'ann', allow_from: ['192.0.2.0/24'] })
  const message = 'this account cannot be used from this network'
  t.match(await ann.get('/api/me', inside), { code: 200 })
  for (let tries = 0; tries < 2; tries++) t.match(await ann.get('/api/me', outside), { code: 401, message })
  t.match(await ann.post('/api/fs/list', { path: '/' }, outside), { code: 401, message })
  t.match(await signIn(admin, 'ann', outside), { code: 400, message })
  t.match(await signIn(admin, 'ann', outside, 'wrong'), { code: 400, message: 'Invalid username or password' })
  t.match(await signIn(admin, 'ann', inside), { code: 200 })
  const answer = await fetch(`${admin.url}/api/auth/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...inside },
    body: JSON.stringify({ username: 'ann', password: 'password' }),
  })
  const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
  const me = (headers: object) => fetch(`${admin.url}/api/me`, { headers: { cookie, ...headers } })
  t.match(await (await me(inside)).json(), { code: 200 })
  t.match(await (await me(outside)).json(), { code: 401, error: 'network_refused' })
})

void t.test('an admin cannot shut out the own account; the permanent token is no account', async (t) => {
  const admin = await served(t)
  const boss = idOf(admin, 'admin')
  const update = (changes: object, headers = inside) =>
    admin.post('/api/admin/user/update', { id: boss, username: 'admin', ...changes }, headers)
  t.match(await update({ allow_from: ['198.51.100.0/24'] }), {
    code: 400,
    message: 'this would lock you out: the address of this request is not in these networks',
  })
  t.match(await update({ expires: '2999-01-01T00:00:00Z' }), {
    code: 400,
    message: /built-in admin cannot have an end/,
  })
  const ann = await admin.as('ann', [])
  const group = await admin.post('/api/admin/group/create', {
    name: 'bosses',
    admin: true,
    members: [idOf(admin, 'ann')],
  })
  t.match(group, { code: 200 })
  const own = { id: idOf(admin, 'ann'), username: 'ann', expires: '2001-01-01T00:00:00Z' }
  t.match(await ann.post('/api/admin/user/update', own), { code: 400, message: /lock you out: the end is in the past/ })
  t.strictSame(await update({ allow_from: ['192.0.2.7'] }), done)
  t.match(await admin.get('/api/me', outside), { code: 401 })
  const token = admin.gateway.settings.get('token')
  const permanent = new Served(admin.url, admin.gateway, token)
  t.match(await permanent.get('/api/me', outside), { code: 200 })
  const elsewhere = { id: boss, username: 'admin', allow_from: ['203.0.113.0/24'] }
  t.strictSame(await permanent.post('/api/admin/user/update', elsewhere, outside), done)
})

void t.test('whoever must set up two-step verification can do that, sign out, and nothing else', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  const id = idOf(admin, 'ann')
  const created = await admin.post('/api/admin/group/create', { name: 'staff', require_two_step: true, members: [id] })
  const groupId = (created.data as { id: number }).id
  const group = async () => (await admin.get(`/api/admin/group/get?id=${groupId}`)).data
  t.match(await group(), { require_two_step: true })
  t.strictSame(await admin.post('/api/admin/group/update', { id: groupId, description: 'all' }), done)
  t.match(await group(), { require_two_step: true, description: 'all' })

  const refused = { code: 403, message: 'this account must set up two-step verification first' }
  t.match(await ann.post('/api/fs/list', { path: '/' }), refused)
  t.match(await ann.get('/api/me/sshkey/list'), refused)
  const answer = await fetch(`${admin.url}/api/fs/zip?path=/`, { headers: { authorization: ann.token } })
  t.equal(answer.status, 403)
  const { token } = await signIn(admin, 'ann', {})
  ann.token = token
  t.match((await ann.get('/api/me')).data, { username: 'ann', otp: false, two_step_set_up_required: true })
  t.match(await ann.post('/api/me/app_password/add', { name: 'x' }), refused)
  const { secret } = (await ann.post('/api/auth/2fa/generate')).data as { secret: string }
  t.strictSame(await ann.post('/api/auth/2fa/verify', { code: generateSync({ secret }), secret }), done)
  t.match((await ann.get('/api/me')).data, { otp: true, two_step_set_up_required: false })
  t.match(await ann.post('/api/fs/list', { path: '/' }), { code: 200 })
  t.strictSame(await admin.post(`/api/admin/user/cancel_2fa?id=${id}`), done)
  t.match(await ann.post('/api/fs/list', { path: '/' }), refused, 'it was turned off')
  t.match(await ann.get('/api/auth/logout'), { code: 200 })
  t.match(await ann.get('/api/me'), { code: 401 })
})

void t.test('the endpoints for those who must set up two-step verification are these', (t) => {
  t.same(
    endpoints.filter(({ setsUpTwoStep }) => setsUpTwoStep).map(({ path }) => path),
    [
      ...['/api/auth/session/confirm', '/api/auth/2fa/generate', '/api/auth/2fa/verify'],
      ...['/api/auth/session/confirm/passkey/begin', '/api/auth/session/confirm/passkey', '/api/me'],
    ],
  )
  t.end()
})

void t.test('admins by a group, and the built-in one, must set up two-step verification too', async (t) => {
  const admin = await served(t)
  const members = [idOf(admin, 'admin')]
  t.match(await admin.post('/api/admin/group/create', { name: 'staff', require_two_step: true, members }), {
    code: 200,
  })
  t.match(await admin.get('/api/admin/user/list'), { code: 403, message: /two-step verification first/ })
  const permanent = new Served(admin.url, admin.gateway, admin.gateway.settings.get('token'))
  t.match(await permanent.get('/api/admin/user/list'), { code: 200 })
})

void t.test('app passwords have a folder and an end', async (t) => {
  const admin = await served(t)
  const add = (fields: object) => admin.post('/api/me/app_password/add', { name: 'phone', ...fields })
  const made = await add({ folder: 'photos/', expires: '2999-01-01T00:00:00Z' })
  t.match(made.data, { folder: '/photos', expires: '2999-01-01T00:00:00.000Z', password: /^tg-/ })
  t.match((await add({ name: 'laptop' })).data, { folder: '/', expires: null })
  const listed = (await admin.get('/api/me/app_password/list')).data
  t.match(listed, { content: [{ folder: '/photos' }, { folder: '/', expires: null }] })
  for (const [fields, answer] of [
    [{ folder: '/a/../..' }, { code: 403, message: 'using relative path is not allowed' }],
    [{ folder: 'a\0' }, { code: 400, message: 'a path cannot hold a NUL character' }],
    [{ expires: '2001-01-01T00:00:00Z' }, { code: 400, message: 'the end of an app password must be in the future' }],
    [{ expires: 'never' }, { code: 400, message: /^expires: / }],
  ] as const) {
    t.match(await add({ ...fields, name: 'wrong' }), answer, JSON.stringify(fields))
  }
})
