/** Calls of an API: credentials, renewals, pauses, repetition, and where credentials must not go. */
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  ApiClient,
  type ApiAnswer,
  type ApiCredentials,
  type AnswerMeaning,
} from '../../../../drivers/lib/json-api/api-client.js'
import { field, numberOf } from '../../../../drivers/lib/json-api/lenient.js'
import { RateGate } from '../../../../drivers/lib/json-api/rate-gate.js'
import { Renewal } from '../../../../drivers/lib/json-api/renewal.js'
import { HttpClient } from '../../../../drivers/lib/http/http-client.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { EgressGuard } from '../../../../src/net/egress.js'
import { refuses } from '../../../driver-conformance/subject.js'
import { serveVendorHosts } from '../../../servers/vendor-hosts.js'
import { memoryState, recorded, sendJson, startVendor, type SeenRequest, type VendorAnswer } from '../cloud/vendor.js'

const server = 'test server'
const scope = 'an account'

function meaningOf({ data }: ApiAnswer): AnswerMeaning {
  const code = numberOf(field(data, 'code')) ?? 200
  if (code === 200) return 'ok'
  if (code === 401) return 'expired'
  if (code === 777) return 'slow down'
  if (code === 778) return { slowDownFor: 60 }
  return new GatewayError('denied', { reason: `code ${code}` })
}

interface ClientOptions {
  readonly perSecond?: number
  readonly domains?: readonly string[]
  readonly allowed?: string
  readonly received?: ApiCredentials<string>['received']
}

/** A client whose token is `token-1`, and after renewals `token-2` and so on. */
async function connect(t: Test, address: URL, options: ClientOptions = {}) {
  const { perSecond = 0, domains = [], allowed = '', received } = options
  const memory = memoryState()
  const egress = new EgressGuard(() => allowed)
  const http = new HttpClient({ server, address, domains, verifiesCertificate: true, egress })
  const gate = await RateGate.open({ server, scope, perSecond, state: memory.state })
  const renewals = { count: 0 }
  const renewal = new Renewal<string>({
    initial: 'token-1',
    request: async () => {
      renewals.count++
      await client.call({ method: 'POST', url: new URL('/renew', address), isAnonymous: true })
      return `token-${renewals.count + 1}`
    },
    store: (token) => memory.state.set('token', token),
  })
  const headers = (token: string) => ({ authorization: `Bearer ${token}`, cookie: `session=${token}` })
  const credentials = { renewal, headers, ...(received && { received }) }
  const client = new ApiClient<string>({ server, http, gate, credentials, meaningOf })
  t.teardown(() => client.close())
  return { client, renewals, ...memory }
}

/** Accepts this token only. `/renew` is always accepted. */
function accepting(valid: { token: string }): VendorAnswer {
  return ({ path, headers }, response) => {
    const isAllowed = path === '/renew' || headers.authorization === `Bearer ${valid.token}`
    sendJson(response, isAllowed ? { code: 200, data: path } : { code: 401 })
  }
}

await t.test('a call has credentials, and its answer is parsed', async (t) => {
  const { address, seen } = await startVendor(t, (request, response) =>
    sendJson(response, { code: 200, data: request.body }),
  )
  const { client } = await connect(t, address)
  const json = await client.call({ url: new URL('/a', address), json: { x: 'ä' } })
  t.same(json.data, { code: 200, data: '{"x":"ä"}' })
  t.match(seen[0], { method: 'POST', headers: { authorization: 'Bearer token-1', 'content-type': 'application/json' } })
  const form = await client.call({ url: new URL('/b', address), form: { 'fid[0]': 7, name: 'a b&c' } })
  t.same(form.data, { code: 200, data: 'fid%5B0%5D=7&name=a+b%26c' })
  await client.call({ url: new URL('/c', address), isAnonymous: true })
  t.match(seen[2], { method: 'GET', headers: { authorization: undefined, cookie: undefined } })
})

