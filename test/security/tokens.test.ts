/** Session tokens, app passwords, keys and cookies: invalid ones are rejected, and valid ones end when they should. */
import { createHmac } from 'node:crypto'
import jwt from 'jsonwebtoken'
import t from 'tap'
import { allPermissions } from '../../src/accounts/principal.js'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { sessionCookieAt } from '../session-cookie.js'
import {
  addRule,
  addUser,
  basic,
  busy,
  everyPermission,
  packets,
  post,
  send,
  signIn,
  userPassword,
  type Envelope,
} from './world.js'

type Test = Parameters<typeof startGateway>[0]

async function ask({ url }: RunningGateway, headers: Readonly<Record<string, string>>): Promise<Envelope> {
  return JSON.parse((await send(url, 'GET', '/api/me', headers)).text) as Envelope
}

/** Checks that the API and WebDAV reject the token, with and without `Bearer`. */
async function opensNothing(t: Test, running: RunningGateway, token: string, title: string): Promise<void> {
  for (const authorization of [token, `Bearer ${token}`, `bearer ${token}`]) {
    const { code, data } = await ask(running, { authorization })
    t.match({ code, data }, { code: 401, data: null }, `${title}: API`)
  }
  const { status } = await send(running.url, 'PROPFIND', '/dav/', { authorization: `Bearer ${token}`, depth: '0' })
  t.equal(status, 401, `${title}: WebDAV`)
}

const encoded = (value: object | string): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

