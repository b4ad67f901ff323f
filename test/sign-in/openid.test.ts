/** Sign-ins at a real provider of OpenID Connect. */
import { generateSync } from 'otplib'
import t from 'tap'
import { permissionBits } from '../../src/accounts/principal.js'
import { until } from '../until.js'
import { startOpenIdProvider } from '../servers/openid-provider.js'
import { sessionCookieAt } from '../session-cookie.js'
import { Browser, posted } from './browser.js'
import { ada, serveSite, useProvider } from './site.js'

void t.test('somebody signs in at the provider, and gets the account that is made for the identity', async (t) => {
  const site = await serveSite(t)
  const provider = await startOpenIdProvider(t, site.url)
  const { accounts } = site.gateway
  await useProvider(site, provider.issuer)
  provider.person = ada
  const start = `${site.url}/api/auth/sso?method=sso_get_token`
  const unknown = await new Browser().go(start)
  t.equal(unknown.status, 403)
  t.match(unknown.body, /not bound to any users/)
  t.match(unknown.body, /@login\?local/)
  t.equal(accounts.users.byName('ada'), undefined)
  await useProvider(site, provider.issuer, {
    sso_auto_register: 'true',
    sso_default_dir: '/home/{username}',
    sso_default_permission: String(permissionBits.write),
  })
  const browser = new Browser()
  const page = await browser.go(start)
  t.equal(page.status, 200)
  t.equal(page.headers.get('cache-control'), 'no-store')
  t.equal(page.headers.get('referrer-policy'), 'no-referrer')
  t.equal(page.headers.get('cross-origin-opener-policy'), null)
  t.match(page.headers.get('content-security-policy'), /script-src 'nonce-[\w+/=]+'/)
  const token = posted(page.body, 'token')
  const me = await site.get('/api/me', { authorization: token })
  t.match(me.data, { username: 'ada', base_path: '/home/ada', permission: permissionBits.write, sso_id: 'ada-1' })
  const again = posted((await browser.go(start)).body, 'token')
  t.match((await site.get('/api/me', { authorization: again })).data, { id: (me.data as { id: number }).id })
  t.equal(accounts.users.list().filter(({ role }) => role === 'general').length, 1)
  const hash = accounts.users.byName('ada')?.passwordHash ?? ''
  t.match(hash, /\$/, 'no password is stored as it is')
})

void t.test('groups of the claim are memberships at every sign-in, and no others are changed', async (t) => {
  const site = await serveSite(t)
  const provider = await startOpenIdProvider(t, site.url)
  const { groups } = site.gateway.accounts
  const newGroup = (name: string) =>
    groups.create({ name, description: '', permission: permissionBits.write, admin: false, members: [] })
  const [sales, own] = [await newGroup('sales'), await newGroup('own')]
  const settings = {
    sso_auto_register: 'true',
    sso_group_map: JSON.stringify({ 'idp-sales': 'sales', 'idp-other': 'not here' }),
    sso_admin_groups: 'idp-admins, idp-root',
    sso_required_groups: 'idp-staff',
  }
  await useProvider(site, provider.issuer, settings)
  const signIn = async (names: unknown) => {
    provider.person = { ...ada, claims: { ...ada.claims, groups: names } }
    const { body } = await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
    if (!body.includes('postMessage')) return body
    const { data } = await site.get('/api/me', { authorization: posted(body, 'token') })
    return data as { id: number; role: number; groups: { name: string }[] }
  }
  t.match(await signIn(undefined), /a group at the provider of which you are none/, 'no claim')
  t.match(await signIn(['idp-sales']), /a group at the provider of which you are none/)
  const me = await signIn(['idp-staff', 'idp-sales', 'idp-admins'])
  if (typeof me === 'string') throw new Error(me)
  t.match(me, { role: 2, groups: [{ name: 'sales' }, { name: 'admins by provider' }] })
  const given = [...groups.of(me.id).groups, own.id]
  await site.gateway.accounts.users.update(me.id, {}, undefined, { groups: given })
  t.match(await signIn('idp-staff'), { role: 0, groups: [{ name: 'own' }] }, 'one group, as a text')
  t.same(groups.get(sales.id)?.members, [])
  await signIn(['idp-staff', 'idp-sales'])
  t.same(groups.get(sales.id)?.members, [me.id])
  await useProvider(site, provider.issuer, { sso_required_groups: '', sso_update_on_login: 'false' })
  await signIn([])
  t.same(groups.get(sales.id)?.members, [me.id], 'they are not followed')
  await useProvider(site, provider.issuer, { sso_update_on_login: 'true' })
  t.match(await signIn(undefined), { groups: [{ name: 'own' }] }, 'no claim, no groups')
  const refused = { code: 'invalid', reason: /JSON object/ }
  await t.rejects(site.gateway.settings.set(new Map([['sso_group_map', '["sales"]']])), refused)
})

