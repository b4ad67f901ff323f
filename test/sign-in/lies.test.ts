/** Answers of a provider that are not accepted, and requests that no browser with the right cookie sends. */
import { SignJWT, UnsecuredJWT, type JWTPayload } from 'jose'
import t, { type Test } from 'tap'
import { serve, type Served } from '../protocols/http/served.js'
import { clientSecret } from '../servers/openid-provider.js'
import { Browser, posted } from './browser.js'
import { LyingProvider, newKeys } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

const minute = 60

/** Strangers are told nothing of the network inside, which the reason is about. */
async function failsBy(t: Test, site: Served, reason: RegExp): Promise<void> {
  const begin = { method: 'sso_get_token', redirectUri: `${site.url}/api/auth/sso_callback`, after: '/' } as const
  const browser = { secret: undefined, address: '127.0.0.1', userAgent: '' }
  const failure = { code: 'invalid', detail: 'provider_failed', reason }
  await t.rejects(site.gateway.singleSignOn.begin(begin, browser, false), failure)
  const message = 'the answer of the provider is not accepted, or there is none (the log of this server says why)'
  t.match(await site.get('/api/auth/sso?method=sso_get_token'), { code: 400, message })
}

void t.test('an ID token is accepted only if it is of the provider, for this client and this sign-in', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const signIn = () => new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
  const seconds = Math.floor(Date.now() / 1000)
  const stranger = await newKeys('first')
  const lies: Readonly<Record<string, Partial<Pick<LyingProvider, 'claims' | 'sign'>>>> = {
    'another issuer': { claims: { iss: 'https://idp.example.org' } },
    'another client': { claims: { aud: 'somebody else' } },
    'another nonce': { claims: { nonce: 'of another sign-in' } },
    'no nonce': { claims: { nonce: undefined } },
    'an expired token': { claims: { iat: seconds - 600, exp: seconds - 2 * minute } },
    'a token of the future': { claims: { nbf: seconds + 10 * minute } },
    'no subject': { claims: { sub: undefined } },
    "a stranger's signature": {
      sign: (claims) =>
        new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'first' }).sign(stranger.privateKey),
    },
    'no signature': { sign: (claims) => Promise.resolve(new UnsecuredJWT(claims as JWTPayload).encode()) },
    'a signature with the secret of the client': {
      sign: (claims) => new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(clientSecret)),
    },
    'no JWT': { sign: () => Promise.resolve('no token') },
  }
  for (const [title, lie] of Object.entries(lies)) {
    Object.assign(provider, { claims: {}, sign: undefined, ...lie })
    const { status, body } = await signIn()
    t.equal(status, 400, title)
    t.match(body, /the answer of the provider is not accepted/, title)
  }
  t.same(
    site.gateway.accounts.users.list().filter(({ role }) => role === 'general'),
    [],
  )
  Object.assign(provider, { claims: { preferred_username: 'ada' }, sign: undefined })
  posted((await signIn()).body, 'token')
  t.ok(provider.hasVerified, 'the code is bound to the client by PKCE')
  await provider.rotate()
  posted((await signIn()).body, 'token')
  provider.claims = { iat: seconds - 5, exp: seconds - minute / 2 }
  posted((await signIn()).body, 'token')
  t.equal(site.gateway.accounts.users.list().filter(({ role }) => role === 'general').length, 1)
})

