/** /metrics with real clients: it reports the bytes that were sent, and counts each transfer once. */
import { randomBytes } from 'node:crypto'
import { request, type ClientRequest } from 'node:http'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { asPath } from '../../src/base/path.js'
import { flaky, type Planned } from '../drivers/flaky.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { samplesOf } from '../gateway/exposition.js'
import { altered, bare, type Over } from '../tree/tree-fixture.js'
import { connectAll, connectWebDav, openSftp } from './protocols.js'
import { connect, ended } from './task-client.js'
import { http } from '../../protocols/http/index.js'
import { until } from '../until.js'

interface Gauged extends RunningGateway {
  /** The non-zero samples of transfers, without the histogram. */
  transfers(): Promise<Readonly<Record<string, number>>>
  /** Waits until the samples have these values. */
  become(t: Test, expected: Readonly<Record<string, number>>, title: string): Promise<void>
  /** Mounts a storage. */
  mount(path: string, driver: string, addition?: object): Promise<void>
  readonly who: { readonly username: string; readonly password: string }
}

/** With driver types that have streams only: `Streams`, and `Linked` with direct URLs. `plan`: their faults. */
async function start(t: Test, plan: readonly Planned[] = []): Promise<Gauged> {
  const type = (name: string, over: Over = {}): AnyDriverType => ({
    name,
    fields: {},
    open: async () => flaky(altered(new MemoryDriver(0), { ...bare, ...over }), plan).driver,
  })
  const directUrl = async () => ({ url: 'https://example.org/file' })
  const running = await startGateway(t, { driverTypes: [type('Streams'), type('Linked', { directUrl })] })
  const { gateway, url, adminPassword } = running
  const transfers = async () => {
    const response = await fetch(`${url}/metrics`, { headers: { Authorization: gateway.settings.get('token') } })
    const samples = [...samplesOf(await response.text())]
    return Object.fromEntries(
      samples.filter(([key, value]) => /^tidegate_transfer(s|_bytes)_total/.test(key) && value > 0),
    )
  }
  const become = async (t: Test, expected: Readonly<Record<string, number>>, title: string) => {
    const wanted = JSON.stringify(Object.entries(expected).sort())
    await until(async () => JSON.stringify(Object.entries(await transfers()).sort()) === wanted)
    t.same(await transfers(), expected, title)
  }
  const mount = async (path: string, driver: string, addition: object = {}) => {
    const [first] = gateway.storages.list()
    if (!first) throw new Error('nothing is mounted')
    const { id: _id, ...like } = first
    await gateway.storages.create({ ...like, mountPath: path, driver, addition: JSON.stringify(addition) })
  }
  return { ...running, transfers, become, mount, who: { username: 'admin', password: adminPassword } }
}

type Direction = 'read' | 'write'

/** The samples of this number of transfers with this number of bytes. */
function samples(
  protocol: string,
  storage: string,
  direction: Direction,
  bytes: number,
  { outcome = 'completed', count = 1 } = {},
): Record<string, number> {
  const labels = `{direction="${direction}",outcome="${outcome}",protocol="${protocol}",storage="${storage}"}`
  return {
    [`tidegate_transfers_total${labels}`]: count,
    ...(bytes > 0 && { [`tidegate_transfer_bytes_total${labels}`]: bytes }),
  }
}

void t.test(
  'the bytes that each protocol reads and writes are counted exactly, by handles and by streams',
  async (t) => {
    const running = await start(t)
    await running.mount('/streams', 'Streams')
    const clients = await connectAll(running, running.who)
    let expected: Record<string, number> = {}
    for (const [index, client] of clients.entries()) {
      for (const [storage, folder] of [
        ['/', ''],
        ['/streams', '/streams'],
      ] as const) {
        const content = randomBytes(700_000 + index)
        const path = `${folder}/${client.protocol}`
        t.equal(await client.put(path, content), 'done')
        expected = { ...expected, ...samples(client.protocol, storage, 'write', content.length) }
        await running.become(t, expected, `${client.protocol} wrote ${path}`)
        t.ok(content.equals((await client.get(path)) as Buffer))
        expected = { ...expected, ...samples(client.protocol, storage, 'read', content.length) }
        await running.become(t, expected, `${client.protocol} read ${path}`)
        t.equal(await client.get(`${path} is missing`), 'missing')
        t.equal(await client.put(`${folder}/empty`, Buffer.alloc(0)), 'done')
        await client.names(folder === '' ? '/' : folder)
        await client.remove(path)
        await client.remove(`${folder}/empty`)
      }
    }
    await running.become(t, expected, 'empty files, folders and missing files are not counted')
    for (const client of clients) await client.close()
    await running.become(t, expected, 'the end of a connection is not counted')
  },
)

