/** Users enable two-step verification and change their own name and password; the guest can do neither. */
import { generateSync } from 'otplib'
import t from 'tap'
import { allPermissions } from '../../../../src/accounts/principal.js'
import { newOtpSecret } from '../../../../src/accounts/otp.js'
import { adminPassword, Served, serve } from '../served.js'

const done = { code: 200, message: 'success', data: null }

void t.test('two-step verification', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const signIn = (code?: string | number) =>
    ann.post('/api/auth/login', { username: 'ann', password: 'password', otp_code: code })

  const { data } = await ann.post('/api/auth/2fa/generate')
  const { qr, secret } = data as { qr: string; secret: string }
  t.match(secret, /^[A-Z2-7]{32}$/, '20 bytes')
  const picture = Buffer.from(qr.replace('data:image/png;base64,', ''), 'base64')
  t.strictSame([picture.readUInt32BE(16), picture.readUInt32BE(20)], [400, 400])
  t.match(await signIn(), { code: 200 }, 'no code is required yet')

  const verify = (fields: object) => ann.post('/api/auth/2fa/verify', fields)
  t.match(await verify({ code: '000000x', secret }), { code: 400, message: 'Invalid 2FA code' })
  t.match(await verify({ code: '123456', secret: 'no base32' }), { code: 400, message: 'Invalid 2FA code' })
  t.match(await verify({ secret }), { code: 400, message: /^code: / })
  t.match(await verify({ code: '123456' }), { code: 400, message: /^secret: / })
  const code = generateSync({ secret })
  t.strictSame(await verify({ code, secret }), done)
  t.match(await ann.get('/api/me'), { data: { otp: true } }, 'this session continues')

  const refusal = { code: 402, message: 'Invalid 2FA code', data: null }
  t.strictSame(await signIn(), refusal)
  t.strictSame(await signIn(''), refusal)
  t.strictSame(await signIn(code), refusal, 'a code is accepted once')
  const next = generateSync({ secret, epoch: Date.now() / 1000 + 30 })
  t.match(await signIn(next), { code: 200, data: { token: /./ } })
  t.strictSame(await signIn(next), refusal)
  t.match(await ann.post('/api/auth/login', { username: 'ann', password: 'wrong', otp_code: next }), { code: 400 })

  const { data: again } = await ann.post('/api/auth/2fa/generate')
  t.not((again as { secret: string }).secret, secret, 'a new secret can be generated at any time')
})

void t.test('recovery codes', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const { accounts } = admin.gateway
  const id = accounts.users.byName('ann')?.id ?? 0
  const renew = async (password = 'password') => {
    const answer = await ann.post('/api/auth/2fa/recovery_codes', { password })
    return { ...answer, codes: (answer.data as { codes: string[] } | null)?.codes ?? [] }
  }
  const signIn = (code?: string, password = 'password') =>
    ann.post('/api/auth/login', { username: 'ann', password, otp_code: code })
  const left = async () => ((await ann.get('/api/me/recovery_codes')).data as { left: number }).left
  const refusal = { code: 402, message: 'Invalid 2FA code' }

  t.match(await renew(), { code: 400, message: 'two-step verification is off: set it up first' })
  await accounts.users.update(id, { otpSecret: newOtpSecret() })
  t.match(await renew(''), { code: 400, message: /^password: / })
  t.match(await renew('wrong'), { code: 400, message: 'the password is wrong', data: null })
  const { codes } = await renew()
  t.equal(new Set(codes).size, 10)
  for (const code of codes) t.match(code, /^[a-km-z2-9]{4}(?:-[a-km-z2-9]{4}){3}$/, '80 random bits')
  t.equal(await left(), 10)

  const [first = '', second = '', third = ''] = codes
  t.match(await signIn(first, 'wrong'), { code: 400 }, 'the password is still required')
  t.match(await signIn(first), { code: 200, data: { token: /./ } })
  t.match(await signIn(first), refusal, 'a code is accepted once')
  t.match(await signIn(` ${second.toUpperCase().replaceAll('-', ' ')} `), { code: 200 }, 'as people type it')
  t.equal(await left(), 8)

  const renewed = await renew()
  t.match(await signIn(third), refusal, 'new codes replace the others')
  t.equal(await left(), 10)
  t.match(await admin.post(`/api/admin/user/cancel_2fa?id=${id}`), done)
  t.equal(await left(), 0, 'turned off')
  await accounts.users.update(id, { otpSecret: newOtpSecret() })
  t.match(await signIn(renewed.codes[0]), refusal)
})

