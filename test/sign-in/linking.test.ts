/** Identities that are linked to accounts: by their users, by what earlier programs have stored, and by settings. */
import t from 'tap'
import { sessionCookieAt } from '../session-cookie.js'
import { Browser, posted } from './browser.js'
import { LyingProvider } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

const expired = 'incorrect or expired state parameter'

/** The id that the web client of the family gets in its window, and sends as `sso_id`. */
async function provenId(browser: Browser, site: string): Promise<string> {
  return posted((await browser.go(`${site}/api/auth/sso?method=get_sso_id`)).body, 'sso_id')
}

void t.test('the web client of the family links an identity, signs in by it, and unlinks it', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer)
  const ann = await site.as('ann', [])
  const browser = new Browser()
  const update = (ssoId: string, from = browser) => {
    const cookie = `tidegate_sso=${from.cookie(site.url, 'tidegate_sso') ?? ''}`
    return ann.post('/api/me/update', { username: 'ann', password: '', sso_id: ssoId }, { cookie })
  }
  const id = await provenId(browser, site.url)
  t.match(await update(id, new Browser()), { code: 400, message: expired }, 'another browser has not proved it')
  t.match(await update(id), { code: 400, message: expired }, 'an id is tried once')
  t.match(await update(await provenId(browser, site.url)), { code: 200 })
  t.match((await ann.get('/api/me')).data, { sso_id: 'ada-1' })
  t.match(await update('ada-1'), { code: 200 }, 'as it is')
  const [identity] = (await ann.get('/api/me/identities')).data as { id: number }[]
  t.match(identity, { kind: 'oidc', issuer: provider.issuer, name: 'ada-1' })
  const token = posted((await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
  t.match((await site.get('/api/me', { authorization: token })).data, { username: 'ann' })

  const bob = await site.as('bob', [])
  const taken = { username: 'bob', password: '', sso_id: await provenId(browser, site.url) }
  const cookie = `tidegate_sso=${browser.cookie(site.url, 'tidegate_sso') ?? ''}`
  t.match(await bob.post('/api/me/update', taken, { cookie }), { code: 400, message: /linked to another account/ })
  for (const [wrong, code] of [
    ['ada-1', 403],
    ['1', 403],
    ['link-made-up', 400],
  ] as const) {
    t.match(await bob.post('/api/me/update', { ...taken, sso_id: wrong }, { cookie }), { code }, wrong)
  }
  t.match(await bob.post(`/api/me/identities/delete?id=${identity?.id}`), {
    code: 404,
    message: 'identity not found',
  })
  t.match(await update(''), { code: 200 })
  t.same((await ann.get('/api/me/identities')).data, [])
  t.match(await update(await provenId(browser, site.url)), { code: 200 })
  const [again] = (await ann.get('/api/me/identities')).data as { id: number }[]
  const events: object[] = []
  site.gateway.audit.on((event) => void events.push(event))
  t.match(await ann.post(`/api/me/identities/delete?id=${again?.id}`), { code: 200 })
  t.match(
    events,
    [{ kind: 'admin.user', subject: 'ann', result: 'done', actor: { name: 'ann' } }],
    'not a user of that id',
  )
  t.match((await ann.get('/api/me')).data, { sso_id: '' })
  const gone = await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
  t.match(gone.body, /not bound to any users/)
})

void t.test('an id that earlier programs have stored is linked once, if the provider guarantees it', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const { users, identities } = site.gateway.accounts
  const signIn = async (sub: string, claims: object) => {
    Object.assign(provider, { claims: { sub, ...claims }, userinfo: { sub } })
    const { body } = await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
    if (!body.includes('postMessage')) return undefined
    return ((await site.get('/api/me', { authorization: posted(body, 'token') })).data as { username: string }).username
  }
  for (const username of ['by-sub', 'by-name', 'by-mail', 'twice', 'again']) await site.as(username, [])
  const store = (username: string, ssoId: string) => users.update(users.byName(username)?.id ?? 0, { ssoId })
  await store('by-sub', 'ada-1')
  await store('by-name', 'Ada')
  await store('by-mail', 'ada@example.org')
  for (const username of ['twice', 'again']) await store(username, 'two')
  await useProvider(site, provider.issuer, { sso_oidc_username_key: 'name' })
  t.equal(await signIn('eve-1', { name: 'Ada' }), undefined, 'anybody can choose a name')
  await useProvider(site, provider.issuer, { sso_oidc_username_key: 'email' })
  t.equal(await signIn('eve-2', { email: 'ada@example.org' }), undefined, 'an address that is not verified')
  t.equal(await signIn('ada-2', { email: 'ada@example.org', email_verified: true }), 'by-mail')
  await useProvider(site, provider.issuer, { sso_oidc_username_key: 'sub' })
  t.equal(await signIn('two', {}), undefined, 'two accounts have it')
  t.equal(await signIn('ada-1', {}), 'by-sub')
  await store('by-name', 'ada-1')
  t.equal(await signIn('ada-1', {}), 'by-sub', 'the link decides')
  const bySub = users.byName('by-sub')
  t.match(identities.of(bySub?.id ?? 0), [{ subject: 'ada-1', provisioned: false }])
  const other = await LyingProvider.start(t)
  other.claims = { sub: 'ada-1' }
  await useProvider(site, other.issuer, { sso_oidc_username_key: 'sub' })
  await store('by-name', '')
  const { body } = await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
  t.match(body, /not bound to any users/, 'the same subject at another provider is somebody else')
})

