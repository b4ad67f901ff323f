/** The console's sessions over HTTP: the cookie, who may use it, sign-out, and the list. */
import t from 'tap'
import { rawRequest } from '../raw-request.js'
import { adminPassword, serve, Served, type Envelope } from '../served.js'
import { sessionCookieAt } from '../../../session-cookie.js'

const done = { code: 200, message: 'success', data: null }
const asGuest = {
  code: 401,
  message: 'Guest user is disabled, login please',
  data: null,
  error: 'guest_disabled',
}
/** The port is that of the test server. */
const cookieLine = /^tidegate_session_\d+=(tgs-[a-z2-9]{8}-[a-z2-9]{32}); /

interface Answer {
  readonly envelope: Envelope
  /** The whole header; undefined if there is none. */
  readonly setCookie: string | undefined
  readonly headers: Headers
}

async function call(url: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
  const sent = { 'content-type': 'application/json', ...headers }
  const init = body === undefined ? { headers } : { method: 'POST', body: JSON.stringify(body), headers: sent }
  const response = await fetch(url + path, init)
  const [setCookie] = response.headers.getSetCookie()
  return { envelope: (await response.json()) as Envelope, setCookie, headers: response.headers }
}

/** Signs in to the console. Resolves to the header of later requests. */
async function signIn(url: string, username = 'admin', password = adminPassword): Promise<{ cookie: string }> {
  const { envelope, setCookie } = await call(url, '/api/auth/session', { username, password })
  if (envelope.code !== 200) throw new Error(envelope.message)
  return { cookie: `browser-password=x; ${setCookie?.split(';')[0] ?? ''}` }
}

interface Shown {
  readonly id: number
  readonly current: boolean
}

async function list(url: string, headers: Record<string, string>): Promise<readonly Shown[]> {
  const { envelope } = await call(url, '/api/me/session/list', undefined, headers)
  return (envelope.data as { content: Shown[] }).content
}

for (const site of ['', '/sub']) {
  void t.test(`a sign-in sets a cookie that authenticates requests, at "${site}/"`, async (t) => {
    const { url } = await serve(t, site)
    const fields = { username: 'admin', password: adminPassword }
    const { envelope, setCookie } = await call(url, '/api/auth/session', fields)
    t.strictSame(envelope, done)
    const rest = setCookie?.replace(cookieLine, '')
    t.equal(rest, `Path=${site || '/'}; HttpOnly; SameSite=Strict`, 'until the browser is closed')
    const remembered = await call(url, '/api/auth/session', { ...fields, remember: true })
    t.match(remembered.setCookie, `; Max-Age=${48 * 3600}; `)

    const headers = await signIn(url)
    const me = await call(url, '/api/me', undefined, headers)
    t.match(me.envelope, { code: 200, data: { username: 'admin' } })
    t.equal(me.headers.get('cache-control'), 'no-store')
    t.equal(me.setCookie, undefined)
    t.match((await call(url, '/api/fs/mkdir', { path: '/new' }, headers)).envelope, done)
    t.strictSame((await call(url, '/api/me')).envelope, asGuest)
  })
}

void t.test('the cookie is for TLS only if the client uses TLS', async (t) => {
  const { url } = await serve(t, 'https://example.org/files', [], { trusted_proxies: ['127.0.0.1'] })
  const fields = { username: 'admin', password: adminPassword }
  const overTls = { 'x-forwarded-proto': 'https', origin: 'https://example.org', 'sec-fetch-site': 'same-origin' }
  t.match((await call(url, '/api/auth/session', fields, overTls)).setCookie, /; Path=\/files; .*; Secure$/)
  t.notMatch((await call(url, '/api/auth/session', fields)).setCookie, 'Secure')
})

