/** A session alone changes no credential: what needs a sign-in within ten minutes, and how it is confirmed. */
import { generateSync } from 'otplib'
import { moveClock } from '../../../moved-clock.js'
import { documentedEndpoints } from '../../../../protocols/http/endpoints.js'
import { newOtpSecret } from '../../../../src/accounts/otp.js'
import { adminPassword, Served, serve } from '../served.js'
import t from 'tap'

const minutes = 60_000
const done = { code: 200, message: 'success', data: null }
const refusal = {
  code: 403,
  message: 'this needs a sign-in within the last ten minutes: sign in again',
  data: null,
}

/** The cookie of a new session of the console. */
async function openSession(url: string, username: string, password: string): Promise<string> {
  const response = await fetch(`${url}/api/auth/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username, password }),
  })
  return response.headers.getSetCookie()[0]?.split(';')[0] ?? ''
}

t.beforeEach(() => moveClock(0))
t.teardown(() => moveClock(0))

void t.test('every endpoint that makes, changes or removes a credential says so', (t) => {
  const declared = documentedEndpoints.flatMap(({ path, recentSignIn }) => (recentSignIn === undefined ? [] : [path]))
  const others = documentedEndpoints.flatMap(({ path, method, recentSignIn }) =>
    recentSignIn === undefined && method !== 'get' && !/^\/(?!api\/)|\/(?:fs|task|public)\//.test(path) ? [path] : [],
  )
  t.strictSame([...declared].sort(), [
    '/api/admin/group/create', // a group can make its members admins
    '/api/admin/group/delete',
    '/api/admin/group/update',
    '/api/admin/import',
    '/api/admin/setting/get', // of the permanent token
    '/api/admin/setting/reset_token',
    '/api/admin/setting/save', // of the permanent token, and of who can sign in
    '/api/admin/setting/try_ldap', // sends stored secrets to where the request says
    '/api/admin/setting/try_sso',
    '/api/admin/user/app_password/delete',
    '/api/admin/user/cancel_2fa',
    '/api/admin/user/create',
    '/api/admin/user/delete',
    '/api/admin/user/identity/delete',
    '/api/admin/user/link_ldap',
    '/api/admin/user/passkey/delete',
    '/api/admin/user/sshkey/delete',
    '/api/admin/user/update',
    '/api/admin/webhook/create',
    '/api/admin/webhook/delete',
    '/api/admin/webhook/rotate',
    '/api/admin/webhook/update',
    '/api/auth/2fa/generate',
    '/api/auth/2fa/recovery_codes',
    '/api/auth/2fa/verify',
    '/api/authn/delete_authn',
    '/api/authn/webauthn_begin_registration',
    '/api/authn/webauthn_finish_registration',
    '/api/me/app_password/add',
    '/api/me/app_password/delete',
    '/api/me/identities/delete',
    '/api/me/sshkey/add',
    '/api/me/sshkey/delete',
    '/api/me/update',
  ])
  // Whoever adds an endpoint decides here that it changes no credential.
  t.strictSame([...others].sort(), [
    '/api/admin/connection/end', // its client can connect again
    '/api/admin/explain',
    '/api/admin/index/build',
    '/api/admin/index/clear',
    '/api/admin/index/stop',
    '/api/admin/index/update',
    '/api/admin/lock/break',
    '/api/admin/meta/create',
    '/api/admin/meta/delete',
    '/api/admin/meta/update',
    '/api/admin/session/delete', // ends one
    '/api/admin/setting/default', // changes nothing
    '/api/admin/setting/delete', // of unknown settings
    '/api/admin/setting/set_115',
    '/api/admin/setting/set_115_open',
    '/api/admin/setting/set_aria2',
    '/api/admin/setting/set_qbit',
    '/api/admin/sign-ins/unlock', // the password is asked again
    '/api/admin/storage/create',
    '/api/admin/storage/delete',
    '/api/admin/storage/disable',
    '/api/admin/storage/enable',
    '/api/admin/storage/load_all',
    '/api/admin/storage/qr_answer', // stores nothing
    '/api/admin/storage/qr_code',
    '/api/admin/storage/try', // stores nothing
    '/api/admin/storage/update',
    '/api/admin/user/del_cache', // reads the accounts again
    '/api/admin/webhook/replay', // to where it is sent anyway
    '/api/admin/webhook/test',
    '/api/auth/login', // sign-ins, which require the password
    '/api/auth/login/hash',
    '/api/auth/login/ldap',
    '/api/auth/session',
    '/api/auth/session/confirm',
    '/api/auth/session/confirm/passkey',
    '/api/auth/session/passkey',
    '/api/auth/sso_backchannel_logout', // ends sessions
    '/api/auth/sso_code', // a sign-in
    '/api/auth/sso_link', // asks for a recent sign-in itself, on a page
    '/api/authn/rename_authn',
    '/api/authn/webauthn_finish_login',
    '/api/me/session/delete', // ending sessions must be quick
    '/api/me/session/delete_all',
    '/api/share/create', // shares open files, as signed URLs do, and no account
    '/api/share/delete',
    '/api/share/disable',
    '/api/share/enable',
    '/api/share/list',
    '/api/share/update',
  ])
  t.end()
})

void t.test('a token is enough for ten minutes, the permanent token always', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const update = (who: Served, username: string) => who.post('/api/me/update', { username, password: '' })
  moveClock(10 * minutes - 5_000)
  t.strictSame(await update(ann, 'ann'), done)
  moveClock(10 * minutes)
  t.strictSame(await update(ann, 'ann'), refusal)
  t.match(await ann.post('/api/me/update', { username: '' }), { code: 400 }, 'what is invalid is said first')
  t.match(await ann.get('/api/me'), { code: 200 }, 'the session is valid')
  const { data } = await ann.post('/api/auth/login', { username: 'ann', password: 'password' })
  const again = new Served(ann.url, ann.gateway, (data as { token: string }).token)
  t.strictSame(await update(again, 'ann'), done, 'a new sign-in cures it')

  const permanent = new Served(admin.url, admin.gateway, admin.gateway.settings.get('token'))
  moveClock(48 * 60 * minutes)
  t.strictSame(await permanent.post('/api/admin/user/create', { username: 'eve', password: 'x' }), done)
})

void t.test('no other credential is accepted instead', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const added = await ann.post('/api/me/app_password/add', { name: 'phone' })
  const { password } = added.data as { password: string }
  const basic = (secret: string) => `Basic ${Buffer.from(`ann:${secret}`).toString('base64')}`
  for (const credential of [password, `Bearer ${password}`, basic(password), basic('password')]) {
    const thief = new Served(ann.url, ann.gateway, credential)
    t.match(await thief.post('/api/me/app_password/add', { name: 'more' }), { code: 401 })
  }
})

void t.test('a session of the console is confirmed by the password, and continues', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', [])
  const cookie = await openSession(admin.url, 'ann', 'password')
  const ann = new Served(admin.url, admin.gateway)
  const post = (path: string, body: object) => ann.post(path, body, { cookie })
  const confirm = (password: string, code = '') =>
    post('/api/auth/session/confirm', { password, ...(code !== '' && { otp_code: code }) })
  const add = (name: string) => post('/api/me/app_password/add', { name })
  moveClock(10 * minutes)
  t.strictSame(await add('one'), refusal)
  t.match(await confirm('wrong'), { code: 400, message: 'Invalid username or password' })
  t.strictSame(await add('one'), refusal)
  t.strictSame(await confirm('password'), done)
  t.match(await add('one'), { code: 200 })

  const secret = newOtpSecret()
  const { users, consoleSessions } = admin.gateway.accounts
  const { id } = users.byName('ann')!
  await users.update(id, { otpSecret: secret })
  moveClock(20 * minutes)
  t.match(await confirm('password'), { code: 402, message: 'Invalid 2FA code' })
  t.strictSame(await add('two'), refusal)
  t.strictSame(await confirm('password', generateSync({ secret, epoch: Date.now() / 1000 })), done)
  t.match(await add('two'), { code: 200 })
  t.equal(consoleSessions.list(id).length, 1, 'it is the same session')

  const other = { origin: 'http://elsewhere.example' }
  t.match(await ann.post('/api/auth/session/confirm', { password: 'password' }, { cookie, ...other }), { code: 401 })
})

void t.test('a token is not confirmed: a new sign-in gives another one', async (t) => {
  const admin = await serve(t)
  t.match(await admin.post('/api/auth/session/confirm', { password: adminPassword }), {
    code: 400,
    message: 'only a session of the console can be confirmed: sign in again',
  })
})

void t.test('wrong passwords of confirmations lock the address out', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', [])
  const cookie = await openSession(admin.url, 'ann', 'password')
  const confirm = (password: string) =>
    admin.post('/api/auth/session/confirm', { password }, { cookie, authorization: '' })
  for (let guess = 0; guess < 5; guess++) t.match(await confirm(`wrong ${guess}`), { code: 400 })
  t.match(await confirm('password'), { code: 429 })
  t.match(await admin.post('/api/auth/login', { username: 'ann', password: 'password' }), { code: 429 })
})

void t.test('the permanent token is neither shown nor changed after ten minutes; other settings are', async (t) => {
  const admin = await serve(t)
  const token = admin.gateway.settings.get('token')
  type Row = { readonly key: string; readonly value: string }
  const listed = async () =>
    ((await admin.get('/api/admin/setting/list')).data as Row[]).find(({ key }) => key === 'token')?.value
  t.equal(await listed(), token)
  t.match(await admin.get('/api/admin/setting/get?key=token'), { code: 200, data: { value: token } })
  moveClock(10 * minutes)
  t.equal(await listed(), '')
  t.strictSame(await admin.get('/api/admin/setting/get?key=token'), refusal)
  t.strictSame(await admin.get('/api/admin/setting/get?keys=site_title,token'), refusal)
  t.match(await admin.get('/api/admin/setting/get?key=site_title&keys=token'), { code: 200 })
  t.strictSame(await admin.post('/api/admin/setting/save', [{ key: 'token', value: '' }]), refusal)
  t.strictSame(await admin.post('/api/admin/setting/reset_token'), refusal)
  t.equal(admin.gateway.settings.get('token'), token)
  t.match(await admin.post('/api/admin/setting/save', [{ key: 'site_title', value: 'Ours' }]), { code: 200 })
})

void t.test('who can sign in by a provider, a directory or a passkey is not changed after ten minutes', async (t) => {
  const admin = await serve(t)
  const { settings } = admin.gateway
  const secrets = ['sso_client_secret', 'ldap_manager_password']
  const before = {
    ldap_server: 'ldaps://directory.example',
    sso_admin_groups: 'admins',
    webauthn_login_enabled: 'false',
  }
  await settings.set(new Map([...secrets.map((key) => [key, `${key} here`] as const), ...Object.entries(before)]))
  type Row = { readonly key: string; readonly value: string }
  const shown = async () => {
    const list = (await admin.get('/api/admin/setting/list?groups=7,8')).data as Row[]
    const got = (await admin.get(`/api/admin/setting/get?keys=${secrets.join(',')}`)).data as Row[]
    return [list.filter(({ key }) => secrets.includes(key)), got].map((rows) => rows.map(({ value }) => value))
  }
  const save = (rows: Readonly<Record<string, string>>) =>
    admin.post('/api/admin/setting/save', {
      settings: Object.entries(rows).map(([key, value]) => ({ key, value })),
    })
  const values = secrets.map((key) => `${key} here`)
  t.strictSame(await shown(), [values, values])
  moveClock(10 * minutes)
  const hidden = secrets.map(() => '')
  t.strictSame(await shown(), [hidden, hidden])
  for (const changed of [
    { ldap_server: 'ldaps://evil.example' },
    { sso_admin_groups: 'everybody' },
    { webauthn_login_enabled: 'true' },
    { site_title: 'Ours', sso_login_enabled: 'true' },
    { ldap_manager_password: 'another' },
    { sso_client_secret: 'sso_client_secret here' }, // else a guess could be checked
  ]) {
    t.strictSame(await save(changed), refusal, Object.keys(changed).join())
  }
  t.notOk(settings.isStored('site_title'))
  const page = { ...before, sso_client_secret: '', ldap_manager_password: '', share_preview: 'true' }
  t.match(await save(page), { code: 200 }, 'a page with what it has shown, and another change')
  t.equal(settings.get('share_preview'), 'true')
  t.strictSame(
    secrets.map((key) => settings.get(key)),
    values,
  )

  moveClock(0)
  const moved = { ldap_server: 'ldaps://other.example', ldap_manager_password: '' }
  t.match(await save(moved), { code: 200 })
  t.strictSame(
    secrets.map((key) => settings.get(key)),
    values,
    'an empty secret leaves the stored one',
  )
  t.match(await save({ ldap_manager_password: 'another' }), { code: 200 })
  t.strictSame(
    ['ldap_server', 'ldap_manager_password'].map((key) => settings.get(key)),
    [moved.ldap_server, 'another'],
  )
})

void t.test('a secret of two-step verification is replaced with a code of the old one', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const { accounts } = admin.gateway
  const { users } = accounts
  const { id } = users.byName('ann')!
  const [first, second, third] = [newOtpSecret(), newOtpSecret(), newOtpSecret()]
  const codeOf = (secret: string) => generateSync({ secret, epoch: Date.now() / 1000 })
  const verify = (secret: string, fields: object = {}) =>
    ann.post('/api/auth/2fa/verify', { secret, code: codeOf(secret), ...fields })
  const wrong = { code: 400, message: 'Invalid 2FA code', data: null }
  t.strictSame(await verify(first), done, 'the first one needs nothing else')
  moveClock(minutes)
  t.strictSame(await verify(second), wrong)
  t.strictSame(await verify(second, { current_code: codeOf(second) }), wrong)
  t.strictSame(await verify(second, { code: '000000x', current_code: codeOf(first) }), wrong)
  t.equal(users.get(id)?.otpSecret, first)
  t.strictSame(await verify(second, { current_code: codeOf(first) }), done, 'a wrong new code has not used it up')
  t.equal(users.get(id)?.otpSecret, second)

  moveClock(2 * minutes)
  const proof = { password: { plain: 'password' }, address: '127.0.0.1' }
  const [code = ''] = await accounts.twoStep.renewRecoveryCodes(id, proof)
  t.strictSame(await verify(third, { current_code: code }), done, 'a recovery code serves as well')
  moveClock(3 * minutes)
  t.strictSame(await verify(first, { current_code: code }), wrong)
})

void t.test('admins turn off the two-step verification of others, and with a code their own', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', [])
  const { users } = admin.gateway.accounts
  const [ann, own] = [users.byName('ann')!.id, users.byName('admin')!.id]
  const secret = newOtpSecret()
  const cancel = (id: number, code = '', who = admin) =>
    who.post(`/api/admin/user/cancel_2fa?id=${id}${code === '' ? '' : `&otp_code=${code}`}`)
  const isOn = (id: number) => users.get(id)?.otpSecret !== ''
  for (const id of [ann, own]) await users.update(id, { otpSecret: secret })
  t.strictSame(await cancel(ann), done)
  t.notOk(isOn(ann))
  t.match(await cancel(own), { code: 400, message: 'Invalid 2FA code' })
  t.match(await cancel(own, '000000x'), { code: 400, message: 'Invalid 2FA code' })
  t.ok(isOn(own))
  t.strictSame(await cancel(own, generateSync({ secret })), done)
  t.notOk(isOn(own))
  t.strictSame(await cancel(own), done, 'it is off already')

  await users.update(own, { otpSecret: secret })
  const permanent = new Served(admin.url, admin.gateway, admin.gateway.settings.get('token'))
  t.strictSame(await cancel(own, '', permanent), done)
  t.notOk(isOn(own))
})
