/** Downloads by signed URL: when a signature is required, which one is accepted, and the headers of the response. */
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { localType } from '../../../../drivers/local/index.js'
import { asPath } from '../../../../src/base/path.js'
import { serve } from '../served.js'

void t.test('a signed URL serves the file without authentication', async (t) => {
  const served = await serve(t)
  const content = 'x'.repeat(100_000)
  await served.put('/a b/ä #?.txt', content)
  const { data } = await served.post('/api/fs/get', { path: '/a b/ä #?.txt' })
  const { sign, raw_url: rawUrl } = data as { sign: string; raw_url: string }
  const path = '/a%20b/%C3%A4%20%23%3F.txt'

  for (const url of [
    rawUrl,
    `${served.url}/d${path}?sign=${sign}`,
    `${served.url}/p${path}?sign=${encodeURIComponent(sign)}&openlist_ts=1`,
    `${served.url}/d${path}?sign=${sign}/`,
    `${served.url}/d/x/%2e%2e${path}?sign=${sign}`,
  ]) {
    const response = await fetch(url)
    t.equal(response.status, 200, url)
    t.equal(await response.text(), content)
    t.equal(response.headers.get('content-type'), 'text/plain; charset=utf-8')
    t.match(response.headers.get('content-disposition'), /^attachment; filename=/)
    t.equal(response.headers.get('x-content-type-options'), 'nosniff')
  }

  const url = `${served.url}/d${path}?sign=${sign}`
  const head = await fetch(url, { method: 'HEAD' })
  t.equal(head.headers.get('content-length'), '100000')
  const range = await fetch(url, { headers: { range: 'bytes=10-19' } })
  t.equal(range.status, 206)
  t.equal(await range.text(), 'x'.repeat(10))
  t.equal((await fetch(url, { headers: { range: 'bytes=100000-' } })).status, 416)
  const etag = head.headers.get('etag') ?? ''
  t.equal((await fetch(url, { headers: { 'if-none-match': etag } })).status, 304)
  t.equal((await fetch(url, { headers: { 'if-match': '"other"' } })).status, 412)
  await served.put('/a b/ä #?.txt', content)
  t.not(
    (await fetch(url, { method: 'HEAD' })).headers.get('etag'),
    etag,
    'a second write with the same size changes the ETag',
  )
  t.equal((await fetch(url, { method: 'POST' })).status, 405)
})

void t.test('an invalid signed URL is answered with a page that states the reason', async (t) => {
  const served = await serve(t)
  await served.put('/a/file.txt', 'x')
  await served.put('/a/other.txt', 'x')
  const { data } = await served.post('/api/fs/get', { path: '/a/file.txt' })
  const { sign } = data as { sign: string }
  const signed = (path: string) => served.gateway.signedUrls.sign(path as never)
  for (const [link, status, message] of [
    ['/d/a/file.txt', 401, 'expire missing'],
    ['/d/a/file.txt?sign=', 401, 'expire missing'],
    ['/d/a/file.txt?sign=rubbish', 401, 'expire invalid'],
    ['/d/a/file.txt?sign=rubbish:0', 401, 'sign invalid'],
    ['/d/a/file.txt?sign=rubbish:5', 401, 'sign expired'],
    [`/d/a/other.txt?sign=${sign}`, 401, 'sign invalid'],
    [`/d/a/file.txt/..%2fother.txt?sign=${sign}`, 401, 'sign invalid'],
    [`/d/a/none?sign=${signed('/a/none')}`, 404, 'object not found'],
    [`/d/a?sign=${signed('/a')}`, 400, 'not a file'],
    ['/d/%zz', 400, 'percent-escape'],
    ['/d/a%00b?sign=x:0', 400, 'NUL'],
  ] as const) {
    const response = await fetch(served.url + link)
    t.equal(response.status, status, link)
    t.equal(response.headers.get('content-type'), 'text/html; charset=utf-8')
    const page = await response.text()
    t.match(page, message)
    t.equal(page.includes('<p>This link is not valid, or has expired.</p>'), status === 401, link)
    t.equal((await fetch(served.url + link, { method: 'HEAD' })).status, status)
  }
})

void t.test('without sign_all only files with a folder password require a signature', async (t) => {
  const served = await serve(t)
  await served.gateway.settings.set(new Map([['sign_all', 'false']]))
  await served.put('/open/file', 'x')
  await served.put('/closed/file', 'x')
  await served.rule('/closed', { password: 'secret', passwordSub: true })
  t.equal((await fetch(`${served.url}/d/open/file`)).status, 200)
  t.equal((await fetch(`${served.url}/d/closed/file`)).status, 401)
  const { data } = await served.post('/api/fs/get', { path: '/open/file' })
  t.match(data, { sign: '', raw_url: `${served.url}/p/open/file` })
  const closed = (await served.post('/api/fs/get', { path: '/closed/file' })).data as { sign: string; raw_url: string }
  t.not(closed.sign, '')
  t.equal((await fetch(closed.raw_url)).status, 200)
})