void t.test('the secret of the client is sent by a method of the provider, by default in a header', async (t) => {
  const site = await serveSite(t)
  for (const [methods, isInHeader] of [
    [undefined, true],
    [['client_secret_basic'], true],
    [['client_secret_post'], false],
    [['client_secret_basic', 'client_secret_post'], false],
  ] as const) {
    const title = methods?.join() ?? 'none is named'
    const provider = await LyingProvider.start(t)
    provider.metadata = { token_endpoint_auth_methods_supported: methods }
    await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
    posted((await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
    t.equal(provider.redeemed.get('client_secret'), isInHeader ? null : clientSecret, title)
    t.equal(provider.redeemedBy?.startsWith('Basic ') === true, isInHeader, title)
  }
})

void t.test('a state is accepted once, from the browser that has begun', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const expired = /incorrect or expired state parameter/
  const isCallback = (to: URL) => to.pathname === '/api/auth/sso_callback'
  const begin = async (browser: Browser) =>
    (await browser.go(`${site.url}/api/auth/sso?method=sso_get_token`, {}, isCallback)).url.href
  const victim = new Browser()
  const attacker = new Browser()
  t.match((await victim.go(await begin(attacker))).body, expired, 'a browser without the cookie')
  await begin(victim)
  t.match((await victim.go(await begin(attacker))).body, expired, 'a browser with the cookie of its own sign-in')
  const [one, other] = [await begin(victim), await begin(victim)]
  posted((await victim.go(other)).body, 'token')
  posted((await victim.go(one)).body, 'token')
  t.match((await victim.go(one)).body, expired, 'a second time')
  const made = new URL(one)
  made.searchParams.set('state', 'made up')
  t.match((await victim.go(made.href)).body, expired)
  const noCode = await victim.go(`${site.url}/api/auth/sso_callback?state=x`)
  t.match(noCode.body, /No code provided/)
  const error = new URL(await begin(victim))
  error.searchParams.delete('code')
  error.searchParams.set('error', 'access_denied')
  error.searchParams.set('error_description', '<script>alert(1)</script> call 0900')
  const { body } = await victim.go(error.href)
  t.match(body, /access_denied/)
  t.notMatch(body, /0900|<script>/, 'words of others are not shown')
})

void t.test('a provider that is down keeps nobody else out, and is asked again', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  provider.status = 503
  const start = `${site.url}/api/auth/sso?method=sso_get_token`
  const page = await new Browser().go(start)
  t.equal(page.status, 400)
  t.match(page.body, /Accounts of this site can sign in with their password/)
  t.match(await site.get('/api/auth/sso?method=sso_get_token'), { code: 400, message: /the provider/ })
  provider.status = 200
  posted((await new Browser().go(start)).body, 'token')
  const large = await LyingProvider.start(t)
  large.metadata = { padding: 'x'.repeat(2 << 20) }
  await useProvider(site, large.issuer)
  await failsBy(t, site, /response is too large/)
  await useProvider(site, 'http://127.0.0.1:1')
  await failsBy(t, site, /ECONNREFUSED/)
  await useProvider(site, provider.issuer, { egress_networks: '' })
  await failsBy(t, site, /network that is not allowed/)
})

void t.test('metadata of another issuer, and addresses that are not of https, are refused', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const ask = () => site.get('/api/auth/sso?method=sso_get_token')
  provider.metadata = { issuer: 'https://accounts.google.com' }
  await useProvider(site, provider.issuer)
  await failsBy(t, site, /issuer/)
  for (const [endpoint, message] of [
    ['http://idp.example.org', /https address/],
    ['file:///etc/passwd', /https address/],
    ['https://me:word@idp.example.org', /https address/],
    ['', /https address/],
  ] as const) {
    await useProvider(site, endpoint)
    t.match(await ask(), { code: 400, message }, endpoint)
  }
})

