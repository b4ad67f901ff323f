/** The API of sign-in and sign-out, of the own account, and of its SSH keys. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { keyLine } from '../key-line.js'
import { adminPassword, Served, serve } from '../served.js'

const staticHash = (password: string) =>
  createHash('sha256').update(`${password}-https://github.com/alist-org/alist`).digest('hex')

void t.test('signing in and out', async (t) => {
  const admin = await serve(t)
  const nobody = new Served(admin.url, admin.gateway)

  await t.test('returns a token for the password or its static hash', async (t) => {
    const plain = await nobody.post('/api/auth/login', { username: 'admin', password: adminPassword })
    t.match(plain, { code: 200, message: 'success', data: { token: /^ey/ } })
    const hashed = await nobody.post('/api/auth/login/hash', { username: 'admin', password: staticHash(adminPassword) })
    t.match(hashed, { code: 200, data: { token: /^ey/ } })
  })

  await t.test('rejects every kind of wrong credentials with 400 and the same message', async (t) => {
    for (const [path, body] of [
      ['login', { username: 'admin', password: 'wrong' }],
      ['login', { username: 'admin' }],
      ['login', { username: 'nobody', password: 'wrong' }],
    ] as const) {
      t.strictSame(await nobody.post(`/api/auth/${path}`, body), {
        code: 400,
        message: 'Invalid username or password',
        data: null,
      })
    }
    t.match(await nobody.post('/api/auth/login', { password: 'x' }), { code: 400, message: /^username: / })
    const large = await nobody.post('/api/auth/login', { username: 'a'.repeat(70_000) })
    t.match(large, { code: 400, message: 'the body is larger than 65536 bytes' })
  })

  await t.test('accepts the token raw and as Bearer until sign-out', async (t) => {
    const { data } = await nobody.post('/api/auth/login', { username: 'admin', password: adminPassword })
    const { token } = data as { token: string }
    t.match(await nobody.get('/api/me', { authorization: token }), { code: 200, data: { username: 'admin' } })
    t.match(await nobody.get('/api/me', { authorization: `bearer ${token}` }), { code: 200 })
    t.strictSame(await nobody.get('/api/auth/logout', { authorization: token }), {
      code: 200,
      message: 'success',
      data: null,
    })
    t.match(await nobody.get('/api/me', { authorization: token }), { code: 401, message: 'token is invalidated' })
    t.match(
      await nobody.get('/api/auth/logout', { authorization: token }),
      { code: 200 },
      'a repeated sign-out succeeds',
    )
    t.match(await nobody.get('/api/auth/logout'), { code: 200 })
  })

  await t.test('treats a request without a token as the guest, who is disabled at first', async (t) => {
    const refusal = { code: 401, message: 'Guest user is disabled, login please', data: null }
    t.strictSame(await nobody.get('/api/me'), refusal)
    t.strictSame(await nobody.post('/api/fs/list', { path: '/' }), refusal)
    t.match(await nobody.get('/api/me', { authorization: 'rubbish' }), { code: 401, message: 'token is invalidated' })
  })
})

void t.test('/api/me returns the account without its secrets', async (t) => {
  const admin = await serve(t)
  const { data } = await admin.get('/api/me')
  t.match(data, { username: 'admin', password: '', base_path: '/', role: 2, disabled: false, sso_id: '', otp: false })
  t.strictSame(Object.keys(data as object).sort(), [
    'allow_ldap',
    'base_path',
    'disabled',
    'granted_only',
    'groups',
    'id',
    'otp',
    'password',
    'permission',
    'role',
    'sso_id',
    'two_step_set_up_required',
    'username',
  ])
})

void t.test('SSH keys', async (t) => {
  const admin = await serve(t)
  const key = keyLine()
  t.strictSame(await admin.get('/api/me/sshkey/list'), {
    code: 200,
    message: 'success',
    data: { content: [], total: 0 },
  })
  t.match(await admin.post('/api/me/sshkey/add', { title: 'laptop', key }), { code: 200, data: null })
  const { data } = await admin.get('/api/me/sshkey/list?page=1&per_page=10')
  const [shown] = (data as { content: Record<string, unknown>[] }).content
  t.match(shown, { title: 'laptop', fingerprint: /^SHA256:[A-Za-z0-9+/]{43}$/ })
  t.equal(shown?.added_time, shown?.last_used_time)
  t.match(await admin.post('/api/me/sshkey/add', { title: 'laptop', key }), {
    code: 500,
    message: 'key with the same title already exists',
  })
  t.match(await admin.post('/api/me/sshkey/add', { title: '', key }), { code: 400, message: 'request invalid' })
  t.match(await admin.post('/api/me/sshkey/add', { title: 'x' }), { code: 400, message: 'request invalid' })
  t.match(await admin.post('/api/me/sshkey/add', { title: 'x', key: 'rubbish' }), {
    code: 400,
    message: 'provided key invalid',
  })
  t.match(await admin.get('/api/me/sshkey/list?page=x'), { code: 400 })

  const id = String(shown?.id)
  const ann = await admin.as('ann', [])
  for (const other of [id, '99999']) {
    t.match(await ann.post(`/api/me/sshkey/delete?id=${other}`), { code: 404, message: 'failed to get public key' })
  }
  for (const wrong of ['', '?id=', '?id=x', '?id=1.5', '?id=-1', '?id=1&id=2']) {
    t.match(await ann.post(`/api/me/sshkey/delete${wrong}`), { code: 400, message: 'id format invalid' })
  }
  t.match(await admin.post(`/api/me/sshkey/delete?id=${id}`), { code: 200, data: null })
  t.match(await admin.get('/api/me/sshkey/list'), { data: { content: [], total: 0 } })

  const guest = admin.gateway.accounts.users.byUniqueRole('guest')
  await admin.gateway.accounts.users.update(guest?.id ?? 0, { disabled: false })
  const nobody = new Served(admin.url, admin.gateway)
  t.match(await nobody.get('/api/me/sshkey/list'), { code: 401, message: 'user invalid' })
})