void t.test('a sign-in is refused as one with a token, and then sets no cookie', async (t) => {
  const served = await serve(t)
  const { url } = served
  const attempt = (fields: object) => served.post('/api/auth/session', fields)
  t.match(await attempt({ username: 'admin', password: 'wrong' }), {
    code: 400,
    message: 'Invalid username or password',
  })
  t.match(await attempt({ password: 'x' }), { code: 400, message: /^username: / })
  t.match(await attempt({ username: 'admin', password: adminPassword, remember: 'x' }), { code: 400 })
  const admin = served.gateway.accounts.users.byName('admin')
  await served.gateway.accounts.users.update(admin?.id ?? 0, { otpSecret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' })
  t.match(await attempt({ username: 'admin', password: adminPassword }), { code: 402, message: 'Invalid 2FA code' })
  for (let failures = 1; failures < 5; failures++) await attempt({ username: 'nobody', password: 'wrong' })
  const locked = await call(url, '/api/auth/session', { username: 'admin', password: adminPassword })
  t.match(locked.envelope, { code: 429 })
  t.match(locked.headers.get('retry-after'), /^(?:29\d|300)$/)
  t.equal(locked.setCookie, undefined)
})

/** Headers of requests that pages of other origins cause; `host` is that of the server. */
const foreign = (host: string): readonly Record<string, string>[] => [
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
  { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:9' },
  { 'sec-fetch-site': 'same-site' },
  { 'sec-fetch-site': 'none', origin: 'https://evil.example' },
  { 'sec-fetch-site': 'same-origin', origin: 'https://evil.example' },
  { 'sec-fetch-site': 'other' },
  { origin: 'https://evil.example' },
  { origin: 'null' },
  { origin: 'http://127.0.0.1:9' },
  { origin: 'http://127.0.0.1' },
  { origin: `https://${host}` },
  { origin: `http://${host}.evil.example` },
  { origin: `http://user@${host}` },
  { origin: '' },
]

void t.test(
  'requests from pages of other origins are not authenticated by the cookie, and change nothing',
  async (t) => {
    const { url, gateway } = await serve(t)
    const headers = await signIn(url)
    const { host } = new URL(url)
    const settings = gateway.settings.get('token')
    const stored = async () => (await gateway.store.consoleSessions.all()).map(({ id }) => id)
    const before = await stored()
    for (const from of foreign(host)) {
      const title = JSON.stringify(from)
      for (const [path, body] of [
        ['/api/me', undefined],
        ['/api/fs/mkdir', { path: '/forged' }],
        ['/api/me/update', { username: 'forged', password: 'forged' }],
        ['/api/me/session/delete_all', {}],
        ['/api/admin/setting/reset_token', {}],
      ] as const) {
        // A form can send JSON with this type.
        const type = { 'content-type': 'text/plain' }
        const answer = await call(url, path, body, { ...headers, ...from, ...(body && type) })
        t.strictSame(answer.envelope, asGuest, `${path} ${title}`)
        t.equal(answer.setCookie, undefined)
        t.equal(answer.headers.get('access-control-allow-credentials'), null)
      }
      const out = await call(url, '/api/auth/logout', undefined, { ...headers, ...from })
      t.strictSame([out.envelope, out.setCookie], [done, undefined], `a sign-out by ${title} does nothing`)
      const fields = { username: 'admin', password: adminPassword }
      const signedIn = await call(url, '/api/auth/session', fields, from)
      t.match(signedIn.envelope, { code: 403, message: 'the request comes from a page of another site' }, title)
      t.equal(signedIn.setCookie, undefined)
    }
    t.equal(gateway.settings.get('token'), settings)
    t.strictSame(await stored(), before)
    t.match((await call(url, '/api/me', undefined, headers)).envelope, { code: 200 }, 'the session continues')
    t.match((await call(url, '/api/fs/get', { path: '/forged' }, headers)).envelope, { code: 500 })
  },
)

void t.test('requests from the own pages are authenticated, whatever a browser sends with them', async (t) => {
  const { url } = await serve(t)
  const headers = await signIn(url)
  const { host } = new URL(url)
  for (const from of [
    { 'sec-fetch-site': 'same-origin', origin: url },
    { 'sec-fetch-site': 'same-origin' },
    { 'sec-fetch-site': 'none' },
    { origin: url },
    // Behind a proxy that ends TLS, and that is not trusted.
    { 'sec-fetch-site': 'same-origin', origin: `https://${host}` },
  ]) {
    const sent = { ...headers, ...from } as Record<string, string>
    t.match((await call(url, '/api/me', undefined, sent)).envelope, { code: 200 }, JSON.stringify(from))
    t.match((await call(url, '/api/fs/mkdir', { path: '/own' }, sent)).envelope, done)
  }
  await t.test('with a site_url, at that origin and at the address of the request', async (t) => {
    const { url } = await serve(t, 'https://files.example/x')
    const { cookie } = await signIn(url)
    for (const [host, origin, code] of [
      ['files.example', 'https://files.example', 200],
      ['internal:80', 'https://files.example', 200],
      ['internal:80', 'http://internal:80', 200],
      ['internal:80', 'http://internal', 401],
      ['files.example', 'http://other.example', 401],
    ] as const) {
      const { body } = await rawRequest(url, { path: '/x/api/me', headers: { host, origin, cookie } })
      t.match(JSON.parse(body), { code }, `${origin} to ${host}`)
    }
  })
})

void t.test('CORS never allows credentials, also for origins that may call the API', async (t) => {
  const { url } = await serve(t, '', [], { cors_origins: ['https://app.example'] })
  const headers = { ...(await signIn(url)), origin: 'https://app.example' }
  const answer = await call(url, '/api/me', undefined, headers)
  t.equal(answer.headers.get('access-control-allow-origin'), 'https://app.example')
  t.equal(answer.headers.get('access-control-allow-credentials'), null)
  t.strictSame(answer.envelope, asGuest)
  const preflight = await fetch(`${url}/api/me`, { method: 'OPTIONS', headers })
  t.equal(preflight.headers.get('access-control-allow-credentials'), null)
})

void t.test('an Authorization header takes precedence over the cookie', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  const { cookie } = await signIn(admin.url)
  t.match(await ann.get('/api/me', { cookie }), { data: { username: 'ann' } })
  t.match(await ann.get('/api/me', { cookie, authorization: 'rubbish' }), {
    code: 401,
    message: 'token is invalidated',
  })
  t.match(await ann.get('/api/me', { cookie, authorization: '' }), { data: { username: 'admin' } })
})

void t.test('the cookie opens neither WebDAV nor files, and a token in it is no session', async (t) => {
  const admin = await serve(t)
  await admin.put('/file', 'content')
  const headers = await signIn(admin.url)
  for (const path of ['/d/file', '/p/file']) t.equal((await fetch(admin.url + path, { headers })).status, 401, path)
  const withToken = { cookie: `${sessionCookieAt(admin.url)}=${admin.token}` }
  t.match((await call(admin.url, '/api/me', undefined, withToken)).envelope, {
    code: 401,
    message: 'token is invalidated',
  })
})

void t.test('servers at two ports of one host have cookies of their own', async (t) => {
  const [one, two] = [await serve(t), await serve(t)]
  // A browser sends each cookie to every port of the host.
  const cookies = [await signIn(one.url), await signIn(two.url)].map(({ cookie }) => cookie).join('; ')
  for (const { url } of [one, two]) {
    t.match((await call(url, '/api/me', undefined, { cookie: cookies })).envelope, { data: { username: 'admin' } })
  }
  await call(one.url, '/api/auth/logout', undefined, { cookie: cookies })
  t.match((await call(one.url, '/api/me', undefined, { cookie: cookies })).envelope, { code: 401 })
  t.match((await call(two.url, '/api/me', undefined, { cookie: cookies })).envelope, { code: 200 })
})

void t.test('a sign-out ends the session, and removes the cookie', async (t) => {
  const { url, gateway } = await serve(t)
  const [one, two] = [await signIn(url), await signIn(url)]
  const { envelope, setCookie } = await call(url, '/api/auth/logout', undefined, one)
  t.strictSame(envelope, done)
  t.equal(setCookie, `${sessionCookieAt(url)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`)
  const ended = await call(url, '/api/me', undefined, one)
  t.match(ended.envelope, { code: 401, message: 'token is invalidated' })
  t.equal(ended.setCookie, setCookie, 'an ended session removes the cookie, so that the guest can be used')
  t.match((await call(url, '/api/auth/logout', undefined, one)).envelope, done, 'a repeated sign-out succeeds')
  t.match((await call(url, '/api/me', undefined, two)).envelope, { code: 200 })
  t.equal((await gateway.store.consoleSessions.all()).length, 1)
})

void t.test('another sign-in of the same browser replaces its session', async (t) => {
  const { url, gateway } = await serve(t)
  const first = await signIn(url)
  const fields = { username: 'admin', password: adminPassword }
  await call(url, '/api/auth/session', { ...fields, password: 'wrong' }, first)
  t.match((await call(url, '/api/me', undefined, first)).envelope, { code: 200 })
  await call(url, '/api/auth/session', fields, first)
  t.match((await call(url, '/api/me', undefined, first)).envelope, { code: 401 })
  t.equal((await gateway.store.consoleSessions.all()).length, 1)
})

void t.test('users list their sessions, and end one of them', async (t) => {
  const admin = await serve(t)
  const { url } = admin
  const ann = await admin.as('ann', [])
  const agent = 'Mozilla/5.0 (X11)'
  const fields = { username: 'ann', password: 'password' }
  const { setCookie } = await call(url, '/api/auth/session', fields, { 'user-agent': agent })
  const cookie = setCookie?.split(';')[0] ?? ''
  const other = await signIn(url, 'ann', 'password')
  const of = await signIn(url)
  t.match(await ann.get('/api/me/session/list', { authorization: '', cookie }), {
    code: 200,
    data: {
      content: [
        { address: '127.0.0.1', user_agent: agent, created: /^20/, last_used: /^20/, expires: /^20/, current: true },
        { current: false },
      ],
      total: 2,
    },
  })
  t.match(await ann.get('/api/me/session/list?page=2&per_page=1'), {
    data: { content: [{ current: false }], total: 2 },
  })
  const [first, second] = await list(url, other)
  t.strictSame([first?.current, second?.current], [false, true])
  const [foreign] = await list(url, of)
  const end = (id: unknown) => ann.post(`/api/me/session/delete?id=${String(id)}`)
  for (const id of [foreign?.id, 999]) t.match(await end(id), { code: 404, message: 'session not found' })
  t.match(await end('x'), { code: 400, message: 'id format invalid' })
  t.strictSame(await end(first?.id), done)
  t.match((await call(url, '/api/me', undefined, { cookie })).envelope, { code: 401 })
  t.equal((await list(url, other)).length, 1)
})

void t.test('signing out everywhere ends all sessions and tokens of the user, and nothing of others', async (t) => {
  const admin = await serve(t)
  const { url } = admin
  const ann = await admin.as('ann', [])
  const [one, two] = [await signIn(url, 'ann', 'password'), await signIn(url, 'ann', 'password')]
  const ofAdmin = await signIn(url)
  t.strictSame((await call(url, '/api/me/session/delete_all', {}, one)).envelope, done)
  for (const headers of [one, two]) t.match((await call(url, '/api/me', undefined, headers)).envelope, { code: 401 })
  t.match(await ann.get('/api/me'), { code: 401 })
  t.match((await call(url, '/api/me', undefined, ofAdmin)).envelope, { code: 200 })
  t.match(await admin.get('/api/me'), { code: 200 })
  t.match(await new Served(url, admin.gateway).post('/api/auth/login', { username: 'ann', password: 'password' }), {
    code: 200,
  })
})

void t.test('a new password ends the console sessions', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', [])
  const headers = await signIn(admin.url, 'ann', 'password')
  t.match((await call(admin.url, '/api/me/update', { username: 'ann', password: 'new' }, headers)).envelope, done)
  const { envelope, setCookie } = await call(admin.url, '/api/me', undefined, headers)
  t.match(envelope, { code: 401 })
  t.match(setCookie, 'Max-Age=0')
})
