import t from 'tap'
import { serve } from './served.js'

void t.test('what anybody may ask', async (t) => {
  const { url } = await serve(t)
  for (const method of ['GET', 'POST', 'PUT', 'DELETE'])
    t.equal(await (await fetch(`${url}/ping`, { method })).text(), 'pong')
  const settings = await fetch(`${url}/api/public/settings`)
  t.equal(settings.headers.get('content-type'), 'application/json; charset=utf-8')
  const { code, data } = (await settings.json()) as { code: number; data: Record<string, string> }
  t.equal(code, 200)
  t.match(data, { pagination_type: 'all', version: /./ })
  t.equal(data.token, undefined)
  t.ok(Object.values(data).every((value) => typeof value === 'string'))
  for (const list of ['offline_download_tools', 'archive_extensions']) {
    const response = await fetch(`${url}/api/public/${list}`, { method: 'POST' })
    t.strictSame(await response.json(), { code: 200, message: 'success', data: [] })
  }
})

void t.test('what nobody knows', async (t) => {
  const { url } = await serve(t)
  for (const [method, path] of [
    ['GET', '/api/nothing'],
    ['POST', '/api/fs/nothing'],
    ['GET', '/api/auth/login'],
    ['POST', '/api/FS/list'],
  ] as const) {
    const response = await fetch(url + path, { method })
    t.equal(response.status, 200)
    t.match(await response.json(), { code: 404, data: null }, path)
  }
  t.equal((await fetch(`${url}/api/fs/list/x`, { method: 'PUT', body: 'x' })).status, 405)
  t.equal((await fetch(`${url}/nothing`, { method: 'DELETE' })).status, 405)
  t.equal((await fetch(`${url}/nothing`)).status, 404)
  t.equal((await fetch(`${url}/api/fs/mkdir`, { method: 'OPTIONS' })).status, 405)
})

void t.test('pages for browsers and crawlers', async (t) => {
  const { url, gateway } = await serve(t)
  await gateway.settings.set(
    new Map([
      ['site_title', '<b>Files</b>'],
      ['favicon', 'https://example.org/i.png'],
    ]),
  )
  const page = await fetch(`${url}/`)
  t.equal(page.status, 200)
  const text = await page.text()
  t.match(text, `${url}/dav/`)
  t.notMatch(text, '<b>Files')
  t.match(await (await fetch(`${url}/robots.txt`)).text(), /User-agent/)
  const icon = await fetch(`${url}/favicon.ico`, { redirect: 'manual', method: 'HEAD' })
  t.equal(icon.status, 302)
  t.equal(icon.headers.get('location'), 'https://example.org/i.png')
})

void t.test('pages of other origins may call the API', async (t) => {
  const { url, token } = await serve(t)
  const origin = 'https://app.example'
  const simple = await fetch(`${url}/api/me`, { headers: { origin, authorization: token } })
  t.equal(simple.headers.get('access-control-allow-origin'), '*')
  t.equal(simple.headers.get('access-control-allow-credentials'), null)
  const preflight = await fetch(`${url}/api/fs/put`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'PUT',
      'access-control-request-headers': 'authorization,file-path',
    },
  })
  t.equal(preflight.status, 204)
  t.equal(preflight.headers.get('access-control-allow-headers'), 'authorization,file-path')
  t.equal(preflight.headers.get('access-control-allow-methods'), '*')
  t.equal(preflight.headers.get('access-control-max-age'), '43200')
  const unnamed = await fetch(`${url}/d/x`, { method: 'OPTIONS', headers: { origin } })
  t.match(unnamed.headers.get('access-control-allow-headers'), /Authorization/)
})

void t.test('a site below a path', async (t) => {
  const served = await serve(t, '/sub')
  t.match(await served.get('/api/me'), { code: 200 })
  await served.put('/a.txt', 'content')
  t.equal(await served.content('/a.txt'), 'content')
  const outer = served.url.replace(/\/sub$/, '')
  const redirect = await fetch(`${outer}/`, { redirect: 'manual' })
  t.equal(redirect.status, 302)
  t.equal(redirect.headers.get('location'), '/sub/')
  t.equal((await fetch(`${outer}/api/me`)).status, 404)
  t.equal((await fetch(`${outer}/subway`)).status, 404)
  t.equal((await fetch(`${outer}/sub`)).status, 200)
})
