/**
 * A very large body of unknown length through the daemon into a storage on a real server, and back: memory stays flat, its own disk is
 * not touched, and every byte is the same. Asked for with TIDEGATE_STREAM_MIB; `npm run soak` does.
 */
import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t, { type Test } from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { resident, risen } from '../resident-memory.js'
import { mount, remotes, type Remote } from '../services/remotes.js'

const mebibyte = 1024 * 1024
const count = Number(process.env.TIDEGATE_STREAM_MIB ?? 0)
const hours = 4 * 3_600_000
const pattern = randomBytes(mebibyte)

/** So many MiB, each unlike the others. */
function* body(): Generator<Buffer> {
  for (let index = 0; index < count; index++) {
    const piece = Buffer.from(pattern)
    piece.writeUInt32BE(index)
    yield piece
  }
}

async function digest(bytes: Readable): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(bytes, hash)
  return hash.digest('hex')
}

/** What the process has written to disks so far, in bytes. */
async function writtenBy({ pid }: Daemon): Promise<number> {
  return Number(/^write_bytes: (\d+)/m.exec(await readFile(`/proc/${pid}/io`, 'utf8'))?.[1])
}

/** Sends a request, and `from` as its body. */
function ask(url: string, method: string, headers: Record<string, string>, from?: Readable): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers }, resolve).on('error', reject)
    if (from) pipeline(from, asked).catch(reject)
    else asked.end()
  })
}

async function streamed(t: Test, remote: Remote, expected: string): Promise<void> {
  const server = await remote.start()
  t.teardown(() => server.stop())
  const daemon = await startDaemon(t)
  await mount(daemon, daemon.adminPassword, await server.storages('/remote'))
  const headers = { Authorization: `Basic ${Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')}` }
  const url = `${daemon.davUrl}remote/large`
  const [idle, before] = [await resident(daemon), await writtenBy(daemon)]
  const up = await risen(daemon, idle, async () => {
    const answer = await ask(url, 'PUT', headers, Readable.from(body(), { objectMode: false }))
    t.equal(answer.resume().statusCode, 201)
  })
  const down = await risen(daemon, idle, async () => {
    t.equal(await digest(await ask(url, 'GET', headers)), expected, 'byte for byte')
  })
  const disk = ((await writtenBy(daemon)) - before) / (2 * count * mebibyte)
  t.ok(up < 200, `up: ${up} MiB above idle (${Math.round(idle / mebibyte)} MiB)`)
  t.ok(down < 200, `down: ${down} MiB above idle`)
  t.ok(disk < 0.01, `${(disk * 100).toFixed(2)} % of it went to the disk of the daemon`)
  const removed = await ask(url, 'DELETE', headers)
  t.equal(removed.resume().statusCode, 204)
  t.equal(await daemon.stop(), 0)
}

const unasked = (count === 0 || process.platform !== 'linux') && 'asked for with TIDEGATE_STREAM_MIB, on Linux'
const expected = unasked === false ? await digest(Readable.from(body(), { objectMode: false })) : ''

for (const remote of remotes) {
  const skip = unasked === false ? lacks('rclone', ...remote.programs) : unasked
  void t.test(remote.name, { skip, timeout: hours }, (t) => streamed(t, remote, expected))
}
