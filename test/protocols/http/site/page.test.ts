/** The start page of a web client: its placeholders, the paths that it is served for, its caching, and new builds. */
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { WebClient } from '../../../../protocols/http/site/web-client.js'
import { createLog } from '../../../../src/process/log.js'
import { rawRequest } from '../raw-request.js'
import { serve } from '../served.js'
import { families, indexPage, webBuild } from './web-build.js'

/** Longer than the interval between checks of the file. */
const untilLookedAgain = 1100

for (const family of ['newer', 'older'] as const) {
  void t.test(`every placeholder of a page of the ${family} family is replaced once by its value`, async (t) => {
    const { url, gateway } = await serve(t, '', [], { dist_dir: await webBuild(t, family) })
    await gateway.settings.set(
      new Map([
        ['site_title', 'Tides & sons'],
        ['main_color', '#00aa88'],
        ['favicon', 'https://example.org/icon.svg'],
        ['logo', 'https://example.org/light.png\nhttps://example.org/dark.png'],
        ['customize_head', '<meta name="own" content="head">'],
        ['customize_body', '<p id="own">body</p>'],
      ]),
    )
    const { pictures } = families[family]
    t.equal(
      await (await fetch(`${url}/some/folder`)).text(),
      indexPage(family)
        .replace('cdn: undefined', "cdn: ''")
        .replace('base_path: undefined', "base_path: '/'")
        .replace('main_color: undefined', "main_color: '#00aa88'")
        .replace(`${pictures}.svg`, 'https://example.org/icon.svg')
        .replace(`${pictures}.png`, 'https://example.org/light.png')
        .replace('Loading...', 'Tides &#38; sons')
        .replace('<!-- customize head -->', '<meta name="own" content="head">')
        .replace('<!-- customize body -->', '<p id="own">body</p>'),
    )
  })
}

for (const [siteUrl, trusted] of [
  ['/sub', []],
  ['https://example.org/sub/', ['127.0.0.1']],
] as const) {
  const peer = trusted.length === 0 ? 'anybody' : 'a trusted proxy'
  void t.test(`the page contains the path of the site, also with headers of ${peer}: ${siteUrl}`, async (t) => {
    const { url } = await serve(t, siteUrl, [], { dist_dir: await webBuild(t), trusted_proxies: [...trusted] })
    const plain = await (await fetch(`${url}/`)).text()
    t.match(plain, "cdn: '/sub',")
    t.match(plain, "base_path: '/sub',")
    t.match(plain, 'href="/sub/manifest.json"')
    const foreign = await rawRequest(url, {
      path: '/sub/folder',
      headers: {
        host: `evil.example'"><script>`,
        'x-forwarded-host': 'evil.example',
        'x-forwarded-proto': `https'+alert(1)+'`,
        'x-forwarded-prefix': '/evil',
        forwarded: 'host=evil.example',
      },
    })
    t.equal(foreign.status, 200)
    t.equal(foreign.body, plain, 'the page contains no host')
    t.equal((await fetch(`${url}/assets/app-3f9c.js`)).status, 200)
    t.equal((await fetch(`${url.replace('/sub', '')}/assets/app-3f9c.js`)).status, 404, 'outside of the site path')
  })
}

void t.test('without a configured picture the page requests none from other hosts', async (t) => {
  const { url } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  const text = await (await fetch(url)).text()
  t.notMatch(text, 'res.oplist.org')
  t.match(text, 'rel="apple-touch-icon" href="data:,"')
})

void t.test('with a CDN the page loads its files from there', async (t) => {
  const dist = await webBuild(t)
  const { url } = await serve(t, '/sub', [], { dist_dir: dist, cdn: 'https://cdn.example/build@4.1/' })
  t.match(await (await fetch(url)).text(), "cdn: 'https://cdn.example/build@4.1',")
  for (const method of ['GET', 'HEAD']) {
    const asset = await fetch(`${url}/assets/a%20b.js`, { method, redirect: 'manual' })
    t.equal(asset.status, 302)
    t.equal(asset.headers.get('location'), 'https://cdn.example/build@4.1/assets/a%20b.js')
  }
  for (const path of ['/sub/assets/%2e%2e/x', '/sub/assets/../../x', '/sub/assets/%2f%2fevil', '/sub/assets/%zz']) {
    t.equal((await rawRequest(url, { path })).status, 404, path)
  }
})