await t.test('ten parallel calls on an expired token cause one renewal, and all succeed', async (t) => {
  const valid = { token: 'token-2' }
  const { address, seen } = await startVendor(t, accepting(valid))
  const { client, renewals, values } = await connect(t, address)
  const calls = Array.from({ length: 10 }, (_, index) => client.call({ url: new URL(`/${index}`, address), json: {} }))
  await Promise.all(calls)
  t.equal(renewals.count, 1)
  t.equal(values.get('token'), 'token-2')
  t.equal(seen.filter(({ path }) => path === '/renew').length, 1)
  valid.token = 'none'
  await refuses(t, () => client.call({ url: new URL('/a', address) }), 'denied', 'a renewed token that is refused')
  t.equal(renewals.count, 2, 'it was renewed once')
})

await t.test('a pause of the server stops all calls of the mount, and a call that may be repeated waits', async (t) => {
  let pauses = 1
  const { address, seen } = await startVendor(t, (_request, response) => {
    if (pauses-- > 0) sendJson(response, {}, 429, { 'retry-after': '1' })
    else sendJson(response, { code: 200 })
  })
  const { client } = await connect(t, address)
  const get = (path: string) => client.call({ url: new URL(path, address) })
  const first = get('/first')
  await wait(200)
  await Promise.all([first, ...['/a', '/b', '/c'].map(get)])
  const [refused, ...later] = seen
  t.equal(later.length, 4)
  for (const { at } of later) t.ok(at - (refused?.at ?? 0) >= 950, 'not before the second is over')
})

await t.test('vendor codes pause too, and calls that may not be repeated reject', async (t) => {
  const { address, seen } = await startVendor(t, ({ path }, response) =>
    sendJson(response, { code: Number(path.slice(1)) }),
  )
  const { client, values } = await connect(t, address)
  const url = new URL('/778', address)
  await t.rejects(client.call({ url, json: {} }), { code: 'unavailable', retryAfter: 60 })
  await t.rejects(client.call({ url: new URL('/200', address) }), { code: 'unavailable' })
  t.equal(seen.length, 1, 'nothing was sent in the pause')
  const { value } = JSON.parse(values.get('paused until') ?? '') as { value: number }
  t.ok(value > Date.now() + 50_000, 'the pause is stored')
})

await t.test('the page of a firewall pauses for minutes, another page does not', async (t) => {
  let status = 200
  const { address, seen } = await startVendor(t, (_request, response) => {
    response.writeHead(status, { 'content-type': 'text/html; charset=utf-8' }).end('<html>blocked</html>')
  })
  const { client } = await connect(t, address)
  const get = () => client.call({ url: address })
  await refuses(t, get, 'unavailable', 'a page')
  await refuses(t, get, 'unavailable', 'a page')
  t.equal(seen.length, 2)
  status = 405
  await t.rejects(get(), { code: 'unavailable', retryAfter: 300 })
  for (let index = 0; index < 20; index++) await refuses(t, get, 'unavailable', 'in the pause')
  t.equal(seen.length, 3)
})

await t.test('an answer is a page by its content, and may be other than JSON', async (t) => {
  let body = Buffer.from('{"code":200,"name":"<a>"}')
  const { address, seen } = await startVendor(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(body)
  })
  const { client } = await connect(t, address)
  t.match((await client.call({ url: address })).data, { name: '<a>' }, 'JSON that is called a page')
  body = Buffer.from([0x3c, 0x00, 0xff])
  const decode = (bytes: Buffer) => ({ code: 200, bytes: bytes.length })
  t.match((await client.call({ url: address, decode })).data, { bytes: 3 })
  body = Buffer.from('<!DOCTYPE html><title>blocked</title>')
  await refuses(t, () => client.call({ url: address, decode }), 'unavailable', 'a page instead')
  body = Buffer.from('sorry')
  await refuses(t, () => client.call({ url: address }), 'unavailable', 'neither')
  t.equal(seen.length, 4)
})