void t.test(
  'a sign-in in two steps at the provider counts as one, otherwise the account asks for its code',
  async (t) => {
    const site = await serveSite(t)
    const provider = await startOpenIdProvider(t, site.url)
    const { accounts } = site.gateway
    await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
    const start = `${site.url}/api/auth/sso?method=sso_get_token`
    provider.person = ada
    await new Browser().go(start)
    const id = accounts.users.byName('ada')?.id ?? 0
    const secret = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
    await accounts.users.update(id, { otpSecret: secret })
    provider.person = { ...ada, amr: ['pwd', 'otp', 'mfa'] }
    posted((await new Browser().go(start)).body, 'token')

    provider.person = { ...ada, amr: ['pwd'] }
    const browser = new Browser()
    const page = await browser.go(start)
    t.match(page.headers.get('content-security-policy'), /default-src 'none'.*form-action 'self'/)
    const send = (body: string, code: string, from = browser) => {
      const hidden = /name="secret" value="([\w-]+)"/.exec(body)?.[1] ?? ''
      const form = new URLSearchParams({ secret: hidden, otp_code: code })
      return from.go(`${site.url}/api/auth/sso_code`, {
        method: 'POST',
        body: form,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      })
    }
    const wrong = await send(page.body, 'no code')
    t.match(wrong.body, /The code is wrong/)
    const code = generateSync({ secret })
    t.match((await send(page.body, code)).body, /incorrect or expired state/, 'each form is sent once')
    const token = posted((await send(wrong.body, code)).body, 'token')
    t.match((await site.get('/api/me', { authorization: token })).data, { username: 'ada' })
    const stolen = await new Browser().go(start)
    t.match((await send(stolen.body, '000000', new Browser())).body, /incorrect or expired state/, 'another browser')

    await accounts.users.update(id, { otpSecret: '' })
    const group = { name: 'strict', description: '', permission: 0, admin: false, members: [id] }
    await accounts.groups.create({ ...group, requireTwoStep: true })
    const shown = async (amr: readonly string[]) => {
      provider.person = { ...ada, amr }
      const authorization = posted((await new Browser().go(start)).body, 'token')
      return {
        me: await site.get('/api/me', { authorization }),
        list: await site.post('/api/fs/list', { path: '/' }, { authorization }),
      }
    }
    t.match(await shown(['pwd']), { me: { data: { two_step_set_up_required: true } }, list: { code: 403 } })
    t.match(await shown(['mfa']), { me: { data: { two_step_set_up_required: false } }, list: { code: 200 } })
  },
)

void t.test('signing out ends the session at the provider, and the provider ends sessions here', async (t) => {
  const site = await serveSite(t)
  const provider = await startOpenIdProvider(t, site.url)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  provider.person = ada
  const isStart = (to: URL) => to.pathname === '/' || to.pathname.startsWith('/@')
  const signIn = async (browser: Browser) => {
    await browser.go(`${site.url}/api/auth/sso?method=console`, {}, isStart)
    const cookie = `${sessionCookieAt(site.url)}=${browser.cookie(site.url, sessionCookieAt(site.url)) ?? ''}`
    return { authorization: '', cookie }
  }
  const browser = new Browser()
  const session = await signIn(browser)
  const elsewhere = await signIn(new Browser())
  const window = posted((await browser.go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
  t.match(await site.get('/api/me', session), { data: { username: 'ada' } })

  const foreign = await new Browser({ cookie: session.cookie, 'sec-fetch-site': 'cross-site' }).go(
    `${site.url}/api/auth/sso_logout`,
  )
  t.equal(foreign.url.href, `${site.url}/@login`)
  t.match(await site.get('/api/me', session), { code: 200 }, 'a page of another site signs nobody out')

  await useProvider(site, provider.issuer, { sso_logout_provider: 'true' })
  const page = await browser.go(`${site.url}/api/auth/sso_logout`)
  t.equal(page.url.pathname, '/session/end')
  t.equal(page.url.searchParams.get('post_logout_redirect_uri'), `${site.url}/@login`)
  t.ok(page.url.searchParams.get('id_token_hint'))
  t.match(await site.get('/api/me', session), { code: 401 })
  t.match(await site.get('/api/me', { authorization: window }), { code: 200 })
  const xsrf = /name="xsrf" value="(\w+)"/.exec(page.body)?.[1] ?? ''
  const form = new URLSearchParams({ xsrf, logout: 'yes' })
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const end = await browser.go(`${provider.issuer}/session/end/confirm`, { method: 'POST', body: form, headers })
  t.equal(end.url.href, `${site.url}/@login`)
  const ended = async () => (await site.get('/api/me', { authorization: window })).code === 401
  t.ok(await until(ended), 'the provider has ended what began in its session')
  t.match(await site.get('/api/me', elsewhere), { code: 200 }, 'a session of another browser goes on')
})
