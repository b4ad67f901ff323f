/**
 * A large body through the daemon to a storage on a real server, and back: memory is bounded, nothing is written to the
 * local disk, and the content is unchanged. TIDEGATE_STREAM_MIB sets another size, for a body of unknown length only;
 * `npm run soak` sends 10 GiB.
 */
import { execFile, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { resident, risen } from '../resident-memory.js'
import { mount, remotes, type Remote } from '../servers/remotes.js'

const mebibyte = 1024 * 1024
const isSoak = process.env.TIDEGATE_STREAM_MIB !== undefined
const large = Number(process.env.TIDEGATE_LARGE_MIB ?? 64)
const hours = 4 * 3_600_000
const pattern = randomBytes(mebibyte)

/** The size of a body in MiB. */
function sizeFor(largest: number): number {
  return Number(process.env.TIDEGATE_STREAM_MIB ?? Math.min(largest, large))
}

/** Maximum size in MiB, unless a remote has another one for bodies of unknown length. */
const usualSize = 256

/** `count` MiB, each different from the others. */
function body(count: number): Readable {
  const pieces = function* (): Generator<Buffer> {
    for (let index = 0; index < count; index++) {
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

/** Bytes that the process has written to disks so far. */
async function writtenBy({ pid }: Daemon): Promise<number> {
  return Number(/^write_bytes: (\d+)/m.exec(await readFile(`/proc/${pid}/io`, 'utf8'))?.[1])
}

/** Sends a request with `from` as its body. */
function ask(url: string, method: string, headers: Record<string, string>, from?: Readable): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers }, resolve).on('error', reject)
    if (from) pipeline(from, asked).catch(reject)
    else asked.end()
  })
}

async function rcloneCat(daemon: Daemon, path: string, count: number): Promise<number | null> {
  const obscured = (await promisify(execFile)('rclone', ['obscure', daemon.adminPassword])).stdout.trim()
  const remote = `:sftp,host=127.0.0.1,port=${daemon.sftpPort},user=admin,pass="${obscured}",shell_type=none,disable_hashcheck=true:`
  const child = spawn('rclone', ['--config', '/dev/null', '--retries', '1', 'rcat', `${remote}${path}`], {
    stdio: ['pipe', 'inherit', 'inherit'],
  })
  const exit = new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  await pipeline(body(count), child.stdin)
  return exit
}

async function streamed(t: Test, remote: Remote): Promise<void> {
  const [largest, usual] = [sizeFor(remote.largest ?? usualSize), sizeFor(usualSize)]
  const server = await remote.start()
  t.teardown(() => server.stop())
  const daemon = await startDaemon(t)
  await mount(daemon, daemon.adminPassword, await server.storages('/remote'))
  const headers = { Authorization: `Basic ${Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')}` }
  const put = async (url: string, count: number, length: Record<string, string> = {}) => {
    const answer = await ask(url, 'PUT', { ...headers, ...length }, body(count))
    t.equal(answer.resume().statusCode, 201)
  }
  const atRest = await writtenBy(daemon)
  await put(`${daemon.davUrl}local`, usual)
  const isMeasured = (await writtenBy(daemon)) - atRest > 0.9 * usual * mebibyte
  t.comment(isMeasured ? 'the disk is measured' : 'the kernel does not tell what is written to this disk')
  const url = `${daemon.davUrl}remote/large`
  type Way = readonly [name: string, count: number, upload: () => Promise<unknown>]
  const ways: Way[] = [['of unknown length', largest, () => put(url, largest)]]
  if (!isSoak) {
    const length = { 'Content-Length': String(usual * mebibyte) }
    ways.push(
      ['of known length', usual, () => put(url, usual, length)],
      ['over SFTP', usual, async () => t.equal(await rcloneCat(daemon, '/remote/large', usual), 0)],
    )
  }
  const [idle, before] = [await resident(daemon), await writtenBy(daemon)]
  for (const [way, count, upload] of ways) {
    const expected = await digest(body(count))
    const up = await risen(daemon, idle, upload)
    const down = await risen(daemon, idle, async () => {
      t.equal(await digest(await ask(url, 'GET', headers)), expected, `${way}: the content is unchanged`)
    })
    t.ok(up < 200, `${way}, up: ${up} MiB above idle (${Math.round(idle / mebibyte)} MiB)`)
    t.ok(down < 200, `${way}, down: ${down} MiB above idle`)
    const removed = await ask(url, 'DELETE', headers)
    t.equal(removed.resume().statusCode, 204)
  }
  const sent = 2 * mebibyte * ways.reduce((sum, [, count]) => sum + count, 0)
  const disk = ((await writtenBy(daemon)) - before) / sent
  t.ok(disk < 0.01, `${(disk * 100).toFixed(2)} % of it went to the disk of the daemon`)
  t.same(await readdir(join(daemon.dataFolder, 'spool')).catch(() => []), [], 'the spool is empty')
  t.equal(await daemon.stop(), 0)
}

const unmeasured = process.platform !== 'linux' && 'reads /proc'

for (const remote of remotes) {
  const skip = unmeasured === false ? lacks('rclone', ...remote.programs) : unmeasured
  void t.test(remote.name, { skip, timeout: hours }, (t) => streamed(t, remote))
}