await t.test('only calls that are safe to repeat are repeated, also by POST', async (t) => {
  let failures = 0
  const { address, seen } = await startVendor(t, (_request, response) => {
    if (failures-- > 0) sendJson(response, {}, 502)
    else sendJson(response, { code: 200 })
  })
  const { client } = await connect(t, address)
  failures = 2
  await client.call({ url: address, json: {}, repeatable: true })
  t.equal(seen.length, 3)
  failures = 3
  await client.call({ url: address, json: {}, repeatable: true })
  t.equal(seen.length, 6, 'the last answer counts, whatever its status')
  failures = 1
  await client.call({ url: address, json: {} })
  t.equal(seen.length, 7)
})

await t.test('a server that fails is asked again after seconds, one that was not reached sooner', async (t) => {
  const answers = [503, 500, 200]
  const { address, seen } = await startVendor(t, (_request, response) => sendJson(response, {}, answers.shift()))
  const { client } = await connect(t, address)
  await client.call({ url: address })
  const [first = 0, second = 0, third = 0] = seen.map(({ at }) => at)
  t.equal(seen.length, 3)
  t.ok(second - first >= 990, `${second - first} ms after the first answer`)
  t.ok(third - second >= 1990, `${third - second} ms after the second one`)
})

await t.test(
  'a call that was refused for now is made again when the server wants it, also one that changes something',
  async (t) => {
    const page = '<html>Too Many Requests</html>'
    const refusals: readonly (readonly [number, string, string])[] = [
      [429, 'application/json', '{}'],
      [429, 'text/html', page],
      [200, 'application/json', '{"code":777}'],
    ]
    for (const [status, type, body] of refusals) {
      let isRefused = true
      const { address, seen } = await startVendor(t, (_request, response) => {
        if (isRefused) response.writeHead(status, { 'retry-after': '1', 'content-type': type }).end(body)
        else sendJson(response, { code: 200 })
        isRefused = false
      })
      const { client } = await connect(t, address)
      await client.call({ url: address, json: {} })
      t.equal(seen.length, 2)
      t.ok((seen[1]?.at ?? 0) - (seen[0]?.at ?? 0) >= 950, `${status} ${type}`)
    }
    const { address, seen } = await startVendor(t, (_request, response) => {
      response.writeHead(429, { 'retry-after': '26' }).end()
    })
    const { client } = await connect(t, address)
    await t.rejects(
      client.call({ url: address }),
      { code: 'unavailable', retryAfter: 26 },
      'not for longer than a client waits',
    )
    t.equal(seen.length, 1)
  },
)

await t.test('limit_rate holds for all calls together, and for repetitions and renewals', async (t) => {
  const { address, seen } = await startVendor(t, accepting({ token: 'token-2' }))
  const { client } = await connect(t, address, { perSecond: 4 })
  const start = performance.now()
  await Promise.all(Array.from({ length: 9 }, (_, index) => client.call({ url: new URL(`/${index}`, address) })))
  t.ok(seen.length > 10, 'a renewal, and calls that were repeated after it')
  // However late a request arrives, those after it cannot be earlier.
  const times = seen.map(({ at }) => at).sort((one, other) => one - other)
  for (const [index, at] of times.entries()) t.ok(at - start >= index * 250, `request ${index}`)
})

