/** The files of a web client are served with types, caching, ranges and encodings; no others can be reached. */
import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import t from 'tap'
import { WebFolder } from '../../../../protocols/http/site/web-folder.js'
import { rawRequest } from '../raw-request.js'
import { serve } from '../served.js'
import { appScript, webBuild } from './web-build.js'

void t.test('files of a build have their content types, and are cached for 180 days', async (t) => {
  const { url } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  for (const [path, type] of [
    ['/assets/app-3f9c.js', 'text/javascript; charset=utf-8'],
    ['/assets/packed-01.css', 'text/css; charset=utf-8'],
    ['/images/logo.svg', 'image/svg+xml'],
    ['/streamer/mitm.html', 'text/html; charset=utf-8'],
    ['/static/a%20b+%C3%BC.txt', 'text/plain; charset=utf-8'],
  ] as const) {
    const file = await fetch(url + path)
    t.equal(file.status, 200, path)
    t.equal(file.headers.get('content-type'), type)
    t.equal(file.headers.get('cache-control'), 'public, max-age=15552000')
    t.equal(file.headers.get('x-content-type-options'), 'nosniff')
    t.equal(file.headers.get('content-disposition'), null)
    t.equal(file.headers.get('content-security-policy'), null, 'they may run as pages of the site')
    const head = await rawRequest(url, { path, method: 'HEAD' })
    t.equal(head.headers['content-length'], (await rawRequest(url, { path })).headers['content-length'])
    t.equal(head.body, '')
  }
  t.equal(await (await fetch(`${url}/assets/app-3f9c.js?v=2`)).text(), appScript)
})

void t.test('files of a build support ranges and conditional requests', async (t) => {
  const { url } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  const address = `${url}/assets/large-77aa.js`
  const part = await fetch(address, { headers: { range: 'bytes=12-22' } })
  t.equal(part.status, 206)
  t.equal(part.headers.get('content-range'), 'bytes 12-22/220000')
  t.equal(await part.text(), '* large *//')
  const whole = await fetch(address)
  t.equal((await whole.text()).length, 220_000)
  const etag = whole.headers.get('etag') ?? ''
  const modified = whole.headers.get('last-modified') ?? ''
  for (const headers of [{ 'if-none-match': etag }, { 'if-modified-since': modified }]) {
    const known = await fetch(address, { headers })
    t.equal(known.status, 304)
    t.equal(known.headers.get('cache-control'), 'public, max-age=15552000')
    t.equal(known.headers.get('vary'), 'Accept-Encoding')
  }
  t.equal((await fetch(address, { headers: { 'if-match': '"other"' } })).status, 412)
  t.equal((await fetch(address, { headers: { range: 'bytes=999999-' } })).status, 416)
})

