/** The driver for another gateway: sign-in, expired sessions, strange answers, what it sends where, and moves. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { openlistFields, openlistType } from '../../../drivers/openlist/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import type { Entry } from '../../../src/contract/entry.js'
import { EgressGuard } from '../../../src/net/egress.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import {
  at,
  bytesAt,
  listed,
  namesIn,
  put,
  refuses,
  source,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { startGateway } from '../../gateway.js'
import { testEnv } from '../env.js'
import { memoryState, sendJson, startVendor, type SeenRequest, type VendorAnswer } from '../lib/cloud/vendor.js'

type Options = Readonly<Record<string, unknown>>

async function open(options: Options, env: Partial<DriverEnv> = {}): Promise<WritableDriver> {
  return (await openlistType.open(checkOptions(openlistFields, options), testEnv(env))) as WritableDriver
}

const folder = { name: 'root', is_dir: true, size: 0, modified: '2024-05-17T16:05:36Z' }
const file = { name: 'file', is_dir: false, size: '5', modified: '2024-05-17T16:05:36.465+08:00' }
const success = (data: unknown) => ({ code: 200, message: 'success', data })

/** A gateway with one file. `over`: answers to single paths of its API. */
async function scripted(t: Test, over: Readonly<Record<string, VendorAnswer>> = {}, token = 'good') {
  const vendor = await startVendor(t, (request, response) => {
    const path = request.path.replace(/\?.*/, '')
    const own = over[path]
    if (own) {
      own(request, response)
      return
    }
    if (path === '/api/auth/login') {
      sendJson(response, success({ token: 'good' }))
      return
    }
    if (request.headers.authorization !== token) {
      sendJson(response, { code: 401, message: 'token is expired', data: null })
      return
    }
    const asked = request.body === '' ? {} : (JSON.parse(request.body) as { path?: string })
    switch (path) {
      case '/api/me': {
        sendJson(response, success({ role: 2 }))
        return
      }
      case '/api/fs/list': {
        sendJson(response, success({ content: [file], total: 1 }))
        return
      }
      case '/api/fs/get': {
        sendJson(response, success(asked.path === '/' ? folder : { ...file, raw_url: '/d/file?sign=x' }))
        return
      }
    }
    sendJson(response, { code: 404, message: 'not found', data: null })
  })
  const credentials = { url: vendor.address.href, username: 'ann', password: 'secret' }
  return { ...vendor, credentials }
}

const paths = (seen: readonly SeenRequest[], path: string) => seen.filter((request) => request.path === path)

await t.test('a session that ends is renewed once for all calls, and its token is used after a restart', async (t) => {
  let token = 'first'
  const valid = new Set(['first'])
  const login: VendorAnswer = (_request, response) => {
    token = `token-${valid.size}`
    valid.clear()
    valid.add(token).add('x')
    sendJson(response, success({ token }))
  }
  const me: VendorAnswer = ({ headers }, response) => {
    const isValid = valid.has(headers.authorization ?? '')
    sendJson(response, isValid ? success({ role: 0 }) : { code: 401, message: 'token is invalidated', data: null })
  }
  const get: VendorAnswer = ({ headers }, response) => {
    const isValid = valid.has(headers.authorization ?? '')
    sendJson(response, isValid ? success(folder) : { code: 401, message: 'token is invalidated', data: null })
  }
  const { credentials, seen } = await scripted(t, { '/api/auth/login': login, '/api/me': me, '/api/fs/get': get })
  const { state } = memoryState()
  const driver = await open(credentials, { state })
  t.equal(paths(seen, '/api/auth/login').length, 1)
  valid.clear()
  await Promise.all(Array.from({ length: 10 }, () => driver.stat(at('/x'))))
  t.equal(paths(seen, '/api/auth/login').length, 2, 'one sign-in for ten calls')
  await driver.close?.()
  const again = await open(credentials, { state })
  t.equal(paths(seen, '/api/auth/login').length, 2, 'the token is stored')
  await again.close?.()
  const other = await open({ ...credentials, password: 'changed' }, { state })
  t.equal(paths(seen, '/api/auth/login').length, 3, 'with another password it is not used')
  await other.close?.()
})

await t.test('a token is sent as it is, and when it is refused, the password is used', async (t) => {
  const { credentials, seen } = await scripted(t)
  const { url } = credentials
  const driver = await open({ url, token: ' good ' })
  t.same(await namesIn(driver, '/'), ['file'])
  t.equal(paths(seen, '/api/auth/login').length, 0)
  await driver.close?.()
  await refuses(t, () => open({ url, token: 'bad' }), 'denied', 'a bad token alone')
  const withPassword = await open({ ...credentials, token: 'bad' })
  t.equal(paths(seen, '/api/auth/login').length, 1)
  await withPassword.close?.()
})

