/** What is added to an account with two-step verification, and then signs in without its code, needs a code. */
import { generateSync } from 'otplib'
import t, { type Test } from 'tap'
import { newOtpSecret } from '../../src/accounts/otp.js'
import { moveClock } from '../moved-clock.js'
import { Served, serve, type Envelope } from '../protocols/http/served.js'
import { sessionCookieAt } from '../session-cookie.js'
import { Authenticator, type CreationOptions } from './authenticator.js'
import { Browser, posted } from './browser.js'
import { LyingProvider } from './lying-provider.js'
import { useProvider } from './site.js'

const site = 'https://files.example.test'
const needsCode = { code: 400, message: /^this needs a code of two-step verification/ }

/** A user with two-step verification, signed in with a password and a code. `code`: one that was not used yet. */
async function withTwoStep(t: Test, admin: Served) {
  t.teardown(() => moveClock(0))
  const ann = await admin.as('ann', [])
  const { users } = admin.gateway.accounts
  const { id } = users.byName('ann')!
  const secret = newOtpSecret()
  let step = 0
  const code = () => {
    moveClock(++step * 31_000)
    return generateSync({ secret, epoch: Date.now() / 1000 })
  }
  await users.update(id, { otpSecret: secret })
  const body = { username: 'ann', password: 'password', otp_code: code() }
  const { data } = await admin.post('/api/auth/login', body)
  return { id, code, ann: new Served(ann.url, ann.gateway, (data as { token: string }).token) }
}

void t.test('a passkey is added with a code, or in a session that began with one', async (t) => {
  const admin = await serve(t, site)
  await admin.gateway.settings.set(new Map([['webauthn_login_enabled', 'true']]))
  const { id, code, ann } = await withTwoStep(t, admin)
  const begin = (who: Served, headers = {}) => who.get('/api/authn/webauthn_begin_registration?name=phone', headers)
  const finish = (who: Served, { data }: Envelope, authenticator: Authenticator) => {
    const { options, session } = data as { options: { publicKey: CreationOptions }; session: string }
    const credential = authenticator.create(options.publicKey)
    return who.post('/api/authn/webauthn_finish_registration', credential, { session })
  }
  t.match(await begin(ann), needsCode)
  t.match(await begin(ann, { 'otp-code': '000000' }), needsCode)
  const right = { 'otp-code': code() }
  const begun = await begin(ann, right)
  t.match(begun, { code: 200 })
  t.match(await begin(ann, right), needsCode, 'a code is used once')
  const authenticator = new Authenticator(site)
  t.match(await finish(ann, begun, authenticator), { code: 200 })
  t.equal((await admin.gateway.store.passkeys.of(id)).length, 1)

  const sign = (await admin.get('/api/authn/webauthn_begin_login')).data as {
    options: { publicKey: Parameters<Authenticator['get']>[0] }
    session: string
  }
  const answer = authenticator.get(sign.options.publicKey)
  const { data } = await admin.post('/api/authn/webauthn_finish_login?username=', answer, { session: sign.session })
  const byPasskey = new Served(ann.url, ann.gateway, (data as { token: string }).token)
  t.match(await finish(byPasskey, await begin(byPasskey), new Authenticator(site)), { code: 200 })
})

void t.test('an identity is linked with a code', async (t) => {
  const admin = await serve(t)
  const provider = await LyingProvider.start(t)
  await useProvider(admin, provider.issuer)
  const { id, code, ann } = await withTwoStep(t, admin)
  const { identities, signIn } = admin.gateway.accounts
  const browser = new Browser()
  const update = async (fields = {}) => {
    const { body } = await browser.go(`${admin.url}/api/auth/sso?method=get_sso_id`)
    const cookie = `tidegate_sso=${browser.cookie(admin.url, 'tidegate_sso') ?? ''}`
    const json = { username: 'ann', password: '', sso_id: posted(body, 'sso_id'), ...fields }
    return ann.post('/api/me/update', json, { cookie })
  }
  t.match(await update(), needsCode)
  t.match(await update({ otp_code: '000000' }), needsCode)
  t.same(identities.of(id), [])
  t.match(await update({ otp_code: code() }), { code: 200 })
  t.match(identities.of(id), [{ subject: 'ada-1' }])
  t.match(await ann.post('/api/me/update', { username: 'ann', password: '', sso_id: '' }), { code: 200 })

  const by = { username: 'ann', password: { plain: 'password' }, code: code(), address: '127.0.0.1' }
  const { secret } = await signIn.openConsoleSession(by, { userAgent: '' })
  browser.cookies.set(new URL(admin.url).origin, new Map([[sessionCookieAt(admin.url), secret]]))
  const asked = await browser.go(`${admin.url}/api/auth/sso?method=link&redirect=/@profile`)
  t.equal(asked.url.pathname, '/api/auth/sso', 'the provider is not asked yet')
  t.match(asked.body, /action="[^"]*\/api\/auth\/sso_link"/)
  t.match(asked.body, /name="redirect" value="\/@profile"/)
  const send = (otpCode: string, headers = {}) => {
    const form = new URLSearchParams({ redirect: '/@profile', otp_code: otpCode })
    return browser.go(`${admin.url}/api/auth/sso_link`, { method: 'POST', body: form, headers })
  }
  t.match((await send('000000')).body, /The code is wrong/)
  const foreign = await send(code(), { origin: 'https://elsewhere.example' })
  t.match(foreign.body, /sign in to the console first/, 'another site cannot send the form')
  const led = await send(code())
  const address = /url=(.*)$/.exec(led.headers.get('refresh') ?? '')?.[1] ?? ''
  t.ok(address.startsWith(provider.issuer), address)
  t.equal((await browser.go(address, {}, (to) => to.pathname === '/@profile')).url.pathname, '/@profile')
  t.match(identities.of(id), [{ subject: 'ada-1' }])
})

void t.test('an identity is not changed together with the name or the password', async (t) => {
  const admin = await serve(t)
  const provider = await LyingProvider.start(t)
  await useProvider(admin, provider.issuer)
  const ann = await admin.as('ann', [])
  const { users, identities } = admin.gateway.accounts
  const { id } = users.byName('ann')!
  await identities.link(id, { kind: 'oidc', issuer: provider.issuer, subject: 'ada-1', name: 'Ada' })
  await users.update(id, { ssoId: 'ada-1' })
  for (const fields of [
    { username: 'ann', password: 'x' },
    { username: 'a/b', password: '' },
    { username: 'bob', password: 'another password' },
  ]) {
    t.match(await ann.post('/api/me/update', { ...fields, sso_id: '' }), { code: 400, message: /first/ })
  }
  t.match(identities.of(id), [{ subject: 'ada-1' }], 'neither is')
  t.match(users.byName('ann'), { id })
  t.match(await ann.post('/api/me/update', { username: 'ann', password: '', sso_id: '' }), { code: 200 })
  t.same(identities.of(id), [])
})
