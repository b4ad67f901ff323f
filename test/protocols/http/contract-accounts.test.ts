/** Authentication of requests: the messages that existing clients expect for ended and invalid sessions. */
import { createHash } from 'node:crypto'
import jsonwebtoken from 'jsonwebtoken'
import t from 'tap'
import { keyLine } from './key-line.js'
import { adminPassword, Served, serve } from './served.js'

const done = { code: 200, message: 'success', data: null }

async function userId(admin: Served, username: string): Promise<number> {
  return admin.gateway.accounts.users.byName(username)?.id ?? 0
}

void t.test('each way to end a session has its own message', async (t) => {
  const admin = await serve(t)
  const { users } = admin.gateway.accounts
  const told = (served: Served) => served.post('/api/fs/list', { path: '/' })
  const ended = (message: string) => ({ code: 401, message, data: null })

  const disabled = await admin.as('disabled', [])
  await users.update(await userId(admin, 'disabled'), { disabled: true })
  t.strictSame(await told(disabled), ended('Current user is disabled, replace please'))
  const refusal = { code: 400, message: 'Current user is disabled, replace please', data: null }
  t.strictSame(await admin.post('/api/auth/login', { username: 'disabled', password: 'password' }), refusal)
  t.strictSame(await admin.post('/api/auth/login', { username: 'disabled', password: 'wrong' }), {
    code: 400,
    message: 'Invalid username or password',
    data: null,
  })
  await users.update(await userId(admin, 'disabled'), { disabled: false })
  t.match(await told(disabled), { code: 401 }, 'an ended session remains invalid')

  const deleted = await admin.as('deleted', [])
  await admin.post(`/api/admin/user/delete?id=${await userId(admin, 'deleted')}`)
  t.strictSame(await told(deleted), ended('failed find user: record not found'))
  await admin.as('deleted', [])
  t.match(await told(deleted), { code: 401 }, 'also for a new account of that name')

  const renamed = await admin.as('renamed', [])
  await admin.post('/api/admin/user/update', { id: await userId(admin, 'renamed'), username: 'other' })
  t.strictSame(await told(renamed), ended('failed find user: record not found'))

  const changed = await admin.as('changed', [])
  await admin.post('/api/me/update', { username: 'changed', password: 'new' }, { authorization: changed.token })
  t.strictSame(await told(changed), ended('Password has been changed, login please'))

  const one = await admin.as('twice', [])
  const { data } = await admin.post('/api/auth/login', { username: 'twice', password: 'password' })
  const other = new Served(admin.url, admin.gateway, (data as { token: string }).token)
  t.not(one.token, other.token, 'two sign-ins within a second create two sessions')
  t.match(await one.get('/api/auth/logout'), done)
  t.strictSame(await told(one), ended('token is invalidated'))
  t.match(await told(other), { code: 200 })
})

void t.test('a token that this server did not issue is rejected', async (t) => {
  const admin = await serve(t)
  const claims = jsonwebtoken.decode(admin.token) as Record<string, unknown>
  t.match(claims, { username: 'admin', pwd_ts: 0, exp: Number, nbf: Number, iat: Number, jti: String })
  t.equal(Number(claims.exp) - Number(claims.iat), 48 * 3600)
  const [head = '', body = '', signature = ''] = admin.token.split('.')
  const unsigned = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')
  for (const token of [
    'rubbish',
    `${head}.${body}.`,
    `${unsigned}.${body}.`,
    `${unsigned}.${body}.${signature}`,
    jsonwebtoken.sign(claims, 'another key'),
    jsonwebtoken.sign(claims, 'another key', { algorithm: 'HS512' }),
    `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`,
  ]) {
    t.strictSame(await admin.get('/api/me', { authorization: token }), {
      code: 401,
      message: 'token is invalidated',
      data: null,
    })
  }
  t.match(await admin.get(`/api/me?token=${admin.token}`, { authorization: '', cookie: `token=${admin.token}` }), {
    code: 401,
    message: 'Guest user is disabled, login please',
  })
})

