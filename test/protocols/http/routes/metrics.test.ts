/** Access to /metrics, and its format, which is that of Prometheus. */
import t from 'tap'
import { version } from '../../../../src/base/version.js'
import { samplesOf } from '../../../gateway/exposition.js'
import { send } from '../../../security/world.js'
import { serve, type Served } from '../served.js'

const get = ({ url }: Served, headers: Record<string, string> = {}, method = 'GET') =>
  send(url, method, '/metrics', headers)

const setNetworks = ({ gateway }: Served, networks: string) =>
  gateway.settings.set(new Map([['metrics_networks', networks]]))

void t.test('/metrics accepts the permanent token, raw or as Bearer, and no other token', async (t) => {
  const admin = await serve(t)
  const { settings } = admin.gateway
  const token = settings.get('token')
  const user = await admin.as('ada', [])
  for (const authorization of [
    '',
    'x',
    token.slice(1),
    `${token}x`,
    admin.token,
    user.token,
    `Bearer ${admin.token}`,
  ]) {
    const { status, headers, text } = await get(admin, authorization === '' ? {} : { authorization })
    t.equal(status, 401, authorization)
    t.match(headers, { 'www-authenticate': 'Bearer', 'content-type': /^text\/plain/, 'cache-control': 'no-store' })
    t.equal(text, 'the permanent token is required\n')
  }
  for (const authorization of [token, `Bearer ${token}`]) {
    const { status, headers } = await get(admin, { authorization })
    t.equal(status, 200)
    t.match(headers, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' })
  }
  t.equal(
    (await get(admin, { authorization: `Basic ${Buffer.from(`admin:${token}`).toString('base64')}` })).status,
    401,
  )
  await settings.resetToken()
  t.equal((await get(admin, { authorization: token })).status, 401, 'a replaced token')
})

void t.test('HEAD has the headers of GET and no body', async (t) => {
  const admin = await serve(t)
  const authorization = admin.gateway.settings.get('token')
  const { status, headers, text } = await get(admin, { authorization }, 'HEAD')
  t.equal(status, 200)
  t.match(headers, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'content-length': /^[1-9]/ })
  t.equal(text, '')
  t.equal((await get(admin, {}, 'HEAD')).status, 401)
})

void t.test('an address in metrics_networks needs no token', async (t) => {
  const admin = await serve(t)
  for (const networks of ['127.0.0.1', '10.0.0.0/8\n127.0.0.0/8', '::1, 0.0.0.0/0']) {
    await setNetworks(admin, networks)
    t.equal((await get(admin)).status, 200, networks)
    t.equal((await get(admin, { authorization: 'wrong' })).status, 200, 'with a wrong token')
  }
  for (const networks of ['', '10.0.0.0/8', '127.0.0.2', '::1']) {
    await setNetworks(admin, networks)
    t.equal((await get(admin)).status, 401, networks)
  }
  await t.rejects(setNetworks(admin, '10.0.0.0/33'), { code: 'invalid', message: /10\.0\.0\.0\/33/ })
})

void t.test('a cross-origin page cannot read /metrics through a browser at a permitted address', async (t) => {
  const admin = await serve(t)
  await setNetworks(admin, '127.0.0.1')
  t.equal((await get(admin, { origin: 'https://example.org' })).status, 401)
  const authorization = admin.gateway.settings.get('token')
  t.equal((await get(admin, { origin: 'https://example.org', authorization })).status, 200)
})

void t.test('a forwarded address counts only if a trusted proxy forwards it', async (t) => {
  const direct = await serve(t)
  await setNetworks(direct, '203.0.113.7')
  const forwarded = { 'x-forwarded-for': '203.0.113.7', 'x-real-ip': '203.0.113.7', forwarded: 'for=203.0.113.7' }
  for (const [name, value] of Object.entries(forwarded))
    t.equal((await get(direct, { [name]: value })).status, 401, name)

  const proxied = await serve(t, '', [], { trusted_proxies: ['127.0.0.1'] })
  await setNetworks(proxied, '203.0.113.7')
  for (const [name, value] of Object.entries(forwarded))
    t.equal((await get(proxied, { [name]: value })).status, 200, name)
  const chain = (addresses: string) => get(proxied, { 'x-forwarded-for': addresses })
  t.equal((await chain('203.0.113.7, 198.51.100.1')).status, 401, 'the header of an untrusted client is ignored')
  t.equal((await chain('198.51.100.1, 203.0.113.7')).status, 200)
  await setNetworks(proxied, '127.0.0.1')
  t.equal((await chain('198.51.100.1')).status, 401, 'the proxy is permitted, its client is not')
})

void t.test('the response contains metrics of storages, tasks, the build and the process', async (t) => {
  const admin = await serve(t, '/sub')
  await admin.mount('/broken', 'Broken')
  await admin.mount('/off', 'Local', { disabled: true })
  const authorization = admin.gateway.settings.get('token')
  const { text } = await send(new URL(admin.url).origin, 'GET', '/sub/metrics', { authorization })
  const samples = samplesOf(text)
  const storages = ['working', 'starting', 'failed', 'disabled'].map((status) =>
    samples.get(`tidegate_storages{status="${status}"}`),
  )
  t.same(storages, [1, 0, 1, 1])
  t.equal(samples.get('tidegate_tasks{kind="copy",state="running"}'), 0)
  t.equal([...samples.keys()].filter((key) => key.startsWith('tidegate_tasks{')).length, 5 * 7)
  t.equal(samples.get(`tidegate_build_info{version="${version}"}`), 1)
  for (const name of ['process_resident_memory_bytes', 'process_open_fds', 'nodejs_eventloop_lag_seconds']) {
    t.ok(samples.has(name), name)
  }
  t.equal((await get(admin, { authorization })).status, 404, 'it is missing outside of the path of the site')
})
