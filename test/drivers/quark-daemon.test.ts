/**
 * Large files through a daemon to the double of Quark, and back: memory is bounded. When the client or the daemon is cut
 * off, the old file is whole, and an upload as a task goes on with the next part.
 */
import { createHash, randomBytes } from 'node:crypto'
import { request, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { startQuark, type QuarkDouble } from '../doubles/quark.js'
import { resident, risen } from '../resident-memory.js'
import { connect, ended } from '../stories/task-client.js'

const mebibyte = 1024 * 1024
const large = 200
const pattern = randomBytes(mebibyte)
const parts = /^PUT ul-zb\./

/** So many MiB, each different from the others. */
function body(mebibytes: number): Readable {
  const pieces = function* (): Generator<Buffer> {
    for (let index = 0; index < mebibytes; index++) {
      const piece = Buffer.from(pattern)
      piece.writeUInt32BE(index)
      yield piece
    }
  }
  return Readable.from(pieces(), { objectMode: false })
}

async function digest(bytes: Readable): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(bytes, hash)
  return hash.digest('hex')
}

/** Sends a request with `from` as its body. Resolves to the answer. */
function send(daemon: Daemon, method: string, path: string, from?: Readable): Promise<IncomingMessage> {
  const authorization = `Basic ${Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')}`
  return new Promise((resolve, reject) => {
    const sent = request(daemon.davUrl + path, { method, headers: { authorization } }, resolve).on('error', reject)
    if (from) pipeline(from, sent).catch(reject)
    else sent.end()
  })
}

async function mounted(t: Test, double: QuarkDouble, options: object = {}): Promise<Daemon> {
  const daemon = await startDaemon(t, { environment: double.environment })
  const addition = JSON.stringify({ cookie: double.session.cookie, ...options })
  const client = await connect(daemon)
  // Clients are redirected where the driver has URLs for them.
  const storage = { mount_path: '/quark', driver: 'Quark', addition, web_proxy: false }
  await client.post('/api/admin/storage/create', storage)
  return daemon
}

function restarted(t: Test, { dataFolder }: Daemon, { environment }: QuarkDouble): Promise<Daemon> {
  return startDaemon(t, { dataFolder, environment })
}

/** Waits until the object store has so many parts, or whole bodies of them. */
async function sentParts({ requests }: QuarkDouble, count: number): Promise<void> {
  while (requests.matching(parts).filter(({ status }) => status === 200).length < count) await wait(5)
}

await t.test(`${large} MiB up and down need little memory`, async (t) => {
  const double = await startQuark(t)
  const daemon = await mounted(t, double)
  const idle = await resident(daemon)
  const up = await risen(daemon, idle, async () => {
    const { statusCode } = (await send(daemon, 'PUT', 'quark/large', body(large))).resume()
    t.equal(statusCode, 201)
  })
  t.equal(double.requests.bodyBytes(parts), large * mebibyte)
  const down = await risen(daemon, idle, async () => {
    t.equal(await digest(await send(daemon, 'GET', 'quark/large')), await digest(body(large)))
  })
  t.ok(up < 200, `up: ${up} MiB above idle`)
  t.ok(down < 200, `down: ${down} MiB above idle`)
  t.equal(await daemon.stop(), 0)
})

await t.test('a client that is cut off, and a killed daemon, leave the old file whole', async (t) => {
  const double = await startQuark(t)
  let daemon = await mounted(t, double)
  const old = await digest(body(2))
  await send(daemon, 'PUT', 'quark/file', body(2))
  const pieces = function* () {
    for (let index = 0; index < 8; index++) yield pattern
    throw new Error('cut off')
  }
  await t.rejects(send(daemon, 'PUT', 'quark/file', Readable.from(pieces(), { objectMode: false })))
  t.equal(await digest(await send(daemon, 'GET', 'quark/file')), old)
  const before = double.requests.matching(parts).length
  const killed = send(daemon, 'PUT', 'quark/file', body(40)).catch(() => undefined)
  while (double.requests.matching(parts).length < before + 3) await wait(2)
  await daemon.kill()
  await killed
  daemon = await restarted(t, daemon, double)
  t.equal(await digest(await send(daemon, 'GET', 'quark/file')), old)
  t.same(
    double.drive.members('0').map(({ name }) => name),
    ['file'],
    'no staged file is left',
  )
  t.equal(await daemon.stop(), 0)
})

await t.test('an upload as a task goes on with the next part after a kill', async (t) => {
  const double = await startQuark(t)
  let daemon = await mounted(t, double)
  let client = await connect(daemon)
  const content = randomBytes(40 * mebibyte + 1)
  await client.upload('/quark/file', content)
  await sentParts(double, 4)
  await daemon.kill()
  daemon = await restarted(t, daemon, double)
  client = await connect(daemon)
  t.match(await ended(client, 'upload'), [{ state: 2 }])
  t.equal(await digest(await send(daemon, 'GET', 'quark/file')), createHash('sha256').update(content).digest('hex'))
  const sent = double.requests.bodyBytes(parts)
  t.ok(sent <= content.length + 2 * 4 * mebibyte, `${sent} bytes were sent for ${content.length}`)
  t.same(
    double.drive.members('0').map(({ name }) => name),
    ['file'],
  )
  t.equal(await daemon.stop(), 0)
})

await t.test('clients are redirected to transcoded videos only, and get no cookie', async (t) => {
  const double = await startQuark(t)
  const daemon = await mounted(t, double, { use_transcoding_address: true })
  const client = await connect(daemon)
  for (const name of ['film.mp4', 'text.txt']) await client.upload(`/quark/${name}`, Buffer.from('the file itself'))
  await ended(client, 'upload')
  const got = async (name: string) => {
    const { sign } = (await client.post('/api/fs/get', { path: `/quark/${name}` })) as { sign: string }
    return fetch(`${daemon.url}/d/quark/${name}?sign=${sign}`, { redirect: 'manual' })
  }
  const film = await got('film.mp4')
  t.match(film.headers.get('location'), /^https:\/\/video-play-p\.pds\.quark\.cn\//)
  t.equal(film.headers.get('set-cookie'), null)
  t.equal(await (await got('text.txt')).text(), 'the file itself')
  t.equal(await daemon.stop(), 0)
})