await t.test('refused passwords and one-time codes are final, and are not tried again', async (t) => {
  for (const code of [400, 401, 402]) {
    const login: VendorAnswer = (_request, response) => sendJson(response, { code, message: 'no', data: null })
    const { credentials, seen } = await scripted(t, { '/api/auth/login': login })
    const { state } = memoryState()
    await refuses(t, () => open(credentials, { state }), 'denied', `code ${code}`)
    t.equal(seen.length, 1)
    await refuses(t, () => open(credentials, { state }), 'denied', `code ${code}, opened again`)
    t.equal(seen.length, 1, 'the server is not asked again for a while')
    await refuses(t, () => open({ ...credentials, password: 'other' }, { state }), 'denied', 'another password')
    t.equal(seen.length, 2)
  }
})

await t.test('a guest needs the permission of the site', async (t) => {
  const settings = { allow_mounted: 'false' }
  const { credentials } = await scripted(
    t,
    {
      '/api/me': (_request, response) => sendJson(response, success({ role: 1 })),
      '/api/public/settings': (_request, response) => sendJson(response, success(settings)),
      '/api/fs/get': (_request, response) => sendJson(response, success(folder)),
    },
    undefined,
  )
  const { url } = credentials
  await t.rejects(open({ url }), { code: 'denied', reason: 'the site does not allow mounted' })
  settings.allow_mounted = 'true'
  const driver = await open({ url })
  t.equal((await driver.stat(at('/'))).kind, 'folder')
  await driver.close?.()
})

await t.test('without credentials, a gateway that admits no guests asks for them', async (t) => {
  const { credentials } = await scripted(t)
  const reason = 'the OpenList server admits no guests: a user name and a password, or a token, are needed'
  await t.rejects(open({ url: credentials.url }), { code: 'denied', reason })
  const running = await startGateway(t)
  await t.rejects(open({ url: running.url }, { egress: new EgressGuard(() => '') }), { code: 'denied', reason })
})

await t.test('an address without a scheme is one of https, which the error says', async (t) => {
  const { address } = await startVendor(t, (_request, response) => sendJson(response, {}))
  await t.rejects(open({ url: address.host, token: 'x' }), {
    code: 'unavailable',
    reason:
      /the OpenList server does not speak TLS: .* \(url begins with neither http:\/\/ nor https:\/\/, so https:\/\/ was used\)$/,
  })
  await t.rejects(open({ url: address.href, token: 'x' }), {
    code: 'unavailable',
    reason: 'the OpenList server sent an answer of another API',
  })
})

