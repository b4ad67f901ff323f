/** The console is the site unless a web client is configured: its page, its files, its policy, and its absence. */
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { consoleFolder } from '../../../../protocols/http/site/console.js'
import { startGateway } from '../../../gateway.js'
import { rawRequest } from '../raw-request.js'
import { serve } from '../served.js'
import { consoleBuildFolder, previewDocument, webBuild } from './web-build.js'

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; " +
  "connect-src 'self'; worker-src 'self'; frame-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'self'; " +
  "form-action 'self'; frame-ancestors 'none'"

for (const site of ['', '/sub']) {
  void t.test(`the page of the console is sent for every path that nothing else has, at "${site}/"`, async (t) => {
    const { url, gateway } = await serve(t, site, [], {}, await consoleBuildFolder(t))
    await gateway.settings.set(
      new Map([
        ['site_title', '<b>Tides</b>'],
        ['favicon', 'https://example.org/i.png'],
        ['customize_head', '<script>of an external client</script>'],
      ]),
    )
    for (const path of ['/', '/@login', '/@manage/users', '/folder/file.txt', '/assets/x.js', '/images/', '/%zz']) {
      const page = await fetch(url + path)
      t.equal(page.status, 200, path)
      const text = await page.text()
      t.match(text, `<title>&#60;b&#62;Tides&#60;/b&#62;</title><base href="${site}/">`, path)
      t.match(text, /<link rel="icon" href="data:image\/svg\+xml,[^"]+"><div id="console">/)
      t.notMatch(text, 'example.org')
      t.notMatch(text, 'external client')
    }
    const page = await fetch(url)
    for (const [header, value] of [
      ['content-type', 'text/html; charset=utf-8'],
      ['cache-control', 'no-cache'],
      ['x-content-type-options', 'nosniff'],
      ['referrer-policy', 'same-origin'],
      ['content-security-policy', policy],
      ['permissions-policy', 'publickey-credentials-get=(self), publickey-credentials-create=(self)'],
      ['cross-origin-embedder-policy', null],
    ] as const) {
      t.equal(page.headers.get(header), value, header)
    }
    const etag = page.headers.get('etag') ?? ''
    const again = await fetch(url, { headers: { 'if-none-match': etag } })
    t.equal(again.status, 304)
    t.equal(again.headers.get('content-security-policy'), policy)
    t.match(await (await fetch(`${url}/api/nothing`)).json(), { code: 404 })
  })
}

void t.test('files of the console are cached, compressed, and subject to its policy', async (t) => {
  const { url } = await serve(t, '', [], {}, await consoleBuildFolder(t))
  const script = await fetch(`${url}/static/main-AB12.js`)
  t.equal(await script.text(), 'export {}')
  for (const [header, value] of [
    ['content-type', 'text/javascript; charset=utf-8'],
    ['cache-control', 'public, max-age=15552000'],
    ['x-content-type-options', 'nosniff'],
    ['content-security-policy', policy],
    ['content-disposition', null],
  ] as const) {
    t.equal(script.headers.get(header), value, header)
  }
  for (const encoding of ['br', 'gzip', undefined]) {
    const headers = { 'accept-encoding': encoding ?? 'identity' }
    const answer = await rawRequest(url, { path: '/static/packed-01.css', headers })
    t.equal(answer.headers['content-encoding'], encoding)
    t.equal(answer.headers['content-type'], 'text/css; charset=utf-8')
  }
  for (const path of ['/static/none.js', '/static/', '/static/..%2findex.html']) {
    const missing = await rawRequest(url, { path })
    t.equal(missing.status, 404, path)
    t.notMatch(missing.body, 'id="console"')
  }
  t.match(await (await fetch(`${url}/static/manifest.json`)).json(), { name: 'Tidegate' })
})

void t.test('a document that shows files of others has a policy that lets only its own script run', async (t) => {
  const { url } = await serve(t, '', [], {}, await consoleBuildFolder(t))
  const document = await fetch(`${url}/static/${previewDocument.name}`)
  t.equal(await document.text(), previewDocument.content)
  t.equal(document.headers.get('content-type'), 'text/html; charset=utf-8')
  t.equal(
    document.headers.get('content-security-policy'),
    `sandbox allow-scripts; default-src 'none'; script-src 'sha256-${previewDocument.digest}'; ` +
      "style-src 'unsafe-inline'; img-src blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
  )
})

void t.test('a configured web client takes the place of the console', async (t) => {
  const { url } = await serve(t, '', [], { dist_dir: await webBuild(t) }, await consoleBuildFolder(t))
  t.match(await (await fetch(url)).text(), 'id="root"')
})

void t.test('without a built console everything else works, and a page says what is missing', async (t) => {
  const served = await serve(t)
  for (const path of ['/', '/folder', '/static/main-AB12.js']) {
    const page = await fetch(served.url + path)
    t.equal(page.status, 404, path)
    t.match(await page.text(), 'The console is not part of this installation')
  }
  t.match(await served.get('/api/me'), { code: 200 })
})

void t.test('the daemon serves the console of the program', async (t) => {
  const { url } = await startGateway(t)
  const page = await (await fetch(url)).text()
  t.match(page, '<base href="/" />')
  t.notMatch(page, '{{')
  const [, script] = /<script type="module" src="(static\/[^"]+)"/.exec(page) ?? []
  const answer = await fetch(`${url}/${script ?? ''}`)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'text/javascript; charset=utf-8')
  const previews = (await readdir(join(consoleFolder, 'static'))).filter((name) => /^preview-.*\.html$/.test(name))
  t.strictSame(previews.map((name) => name.split('-')[1]).sort(), ['csv', 'docx', 'epub', 'xlsx'])
  for (const name of previews) {
    const document = await fetch(`${url}/static/${name}`)
    const [, program = ''] = /<script>(.*)<\/script>/s.exec(await document.text()) ?? []
    const digest = createHash('sha256').update(program).digest('base64')
    t.match(document.headers.get('content-security-policy'), `script-src 'sha256-${digest}';`, name)
    t.ok(gzipSync(program).length < 110_000, `${name} is small enough to be loaded for one file`)
  }
  const [, manifest] = /<link rel="manifest" href="([^"]+)"/.exec(page) ?? []
  const described = await fetch(`${url}/${manifest ?? ''}`)
  t.equal(described.headers.get('content-type'), 'application/manifest+json; charset=utf-8')
  t.match(await described.json(), { start_url: '/', icons: [{ type: 'image/svg+xml' }] })
})