void t.test('ranges, conditional requests and HEAD: only what is sent is counted', async (t) => {
  const running = await start(t)
  await running.mount('/streams', 'Streams')
  await connectWebDav(running, running.who).put('/file', randomBytes(1000))
  await connectWebDav(running, running.who).put('/streams/file', randomBytes(1000))
  const before = await running.transfers()
  const ask = async (path: string, headers: Record<string, string>, method = 'GET') => {
    const sent = { Authorization: authorization(running), ...headers }
    const response = await fetch(`${running.davUrl}${path}`, { method, headers: sent })
    await response.arrayBuffer()
    return response
  }
  for (const path of ['file', 'streams/file']) {
    const { headers } = await ask(path, {}, 'HEAD')
    t.equal((await ask(path, { 'If-None-Match': headers.get('etag') ?? '' })).status, 304)
    t.equal((await ask(path, { Range: 'bytes=2000-' })).status, 416)
  }
  await running.become(t, before, 'nothing was sent')
  t.equal((await ask('file', { Range: 'bytes=5-14' })).status, 206)
  t.equal((await ask('streams/file', { Range: 'bytes=5-14, 100-119' })).status, 206)
  const sent = { ...samples('webdav', '/', 'read', 10), ...samples('webdav', '/streams', 'read', 30, { count: 2 }) }
  await running.become(t, { ...before, ...sent }, 'parts')
})

void t.test('a handle that reads and writes is a transfer in each direction', async (t) => {
  const running = await start(t)
  const { gateway, sftpPort, who } = running
  const { client, sftp } = await openSftp({ sftpPort }, who)
  t.teardown(() => client.end())
  const call = <T>(work: (done: (error: Error | null | undefined, result: T) => void) => void) =>
    new Promise<T>((resolve, reject) => work((error, result) => (error ? reject(error) : resolve(result))))
  await call<unknown>((done) => sftp.writeFile('/file', randomBytes(1000), (error) => done(error, undefined)))
  const handle = await call<Buffer>((done) => sftp.open('/file', 'r+', done))
  await call<number>((done) => sftp.read(handle, Buffer.alloc(30), 0, 30, 500, done))
  await call<unknown>((done) => sftp.write(handle, Buffer.alloc(7), 0, 7, 100, (error) => done(error, undefined)))
  await running.become(t, samples('sftp', '/', 'write', 1000), 'it is not counted before CLOSE')
  await call<unknown>((done) => sftp.close(handle, (error) => done(error, undefined)))
  const expected = { ...samples('sftp', '/', 'write', 1007, { count: 2 }), ...samples('sftp', '/', 'read', 30) }
  await running.become(t, expected, 'both directions')
  const staged = await call<Buffer>((done) => sftp.open('/file', 'w', done))
  await call<unknown>((done) => sftp.write(staged, Buffer.alloc(9), 0, 9, 0, (error) => done(error, undefined)))
  client.end()
  const aborted = samples('sftp', '/', 'write', 9, { outcome: 'aborted' })
  await running.become(t, { ...expected, ...aborted }, 'a lost connection counts as aborted')
  t.equal((await gateway.as(await admin(running)).stat(asPath('/file'))).size, 1000)
})

void t.test('a copy by a task reads from one storage and writes to the other', async (t) => {
  const running = await start(t)
  await running.mount('/streams', 'Streams')
  const dav = connectWebDav(running, running.who)
  await dav.makeFolder('/from')
  await dav.makeFolder('/from/below')
  const sizes = [1, 1000, 70_000, 3_000_000]
  for (const size of sizes) await dav.put(`/from/below/${size}`, randomBytes(size))
  const before = await running.transfers()
  const client = await connect(running)
  const transfer = async (kind: 'copy' | 'move', src_dir: string, dst_dir: string) => {
    await client.post(`/api/fs/${kind}`, { src_dir, dst_dir, names: ['from'] })
    t.match(await ended(client, kind), [{ state: 2 }])
  }
  await transfer('copy', '/', '/streams')
  const bytes = sizes.reduce((sum, size) => sum + size)
  const count = sizes.length
  const copied = {
    ...before,
    ...samples('task', '/', 'read', bytes, { count }),
    ...samples('task', '/streams', 'write', bytes, { count }),
  }
  await running.become(t, copied, 'a copy')
  await dav.makeFolder('/back')
  await transfer('move', '/streams', '/back')
  const moved = {
    ...copied,
    ...samples('task', '/streams', 'read', bytes, { count }),
    ...samples('task', '/', 'write', bytes, { count }),
  }
  await running.become(t, moved, 'a move')
  await client.post('/api/fs/copy', { src_dir: '/', dst_dir: '/back/from', names: ['from'] })
  await running.become(t, moved, 'a copy by the backend')
})

void t.test('a bundle of small files is one transfer of all their bytes', async (t) => {
  const running = await start(t)
  const folder = join(t.testdir(), 'other')
  await mkdir(folder)
  await running.mount('/other', 'Local', { root_folder_path: folder })
  const dav = connectWebDav(running, running.who)
  await dav.makeFolder('/from')
  const count = 64
  for (let file = 0; file < count; file++) await dav.put(`/from/${file}`, randomBytes(10))
  const before = await running.transfers()
  const client = await connect(running)
  await client.post('/api/fs/copy', { src_dir: '/', dst_dir: '/other', names: ['from'] })
  t.match(await ended(client, 'copy'), [{ state: 2 }])
  const expected = {
    ...before,
    ...samples('task', '/', 'read', 10 * count),
    ...samples('task', '/other', 'write', 10 * count),
  }
  await running.become(t, expected, 'one for each direction')
})