void t.test('the guest cannot change its profile', async (t) => {
  const admin = await serve(t)
  const guest = admin.gateway.accounts.users.byUniqueRole('guest')
  await admin.gateway.accounts.users.update(guest?.id ?? 0, { disabled: false })
  const nobody = new Served(admin.url, admin.gateway)
  for (const path of ['generate', 'verify', 'recovery_codes']) {
    t.match(await nobody.post(`/api/auth/2fa/${path}`), { code: 403, message: 'Guest user can not generate 2FA code' })
  }
  t.match(await nobody.post('/api/me/update', { username: 'x' }), {
    code: 403,
    message: 'Guest user can not update profile',
  })
  t.match(await nobody.get('/api/me/app_password/list'), { code: 401, message: 'user invalid' })
  t.match(await nobody.post('/api/me/app_password/add', { name: 'x' }), { code: 401 })
})

void t.test('the answer to a user who asks for a taken name does not say that the name exists', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const update = (fields: object) => ann.post('/api/me/update', fields)
  const refusal = {
    code: 400,
    message:
      'this user name cannot be used: choose another one, of at most 255 bytes, without control characters, colons and @',
    data: null,
  }
  for (const username of ['admin', 'guest', 'a:b', 'é'.repeat(128)]) {
    t.strictSame(await update({ username, password: '' }), refusal, username.slice(0, 5))
    t.strictSame(await update({ username, password: 'x' }), refusal, username.slice(0, 5))
  }
  t.strictSame(await update({ username: 'ann' }), done, 'the own name is not counted')
  for (const username of ['admin', 'a:b']) await update({ username })
  const throttled = { code: 429, message: 'too many user names have been tried, try again later' }
  for (const username of ['admin', 'a:b', 'free']) t.match(await update({ username }), throttled, username)
  t.strictSame(await update({ username: 'ann', sso_id: '' }), done)
})

void t.test('users change their own name and password', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const update = (fields: object) => ann.post('/api/me/update', fields)
  const { users } = admin.gateway.accounts
  await users.update(users.byName('ann')?.id ?? 0, { ssoId: 'sso' })
  t.strictSame(await update({ username: 'ann', sso_id: 'sso' }), done)
  t.match(await update({ username: 'ann', sso_id: 'of somebody else' }), { code: 403 })
  t.strictSame(await update({ username: 'ann', password: '' }), done)
  t.match(await ann.get('/api/me'), { data: { username: 'ann', sso_id: 'sso' } }, 'omitted fields are unchanged')
  t.match(await update({ sso_id: 'x' }), { code: 400, message: /^username: / })
  t.strictSame(await update({ username: 'ann', password: 'new', role: 2, permission: allPermissions }), done)
  t.match(await ann.get('/api/me'), { code: 401, message: 'Password has been changed, login please' })
  const { data } = await admin.post('/api/auth/login', { username: 'ann', password: 'new' })
  ann.token = (data as { token: string }).token
  t.match(await ann.get('/api/me'), { data: { role: 0, permission: 0 } })
  t.strictSame(await update({ username: 'anna' }), done)
  t.match(await ann.get('/api/me'), { code: 401, message: 'failed find user: record not found' })
  t.match(await admin.post('/api/auth/login', { username: 'anna', password: 'new' }), { code: 200 })
  t.match(await admin.post('/api/auth/login', { username: 'admin', password: adminPassword }), { code: 200 })
})