void t.test('a verified e-mail address leads to the user of that name if the setting says so', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const eve = await site.as('eve', [])
  t.match(
    await eve.post('/api/me/update', { username: 'ada@example.org', password: '' }),
    { code: 400, message: /cannot be used/ },
    'nobody takes the account of others by a name',
  )
  const ada = await site.as('ada@example.org', [])
  t.match(await ada.post('/api/me/update', { username: 'ada@example.org', password: '' }), { code: 200 }, 'as it is')
  const signIn = async (claims: object, userinfo: object = {}) => {
    provider.claims = { email: 'ada@example.org', ...claims }
    provider.userinfo = { sub: 'ada-1', ...userinfo }
    return (await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).status
  }
  await useProvider(site, provider.issuer)
  t.equal(await signIn({ email_verified: true }), 403)
  await useProvider(site, provider.issuer, { sso_link_by_email: 'true' })
  t.equal(await signIn({}), 403)
  const [own, verified] = [{ email: 'ada@example.org' }, { email_verified: true }]
  const other = { email: 'eve@example.org', ...verified }
  t.equal(await signIn({}, other), 403, 'the user information has verified another address')
  t.equal(await signIn({ email: undefined, ...verified }, own), 403, 'the ID token says it of no address')
  t.equal(await signIn({ email_verified: false }, { ...own, ...verified }), 403, 'the ID token is signed')
  const { identities, users } = site.gateway.accounts
  const { id } = users.byName('ada@example.org')!
  for (const [claims, userinfo] of [
    [verified, {}],
    [{}, { ...own, ...verified }],
    [{ email: undefined }, { ...own, ...verified }],
  ] as const) {
    t.equal(await signIn(claims, userinfo), 200, JSON.stringify([claims, userinfo]))
    await identities.unlink(id, identities.of(id)[0]?.id ?? 0)
  }
})

