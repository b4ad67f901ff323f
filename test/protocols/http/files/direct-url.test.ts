/**
 * Which downloads are redirected to a direct URL of the storage or to `down_proxy_url`, and which the gateway serves.
 */
import t, { type Test } from 'tap'
import type { DirectUrl } from '../../../../src/contract/capabilities.js'
import { asPath } from '../../../../src/base/path.js'
import { directUrlType, type DirectUrls } from './direct-url-driver.js'
import { adminPassword, serve, type Served } from '../served.js'
import { sessionCookieAt } from '../../../session-cookie.js'

const store = 'https://store.example'
const proxied = 'https://worker.example/base'

interface Fixture {
  readonly served: Served
  readonly directUrls: DirectUrls
  /** The response to a GET of this URL; redirects are not followed. */
  readonly get: (url: string) => Promise<Response>
  readonly sign: (path: string) => string
}

/** A storage with direct URLs at `/s`, with files in it. */
async function mounted(t: Test, fields: Readonly<Record<string, unknown>> = {}, siteUrl = ''): Promise<Fixture> {
  const directUrls: DirectUrls = { directUrl: (path) => ({ url: `${store}${path}?key=1` }), asked: 0 }
  const served = await serve(t, siteUrl, [directUrlType(directUrls)])
  const { message } = await served.mount('/s', 'DirectUrls', fields)
  t.equal(message, 'success')
  for (const name of ['a b.bin', 'a.txt', 'a.m3u8']) await served.put(`/s/${name}`, `content of ${name}`)
  const sign = (path: string) => served.gateway.signedUrls.sign(asPath(path))
  const get = (url: string) => fetch(served.url + url, { redirect: 'manual' })
  return { served, directUrls, get, sign }
}

async function rawUrl({ served }: Fixture, path: string): Promise<string> {
  const { data } = await served.post('/api/fs/get', { path })
  return (data as { raw_url: string }).raw_url
}

void t.test('a signed URL redirects to the direct URL, without a referrer and uncached', async (t) => {
  const fixture = await mounted(t)
  const { get, sign } = fixture
  for (const method of ['GET', 'HEAD']) {
    const url = `${fixture.served.url}/d/s/a%20b.bin?sign=${sign('/s/a b.bin')}`
    const response = await fetch(url, { method, redirect: 'manual' })
    t.equal(response.status, 302)
    t.equal(response.headers.get('location'), `${store}/a%20b.bin?key=1`)
    t.equal(response.headers.get('referrer-policy'), 'no-referrer')
    t.equal(response.headers.get('cache-control'), 'max-age=0, no-cache, no-store, must-revalidate')
  }
  t.equal(await rawUrl(fixture, '/s/a b.bin'), `${store}/a%20b.bin?key=1`)
  t.equal((await get('/d/s/a%20b.bin')).status, 401, 'not without a signature')
  t.equal((await get(`/d/s/none?sign=${sign('/s/none')}`)).status, 404)
  t.equal((await get(`/d/s?sign=${sign('/s')}`)).status, 400)
})

void t.test('only proxied file types of a storage with direct URLs are served by the gateway', async (t) => {
  const fixture = await mounted(t)
  const { served, get, sign } = fixture
  const refused = await get(`/p/s/a%20b.bin?sign=${sign('/s/a b.bin')}`)
  t.equal(refused.status, 403)
  t.match(await refused.text(), 'proxy not allowed')
  t.equal(await (await get(`/p/s/a.txt?sign=${sign('/s/a.txt')}`)).text(), 'content of a.txt')
  for (const route of ['d', 'p']) {
    t.equal(await (await get(`/${route}/s/a.m3u8?sign=${sign('/s/a.m3u8')}`)).text(), 'content of a.m3u8', route)
  }
  t.equal((await get(`/d/s/a.txt?sign=${sign('/s/a.txt')}`)).status, 302)
  t.equal(await rawUrl(fixture, '/s/a.m3u8'), `${store}/a.m3u8?key=1`, 'raw_url does not depend on the extension')
  await served.gateway.settings.set(
    new Map([
      ['proxy_types', 'BIN'],
      ['text_types', ''],
    ]),
  )
  t.equal((await get(`/d/s/a%20b.bin?sign=${sign('/s/a b.bin')}`)).status, 200)
  t.equal((await get(`/p/s/a.txt?sign=${sign('/s/a.txt')}`)).status, 403)
})