void t.test('an upload as a task is written by the task', async (t) => {
  const running = await start(t)
  const client = await connect(running)
  await client.upload('/file', randomBytes(5000))
  t.match(await ended(client, 'upload'), [{ state: 2 }])
  await running.become(t, samples('task', '/', 'write', 5000), 'not by HTTP')
})

void t.test('a download from a direct URL does not pass through the gateway', async (t) => {
  const running = await start(t)
  await running.mount('/linked', 'Linked')
  await connectWebDav(running, running.who).put('/linked/file', randomBytes(10))
  const before = await running.transfers()
  const { gateway, url } = running
  const path = asPath('/linked/file')
  const response = await fetch(`${url}/d${path}?sign=${gateway.signedUrls.sign(path)}`, { redirect: 'manual' })
  t.match(response, { status: 302 })
  t.equal(response.headers.get('location'), 'https://example.org/file')
  await running.become(t, before, 'no transfer')
})

void t.test('a client that disconnects aborts its download or upload', async (t) => {
  const running = await start(t)
  await running.mount('/streams', 'Streams')
  const dav = connectWebDav(running, running.who)
  // More than the buffers of the connection can contain.
  const content = Buffer.alloc(48 * 1024 * 1024)
  for (const [path, storage] of [
    ['/large', '/'],
    ['/streams/large', '/streams'],
  ] as const) {
    t.equal(await dav.put(path, content), 'done')
    const before = await running.transfers()
    await new Promise<void>((resolve, reject) => {
      const asked = ask(running, path, 'GET').on('error', reject)
      asked.on('response', (response) => {
        response.once('data', () => {
          asked.off('error', reject).on('error', () => undefined)
          response.destroy()
          resolve()
        })
      })
      asked.end()
    })
    const key = (name: string, direction: Direction) =>
      `tidegate_${name}_total{direction="${direction}",outcome="aborted",protocol="webdav",storage="${storage}"}`
    const after = await samplesWith(running, key('transfers', 'read'))
    t.equal(after[key('transfers', 'read')], 1, `${path} is aborted`)
    const sent = after[key('transfer_bytes', 'read')] ?? 0
    t.ok(sent > 0 && sent < content.length, `after ${sent} bytes`)
    t.equal(Object.keys(after).length, Object.keys(before).length + 2, 'no other sample changes')

    const asked = ask(running, `${path} up`, 'PUT', { 'Content-Length': '100000' }).on('error', () => undefined)
    await new Promise((resolve) => asked.write(Buffer.alloc(60_000), resolve))
    await delay(100)
    asked.destroy()
    const later = await samplesWith(running, key('transfers', 'write'))
    t.equal(later[key('transfers', 'write')], 1)
    t.equal(later[key('transfer_bytes', 'write')], 60_000, 'the received bytes')
  }
})

void t.test('transfers fail with their storage, and only then', async (t) => {
  const plan: Planned[] = []
  const running = await start(t, plan)
  await running.mount('/streams', 'Streams')
  const dav = connectWebDav(running, running.who)
  await dav.put('/streams/file', randomBytes(300_000))
  let expected = await running.transfers()
  const failed = (direction: Direction, bytes: number, count: number) => {
    expected = { ...expected, ...samples('webdav', '/streams', direction, bytes, { outcome: 'failed', count }) }
    return running.become(t, expected, `${direction}: ${count}`)
  }
  plan.push({ method: 'read', fault: { kind: 'fail' } })
  await dav.get('/streams/file')
  await failed('read', 0, 1)
  plan.splice(0, 1, { method: 'read', fault: { kind: 'cut', after: 0 } })
  t.equal(await dav.get('/streams/file'), 'failed', 'no read brings a byte, and nothing has been sent')
  await failed('read', 0, 2)
  plan.splice(0, 1, { method: 'write', fault: { kind: 'fail' } })
  t.equal(await dav.put('/streams/new', randomBytes(10)), 'failed')
  await failed('write', 0, 1)
  plan.splice(0, 1, { method: 'write', fault: { kind: 'fail after' } })
  t.equal(await dav.put('/streams/new', randomBytes(50)), 'failed')
  await failed('write', 50, 2)
})

function authorization({ who: { username, password } }: Gauged): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** A request on its own connection. */
function ask(running: Gauged, path: string, method: string, headers: Record<string, string> = {}): ClientRequest {
  const target = `${running.davUrl.slice(0, -1)}${encodeURI(path)}`
  return request(target, { method, agent: false, headers: { Authorization: authorization(running), ...headers } })
}

/** The samples, when they contain this one. */
async function samplesWith(running: Gauged, key: string): Promise<Readonly<Record<string, number>>> {
  await until(async () => key in (await running.transfers()))
  return running.transfers()
}

async function admin({ gateway }: Gauged) {
  return gateway.accounts.tokens.principalOf(gateway.settings.get('token'), http)
}
