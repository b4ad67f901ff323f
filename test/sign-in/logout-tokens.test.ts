/** Logout tokens (OpenID Connect Back-Channel Logout 1.0), and sign-ins at GitHub. */
import { SignJWT } from 'jose'
import t from 'tap'
import { EgressGuard } from '../../src/net/egress.js'
import { SingleSignOn } from '../../src/sign-in/single-sign-on.js'
import { listen } from '../protocols/http/listen.js'
import { clientId } from '../servers/openid-provider.js'
import { Browser, posted } from './browser.js'
import { LyingProvider, newKeys } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

void t.test('a logout token ends what it names, and is accepted only of the provider', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const signIn = async (sub: string, sid?: string) => {
    Object.assign(provider, { claims: { sub, sid, preferred_username: sub }, userinfo: { sub } })
    return posted((await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
  }
  const seconds = Math.floor(Date.now() / 1000)
  const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
  const right = { iss: provider.issuer, aud: clientId, iat: seconds, jti: 'one', events, sub: 'ada' }
  const post = async (token: string): Promise<number> => {
    const body = new URLSearchParams({ logout_token: token })
    const { status, headers } = await fetch(`${site.url}/api/auth/sso_backchannel_logout`, { method: 'POST', body })
    t.equal(headers.get('cache-control'), 'no-store')
    return status
  }
  const isIn = async (authorization: string) => (await site.get('/api/me', { authorization })).code === 200
  const [phone, desk, bob] = [await signIn('ada', 'phone'), await signIn('ada', 'desk'), await signIn('bob')]
  const stranger = await newKeys('first')
  const wrong: Readonly<Record<string, string>> = {
    "a stranger's": await new SignJWT(right)
      .setProtectedHeader({ alg: 'RS256', kid: 'first' })
      .sign(stranger.privateKey),
    'no token': 'x',
    'an ID token': await provider.token({ ...right, events: undefined, nonce: 'n' }),
    'one with a nonce': await provider.token({ ...right, nonce: 'n' }),
    'another client': await provider.token({ ...right, aud: 'x' }),
    'another issuer': await provider.token({ ...right, iss: 'https://x' }),
    'an old one': await provider.token({ ...right, iat: seconds - 3600 }),
    nobody: await provider.token({ ...right, sub: undefined }),
  }
  for (const [title, token] of Object.entries(wrong)) t.equal(await post(token), 400, title)
  t.same(await Promise.all([phone, desk, bob].map(isIn)), [true, true, true])
  t.equal(await post(await provider.token({ ...right, sub: undefined, sid: 'phone' })), 200)
  t.same(await Promise.all([phone, desk, bob].map(isIn)), [false, true, true])
  t.equal(await post(await provider.token(right)), 400, 'its id was used')
  t.equal(await post(await provider.token({ ...right, jti: 'two' })), 200)
  t.same(await Promise.all([phone, desk, bob].map(isIn)), [false, false, true])
  t.equal(await post(await provider.token({ ...right, jti: 'three', sub: 'nobody here' })), 200)
})

void t.test('GitHub signs in by OAuth, with its id as the identity', async (t) => {
  const site = await serveSite(t)
  let account: unknown = { id: 583_231, login: 'octocat', name: 'admin' }
  const seen: string[] = []
  const gitHub = await listen(t, (request, response) => {
    const url = new URL(request.url ?? '', 'http://x')
    seen.push(url.pathname)
    t.equal(request.headers.authorization?.startsWith('Basic ') === true, false, 'the secret is a parameter')
    if (url.pathname === '/login/oauth/authorize') {
      const to = new URL(url.searchParams.get('redirect_uri') ?? '')
      to.searchParams.set('code', 'c')
      to.searchParams.set('state', url.searchParams.get('state') ?? '')
      response.writeHead(302, { location: to.href }).end()
      return
    }
    const answer = url.pathname === '/api/v3/user' ? account : { access_token: 'a', token_type: 'bearer', scope: '' }
    const text = typeof answer === 'string' ? answer : JSON.stringify(answer)
    response.writeHead(200, { 'content-type': 'application/json' }).end(text)
  })
  const former = await site.as('former', [])
  const { users } = site.gateway.accounts
  await users.update(users.byName('former')?.id ?? 0, { ssoId: '583231' })
  await useProvider(site, gitHub, { sso_login_platform: 'Github' })
  const start = `${site.url}/api/auth/sso?method=sso_get_token`
  const authorization = posted((await new Browser().go(start)).body, 'token')
  t.match((await site.get('/api/me', { authorization })).data, { username: 'former' })
  t.match(
    await site.post('/api/me/update', { username: 'former', password: 'another password' }, { authorization }),
    { code: 403, message: /ten minutes|recent/ },
    'GitHub does not say when it has asked for a password',
  )
  t.match((await former.get('/api/me/identities')).data, [{ kind: 'oauth', issuer: gitHub, name: 'octocat' }])
  t.same(seen, ['/login/oauth/authorize', '/login/oauth/access_token', '/api/v3/user'])
  account = { id: 1, login: 'former' }
  t.match((await new Browser().go(start)).body, /not bound to any users/, 'the name is not the identity')
  account = { login: 'former' }
  t.match((await new Browser().go(start)).body, /the answer of the provider is not accepted/)
  account = { id: 'former' }
  t.match((await new Browser().go(start)).body, /the answer of the provider is not accepted/)

  account = '<html> of a proxy, with a secret'
  const { accounts, settings, store, audit } = site.gateway
  const log = { info: () => undefined, warn: () => undefined }
  const egress = new EgressGuard(() => '127.0.0.0/8')
  const sso = new SingleSignOn({ accounts, settings, store, audit, egress, log })
  const from = { secret: undefined, address: '127.0.0.1', userAgent: '' }
  const wish = { method: 'console', redirectUri: `${site.url}/api/auth/sso_callback`, after: '/' } as const
  const { page, secret } = await sso.begin(wish, from, false)
  const { headers } = await fetch(page, { redirect: 'manual' })
  const { searchParams } = new URL(headers.get('location') ?? '')
  await t.rejects(sso.complete(searchParams, { ...from, secret }), {
    code: 'invalid',
    reason: 'GitHub has sent no JSON',
  })
})