void t.test('the console shows every file through the gateway, with its session and the signature', async (t) => {
  const { served, sign } = await mounted(t, { down_proxy_url: proxied })
  const signIn = { method: 'POST', headers: { 'content-type': 'application/json' } }
  const body = JSON.stringify({ username: 'admin', password: adminPassword })
  const [setCookie = ''] = (await fetch(`${served.url}/api/auth/session`, { ...signIn, body })).headers.getSetCookie()
  const cookie = setCookie.split(';')[0] ?? ''
  const url = `${served.url}/p/s/a%20b.bin?sign=${sign('/s/a b.bin')}`
  const get = (address: string, headers: Record<string, string>) => fetch(address, { headers, redirect: 'manual' })
  const shown = await get(url, { cookie, 'sec-fetch-site': 'same-origin' })
  t.equal(await shown.text(), 'content of a b.bin')
  t.equal(shown.headers.get('content-security-policy'), "sandbox; default-src 'none'")
  t.equal(shown.headers.get('x-content-type-options'), 'nosniff')
  for (const headers of [
    {},
    { cookie: `${sessionCookieAt(served.url)}=x` },
    { cookie, 'sec-fetch-site': 'cross-site' },
    { cookie, 'sec-fetch-site': 'same-site' },
    { cookie, origin: 'http://127.0.0.1:9' },
  ] as readonly Record<string, string>[]) {
    t.equal((await get(url, headers)).status, 403, JSON.stringify(headers))
  }
  t.equal((await get(url.replace('/p/', '/d/'), { cookie })).status, 302, '/d redirects as before')
  t.equal((await get(`${served.url}/p/s/a.txt`, { cookie })).status, 401, 'not without the signature')
  await fetch(`${served.url}/api/auth/logout`, { headers: { cookie } })
  t.equal((await get(url, { cookie })).status, 403, 'not with an ended session')
})

void t.test('a storage with web_proxy has no direct URLs', async (t) => {
  const fixture = await mounted(t, { web_proxy: true })
  const { get, sign, served } = fixture
  const signature = sign('/s/a b.bin')
  for (const route of ['d', 'p']) t.equal((await get(`/${route}/s/a%20b.bin?sign=${signature}`)).status, 200, route)
  t.equal(await rawUrl(fixture, '/s/a b.bin'), `${served.url}/p/s/a%20b.bin?sign=${signature}`)
  t.equal(fixture.directUrls.asked, 0)
})

void t.test('requests are redirected to down_proxy_url, except those of the proxy itself', async (t) => {
  const fixture = await mounted(t, { web_proxy: true, down_proxy_url: `${proxied}/ \nhttps://second.example` })
  const { get, sign } = fixture
  const signature = sign('/s/a b.bin')
  for (const route of ['d', 'p']) {
    const sent = await get(`/${route}/s/a%20b.bin?sign=${signature}`)
    t.equal(sent.status, 302)
    t.equal(sent.headers.get('location'), `${proxied}/s/a%20b.bin?sign=${signature}`)
    for (const mark of ['d', 'd=', 'd=1']) {
      const asked = await get(`/${route}/s/a%20b.bin?${mark}&sign=${signature}`)
      t.equal(await asked.text(), 'content of a b.bin')
    }
  }
  t.equal(await rawUrl(fixture, '/s/a b.bin'), `${proxied}/s/a%20b.bin?sign=${signature}`)
  t.equal((await get(`/p/s/none?sign=${sign('/s/none')}`)).status, 404, 'a missing file is not redirected')
  t.equal((await get(`/p/s?sign=${sign('/s')}`)).status, 400)
})

void t.test('URLs of down_proxy_url have no signature with disable_proxy_sign', async (t) => {
  const fields = { web_proxy: true, down_proxy_url: proxied, disable_proxy_sign: true }
  const fixture = await mounted(t, fields)
  const sent = await fixture.get(`/p/s/a.txt?sign=${fixture.sign('/s/a.txt')}`)
  t.equal(sent.headers.get('location'), `${proxied}/s/a.txt`)
  t.equal(await rawUrl(fixture, '/s/a.txt'), `${proxied}/s/a.txt`)
})

