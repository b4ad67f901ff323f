/** GET of a storage whose files have direct URLs, with each policy. */
import { BlockList } from 'node:net'
import t, { type Test } from 'tap'
import { webdavHandler } from '../../../protocols/webdav/server.js'
import type { DirectUrl } from '../../../src/contract/capabilities.js'
import { asPath } from '../../../src/base/path.js'
import { directUrlType, type DirectUrls } from '../http/files/direct-url-driver.js'
import { listen } from '../http/listen.js'
import { adminPassword, serve } from '../http/served.js'

const store = 'https://store.example'

async function mounted(
  t: Test,
  fields: Readonly<Record<string, unknown>>,
  direct: Partial<DirectUrl> = {},
  siteUrl = '',
) {
  const directUrls: DirectUrls = { directUrl: (path) => ({ url: store + path, ...direct }), asked: 0 }
  const served = await serve(t, siteUrl, [directUrlType(directUrls)])
  await served.mount('/s', 'DirectUrls', fields)
  await served.put('/s/a b.bin', 'content')
  const url = await listen(t, webdavHandler(served.gateway, { trustedProxies: new BlockList(), siteUrl }))
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  const ask = (path: string, method = 'GET') =>
    fetch(`${url}${siteUrl}/dav${path}`, { method, redirect: 'manual', headers: { authorization } })
  return { ask, sign: (path: string) => served.gateway.signedUrls.sign(asPath(path)) }
}

void t.test('302_redirect redirects to the direct URL', async (t) => {
  const { ask } = await mounted(t, {
    webdav_policy: '302_redirect',
    web_proxy: true,
    down_proxy_url: 'https://w.example',
  })
  for (const method of ['GET', 'HEAD']) {
    const response = await ask('/s/a%20b.bin', method)
    t.equal(response.status, 302)
    t.equal(response.headers.get('location'), `${store}/a%20b.bin`)
    t.equal(response.headers.get('cache-control'), 'no-store')
  }
  t.equal((await ask('/s/none')).status, 404)
  t.equal((await ask('/s/')).status, 405)
  t.equal((await ask('/s/', 'HEAD')).status, 200)
})

void t.test('use_proxy_url redirects to down_proxy_url, if configured', async (t) => {
  const withProxy = await mounted(t, { webdav_policy: 'use_proxy_url', down_proxy_url: 'https://w.example' })
  const response = await withProxy.ask('/s/a%20b.bin')
  t.equal(response.status, 302)
  t.equal(response.headers.get('location'), `https://w.example/s/a%20b.bin?sign=${withProxy.sign('/s/a b.bin')}`)
  t.equal((await withProxy.ask('/s/none')).status, 404)
  t.equal((await withProxy.ask('/s/')).status, 405)
})

void t.test('without down_proxy_url, and with native_proxy, the gateway sends the bytes', async (t) => {
  const policies = [
    { webdav_policy: 'use_proxy_url' },
    { webdav_policy: 'native_proxy', down_proxy_url: 'https://w.example' },
  ]
  for (const policy of policies) {
    const { ask } = await mounted(t, policy)
    t.equal(await (await ask('/s/a%20b.bin')).text(), 'content')
  }
})

void t.test('a direct URL that requires headers or has expired is not redirected to', async (t) => {
  for (const direct of [{ headers: { cookie: 'x' } }, { until: new Date(0) }]) {
    const { ask } = await mounted(t, { webdav_policy: '302_redirect' }, direct)
    t.equal(await (await ask('/s/a%20b.bin')).text(), 'content')
  }
})

void t.test('a direct URL without a host is relative to the site', async (t) => {
  const { ask } = await mounted(t, { webdav_policy: '302_redirect' }, { url: '/d/x' }, '/sub')
  t.equal((await ask('/s/a%20b.bin')).headers.get('location'), '/sub/d/x')
})