void t.test('an admin sees and unlinks identities, which ends what has begun by them', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer)
  const ann = await site.as('ann', [])
  const { users, identities } = site.gateway.accounts
  const { id: uid } = users.byName('ann')!
  const shown = { kind: 'oidc', issuer: provider.issuer, subject: 'ada-1', name: 'thief' } as const
  const link = () => site.gateway.accounts.identities.link(uid, shown)
  const signIn = async (method: string) => {
    const browser = new Browser()
    const isEnd = (to: URL) => to.pathname === '/@profile'
    const { body } = await browser.go(`${site.url}/api/auth/sso?method=${method}&redirect=/@profile`, {}, isEnd)
    const cookie = `${sessionCookieAt(site.url)}=${browser.cookie(site.url, sessionCookieAt(site.url)) ?? ''}`
    return method === 'console'
      ? { authorization: '', cookie }
      : { authorization: body.includes('postMessage') ? posted(body, 'token') : 'none' }
  }
  const isIn = async (headers: Readonly<Record<string, string>>) => (await site.get('/api/me', headers)).code
  const update = (ssoId: string) => site.post('/api/admin/user/update', { id: uid, username: 'ann', sso_id: ssoId })

  await link()
  await users.update(uid, { ssoId: 'ada-1' })
  const sessions = [await signIn('sso_get_token'), await signIn('console')]
  t.strictSame(await Promise.all(sessions.map(isIn)), [200, 200])
  t.match(await update('ada-1'), { code: 200 }, 'as it is')
  t.equal(identities.of(uid).length, 1)
  t.match(await update(''), { code: 200 })
  t.strictSame(await Promise.all(sessions.map(isIn)), [401, 401])
  t.equal(await isIn(await signIn('sso_get_token')), 401, 'it is not bound any more')
  t.match(await ann.get('/api/me'), { code: 200 }, 'what began by the password goes on')

  await link()
  const others = [await signIn('sso_get_token'), await signIn('console')]
  const list = await site.get(`/api/admin/user/identity/list?uid=${uid}`)
  t.match(list.data, [{ kind: 'oidc', issuer: provider.issuer, name: 'thief' }])
  const [{ id } = { id: 0 }] = list.data as { id: number }[]
  const remove = (who: number) => site.post(`/api/admin/user/identity/delete?uid=${who}`, { id })
  const events: object[] = []
  site.gateway.audit.on((event) => void events.push(event))
  t.match(await remove(1), { code: 200 })
  t.equal(identities.of(uid).length, 1, 'it is not that of this user')
  t.match(await remove(99_999), { code: 404 })
  t.match(await remove(uid), { code: 200 })
  t.match(events, [{ subject: 'admin' }, { result: 'refused' }, { kind: 'admin.user', subject: 'ann', result: 'done' }])
  t.strictSame(await Promise.all(others.map(isIn)), [401, 401])
  t.strictSame((await site.get(`/api/admin/user/identity/list?uid=${uid}`)).data, [])
  t.match(await site.get('/api/admin/user/identity/list?uid=99999'), { code: 404 })

  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  provider.claims = { preferred_username: 'ada' }
  t.equal(await isIn(await signIn('sso_get_token')), 200)
  const ada = users.byName('ada')!
  const refusal = { code: 400, message: /created with this identity/ }
  t.match(await site.post('/api/admin/user/update', { id: ada.id, username: 'ada', sso_id: '' }), refusal)
  const created = { id: identities.of(ada.id)[0]?.id }
  t.match(await site.post(`/api/admin/user/identity/delete?uid=${ada.id}`, created), refusal)
  t.equal(users.get(ada.id)?.ssoId, ada.ssoId)
})

void t.test('the console signs in, links and unlinks, and never leads to another site', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const seconds = Math.floor(Date.now() / 1000)
  provider.claims = { preferred_username: 'ada', auth_time: seconds }
  const browser = new Browser()
  const isEnd = (to: URL) => to.pathname === '/@profile' || (to.origin !== site.url && to.origin !== provider.issuer)
  const { url } = await browser.go(`${site.url}/api/auth/sso?method=console&redirect=/@profile`, {}, isEnd)
  t.equal(url.href, `${site.url}/@profile`)
  const session = browser.cookie(site.url, sessionCookieAt(site.url)) ?? ''
  const headers = { authorization: '', cookie: `${sessionCookieAt(site.url)}=${session}` }
  t.match((await site.get('/api/me', headers)).data, { username: 'ada' })
  const [identity] = (await site.get('/api/me/identities', headers)).data as { id: number }[]
  t.match(
    await site.post(`/api/me/identities/delete?id=${identity?.id}`, {}, headers),
    { code: 400, message: /created with this identity/ },
    'its provider says whether it still exists',
  )
  t.match(await site.post('/api/me/update', { username: 'ada', sso_id: '' }, headers), { code: 400 })
  for (const away of ['//evil.example', '/\\evil.example', 'https://evil.example', 'javascript:alert(1)', '/\t/evil']) {
    const query = new URLSearchParams({ method: 'console', redirect: away })
    const to = await new Browser().go(
      `${site.url}/api/auth/sso?${query.toString()}`,
      {},
      (to) => to.pathname === '/' || isEnd(to),
    )
    t.equal(to.url.href, `${site.url}/`, away)
  }

  Object.assign(provider, { claims: { sub: 'second', auth_time: seconds }, userinfo: { sub: 'second' } })
  const linked = await browser.go(`${site.url}/api/auth/sso?method=link&redirect=/@profile`, {}, isEnd)
  t.equal(linked.url.href, `${site.url}/@profile`)
  t.match((await site.get('/api/me/identities', headers)).data, [{}, { name: 'second' }])
  const foreign = {
    ...browser.headers,
    'sec-fetch-site': 'cross-site',
    cookie: `${sessionCookieAt(site.url)}=${session}`,
  }
  const refused = await new Browser(foreign).go(`${site.url}/api/auth/sso?method=link`)
  t.match(refused.body, /sign in to the console first/, 'a page of another site cannot begin a link')

  Object.assign(provider, { claims: { auth_time: seconds - 3600 }, userinfo: { sub: 'ada-1' } })
  const old = new Browser()
  await old.go(`${site.url}/api/auth/sso?method=console&redirect=/@profile`, {}, isEnd)
  const oldCookie = `${sessionCookieAt(site.url)}=${old.cookie(site.url, sessionCookieAt(site.url)) ?? ''}`
  const change = { username: 'ada', password: 'another password' }
  t.match(await site.post('/api/me/update', change, { authorization: '', cookie: oldCookie }), {
    code: 403,
    message: /ten minutes|recent/,
  })
})