void t.test('every file below a hidden folder requires a signature', async (t) => {
  const served = await serve(t)
  await served.gateway.settings.set(new Map([['sign_all', 'false']]))
  const hidden = ['/shelf/secret', '/shelf/secret/file', '/shelf/secret/deep/file', '/shelf/secret/deep/down/file']
  for (const path of hidden.slice(1)) await served.put(path, 'x')
  await served.put('/shelf/open/secret/file', 'x')
  await served.rule('/shelf', { hide: '^secret$', hideSub: false })
  const bob = await served.as('bob', [])
  for (const path of hidden) {
    t.match(await bob.post('/api/fs/get', { path }), { code: 403 }, path)
    for (const route of ['/d', '/p']) t.equal((await fetch(served.url + route + path)).status, 401, route + path)
  }
  t.equal(
    (await fetch(`${served.url}/d/shelf/open/secret/file`)).status,
    200,
    'the rule does not apply to deeper folders',
  )
  const { data } = await served.post('/api/fs/list', { path: '/shelf/secret/deep' })
  const [, file] = (data as { content: { name: string; sign: string }[] }).content
  t.equal(
    (await fetch(`${served.url}/d/shelf/secret/deep/file?sign=${file?.sign}`)).status,
    200,
    'the listing has a valid signature',
  )
})

void t.test('signed URLs of a user with a base folder contain the path of the whole tree', async (t) => {
  const served = await serve(t)
  await served.put('/home/ann/file.txt', 'mine')
  const ann = await served.as('ann', [], '/home/ann')
  const { data } = await ann.post('/api/fs/get', { path: '/file.txt' })
  const { sign, raw_url: url } = data as { sign: string; raw_url: string }
  t.equal(url, `${served.url}/p/home/ann/file.txt?sign=${sign}`)
  t.equal(await ann.content('/file.txt'), 'mine')
  const { content } = (await ann.post('/api/fs/list', {})).data as { content: { sign: string }[] }
  t.equal(content[0]?.sign, sign)
})

void t.test('a file has the headers that clients expect, and browsers do not render it as a page', async (t) => {
  const served = await serve(t)
  const page = '<script>alert(1)</script>'
  await served.put("/ä 'x';.html", page)
  await served.put('/plain', 'x')
  const url = (name: string) =>
    `${served.url}/d/${encodeURIComponent(name)}?sign=${served.gateway.signedUrls.sign(`/${name}` as never)}`
  for (const method of ['GET', 'HEAD']) {
    const { headers } = await fetch(url("ä 'x';.html"), { method })
    const others = ['date', 'connection', 'keep-alive', 'etag', 'last-modified']
    const told = Object.fromEntries([...headers].filter(([name]) => !others.includes(name)))
    const name = '%C3%A4%20%27x%27%3B.html'
    t.strictSame(told, {
      'accept-ranges': 'bytes',
      'content-disposition': `attachment; filename="${name}"; filename*=utf-8''${name}`,
      'content-length': String(page.length),
      'content-security-policy': "sandbox; default-src 'none'",
      'content-type': 'text/html; charset=utf-8',
      'x-content-type-options': 'nosniff',
    })
    t.match(headers.get('etag'), /^"[^"]+"$/)
    t.equal(new Date(headers.get('last-modified') ?? '').toUTCString(), headers.get('last-modified'))
  }
  t.equal((await fetch(url('plain'))).headers.get('content-type'), 'application/octet-stream')
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
    const refused = await fetch(url('plain'), { method })
    t.equal(refused.status, 405, method)
    t.equal(refused.headers.get('allow'), 'GET, HEAD')
  }
})

void t.test('no user gets a signature of a symlink that leads out of the base folder', async (t) => {
  const served = await serve(t, '', [{ ...localType, name: 'Disk' }])
  const folder = join(t.testdir(), 'local')
  for (const home of ['ann', 'eve']) await mkdir(join(folder, home), { recursive: true })
  await writeFile(join(folder, 'eve/photo.png'), 'of eve')
  await writeFile(join(folder, 'ann/own.png'), 'of ann')
  for (const [target, name] of [
    ['../eve/photo.png', 'out.png'],
    ['nowhere', 'dangling.png'],
    ['own.png', 'in.png'],
  ] as const) {
    await symlink(target, join(folder, 'ann', name))
  }
  await served.mount('/m', 'Disk', { addition: JSON.stringify({ root_folder_path: folder, thumbnail: true }) })
  const ann = await served.as('ann', [], '/m/ann')
  const { data } = await ann.post('/api/fs/list', { path: '/' })
  for (const { name, sign, thumb } of (data as { content: { name: string; sign: string; thumb: string }[] }).content) {
    const mayRead = name === 'own.png' || name === 'in.png'
    t.equal(sign !== '', mayRead, name)
    if (!mayRead) t.equal(thumb, '', name)
    if (mayRead) t.equal(await (await fetch(`${served.url}/d/m/ann/${name}?sign=${sign}`)).text(), 'of ann')
  }
  t.match(await ann.post('/api/fs/share_link', { path: '/out.png' }), { code: 403, data: null })
  t.match(await ann.post('/api/fs/share_link', { path: '/dangling.png' }), { code: 500, data: null })
  t.equal(
    await (
      await fetch(`${served.url}/d/m/ann/out.png?sign=${served.gateway.signedUrls.sign(asPath('/m/ann/out.png'))}`)
    ).text(),
    'of eve',
    'which would open it',
  )
})