void t.test('the requests of other clients of this API are answered as they expect', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const ask = (query = '?method=sso_get_token') => site.get(`/api/auth/sso${query}`)
  t.match(await ask(), { code: 403, message: 'Single sign-on is not enabled' })
  await useProvider(site, provider.issuer, { sso_login_platform: '' })
  t.match(await ask(''), { code: 400, message: 'no method provided' })
  t.match(await ask(), { code: 400, message: 'invalid platform' })
  await useProvider(site, provider.issuer, { sso_login_platform: 'Dingtalk' })
  t.match(await ask(), { code: 400, message: /Dingtalk is not supported/ })
  for (const tenant of ['common', 'https://login.microsoftonline.com/organizations/v2.0']) {
    await useProvider(site, tenant, { sso_login_platform: 'Microsoft' })
    t.match(await ask(), { code: 400, message: /the id of your tenant/ })
  }
  await useProvider(site, provider.issuer, { sso_auto_register: 'true', sso_compatibility_mode: 'true' })
  const isToken = (to: URL) => to.pathname === '/@login'
  const { url, headers } = await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`, {}, isToken)
  t.equal(headers.get('cache-control'), 'no-store')
  t.equal(headers.get('referrer-policy'), 'no-referrer')
  t.ok(provider.redeemed.get('redirect_uri')?.endsWith('/api/auth/sso_get_token'))
  const token = url.searchParams.get('token') ?? ''
  t.match((await site.get('/api/me', { authorization: token })).data, { sso_id: 'ada-1' })
})

void t.test('a name at the provider is text, not a part of a page, a path or another account', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true', sso_default_dir: '/home/{username}/x' })
  const signIn = async (sub: string, preferred: unknown) => {
    provider.claims = { sub, preferred_username: preferred }
    provider.userinfo = { sub }
    const token = posted((await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
    return (await site.get('/api/me', { authorization: token })).data as {
      username: string
      base_path: string
      role: number
    }
  }
  t.match(await signIn('1', 'admin'), { username: 'admin-2', role: 0 }, 'no account is taken over')
  t.match(await signIn('2', 'admin'), { username: 'admin-3', role: 0 })
  t.match(await signIn('3', '../../etc'), { base_path: '/home/.._.._etc/x' })
  t.match(await signIn('4', '..'), { base_path: '/home/_/x' })
  t.match(await signIn('5', '</script><script>alert(1)'), { username: '<_script><script>alert(1)' })
  t.match(await signIn('6', ['a list']), { username: '6' })
  t.match(await signIn('7', 'x'.repeat(100_000)), { username: 'x'.repeat(100) })
  Object.assign(provider, { claims: { sub: 'x'.repeat(256) }, userinfo: { sub: 'x'.repeat(256) } })
  const { body } = await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
  t.match(body, /the subject of this identity is not valid/)
  t.match(await signIn('8', 'a:b\u0000\u202e'), { username: 'a_b__' })
  t.match(await signIn('9', '\u{1f600}'.repeat(100)), { username: '\u{1f600}'.repeat(50) }, 'a segment has 255 bytes')
})

void t.test('two accounts at a provider never get one folder, also where case is ignored', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const signIn = async (sub: string, preferred: string) => {
    Object.assign(provider, { claims: { sub, preferred_username: preferred }, userinfo: { sub } })
    const token = posted((await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
    const { data } = await site.get('/api/me', { authorization: token })
    return data as { username: string; base_path: string }
  }
  await useProvider(site, provider.issuer, { sso_auto_register: 'true', sso_default_dir: '/home/{username}' })
  t.match(await signIn('1', 'ADMIN'), { username: 'ADMIN-2', base_path: '/home/ADMIN-2' })
  t.match(await signIn('2', '\uff41dmin'), { username: '\uff41dmin-3' }, 'a full-width letter')
  await useProvider(site, provider.issuer, { sso_default_dir: '/home/{sub}' })
  t.match(await signIn('a_b', 'x'), { base_path: '/home/a_b' })
  const folders: string[] = []
  for (const sub of ['a/b', 'a:b']) folders.push((await signIn(sub, 'x')).base_path)
  for (const folder of folders) t.match(folder, /^\/home\/a_b-[0-9a-f]{16}$/)
  t.not(folders[0], folders[1])
})

void t.test('behind TLS, the cookie that a sign-in needs is one that no other host can set', async (t) => {
  const site = await serve(t, 'https://files.example.test')
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const begun = await fetch(`${site.url}/api/auth/sso?method=sso_get_token`, { redirect: 'manual' })
  const [line = ''] = begun.headers.getSetCookie()
  t.match(line, /^__Host-tidegate_sso=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure$/)
  const { headers } = await fetch(begun.headers.get('location') ?? '', { redirect: 'manual' })
  const { search } = new URL(headers.get('location') ?? '')
  const [, secret = ''] = /=([^;]+)/.exec(line) ?? []
  const complete = async (name: string) =>
    (await fetch(`${site.url}/api/auth/sso_callback${search}`, { headers: { cookie: `${name}=${secret}` } })).text()
  t.match(await complete('tidegate_sso'), /incorrect or expired state/)
  const again = await fetch(`${site.url}/api/auth/sso?method=sso_get_token`, {
    headers: { cookie: `__Host-tidegate_sso=${secret}` },
    redirect: 'manual',
  })
  const to = await fetch(again.headers.get('location') ?? '', { redirect: 'manual' })
  const answer = await fetch(`${site.url}/api/auth/sso_callback${new URL(to.headers.get('location') ?? '').search}`, {
    headers: { cookie: `__Host-tidegate_sso=${secret}` },
  })
  posted(await answer.text(), 'token')
})