void t.test('a sign-in at the provider ends the session of the console that it replaces', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const { consoleSessions } = site.gateway.accounts
  const isCallback = (to: URL) => to.pathname === '/api/auth/sso_callback'
  const isStart = (to: URL) => to.pathname === '/'
  const browser = new Browser()
  const signIn = async (sub: string) => {
    Object.assign(provider, { claims: { sub, preferred_username: sub }, userinfo: { sub } })
    const { url } = await browser.go(`${site.url}/api/auth/sso?method=console`, {}, isCallback)
    // Browsers do not send the cookie of a session when another site has led them here.
    browser.cookies.get(site.url)?.delete(sessionCookieAt(site.url))
    await browser.go(url.href, {}, isStart)
    return browser.cookie(site.url, sessionCookieAt(site.url)) ?? ''
  }
  const first = await signIn('ada')
  t.type(consoleSessions.find(first), 'object')
  const second = await signIn('eve')
  t.equal(consoleSessions.find(first), undefined)
  const third = await signIn('eve')
  t.equal(consoleSessions.find(second), undefined, 'also one of the same user')
  t.type(consoleSessions.find(third), 'object')
})

void t.test('a link ends with the session of the console that has begun it', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const { consoleSessions, identities, users } = site.gateway.accounts
  const is = (sub: string) => {
    const claims = { sub, preferred_username: sub, auth_time: Math.floor(Date.now() / 1000) }
    Object.assign(provider, { claims, userinfo: { sub } })
  }
  const isStart = (to: URL) => to.pathname === '/'
  const isCallback = (to: URL) => to.pathname === '/api/auth/sso_callback'
  const ends = {
    'the session was closed': (cookie: string) => consoleSessions.close(cookie),
    'the user has ended all': () => users.endSessions(users.byName('ada')?.id ?? 0),
  }
  for (const [title, end] of Object.entries(ends)) {
    is('ada')
    const thief = new Browser()
    await thief.go(`${site.url}/api/auth/sso?method=console`, {}, isStart)
    const { href } = (await thief.go(`${site.url}/api/auth/sso?method=link`, {}, isCallback)).url
    await end(thief.cookie(site.url, sessionCookieAt(site.url)) ?? '')
    is('thief')
    t.match((await thief.go(href)).body, expired, title)
    t.equal(identities.find(provider.issuer, 'thief'), undefined)
  }
})

void t.test('a page of another site begins no sign-in and no link without a click', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  const begin = (method: string, from: string) =>
    new Browser({ accept: 'text/html', 'sec-fetch-site': from }).go(`${site.url}/api/auth/sso?method=${method}`)
  for (const from of ['cross-site', 'same-site']) {
    const refused = await begin('get_sso_id', from)
    t.match({ status: refused.status, path: refused.url.pathname }, { status: 403, path: '/api/auth/sso' }, from)
    t.match(refused.body, /begin to link an identity on the page of this site/)
    for (const method of ['sso_get_token', 'console']) {
      const { url, status, headers, body } = await begin(`${method}&redirect=/@a%22b&fresh=true`, from)
      t.match({ status, path: url.pathname }, { status: 200, path: '/api/auth/sso' }, `${method} ${from}`)
      t.equal(headers.getSetCookie().length, 0)
      t.match(headers.get('content-security-policy'), /frame-ancestors 'none'/)
      const href = /href="([^"]*)">Sign in</.exec(body)?.[1] ?? ''
      const link = new URL(href.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))))
      t.equal(link.origin + link.pathname, `${site.url}/api/auth/sso`)
      t.same(Object.fromEntries(link.searchParams), { method, redirect: '/@a"b', fresh: 'true' })
    }
  }
  t.equal(site.gateway.accounts.users.list().length, 2, 'no account was made')
  const own = new Browser({ accept: 'text/html', 'sec-fetch-site': 'same-origin' })
  t.match(posted((await own.go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token'), /./)
  t.match(await provenId(new Browser({ accept: 'text/html', 'sec-fetch-site': 'none' }), site.url), /^link-/)
})