void t.test('a direct URL that a client cannot open is not used', async (t) => {
  const fixture = await mounted(t)
  const { directUrls, get, sign, served } = fixture
  const signature = sign('/s/a b.bin')
  const ours = `${served.url}/p/s/a%20b.bin?sign=${signature}`
  const urls: DirectUrl[] = [
    { url: `${store}/x`, headers: { cookie: 'secret' } },
    { url: `${store}/x`, until: new Date(Date.now() - 1000) },
    { url: 'javascript:alert(1)' },
    { url: 'file:///etc/passwd' },
    { url: '//other.example/x' },
  ]
  for (const direct of urls) {
    directUrls.directUrl = () => direct
    t.equal(await rawUrl(fixture, '/s/a b.bin'), ours, direct.url)
    for (const route of ['d', 'p']) {
      const response = await get(`/${route}/s/a%20b.bin?sign=${signature}`)
      t.equal(await response.text(), 'content of a b.bin', `${route} ${direct.url}`)
    }
  }
})

void t.test('a direct URL is escaped for the Location header', async (t) => {
  const { directUrls, get, sign } = await mounted(t)
  directUrls.directUrl = () => ({ url: `${store}/ä\r\nSet-Cookie: x=1?a=%2F&b=\ud800` })
  const response = await get(`/d/s/a.txt?sign=${sign('/s/a.txt')}`)
  t.equal(response.status, 302)
  t.equal(response.headers.get('location'), `${store}/%C3%A4%0D%0ASet-Cookie:%20x=1?a=%2F&b=%EF%BF%BD`)
  t.equal(response.headers.get('set-cookie'), null)
})

void t.test('a direct URL without a host is relative to the gateway', async (t) => {
  const fixture = await mounted(t, {}, '/sub')
  fixture.directUrls.directUrl = () => ({ url: '/assets/x' })
  const response = await fixture.get(`/d/s/a.txt?sign=${fixture.sign('/s/a.txt')}`)
  t.equal(response.headers.get('location'), `${fixture.served.url}/assets/x`)
  t.equal(await rawUrl(fixture, '/s/a.txt'), `${fixture.served.url}/assets/x`)
})

void t.test('a direct URL is cached until it expires', async (t) => {
  const fixture = await mounted(t)
  const { directUrls, get, sign, served } = fixture
  directUrls.directUrl = () => ({ url: `${store}/${directUrls.asked}`, until: new Date(Date.now() + 3_600_000) })
  const url = `/d/s/a.txt?sign=${sign('/s/a.txt')}`
  for (let count = 0; count < 3; count++) t.equal((await get(url)).headers.get('location'), `${store}/1`)
  await served.put('/s/a.txt', 'another')
  t.equal((await get(url)).headers.get('location'), `${store}/2`, 'a changed file gets a new one')
})

void t.test('query parameters are forwarded to the direct URL if a setting says so', async (t) => {
  const { get, sign, served } = await mounted(t)
  const url = `/d/s/a.txt?z=1&response-type=text%2Fx&a=x+y&a=%26&sign=${sign('/s/a.txt')}&openlist_ts=5&raw`
  t.equal((await get(url)).headers.get('location'), `${store}/a.txt?key=1`)
  await served.gateway.settings.set(new Map([['forward_direct_link_params', 'true']]))
  t.equal((await get(url)).headers.get('location'), `${store}/a.txt?key=1&a=x+y&a=%26&response-type=text%2Fx&z=1`)
  await served.gateway.settings.set(new Map([['ignore_direct_link_params', 'sign, a,z']]))
  const sent = (await get(url)).headers.get('location')
  t.equal(sent, `${store}/a.txt?key=1&openlist_ts=5&raw=&response-type=text%2Fx`)
})

