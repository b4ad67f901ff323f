/** Public endpoints, errors of unknown paths, the manifest, CORS headers, and a site below a path. */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import t from 'tap'
import { markUrl } from '../../../../protocols/http/site/mark.js'
import { serve } from '../served.js'
import { webBuild } from '../site/web-build.js'

void t.test('public endpoints respond without a token', async (t) => {
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
  for (const [list, data] of [
    ['offline_download_tools', ['SimpleHttp']],
    ['archive_extensions', []],
  ] as const) {
    const response = await fetch(`${url}/api/public/${list}`, { method: 'POST' })
    t.strictSame(await response.json(), { code: 200, message: 'success', data })
  }
})

void t.test('unknown paths and methods have their own errors', async (t) => {
  const { url } = await serve(t)
  for (const [method, path] of [
    ['GET', '/api/nothing'],
    ['POST', '/api/fs/nothing'],
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
  const options = await fetch(`${url}/`, { method: 'OPTIONS' })
  t.equal(options.status, 200, 'Windows requests OPTIONS of the root before it mounts a folder')
  t.match(options.headers.get('dav'), /1, 2/)
})

void t.test('OPTIONS * is answered for the server in general', async (t) => {
  for (const site of ['', '/sub']) {
    const { hostname, port } = new URL((await serve(t, site)).url)
    const sent = request({ hostname, port, path: '*', method: 'OPTIONS' }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    t.match(answer, { statusCode: 200, headers: { dav: /1, 2/, allow: /OPTIONS/, 'content-length': '0' } })
    answer.resume()
  }
})

void t.test('robots.txt and favicon.ico are served', async (t) => {
  const { url, gateway } = await serve(t)
  await gateway.settings.set(
    new Map([
      ['favicon', 'https://example.org/i.png'],
      ['robots_txt', '<script>'],
    ]),
  )
  const robots = await fetch(`${url}/robots.txt`)
  t.equal(robots.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.equal(await robots.text(), '<script>')
  const icon = await fetch(`${url}/favicon.ico`, { redirect: 'manual', method: 'HEAD' })
  t.equal(icon.status, 302)
  t.equal(icon.headers.get('location'), 'https://example.org/i.png')
})

void t.test('a favicon that cannot be redirected to is missing', async (t) => {
  const { url, gateway } = await serve(t)
  for (const favicon of ['', 'http://[', 'javascript:alert(1)', 'data:image/png;base64,AAAA', 'https://', '  ']) {
    await gateway.settings.set(new Map([['favicon', favicon]]))
    t.equal((await fetch(`${url}/favicon.ico`, { redirect: 'manual' })).status, 404, favicon)
  }
  for (const [favicon, location] of [
    ['/images/own.png', '/images/own.png'],
    ['https://example.org/a b\r\nX: y', 'https://example.org/a%20bX:%20y'],
    ['/a\r\nX-Evil: y', '/a%0D%0AX-Evil:%20y'],
    ['/世', '/%E4%B8%96'],
  ] as const) {
    await gateway.settings.set(new Map([['favicon', favicon]]))
    const icon = await fetch(`${url}/favicon.ico`, { redirect: 'manual' })
    t.equal(icon.status, 302, favicon)
    t.equal(icon.headers.get('location'), location)
    t.equal(icon.headers.get('x-evil'), null)
  }
})

void t.test('the manifest with which a browser installs the site as an app', async (t) => {
  for (const site of ['', '/sub']) {
    await t.test(`at "${site}/"`, async (t) => {
      const { url, gateway } = await serve(t, site, [], { dist_dir: await webBuild(t) })
      await gateway.settings.set(new Map([['site_title', `"Tides"</script>`]]))
      for (const path of ['/manifest.json', '/static/manifest.json', '/manifest.json?v=1']) {
        const answer = await fetch(url + path)
        t.equal(answer.headers.get('content-type'), 'application/manifest+json; charset=utf-8')
        t.equal(answer.headers.get('cache-control'), 'public, max-age=3600')
        t.strictSame(await answer.json(), {
          name: `"Tides"</script>`,
          display: 'standalone',
          scope: site || '/',
          start_url: site || '/',
          icons: [{ src: markUrl, sizes: 'any', type: 'image/svg+xml' }],
        })
      }
      t.equal((await fetch(`${url}/manifest.json`, { method: 'HEAD' })).status, 200)
      await gateway.settings.set(new Map([['logo', 'https://example.org/l.png\nhttps://example.org/d.png']]))
      t.match(await (await fetch(`${url}/manifest.json`)).json(), {
        icons: [{ src: 'https://example.org/l.png', sizes: '512x512', type: 'image/png' }],
      })
    })
  }
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
  t.equal(unnamed.status, 204)
  const named = unnamed.headers.get('access-control-allow-headers')
  for (const header of ['Authorization', 'File-Path', 'X-File-Sha256', 'X-Upload-Id', 'X-Chunk-Index'])
    t.match(named, header)
  const odd = { origin, 'access-control-request-headers': 'x, <b>' }
  const preflightOdd = await fetch(`${url}/anything`, { method: 'OPTIONS', headers: odd })
  t.equal(preflightOdd.headers.get('access-control-allow-headers'), named)
  t.equal((await fetch(`${url}/x`, { method: 'OPTIONS' })).status, 405, 'a request without an Origin header')
})

void t.test('if origins are configured, only these may call the API', async (t) => {
  const dist = await webBuild(t)
  const { url } = await serve(t, '', [], { cors_origins: ['https://app.example'], dist_dir: dist })
  for (const [origin, allowed] of [
    ['https://app.example', 'https://app.example'],
    ['https://app.example.evil', null],
    ['null', null],
  ] as const) {
    for (const path of ['/ping', '/assets/app-3f9c.js', '/folder']) {
      const answer = await fetch(url + path, { headers: { origin } })
      t.equal(answer.headers.get('access-control-allow-origin'), allowed, path)
      t.match(answer.headers.get('vary'), 'Origin')
    }
  }
  t.match((await fetch(`${url}/ping`)).headers.get('vary'), 'Origin', 'Vary prevents shared use of a cached response')
})

void t.test('a site below a path', async (t) => {
  const served = await serve(t, '/sub', [], { dist_dir: await webBuild(t) })
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