void t.test("management pages omit the admin's custom HTML, so that a mistake in it can be corrected", async (t) => {
  const { url, gateway } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  await gateway.settings.set(
    new Map([
      ['customize_head', '<script>broken</script>'],
      ['customize_body', '<p>body'],
    ]),
  )
  for (const path of ['/@manage', '/@manage/settings', '/%40manage']) {
    const text = await (await fetch(url + path)).text()
    t.notMatch(text, 'broken', path)
    t.notMatch(text, '<p>body', path)
    t.match(text, "base_path: '/'")
  }
  t.match(await (await fetch(`${url}/@login`)).text(), 'broken')
})

void t.test('the page is served for every unknown path, by GET, HEAD and POST', async (t) => {
  const { url } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  for (const path of [
    '/',
    '/@login',
    '/folder/file.txt',
    '/api',
    '/apiary',
    '/assetsx',
    '/%zz',
    '/a//b',
    '/index.html',
  ]) {
    const page = await fetch(url + path)
    t.equal(page.status, 200, path)
    t.match(await page.text(), '<div id="root">', path)
  }
  const page = await fetch(`${url}/x`)
  t.equal(page.headers.get('content-type'), 'text/html; charset=utf-8')
  t.equal(page.headers.get('cache-control'), 'no-cache')
  t.equal(page.headers.get('x-content-type-options'), 'nosniff')
  t.equal(page.headers.get('referrer-policy'), 'same-origin')
  t.equal(page.headers.get('content-security-policy'), "frame-ancestors 'self'")
  const post = await fetch(`${url}/x`, { method: 'POST', body: 'some=form' })
  t.equal(post.status, 200)
  t.equal(await post.text(), await page.text())
  const head = await fetch(`${url}/x`, { method: 'HEAD' })
  t.equal(head.status, 200)
  t.equal(head.headers.get('content-length'), page.headers.get('content-length'))
  t.equal(await head.text(), '')
  for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
    const refused = await fetch(`${url}/x`, { method })
    t.equal(refused.status, 405, method)
    t.equal(refused.headers.get('allow'), 'GET, HEAD, POST')
    t.equal(await refused.text(), '')
  }
  for (const path of ['/api/nothing', '/api/fs/nothing']) {
    t.match(await (await fetch(url + path)).json(), { code: 404, data: null })
  }
})

void t.test('a conditional request for the page is answered with 304 until a setting changes', async (t) => {
  const { url, gateway } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  const etag = (await fetch(url)).headers.get('etag') ?? ''
  const again = (): Promise<Response> => fetch(url, { headers: { 'if-none-match': etag } })
  t.equal((await again()).status, 304)
  await gateway.settings.set(new Map([['site_title', 'Another']]))
  const changed = await again()
  t.equal(changed.status, 200)
  t.match(await changed.text(), '<title>Another</title>')
})

void t.test('a new build is detected; while there is none the old page is served', async (t) => {
  const dist = await webBuild(t)
  const { url } = await serve(t, '', [], { dist_dir: dist })
  const text = async (): Promise<string> => (await fetch(url)).text()
  const index = join(dist, 'index.html')
  await writeFile(`${index}.new`, '<title>Loading...</title> second build')
  await rename(`${index}.new`, index)
  await wait(untilLookedAgain)
  t.equal(await text(), '<title>Tidegate</title> second build')
  await rm(index)
  await wait(untilLookedAgain)
  t.equal(await text(), '<title>Tidegate</title> second build')
  await writeFile(index, 'third build')
  await wait(untilLookedAgain)
  t.equal(await text(), 'third build')
})

void t.test('placeholders within a value are not replaced', async (t) => {
  const { url, gateway } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  await gateway.settings.set(
    new Map([
      ['customize_head', '<i>Loading... cdn: undefined <!-- customize body --> $& $1 $`</i>'],
      ['customize_body', 'BODY'],
      ['site_title', '<!-- customize head -->'],
    ]),
  )
  const text = await (await fetch(url)).text()
  t.match(text, '<i>Loading... cdn: undefined <!-- customize body --> $& $1 $`</i>')
  t.match(text, "cdn: ''")
  t.equal(text.split('BODY').length, 2)
})

void t.test('a folder without an index page is a configuration error', async (t) => {
  const log = createLog('silent')
  const refused = (folder: string): Promise<unknown> =>
    t.rejects(WebClient.open({ dist_dir: folder, cdn: '', site_url: '' }, log), {
      code: 'invalid',
      reason: /^bad configuration: dist_dir: .*\/index\.html: there is no such file that can be read$/,
    })
  await refused('/nowhere/at/all')
  const dist = await webBuild(t)
  await refused(join(dist, 'index.html'))
  await rm(join(dist, 'index.html'))
  await refused(dist)
})