void t.test('precompressed files are sent to clients that accept the encoding', async (t) => {
  const { url } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  const packed = (accepted: string) =>
    rawRequest(url, { path: '/assets/packed-01.css', headers: { 'accept-encoding': accepted } })
  for (const [accepted, encoding] of [
    ['gzip, deflate, br', 'br'],
    ['gzip', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip'],
    ['identity', undefined],
    ['br;q=0.000', undefined],
    ['', undefined],
  ] as const) {
    const { headers } = await packed(accepted)
    t.equal(headers['content-encoding'], encoding, accepted)
    t.equal(headers['content-type'], 'text/css; charset=utf-8')
    t.equal(headers.vary, 'Accept-Encoding')
  }
  t.equal(await (await fetch(`${url}/assets/packed-01.css`)).text(), 'body{color:red}')
  const plain = await fetch(`${url}/assets/packed-01.css.br`, { headers: { 'accept-encoding': 'identity' } })
  t.equal(brotliDecompressSync(Buffer.from(await plain.arrayBuffer())).toString(), 'body{color:red}')
  t.equal(
    (await rawRequest(url, { path: '/assets/app-3f9c.js', headers: { 'accept-encoding': 'br' } })).body,
    appScript,
  )
})

void t.test('a missing file is answered with 404, not with the page of the client', async (t) => {
  const { url } = await serve(t, '', [], { dist_dir: await webBuild(t) })
  for (const path of ['/assets/old-build.js', '/assets/', '/assets/none/x.js', '/assets/app-3f9c.js/x', '/images/']) {
    const missing = await fetch(url + path)
    t.equal(missing.status, 404, path)
    t.equal(missing.headers.get('cache-control'), 'no-cache')
    t.notMatch(await missing.text(), 'id="root"')
  }
  const refused = await fetch(`${url}/assets/app-3f9c.js`, { method: 'POST' })
  t.equal(refused.status, 405)
  t.equal(refused.headers.get('allow'), 'GET, HEAD')
})

void t.test('no request target reaches hidden files or files outside of the folder', async (t) => {
  const dist = await webBuild(t, 'newer', { 'assets/.git/config': 'secret', 'private/x.txt': 'secret' })
  const outside = await mkdtemp(join(tmpdir(), 'tidegate-outside-'))
  t.teardown(() => rm(outside, { recursive: true, force: true }))
  await writeFile(join(outside, 'secret.txt'), 'secret')
  // A sibling whose name begins like the folder's.
  await mkdir(`${dist}-other`)
  t.teardown(() => rm(`${dist}-other`, { recursive: true, force: true }))
  await writeFile(join(`${dist}-other`, 'secret.txt'), 'secret')
  await symlink(join(outside, 'secret.txt'), join(dist, 'assets', 'file-link.txt'))
  await symlink(outside, join(dist, 'assets', 'folder-link'))
  await symlink(`${dist}-other`, join(dist, 'assets', 'sibling-link'))
  await symlink('.git', join(dist, 'assets', 'hidden-link'))
  await symlink('loop', join(dist, 'assets', 'loop'))
  await symlink('../assets/app-3f9c.js', join(dist, 'assets', 'inside-link.js'))
  spawnSync('mkfifo', [join(dist, 'assets', 'pipe')])
  const { url } = await serve(t, '', [], { dist_dir: dist })
  const escape = `${'../'.repeat(12)}etc/passwd`
  for (const path of [
    '/assets/../private/x.txt',
    '/assets/%2e%2e/private/x.txt',
    '/assets/%2E%2E%2Fprivate%2Fx.txt',
    '/assets/..%5cprivate%5cx.txt',
    '/assets/..\\private\\x.txt',
    '/assets/%252e%252e/private/x.txt',
    `/assets/${escape}`,
    `/assets/${escape.replaceAll('/', '%2f')}`,
    '/assets//etc/passwd',
    '/assets/%2fetc/passwd',
    '/assets/./app-3f9c.js',
    '/assets/app-3f9c.js%00.png',
    '/assets/%00',
    '/assets/app-3f9c.js%0d%0aX-Evil:1',
    '/assets/%zz',
    '/assets/%ff',
    '/assets/.hidden',
    '/assets/%2ehidden',
    '/assets/.git/config',
    '/assets/file-link.txt',
    '/assets/folder-link/secret.txt',
    '/assets/sibling-link/secret.txt',
    '/assets/hidden-link/config',
    '/assets/loop',
    '/assets/pipe',
    `/assets/${'x'.repeat(300)}`,
    '/static/%2e%2e/index.html',
  ]) {
    const answer = await rawRequest(url, { path })
    t.equal(answer.status, 404, path)
    t.notMatch(answer.body, 'secret')
    t.equal(answer.headers['x-evil'], undefined)
  }
  for (const path of ['/private/x.txt', '/..%2fx', '/assets%2f..%2fprivate/x.txt', '/.hidden', '//assets/.hidden']) {
    t.match((await rawRequest(url, { path })).body, 'id="root"', `${path} is a page of the client`)
  }
  t.equal((await rawRequest(url, { path: '/assets/inside-link.js' })).body, appScript, 'a symlink within the folder')
})

void t.test('the folder may be a symlink that is switched to the next build', async (t) => {
  const first = await webBuild(t, 'newer', { 'assets/build.txt': 'first' })
  const second = await webBuild(t, 'newer', { 'assets/build.txt': 'second' })
  const parent = await mkdtemp(join(tmpdir(), 'tidegate-current-'))
  t.teardown(() => rm(parent, { recursive: true, force: true }))
  const current = join(parent, 'current')
  await symlink(first, current)
  const folder = new WebFolder(current)
  const content = async (): Promise<string> => {
    const file = await folder.open(['assets', 'build.txt'])
    const bytes = Buffer.alloc(file.entry.size)
    await file.read(bytes, 0)
    await file.close()
    return bytes.toString()
  }
  t.equal(await content(), 'first')
  await rm(current)
  await symlink(second, current)
  t.equal(await content(), 'second')
})
