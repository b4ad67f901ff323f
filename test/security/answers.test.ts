/** Injection into responses: names, texts of admins and untrusted headers are escaped in headers, pages and URLs. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import { addRule, addUser, basic, everyPermission, post, send, sendRaw, signIn, store, unbound } from './world.js'

const markup = `<img src=x onerror=alert(1)>"'&.html`

void t.test('names on the disk cannot inject response headers', async (t) => {
  const running = await startGateway(t)
  const { url, gateway } = running
  const disk = join(running.dataFolder, 'files')
  const names = [
    'a\r\nX-Evil: 1\r\n\r\nb',
    'a\nX-Evil: 1',
    'a"; filename="evil.exe',
    "a'*",
    'a\u0085b',
    '\u202egpj.exe',
    'é世😀',
    markup,
  ]
  await mkdir(join(disk, 'folder\r\nX-Evil: 1'), { recursive: true })
  for (const name of names) await writeFile(join(disk, name), 'content')
  const authorization = basic('admin', running.adminPassword)
  for (const name of names) {
    const target = `/${encodeURIComponent(name)}`
    const link = `/d${target}?sign=${gateway.signedUrls.sign(asPath(`/${name}`))}`
    for (const [method, path, headers] of [
      ['GET', link, {}],
      ['HEAD', link, {}],
      ['GET', link, { range: 'bytes=0-1,3-4' }],
      ['GET', `/dav${target}`, { authorization }],
      ['PROPFIND', `/dav${target}`, { authorization, depth: '0' }],
      ['GET', `/d${target}`, {}],
    ] as const) {
      const answer = await send(url, method, path, headers)
      t.ok(answer.status < 500, `${method} ${JSON.stringify(name)}: ${answer.status}`)
      t.notOk(answer.headers['x-evil'], 'no injected header')
      for (const value of Object.values(answer.headers)) t.match(String(value), /^[\u0020-\u007e]*$/)
      const disposition = answer.headers['content-disposition']
      if (disposition !== undefined) t.match(disposition, /^attachment; filename="[^"]*"; filename\*=utf-8''[^"' ]*$/i)
    }
  }
  const folder = await send(url, 'GET', `/dav/${encodeURIComponent('folder\r\nX-Evil: 1')}`, { authorization })
  t.notOk(folder.headers['x-evil'])
  t.notOk(folder.headers.location?.includes('\n'))
})

void t.test('request headers cannot inject response headers', async (t) => {
  const running = await startGateway(t)
  const { url, gateway } = running
  const authorization = basic('admin', running.adminPassword)
  await store(gateway.as(unbound()), '/file', 'content')
  const breaks = ['%0d%0aX-Evil:%201', '%E5%98%8D%E5%98%8AX-Evil:%201', '\u560d\u560aX-Evil: 1']
  for (const text of breaks) {
    const said = Buffer.from(text).toString('latin1')
    for (const [method, path, headers] of [
      ['MOVE', '/dav/file', { authorization, destination: `${url}/dav/x${said}` }],
      ['COPY', '/dav/file', { authorization, destination: `/dav/x${said}` }],
      ['MKCOL', `/dav/x${text}`, { authorization }],
      ['PUT', '/api/fs/put', { 'file-path': `/x${said}` }],
      ['OPTIONS', '/api/me', { origin: `http://x${said}`, 'access-control-request-headers': `x${said}` }],
      ['GET', `/${text}`, {}],
      ['GET', `/d/${text}`, {}],
      ['GET', `/${text}/..`, { host: `x${said}` }],
    ] as const) {
      const answer = await send(url, method, path, headers).catch(() => undefined)
      t.notOk(answer?.headers['x-evil'], `${method} ${path}`)
    }
  }
  for (const raw of [
    'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /dav/ HTTP/1.1\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: x\r\nX: a\nX-Evil: 1\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef',
    'GET / HTTP/1.1\r\nHost : x\r\n\r\n',
    'GET /\r\nX-Evil: 1 HTTP/1.1\r\nHost: x\r\n\r\n',
    'POST /api/fs/list HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
  ]) {
    const answers = (await sendRaw(url, raw)).match(/HTTP\/1\.1 \d\d\d/g) ?? []
    t.ok(answers.length <= 1 && (answers[0] ?? 'HTTP/1.1 400') >= 'HTTP/1.1 200', JSON.stringify(raw.slice(0, 60)))
    t.notOk(answers.some((line) => line.endsWith('207')))
  }
  await gateway.settings.set(new Map([['favicon', 'http://x/\r\nX-Evil: 1']])).catch(() => undefined)
  const icon = await send(url, 'GET', '/favicon.ico').catch(() => undefined)
  t.notOk(icon?.headers['x-evil'])
})

void t.test('stored files are sent sandboxed and as attachments', async (t) => {
  const running = await startGateway(t)
  const { url, gateway } = running
  const all = gateway.as(unbound())
  for (const name of ['page.html', 'image.svg', 'page.xhtml', 'script.js', 'file.pdf', 'noname', 'page.HTM']) {
    await store(all, `/${name}`, '<script>alert(1)</script>')
    const sign = gateway.signedUrls.sign(asPath(`/${name}`))
    const authorization = basic('admin', running.adminPassword)
    for (const [target, headers] of [
      [`/d/${name}?sign=${sign}`, {}],
      [`/p/${name}?sign=${sign}`, {}],
      [`/d/${name}?sign=${sign}`, { range: 'bytes=0-3' }],
      [`/dav/${name}`, { authorization }],
    ] as const) {
      const answer = await send(url, 'GET', target, headers)
      t.ok(answer.status < 300, target)
      t.match(answer.headers, { 'x-content-type-options': 'nosniff', 'content-security-policy': /sandbox/ }, target)
      if (!target.startsWith('/dav')) t.match(answer.headers, { 'content-disposition': /^attachment/ }, target)
    }
  }
})

void t.test('markup in names, rules and settings is escaped in every page', async (t) => {
  const running = await startGateway(t)
  const { url, gateway } = running
  const all = gateway.as(unbound())
  await store(all, `/${markup.replace('/', '')}`, 'x')
  await addRule(running, '/', { readme: markup, header: markup, readmeSub: true, headerSub: true })
  await gateway.settings.set(new Map([['site_title', markup]]))
  const encoded = encodeURIComponent(markup)
  for (const target of [
    '/',
    `/d/${encoded}`,
    `/p/${encoded}`,
    `/d/${encoded}?sign=${encoded}`,
    `/${encoded}`,
    `/?${encoded}`,
  ]) {
    const answer = await send(url, 'GET', target, { accept: 'text/html' })
    t.notMatch(answer.text, '<img src=x', target)
    if (answer.headers['content-type']?.includes('html'))
      t.match(answer.headers, { 'x-content-type-options': 'nosniff' }, target)
  }
  const token = await signIn(running, 'admin', running.adminPassword)
  for (const [endpoint, body] of [
    ['list', { path: '/' }],
    ['get', { path: `/${markup}` }],
    ['list', { path: `/none/${markup}` }],
    ['rename', { path: `/${markup}`, name: `../${markup}` }],
  ] as const) {
    const headers = { authorization: token, 'content-type': 'application/json', accept: 'text/html' }
    const answer = await send(url, 'POST', `/api/fs/${endpoint}`, headers, JSON.stringify(body))
    t.match(answer.headers['content-type'], /^application\/json/, endpoint)
  }
  const dav = await send(url, 'PROPFIND', '/dav/', { authorization: basic('admin', running.adminPassword), depth: '1' })
  t.equal(dav.status, 207)
  t.notMatch(dav.text, '<img', 'XML is escaped, too')
})

void t.test('URLs in responses do not use untrusted headers', async (t) => {
  const running = await startGateway(t)
  const { url, gateway } = running
  await store(gateway.as(unbound()), '/file', 'content')
  await addUser(running, 'ada', everyPermission)
  const authorization = await signIn(running, 'ada')
  const rawUrl = async (headers: Readonly<Record<string, string>>): Promise<string> => {
    const all = { authorization, 'content-type': 'application/json', ...headers }
    const { text } = await send(url, 'POST', '/api/fs/get', all, '{"path":"/file"}')
    return (JSON.parse(text) as { data: { raw_url: string } }).data.raw_url
  }
  const forwarded = {
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    'x-forwarded-port': '666',
    'x-forwarded-prefix': '/evil',
    'x-original-url': '/evil',
    'x-rewrite-url': '/evil',
    'x-host': 'evil.example',
    forwarded: 'host=evil.example;proto=https',
  }
  t.match(await rawUrl(forwarded), new RegExp(`^${url}/p/file`))
  for (const host of [
    'evil.example"><script>',
    'a b',
    'user@evil.example',
    'evil.example/path',
    'evil.example?x',
    '',
    'x'.repeat(300),
  ]) {
    const found = await rawUrl({ host }).catch(() => url)
    t.notMatch(found, /evil|<|@| /, JSON.stringify(host.slice(0, 30)))
  }
  const page = await send(url, 'GET', '/', { host: '"><script>alert(1)</script>' })
  t.notMatch(page.text, '<script>alert')

  const site = await startGateway(t, { config: { site_url: 'https://files.example/sub' } })
  await store(site.gateway.as(unbound()), '/file', 'content')
  const account = { username: 'admin', password: site.adminPassword }
  const signedIn = await post(site.url, '/sub/api/auth/login', account)
  const { token } = signedIn.data as { token: string }
  const { data } = await post(site.url, '/sub/api/fs/get', { path: '/file' }, token)
  t.match(
    (data as { raw_url: string }).raw_url,
    /^https:\/\/files\.example\/sub\/p\/file/,
    'the configured site URL, if there is one',
  )
})