void t.test('a token must have the algorithm and the key of the server', async (t) => {
  const running = await startGateway(t)
  const { accounts, store } = running.gateway
  const good = await signIn(running, 'admin', running.adminPassword)
  const [head = '', body = '', signature = ''] = good.split('.')
  const claims = jwt.decode(good) as Record<string, unknown>
  const secret = await store.secrets.obtain('session tokens', '')
  const signed = (header: object, payload: object, key: string, digest: string): string => {
    const text = `${encoded(header)}.${encoded(payload)}`
    return `${text}.${createHmac(digest, key).update(text).digest('base64url')}`
  }
  t.equal((await ask(running, { authorization: good })).code, 200)
  const forged: Readonly<Record<string, string>> = {
    none: `${encoded({ alg: 'none', typ: 'JWT' })}.${body}.`,
    'None, in another case': `${encoded({ alg: 'nOnE' })}.${body}.`,
    'none, with the signature of a good one': `${encoded({ alg: 'none' })}.${body}.${signature}`,
    'no signature': `${head}.${body}.`,
    'two parts': `${head}.${body}`,
    'HS512 by our own key': signed({ alg: 'HS512', typ: 'JWT' }, claims, secret, 'sha512'),
    'HS384 by our own key': signed({ alg: 'HS384', typ: 'JWT' }, claims, secret, 'sha384'),
    'RS256 said, HMAC done': signed({ alg: 'RS256', typ: 'JWT' }, claims, secret, 'sha256'),
    'an empty key': signed({ alg: 'HS256', typ: 'JWT' }, claims, '', 'sha256'),
    'a guessed key': signed({ alg: 'HS256', typ: 'JWT' }, claims, 'secret', 'sha256'),
    'a key in the token': signed({ alg: 'HS256', jwk: { kty: 'oct', k: encoded('x') } }, claims, 'x', 'sha256'),
    'a key by its path': signed({ alg: 'HS256', kid: '../../../dev/null' }, claims, '', 'sha256'),
    'another body': `${head}.${encoded({ ...claims, exp: Number(claims.exp) + 1 })}.${signature}`,
    'a bent signature': `${head}.${body}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
    'a cut signature': `${head}.${body}.${signature.slice(0, -4)}`,
    'something behind it': `${good}.x`,
    nothing: '..',
  }
  for (const [title, token] of Object.entries(forged)) await opensNothing(t, running, token, title)

  const admin = accounts.users.byName('admin')
  const odd: Readonly<Record<string, object>> = {
    'a list for the subject': { ...claims, sub: [claims.sub] },
    'a number for the subject': { ...claims, sub: admin?.id },
    'another name': { ...claims, username: 'guest' },
    'an object for the name': { ...claims, username: { toString: 'admin' } },
    'a text for the time of the password': { ...claims, pwd_ts: String(claims.pwd_ts) },
    'a text for its end': { ...claims, exp: 'never' },
    'no end': { ...claims, exp: undefined },
    'a number for its name': { ...claims, jti: 7 },
    'a subject with a sign': { ...claims, sub: `+${String(claims.sub)}.0x` },
    'an inherited subject': { ...claims, sub: '__proto__' },
  }
  for (const [title, payload] of Object.entries(odd)) {
    await opensNothing(t, running, signed({ alg: 'HS256', typ: 'JWT' }, payload, secret, 'sha256'), title)
  }
  t.equal((await send(running.url, 'GET', '/api/me', { authorization: 'x'.repeat(40_000) })).status, 431, 'a huge one')
})

void t.test('an empty permanent token authenticates nobody', async (t) => {
  const running = await startGateway(t)
  const { settings } = running.gateway
  const stored = settings.get('token')
  t.match(await ask(running, { authorization: stored }), { code: 200, data: { username: 'admin' } })
  await settings.set(new Map([['token', '']])).catch(() => undefined)
  for (const authorization of ['', ' ', 'Bearer ', 'Bearer', 'null', 'undefined']) {
    t.match(await ask(running, { authorization }), { code: 401, data: null }, JSON.stringify(authorization))
  }
  for (const authorization of [
    'Bearer',
    'Bearer ',
    'Basic Og==',
    `Basic ${Buffer.from('admin:').toString('base64')}`,
  ]) {
    t.equal((await send(running.url, 'PROPFIND', '/dav/', { authorization })).status, 401, authorization)
  }
})

void t.test('a sign-in issues a new token, independently of tokens in the request', async (t) => {
  const running = await startGateway(t)
  const first = await signIn(running, 'admin', running.adminPassword)
  const { url } = running
  const headers = {
    'content-type': 'application/json',
    authorization: first,
    cookie: `token=${first}; Authorization=${first}`,
  }
  const body = JSON.stringify({ username: 'admin', password: running.adminPassword, token: 'chosen', jti: 'chosen' })
  const answer = await send(url, 'POST', '/api/auth/login', headers, body)
  const { token } = (JSON.parse(answer.text) as { data: { token: string } }).data
  t.not(token, first)
  t.notOk(answer.headers['set-cookie'], 'no cookie is set')
  await send(url, 'GET', '/api/auth/logout', { authorization: first })
  t.equal((await ask(running, { authorization: first })).code, 401)
  t.equal((await ask(running, { authorization: token })).code, 200, 'the other session continues')
})

void t.test('cookies and queries do not authenticate, which prevents cross-site request forgery', async (t) => {
  const running = await startGateway(t)
  const { url, gateway } = running
  const token = await signIn(running, 'admin', running.adminPassword)
  const names = ['token', 'Authorization', 'authorization', 'access_token', 'session', 'tidegate_session', 'jwt']
  const everywhere = [...names, sessionCookieAt(url)]
  const cookie = everywhere.map((name) => `${name}=${token}`).join('; ')
  const query = everywhere.map((name) => `${name}=${token}`).join('&')
  t.equal((await ask(running, { cookie })).code, 401)
  for (const [method, target] of [
    ['GET', `/api/me?${query}`],
    ['POST', `/api/fs/list?${query}`],
    ['POST', `/api/fs/remove?${query}`],
    ['GET', `/api/admin/setting/list?${query}`],
    ['POST', `/api/admin/setting/reset_token?${query}`],
  ] as const) {
    const { text } = await send(url, method, target, { cookie, origin: 'https://evil.example' })
    t.equal((JSON.parse(text) as Envelope).code, 401, `${method} ${target.slice(0, 30)}`)
  }
  // A form of another site can send these headers.
  const form = { 'content-type': 'text/plain', origin: 'https://evil.example', cookie }
  const sent = await send(url, 'POST', '/api/fs/mkdir', form, '{"path":"/by another site"}')
  t.equal((JSON.parse(sent.text) as Envelope).code, 401)
  const dav = await send(url, 'PROPFIND', `/dav/?${query}`, { cookie })
  t.equal(dav.status, 401)

  // The cookie that other clients use contains a folder password, which requires a signed-in user.
  await addRule(running, '/', { password: 'sesame', passwordSub: true })
  await addUser(running, 'ada', busy)
  const list = async (headers: Record<string, string>) =>
    (JSON.parse((await send(url, 'POST', '/api/fs/list', headers, '{}')).text) as Envelope).code
  const authorization = await signIn(running, 'ada')
  t.equal(await list({ cookie: 'browser-password=sesame' }), 401)
  t.equal(await list({ authorization }), 403)
  t.equal(await list({ authorization, cookie: 'x=1; browser-password=sesame' }), 200)
  t.equal(gateway.accounts.users.byName('guest')?.disabled, true)
})

void t.test('a session ends for every protocol at once, and permanently', async (t) => {
  const running = await startGateway(t)
  const { users } = running.gateway.accounts
  const ends: Readonly<Record<string, (id: number) => Promise<unknown>>> = {
    'another password': (id) => users.update(id, { password: 'another good password' }),
    'the same password, set again': (id) => users.update(id, { password: userPassword }),
    'another name': (id) => users.update(id, { username: `renamed ${id}` }),
    'being disabled': (id) => users.update(id, { disabled: true }),
    'being deleted': (id) => users.delete(id),
  }
  for (const [number, [title, end]] of Object.entries(ends).entries()) {
    const username = `user${number}`
    const id = await addUser(running, username, everyPermission)
    const token = await signIn(running, username)
    const session = await packets(t, running, username)
    t.equal((await ask(running, { authorization: token })).code, 200)
    t.equal((await send(running.url, 'PROPFIND', '/dav/', { authorization: basic(username), depth: '0' })).status, 207)
    await end(id)
    await opensNothing(t, running, token, title)
    if (title !== 'the same password, set again') {
      const { status } = await send(running.url, 'PROPFIND', '/dav/', { authorization: basic(username), depth: '0' })
      t.not(status, 207, `${title}: a cached password`)
    }
    await session.closed
    // A later account of the same name is another account.
    if (users.byName(username) === undefined) await addUser(running, username, everyPermission)
    else await users.update(id, { disabled: false, password: userPassword })
    await opensNothing(t, running, token, `${title}, undone`)
  }
})

void t.test('a signed-out token remains invalid after a restart', async (t) => {
  const running = await startGateway(t)
  const ended = await signIn(running, 'admin', running.adminPassword)
  const kept = await signIn(running, 'admin', running.adminPassword)
  await send(running.url, 'GET', '/api/auth/logout', { authorization: ended })
  await running.stop()
  const again = await startGateway(t, { dataFolder: running.dataFolder })
  await opensNothing(t, again, ended, 'signed out before')
  t.equal((await ask(again, { authorization: kept })).code, 200)
})

void t.test('an app password signs in to its protocols only, and never to the API', async (t) => {
  const running = await startGateway(t)
  const { accounts } = running.gateway
  const id = await addUser(running, 'ada', everyPermission)
  const made = async (protocols: readonly string[], readOnly = false): Promise<string> =>
    (await accounts.appPasswords.add(id, { name: `${protocols.join()} ${readOnly}`, protocols, readOnly })).password
  const [dav, sftp, reading] = [await made(['webdav']), await made(['sftp']), await made(['webdav', 'sftp'], true)]
  for (const password of [dav, sftp, reading]) {
    const login = await post(running.url, '/api/auth/login', { username: 'ada', password })
    t.match(login, { code: 400, data: null }, 'no session')
    await opensNothing(t, running, password, 'it is not a token')
    t.equal((await ask(running, { authorization: basic('ada', password) })).code, 401)
  }
  const propfind = async (password: string, username = 'ada') =>
    (await send(running.url, 'PROPFIND', '/dav/', { authorization: basic(username, password), depth: '0' })).status
  t.equal(await propfind(dav), 207)
  t.not(await propfind(sftp), 207)
  await packets(t, running, 'ada', sftp)
  await t.rejects(packets(t, running, 'ada', dav))
  t.not(await propfind(dav, 'admin'), 207, 'of another user')
  const authorization = basic('ada', reading)
  for (const [method, headers] of [
    ['PUT', {}],
    ['MKCOL', {}],
    ['DELETE', {}],
    ['PROPPATCH', {}],
    ['LOCK', {}],
    ['COPY', { destination: `${running.url}/dav/y` }],
    ['MOVE', { destination: `${running.url}/dav/y` }],
  ] as const) {
    const { status } = await send(running.url, method, '/dav/x', { authorization, ...headers })
    t.ok(status === 403 || status === 400, `${method} with a read-only one: ${status}`)
  }
  t.equal(await propfind(reading), 207)
})

void t.test('users cannot change keys, app passwords and two-step verification of others', async (t) => {
  const running = await startGateway(t)
  const { accounts } = running.gateway
  const { url } = running
  const ada = await addUser(running, 'ada', everyPermission)
  await addUser(running, 'eve', everyPermission)
  const pair = await generateKeyPair('ed25519', { comment: 'ada' })
  await accounts.keys.add(ada, 'mine', pair.public)
  const [key] = accounts.keys.list(ada)
  const { row } = await accounts.appPasswords.add(ada, { name: 'mine', protocols: ['webdav'], readOnly: false })
  const token = await signIn(running, 'eve')
  t.match(await post(url, `/api/me/sshkey/delete?id=${key?.id ?? 0}`, {}, token), { code: 404 })
  t.match(
    await post(url, `/api/me/sshkey/delete?id=999999`, {}, token),
    { code: 404 },
    'the same error as for a missing one',
  )
  t.match(await post(url, `/api/me/app_password/delete?id=${row.id}`, {}, token), { code: 404 })
  for (const target of [
    `/api/admin/user/sshkey/list?uid=${ada}`,
    `/api/admin/user/app_password/list?uid=${ada}`,
    `/api/admin/user/get?id=${ada}`,
    '/api/admin/user/list',
    '/api/admin/setting/list',
    '/api/admin/storage/list',
    '/api/admin/meta/list',
  ]) {
    const { text } = await send(url, 'GET', target, { authorization: token })
    t.match(JSON.parse(text), { code: 403, message: 'You are not an admin', data: null }, target)
  }
  for (const target of [
    `/api/admin/user/cancel_2fa?id=${ada}`,
    `/api/admin/user/delete?id=${ada}`,
    `/api/admin/user/sshkey/delete?uid=${ada}&id=${key?.id ?? 0}`,
    `/api/admin/user/app_password/delete?id=${row.id}`,
    '/api/admin/setting/reset_token',
    '//api/admin/setting/reset_token',
    '/api//admin/setting/reset_token',
    '/api/admin/../admin/setting/reset_token',
    '/API/ADMIN/setting/reset_token',
    '/api/admin%2fsetting/reset_token',
    '/api/admin/setting/reset_token/',
  ]) {
    const before = running.gateway.settings.get('token')
    await send(url, 'POST', target, { authorization: token })
    t.equal(running.gateway.settings.get('token'), before, target)
  }
  t.match(await post(url, '/api/me/sshkey/list', {}, token), { code: 405 })
  const own = JSON.parse((await send(url, 'GET', '/api/me/sshkey/list', { authorization: token })).text) as Envelope
  t.match(own, { code: 200, data: { content: [], total: 0 } })
  t.equal(accounts.keys.list(ada).length, 1)
  t.equal(accounts.appPasswords.list(ada).length, 1)

  // Users may change only certain fields of their own account.
  const lifted = {
    id: ada,
    username: 'eve',
    password: '',
    role: 2,
    permission: allPermissions,
    base_path: '/',
    disabled: false,
    otp_secret: '',
  }
  t.match(await post(url, '/api/me/update', lifted, token), { code: 200 })
  t.match(accounts.users.byName('eve'), { role: 'general' })
  t.match(accounts.users.get(ada), { username: 'ada' })
  await post(url, '/api/me/sshkey/add', { title: 'taken', key: pair.public, user_id: ada, uid: ada }, token)
  t.equal(accounts.keys.list(ada).length, 1)
})