void t.test('/api/fs/link returns the direct URL of any file to an admin', async (t) => {
  const { served, directUrls, sign } = await mounted(t)
  const none = { header: null, concurrency: 0, part_size: 0, content_length: 0, Expiration: null }
  const ask = (path: string) => served.post('/api/fs/link', { path })
  t.strictSame((await ask('/s/a b.bin')).data, { url: `${store}/a%20b.bin?key=1`.replace('%20', ' '), ...none })
  directUrls.directUrl = () => ({
    url: `${store}/x`,
    headers: { Cookie: 'a=1' },
    until: new Date(Date.now() + 60_000),
  })
  const { data } = await ask('/s/a.txt')
  t.match(data, { url: `${store}/x`, header: { Cookie: ['a=1'] } })
  const { Expiration: left } = data as { Expiration: number }
  t.ok(left > 50e9 && left <= 60e9, `${left} ns`)
  // Without a direct URL it is a URL of the gateway, even of a missing path.
  for (const path of ['/a b/ä', '/', '/none']) {
    const url = `${served.url}/p${path === '/a b/ä' ? '/a%20b/%C3%A4' : path}?d&sign=${sign(path)}`
    t.strictSame((await ask(path)).data, { url, ...none })
  }
  t.match(await ask('/s/none'), { code: 500, message: /object not found$/ })
  t.match(await ask('/a/../b'), { code: 403 })
})

void t.test('/api/fs/link is for admins only, and ignores their base folder', async (t) => {
  const { served } = await mounted(t)
  const ann = await served.as('ann', ['write', 'seeHidden'], '/s')
  t.match(await ann.post('/api/fs/link', { path: '/a.txt' }), { code: 403, message: 'You are not an admin' })
  await served.gateway.accounts.users.update(1, { basePath: asPath('/s') })
  const { data } = await served.post('/api/auth/login', { username: 'admin', password: 'admin password' })
  const { token } = data as { token: string }
  const { data: direct } = await served.post('/api/fs/link', { path: '/s/a.txt' }, { authorization: token })
  t.match(direct, { url: `${store}/a.txt?key=1` })
})

void t.test(
  '/api/fs/share_link returns a URL of one file that works without an account, until it expires',
  async (t) => {
    const served = await serve(t)
    for (const name of ['a b.txt', 'other.txt']) await served.put(`/team/${name}`, `content of ${name}`)
    await served.rule('/team/closed', { password: 'secret', passwordSub: true })
    await served.put('/team/closed/file', 'closed')
    const ann = await served.as('ann', [], '/team')
    const ask = (fields: object, headers = {}) => ann.post('/api/fs/share_link', fields, headers)

    const { data } = await ask({ path: '/a b.txt' })
    const { url } = data as { url: string }
    t.match(data, { url: /\/d\/team\/a%20b\.txt\?sign=[\w-]+=:0$/, expires: null })
    t.equal(await (await fetch(url)).text(), 'content of a b.txt')
    t.equal((await fetch(url.replace('a%20b', 'other'))).status, 401, 'of no other file')
    const limited = (await ask({ path: '/a b.txt', expires_in: 60 })).data as { url: string; expires: string }
    const left = Date.parse(limited.expires) - Date.now()
    t.ok(left > 50_000 && left <= 60_000, limited.expires)
    t.ok(limited.url.endsWith(`:${Date.parse(limited.expires) / 1000}`))
    t.equal((await fetch(limited.url)).status, 200)

    t.match(await ask({ path: '/' }), { code: 500, message: 'not a file' })
    t.match(await ask({ path: '/none' }), { code: 500, message: /object not found$/ })
    for (const seconds of [-1, 1.5, 1e12, 'soon'])
      t.match(await ask({ path: '/a b.txt', expires_in: seconds }), { code: 400 })
    const closed = { code: 403, message: 'password is incorrect or you have no permission' }
    t.match(await ask({ path: '/closed/file' }), closed)
    t.match(await ask({ path: '/closed/file', password: 'wrong' }), closed)
    for (const answer of [
      await ask({ path: '/closed/file', password: 'secret' }),
      await ask({ path: '/closed/file' }, { password: 'secret' }),
    ]) {
      t.equal(await (await fetch((answer.data as { url: string }).url)).text(), 'closed')
    }
    await served.gateway.settings.set(new Map([['link_expiration', '1']]))
    t.match((await ask({ path: '/a b.txt' })).data, { expires: /Z$/ }, 'the setting is a limit')
  },
)