await t.test('credentials and headers of a call do not follow a redirect, not even to another own host', async (t) => {
  const answer: VendorAnswer = (_request, response) => sendJson(response, { code: 200 })
  const other = await startVendor(t, answer, '127.0.0.2')
  const own = recorded(answer)
  await serveVendorHosts(t, { 'files.vendor.example': own.listener })
  const redirect = { to: new URL('/there', other.address).href }
  const { address, seen } = await startVendor(t, (_request, response) => {
    response.writeHead(302, { location: redirect.to }).end()
  })
  const foreign = await connect(t, address, { allowed: '127.0.0.0/8' })
  const guarded = await connect(t, address, { domains: ['vendor.example', 'localhost'] })
  const call = { url: address, headers: { 'x-vendor-token': 'the-vendor-token' } }
  await refuses(t, () => guarded.client.call(call), 'denied', 'a network that is not allowed')
  t.equal(other.seen.length, 0)
  await foreign.client.call(call)
  redirect.to = 'https://files.vendor.example/there'
  await guarded.client.call(call)
  for (const [header] of [other.seen, own.seen]) t.notMatch(JSON.stringify(header?.headers), /token|session/)
  t.match(seen[0]?.headers, { authorization: 'Bearer token-1', 'x-vendor-token': 'the-vendor-token' })
  await refuses(t, () => guarded.client.call({ ...call, json: {} }), 'unavailable', 'a POST')
  t.equal(own.seen.length, 1)
  redirect.to = `http://localhost:${address.port}/`
  await refuses(t, () => guarded.client.call(call), 'denied', 'a name of the vendor without TLS')
})

await t.test('a cookie that is set elsewhere is not taken over', async (t) => {
  const received: unknown[] = []
  const elsewhere = await startVendor(
    t,
    (_request, response) => sendJson(response, { code: 200 }, 200, { 'set-cookie': 'session=another' }),
    '127.0.0.2',
  )
  const { address } = await startVendor(t, (_request, response) => {
    response.writeHead(302, { location: elsewhere.address.href, 'set-cookie': 'session=own' }).end()
  })
  const { client } = await connect(t, address, {
    allowed: '127.0.0.0/8',
    received: async (headers) => void received.push(headers['set-cookie']),
  })
  await client.call({ url: address })
  t.same(received, [])
})

await t.test('connections are reused for each origin, own and foreign', async (t) => {
  const answer: VendorAnswer = (_request, response) => sendJson(response, { code: 200 })
  const first = await startVendor(t, answer)
  const foreign = await startVendor(t, answer, '127.0.0.3')
  const second = recorded(answer)
  await serveVendorHosts(t, { 'files.vendor.example': second.listener })
  const networks = { allowed: '127.0.0.3/32' }
  const egress = new EgressGuard(() => networks.allowed)
  const http = new HttpClient({
    server,
    address: first.address,
    domains: ['vendor.example'],
    verifiesCertificate: true,
    egress,
  })
  t.teardown(() => http.close())
  const get = async (url: URL) => {
    const { body } = await http.request({ method: 'GET', url })
    await Readable.prototype.toArray.call(body)
  }
  const addresses = [first.address, new URL('https://files.vendor.example/'), foreign.address]
  for (let index = 0; index < 5; index++) for (const address of addresses) await get(address)
  for (const { seen } of [first, second, foreign]) t.equal(seen.at(-1)?.connection, 1)
  networks.allowed = '127.0.0.4/32'
  await refuses(t, () => get(foreign.address), 'denied', 'a network that is not allowed any more')
  networks.allowed = '127.0.0.0/8'
  await get(foreign.address)
  t.equal(foreign.seen.at(-1)?.connection, 2, 'a connection from before the change is not used')
})

await t.test('a body may be a stream', async (t) => {
  const { address, seen } = await startVendor(t, (request, response) =>
    sendJson(response, { code: 200, data: request.body }),
  )
  const { client } = await connect(t, address)
  await client.call({ url: address })
  const body = { size: 5, sendTo: (into: Writable) => pipeline(Readable.from(['hello']), into) }
  t.same((await client.call({ method: 'PUT', url: address, body })).data, { code: 200, data: 'hello' })
  t.equal(seen.at(-1)?.connection, 1, 'the connection is reused: a body is not lost before the server is ready for it')
})

