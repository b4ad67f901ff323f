/**
 * A gateway as the storage of another: what clients of the first one see and store is that of the second, also if one
 * of them is killed in the middle of an upload.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startDaemon, startGateway, storageStarted, type Addresses } from '../gateway.js'
import { resident, risen } from '../resident-memory.js'
import { connectAll, connectHttp } from '../stories/protocols.js'
import { until } from '../until.js'

const mebibyte = 1024 * 1024

type Side = Addresses & { readonly adminPassword: string }

const who = ({ adminPassword: password }: Side) => ({ username: 'admin', password })

async function call(
  side: Side,
  path: string,
  body: unknown,
): Promise<{ code: number; message: string; data: unknown }> {
  const login = await post(side, '/api/auth/login', who(side), '')
  return post(side, path, body, (login.data as { token: string }).token)
}

async function post(side: Side, path: string, body: unknown, authorization: string) {
  const response = await fetch(`${side.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization },
    body: JSON.stringify(body),
  })
  return (await response.json()) as { code: number; message: string; data: unknown }
}

/** Mounts `back` in `front` at `/back`. */
async function mount(front: Side, back: Side, fields: object = {}): Promise<void> {
  const addition = JSON.stringify({ url: back.url, ...who(back) })
  const storage = { mount_path: '/back', driver: 'OpenList', addition, ...fields }
  const answer = await call(front, '/api/admin/storage/create', storage)
  if (answer.code !== 200) throw new Error(answer.message)
}

await t.test('clients of all protocols read and write through two gateways', async (t) => {
  const [front, back] = [await startGateway(t), await startGateway(t)]
  await mount(front, back, { webdav_policy: 'native_proxy' })
  const direct = await connectHttp(back, who(back))
  t.teardown(() => direct.close())
  const content = randomBytes(2 * mebibyte + 7)
  for (const client of await connectAll(front, who(front))) {
    const { protocol } = client
    t.equal(await client.makeFolder(`/back/${protocol}`), 'done', protocol)
    t.equal(await client.put(`/back/${protocol}/file ä€#%.bin`, content), 'done')
    t.ok(content.equals((await direct.get(`/${protocol}/file ä€#%.bin`)) as Buffer), 'it is at the other gateway')
    t.equal(await client.rename(`/back/${protocol}/file ä€#%.bin`, `/back/${protocol}/renamed`), 'done')
    t.ok(content.equals((await client.get(`/back/${protocol}/renamed`)) as Buffer))
    t.same(await client.names(`/back/${protocol}`), ['renamed'])
    t.equal(await client.remove(`/back/${protocol}/renamed`), 'done')
    t.same(await direct.names(`/${protocol}`), [])
    await client.close()
  }
})

await t.test('a download is redirected to the other gateway, or sent by this one, as the options say', async (t) => {
  const [front, back] = [await startGateway(t), await startGateway(t)]
  await mount(front, back)
  await mount(front, back, { mount_path: '/proxied', web_proxy: true })
  const client = await connectHttp(front, who(front))
  t.teardown(() => client.close())
  await client.put('/back/file', Buffer.from('0123456789'))
  for (const path of ['/back', '/proxied']) {
    const { data } = await call(front, '/api/fs/get', { path: `${path}/file` })
    const { raw_url: url } = data as { raw_url: string }
    t.ok(url.startsWith(path === '/back' ? back.url : front.url), url)
    const part = await fetch(url, { headers: { range: 'bytes=3-5' } })
    t.same([part.status, await part.text()], [206, '345'])
  }
})

/** Sends the first bytes of an upload of `size` bytes, and never the rest. Resolves when some have been sent. */
async function beginUpload(t: Test, side: Side, path: string, size: number) {
  const login = await post(side, '/api/auth/login', who(side), '')
  const request = httpRequest(`${side.url}/api/fs/put`, {
    method: 'PUT',
    headers: {
      authorization: (login.data as { token: string }).token,
      'file-path': encodeURIComponent(path),
      'content-length': size,
    },
  })
  const ended = new Promise<void>((resolve) => request.on('error', () => resolve()).on('response', () => resolve()))
  t.teardown(() => request.destroy())
  request.write(Buffer.alloc(4 * mebibyte, 'n'))
  await once(request, 'drain')
  return { request, ended }
}

await t.test(
  'an upload that is cut by the client or by a killed gateway leaves the old file and nothing half',
  async (t) => {
    const [front, back] = [await startDaemon(t), await startDaemon(t)]
    await Promise.all([storageStarted(front), storageStarted(back)])
    await mount(front, back)
    const direct = await connectHttp(back, who(back))
    await (await connectHttp(front, who(front))).put('/back/file', Buffer.from('old'))
    const cut = await beginUpload(t, front, '/back/file', 64 * mebibyte)
    await wait(500)
    cut.request.destroy()
    const names = async () => (await direct.names('/')) as readonly string[]
    while ((await names()).length > 1) await wait(100)
    t.equal(String(await direct.get('/file')), 'old', 'cut by the client')

    await beginUpload(t, front, '/back/file', 64 * mebibyte)
    await wait(500)
    await front.kill()
    await wait(500)
    t.equal(String(await direct.get('/file')), 'old', 'the first gateway was killed')
    const again = await startDaemon(t, { dataFolder: front.dataFolder, adminPassword: front.adminPassword })
    await storageStarted(again)
    const client = await connectHttp(again, who(again))
    const shown = async () => client.names('/back')
    await until(async () => String(await shown()) === 'file')
    t.same(await shown(), ['file'], 'it shows no staged file')
    while ((await names()).length > 1) {
      await call(again, '/api/fs/list', { path: '/back', refresh: true })
      await wait(200)
    }
    t.same(await names(), ['file'], 'and has removed it')

    await beginUpload(t, again, '/back/file', 64 * mebibyte)
    await wait(500)
    await back.kill()
    await wait(500)
    t.not(String(await client.get('/back/file')), 'old', 'an error while the other gateway is down')
    await direct.close()
  },
)

await t.test('200 MiB go up and down in flat memory', async (t) => {
  const [front, back] = [await startDaemon(t), await startDaemon(t)]
  await Promise.all([storageStarted(front), storageStarted(back)])
  await mount(front, back, { webdav_policy: 'native_proxy' })
  const size = Number(process.env.TIDEGATE_LARGE_MIB ?? 200) * mebibyte
  const authorization = `Basic ${Buffer.from(`admin:${front.adminPassword}`).toString('base64')}`
  const url = `${front.davUrl}back/large`
  const chunk = randomBytes(mebibyte)
  const idle = await resident(front)
  let sent = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent >= size) controller.close()
      else controller.enqueue(chunk)
      sent += chunk.length
    },
  })
  const grown = await risen(front, idle, async () => {
    const headers = { authorization, 'content-length': String(size), 'x-expected-entity-length': String(size) }
    const put = await fetch(url, { method: 'PUT', headers, body, duplex: 'half' })
    t.ok(put.ok, `status ${put.status}`)
    const get = await fetch(url, { headers: { authorization } })
    let received = 0
    for await (const part of get.body as unknown as AsyncIterable<Uint8Array>) received += part.length
    t.equal(received, size)
  })
  t.comment(`${grown} MiB more than idle`)
  t.ok(grown < 120, `${grown} MiB more`)
})