void t.test('the permanent token authenticates the admin, and remains valid after sign-out', async (t) => {
  const admin = await serve(t)
  const machine = new Served(admin.url, admin.gateway, admin.gateway.settings.get('token'))
  t.match(await machine.get('/api/me'), { data: { username: 'admin', role: 2 } })
  t.match(await machine.get('/api/auth/logout'), done)
  t.match(await machine.get('/api/me'), { code: 200 })
  t.match(await machine.get('/api/me', { authorization: `Bearer ${machine.token}` }), { code: 200 })
  t.match(await machine.get('/api/me', { authorization: machine.token.slice(0, -1) }), { code: 401 })
})

void t.test('login/hash accepts only the lower-case digest of the password with its suffix', async (t) => {
  const admin = await serve(t)
  const hash = createHash('sha256').update(`${adminPassword}-https://github.com/alist-org/alist`).digest('hex')
  const signIn = (password: string) => admin.post('/api/auth/login/hash', { username: 'admin', password })
  t.match(await signIn(hash), { code: 200, data: { token: String } })
  for (const wrong of [adminPassword, hash.toUpperCase(), hash.slice(1), '']) {
    t.match(await signIn(wrong), { code: 400, message: 'Invalid username or password' })
  }
  t.match(await admin.post('/api/auth/login', { username: 'admin', password: hash }), { code: 400 })
})

void t.test('after five failures the address is locked, even for the right password', async (t) => {
  const admin = await serve(t)
  const signIn = (username: string, password: string) => admin.post('/api/auth/login', { username, password })
  for (const name of ['admin', 'nobody', 'admin', 'nobody', 'admin']) {
    t.match(await signIn(name, 'wrong'), { code: 400, message: 'Invalid username or password' })
  }
  t.strictSame(await signIn('admin', adminPassword), {
    code: 429,
    message:
      'Too many unsuccessful sign-in attempts have been made using an incorrect username or password, Try again later.',
    data: null,
  })
  t.match(await admin.get('/api/me'), { code: 200 }, 'existing sessions continue')
})

void t.test('accounts have the same fields in every response, and keys have all of theirs', async (t) => {
  const admin = await serve(t)
  const familyFields = 'allow_ldap base_path disabled id otp password permission role sso_id username'.split(' ')
  const fields = [...familyFields, 'allow_from', 'expires', 'granted_only', 'grants', 'groups'].sort()
  const own = Object.keys((await admin.get('/api/me')).data as object)
  t.strictSame(own.sort(), [...familyFields, 'granted_only', 'groups', 'two_step_set_up_required'].sort())
  const { content } = (await admin.get('/api/admin/user/list')).data as { content: { id: number }[] }
  for (const user of content) {
    t.strictSame(Object.keys(user).sort(), fields)
    t.match(user, {
      password: '',
      allow_ldap: true,
      otp: false,
      id: Number,
      role: Number,
      permission: Number,
      disabled: Boolean,
    })
    t.strictSame((await admin.get(`/api/admin/user/get?id=${user.id}`)).data, user)
  }
  const title = ' not trimmed '
  t.match(await admin.post('/api/me/sshkey/add', { title, key: `# a note\n\n${keyLine()}\n${keyLine()}\n` }), done)
  t.match(await admin.post('/api/me/sshkey/add', { title: 'b', key: `no-pty,command="a b" ${keyLine()}` }), done)
  const keys = ((await admin.get('/api/me/sshkey/list')).data as { content: object[]; total: number }).content
  t.equal(keys.length, 2)
  t.strictSame(Object.keys(keys[0] ?? {}).sort(), ['added_time', 'fingerprint', 'id', 'last_used_time', 'title'])
  t.match(keys, [
    { id: Number, title, fingerprint: /^SHA256:[A-Za-z0-9+/]{43}$/, added_time: /^20.*Z$/, last_used_time: /^20.*Z$/ },
    { title: 'b' },
  ])
})