await t.test('an address that is not that of such an API is an error, not an empty storage', async (t) => {
  const answers: readonly VendorAnswer[] = [
    (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html></html>'),
    (_request, response) => sendJson(response, { hello: 'world' }),
    (_request, response) => response.writeHead(404).end(),
    (_request, response) => response.end('{"code": 200'),
  ]
  for (const answer of answers) {
    const { address } = await startVendor(t, answer)
    await refuses(t, () => open({ url: address.href, token: 'x' }), 'unavailable', 'another server')
  }
  for (const url of ['', 'ftp://example.org', 'http://user:pass@example.org']) {
    await refuses(t, () => open({ url, token: 'x' }), 'invalid', url)
  }
})

await t.test('errors of the gateway have their code by its code and text', async (t) => {
  let error: object = {}
  const { credentials } = await scripted(t, { '/api/fs/list': (_request, response) => sendJson(response, error) })
  const driver = await open(credentials)
  t.teardown(() => driver.close?.())
  const cases: readonly (readonly [number, string, string])[] = [
    [500, 'failed get objs: failed get dir: object not found', 'not_found'],
    [500, 'failed get storage: storage not found; rawPath: /x', 'not_found'],
    [500, 'failed to list objs: not a folder', 'not_folder'],
    [500, 'not implement', 'unsupported'],
    [500, 'upload not supported', 'unsupported'],
    [500, 'permission denied', 'denied'],
    [403, 'file [x] exists', 'exists'],
    [403, 'file exists', 'exists'],
    [403, 'password is incorrect or you have no permission', 'denied'],
    [507, 'no space', 'no_space'],
    [423, 'locked', 'locked'],
    [500, 'something else', 'unavailable'],
    [999, 'unknown', 'unavailable'],
  ]
  for (const [code, message, expected] of cases) {
    error = { code, message, data: null }
    await t.rejects(listed(driver, '/a'), { code: expected }, message)
  }
  error = { code: 500, message: 'stat /srv/secret: broken', data: null }
  const shown = await listed(driver, '/a').catch((reason: unknown) => String(reason))
  t.notMatch(shown, 'secret', 'texts of the other gateway are not shown')
  error = success({
    content: [file, { ...file, name: '' }, { ...file, name: 'odd', size: -1, modified: 'never' }],
    total: 3,
  })
  t.same(
    (await listed(driver, '/a')).map(({ name, size, modified }): Partial<Entry> => ({ name, size, modified })),
    [
      { name: 'file', size: 5, modified: new Date('2024-05-17T08:05:36.465Z') },
      { name: 'odd', size: 0, modified: new Date(0) },
    ],
  )
})

await t.test('code 429 stops all calls of the mount', async (t) => {
  let isLimited = true
  const { credentials, seen } = await scripted(t, {
    '/api/fs/list': (_request, response) => {
      if (isLimited) sendJson(response, { code: 429, message: 'too many', data: null })
      else sendJson(response, success({ content: [], total: 0 }))
    },
  })
  const driver = await open(credentials)
  const before = seen.length
  await t.rejects(listed(driver, '/'), { code: 'unavailable' })
  isLimited = false
  await t.rejects(driver.stat(at('/file')), { code: 'unavailable' })
  t.equal(seen.length, before + 1)
  await driver.close?.()
})

await t.test('a refresh is passed on, and is left out where the account may not refresh', async (t) => {
  const { credentials, seen } = await scripted(t, {
    '/api/fs/list': ({ body }, response) => {
      const { refresh, path } = JSON.parse(body) as { refresh: boolean; path: string }
      if (refresh && path === '/closed')
        sendJson(response, { code: 403, message: 'Refresh without permission', data: null })
      else sendJson(response, success({ content: [file], total: 1 }))
    },
  })
  const refreshes = () =>
    paths(seen, '/api/fs/list').map(({ body }) => (JSON.parse(body) as { refresh: boolean }).refresh)
  const driver = await open(credentials)
  const names = async (path: string, refresh: boolean) => {
    for await (const page of driver.pages(at(path), { refresh })) t.equal(page.length, 1)
  }
  await names('/', false)
  await names('/', true)
  await names('/closed', true)
  t.same(refreshes(), [false, true, true, false])
  await driver.close?.()
  const without = await open({ ...credentials, pass_refresh_flag_to_upsteam: false })
  for await (const page of without.pages(at('/'), { refresh: true })) t.equal(page.length, 1)
  t.equal(refreshes().at(-1), false)
  await without.close?.()
})

await t.test('the client of a direct URL is passed on, as far as the options say', async (t) => {
  const { credentials, seen } = await scripted(t)
  const client = { userAgent: 'a player', address: '192.0.2.7' }
  const driver = await open(credentials)
  t.same(driver.traits?.urlsBoundTo, ['userAgent', 'address'])
  const url = await driver.directUrl?.(at('/file'), client)
  t.same(url, { url: new URL('/d/file?sign=x', credentials.url).href })
  t.match(seen.at(-1)?.headers, { 'user-agent': 'a player', 'x-forwarded-for': '192.0.2.7', 'x-real-ip': '192.0.2.7' })
  t.match(
    await driver.directUrl?.(at('/file')),
    { headers: { 'user-agent': 'tidegate' } },
    'for a client without a name',
  )
  await driver.close?.()
  const silent = await open({ ...credentials, pass_ua_to_upsteam: false, pass_ip_to_upsteam: false })
  t.same(silent.traits?.urlsBoundTo, [])
  await silent.directUrl?.(at('/file'))
  t.match(seen.at(-1)?.headers, { 'user-agent': 'tidegate', 'x-forwarded-for': undefined })
  await silent.close?.()
})

await t.test('folder passwords accompany every call', async (t) => {
  for (const [password, header] of [
    ['open sesame', { password: 'open sesame' }],
    ['sésame', { cookie: 'browser-password=s%C3%A9same' }],
  ] as const) {
    const { credentials, seen } = await scripted(t)
    const driver = await open({ ...credentials, meta_password: password })
    await namesIn(driver, '/')
    const list = paths(seen, '/api/fs/list')[0]
    t.match(list?.headers, header)
    t.match(JSON.parse(list?.body ?? ''), { password })
    await driver.close?.()
  }
})

await t.test('downloads from another host carry no credentials, and only go where the guard allows it', async (t) => {
  const seen: Readonly<Record<string, unknown>>[] = []
  const store = createServer((request, response) => {
    seen.push(request.headers)
    const [, first, last] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? []
    const all = Buffer.from('hello')
    if (first === undefined) return response.end(all)
    const part = all.subarray(Number(first), last === '' ? undefined : Number(last) + 1)
    const end = Number(first) + part.length - 1
    return response
      .writeHead(206, { 'content-range': `bytes ${first}-${end}/5`, 'content-length': part.length })
      .end(part)
  })
  store.listen(0, '127.0.0.2')
  await once(store, 'listening')
  t.teardown(() => store.close())
  const elsewhere = `http://127.0.0.2:${(store.address() as AddressInfo).port}/file`
  const get: VendorAnswer = ({ body }, response) => {
    const isRoot = (JSON.parse(body) as { path: string }).path === '/'
    sendJson(response, success(isRoot ? folder : { ...file, raw_url: elsewhere }))
  }
  const { credentials } = await scripted(t, { '/api/fs/get': get })
  const closed = await open({ ...credentials, meta_password: 'folder' })
  await refuses(t, () => closed.read(at('/file')), 'denied', 'a network that is not allowed')
  t.equal(seen.length, 0)
  await closed.close?.()
  const driver = await open(
    { ...credentials, meta_password: 'folder' },
    { egress: new EgressGuard(() => '127.0.0.2/32') },
  )
  t.equal(await textAt(driver, '/file'), 'hello')
  t.equal(await textAt(driver, '/file', 1, 3), 'ell')
  t.equal(seen.length, 2)
  t.notMatch(JSON.stringify(seen), /good|folder|ann/)
  await driver.close?.()
})

await t.test(
  'an upload that the gateway stores only in part is an error, and the staged file is removed',
  async (t) => {
    const puts: string[] = []
    const removed: string[] = []
    const { credentials } = await scripted(t, {
      '/api/fs/get': ({ body }, response) => {
        const { path } = JSON.parse(body) as { path: string }
        if (path === '/') sendJson(response, success(folder))
        else if (path === '/new') sendJson(response, { code: 500, message: 'object not found', data: null })
        else sendJson(response, success({ ...file, name: 'staged', size: 3 }))
      },
      '/api/fs/put': ({ headers }, response) => {
        puts.push(decodeURIComponent(String(headers['file-path'])))
        sendJson(response, success(null))
      },
      '/api/fs/remove': ({ body }, response) => {
        removed.push(...(JSON.parse(body) as { names: string[] }).names)
        sendJson(response, success(null))
      },
    })
    const driver = await open(credentials)
    await refuses(t, () => driver.write(at('/new'), source('hello')), 'unavailable', 'three of five bytes')
    t.equal(puts.length, 1)
    t.same(
      removed.map((name) => `/${name}`),
      puts,
    )
    await driver.close?.()
  },
)

await t.test(
  'an entry is moved and renamed at once, also if a name is taken on the way, and put back on failure',
  async (t) => {
    const running = await startGateway(t, { driver: { name: 'Memory' } })
    const driver = await open({ url: running.url, username: 'admin', password: running.adminPassword })
    t.teardown(() => driver.close?.())
    for (const path of ['/from', '/to', '/from/tree']) await driver.mkdir(at(path))
    await put(driver, '/from/file', 'mine')
    await put(driver, '/to/file', 'other')
    await put(driver, '/to/target', 'old')
    await put(driver, '/from/tree/deep', 'deep')
    await driver.move?.(at('/from/file'), at('/to/target'))
    t.same([await namesIn(driver, '/from'), await namesIn(driver, '/to')], [['tree'], ['file', 'target']])
    t.same([await textAt(driver, '/to/target'), await textAt(driver, '/to/file')], ['mine', 'other'])
    await driver.move?.(at('/from/tree'), at('/to/renamed'))
    t.equal(await textAt(driver, '/to/renamed/deep'), 'deep')
    t.same(await namesIn(driver, '/from'), [])
  },
)

await t.test('a move between two storages of the other gateway waits for its tasks', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { url, adminPassword, gateway } = running
  const login = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password: adminPassword }),
  })
  const { data } = (await login.json()) as { data: { token: string } }
  const created = await fetch(`${url}/api/admin/storage/create`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: data.token },
    body: JSON.stringify({ mount_path: '/second', driver: 'Memory', addition: '{}' }),
  })
  t.match(await created.json(), { code: 200 })
  t.ok(gateway)
  const driver = await open({ url, token: data.token })
  t.teardown(() => driver.close?.())
  await driver.mkdir(at('/tree'))
  const content = Buffer.alloc(3_000_000, 'x')
  await put(driver, '/tree/file', content)
  await driver.move?.(at('/tree'), at('/second/tree'))
  t.ok((await bytesAt(driver, '/second/tree/file')).equals(content))
  t.same(await namesIn(driver, '/'), ['second'])
})

await t.test('an upload whose session has ended meanwhile is sent once the driver has signed in again', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { state, values } = memoryState()
  const credentials = { url: running.url, username: 'admin', password: running.adminPassword }
  const driver = await open(credentials, { state })
  t.teardown(() => driver.close?.())
  const { value } = JSON.parse([...values.values()].join('')) as { value: string }
  const out = await fetch(`${running.url}/api/auth/logout`, { headers: { authorization: value } })
  t.match(await out.json(), { code: 200 })
  await put(driver, '/file', 'hello')
  t.equal(await textAt(driver, '/file'), 'hello')
})