await t.test('a listing is handed out while it arrives, and its token may have expired', async (t) => {
  const valid = { token: 'token-2' }
  const { address } = await startVendor(t, ({ path, headers }, response) => {
    if (path === '/renew') {
      sendJson(response, { code: 200 })
      return
    }
    if (headers.authorization !== `Bearer ${valid.token}`) {
      sendJson(response, { code: 401, data: null })
      return
    }
    const content = Array.from({ length: 20_000 }, (_, index) => ({ name: `file-${index}` }))
    sendJson(response, { code: path === '/late' ? 500 : 200, data: { content, total: 20_000 } })
  })
  const { client, renewals } = await connect(t, address)
  const list = async (path: string) => {
    const names: unknown[] = []
    const items = client.items({ url: new URL(path, address), json: {}, repeatable: true }, ['data', 'content'])
    let batches = 0
    for (;;) {
      const step = await items.next()
      if (step.done === true) return { names, batches, total: field(step.value.data, 'data', 'total') }
      batches++
      names.push(...step.value.map((item) => field(item, 'name')))
    }
  }
  const { names, batches, total } = await list('/list')
  t.equal(renewals.count, 1)
  t.equal(names.length, 20_000)
  t.equal(total, 20_000)
  t.ok(batches > 1, 'in batches')
  await refuses(t, () => list('/late'), 'denied', 'an error at the end of the answer')
  valid.token = 'none'
  await refuses(t, () => list('/list'), 'denied', 'refused')
})

await t.test('close() waits for a renewal, so that the new token is stored', async (t) => {
  const { address } = await startVendor(t, ({ path }, response) => {
    if (path === '/renew') setTimeout(() => sendJson(response, { code: 200 }), 100)
    else sendJson(response, { code: 401 })
  })
  const { client, values } = await connect(t, address)
  const call = refuses(t, () => client.call({ url: address }), ['aborted', 'denied'], 'the call')
  await wait(50)
  await client.close()
  await call
  t.equal(values.get('token'), 'token-2')
})

/** Resets a connection on which another answer was sent before, as a server that closes it just then. */
function closingIdle(isAnswered: (request: SeenRequest) => boolean): VendorAnswer {
  return (request, response) => {
    if ((response.socket?.bytesWritten ?? 0) > 0 || !isAnswered(request)) response.socket?.resetAndDestroy()
    else sendJson(response, { code: 200 })
  }
}

await t.test('a call that may not be repeated is sent once, not on a connection that was idle', async (t) => {
  const { address, seen } = await startVendor(
    t,
    closingIdle(({ path }) => path !== '/lost'),
  )
  const { client } = await connect(t, address)
  for (const path of ['/a', '/b', '/c']) {
    await client.call({ url: new URL('/get', address) })
    await client.call({ url: new URL(path, address), json: {} })
  }
  const posts = seen.filter(({ method }) => method === 'POST')
  t.same(
    posts.map(({ path }) => path),
    ['/a', '/b', '/c'],
  )
  await client.call({ url: new URL('/get', address) })
  await refuses(t, () => client.call({ url: new URL('/lost', address), json: {} }), 'unavailable', 'a lost answer')
  t.equal(seen.filter(({ path }) => path === '/lost').length, 1, 'the server may have done it')
})

await t.test('limit_rate holds for what is sent again, and for redirects', async (t) => {
  const answer = closingIdle(() => true)
  const { address, seen } = await startVendor(t, (request, response) => {
    if (request.path === '/from') response.writeHead(302, { location: '/to', connection: 'close' }).end()
    else answer(request, response)
  })
  const { client } = await connect(t, address, { perSecond: 4 })
  const start = performance.now()
  await client.call({ url: new URL('/get', address) })
  await client.call({ url: new URL('/again', address) })
  await client.call({ url: new URL('/from', address) })
  t.ok(seen.length >= 5, 'one was sent twice, one was redirected')
  const times = seen.map(({ at }) => at).sort((one, other) => one - other)
  for (const [index, at] of times.entries()) t.ok(at - start >= index * 250, `request ${index}`)
})
