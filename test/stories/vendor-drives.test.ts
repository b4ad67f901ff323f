/**
 * Large files on the drives of vendors, through a real daemon to doubles of their APIs: memory is bounded, the content is
 * unchanged, and the old file is whole when the client, the daemon or the vendor breaks off. TIDEGATE_VENDOR_MIB sets
 * another size.
 */
import { createHash, randomBytes } from 'node:crypto'
import { request, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { start115 } from '../doubles/115/index.js'
import { startDaemon, type Daemon } from '../gateway.js'
import { resident, risen } from '../resident-memory.js'
import { mount, type StorageAsk } from '../services/remotes.js'
import { connect, ended } from './task-client.js'

const mebibyte = 1024 * 1024
const count = Number(process.env.TIDEGATE_VENDOR_MIB ?? 200)
const pattern = randomBytes(mebibyte)

interface VendorDrive {
  /** Variables for daemons that shall reach the double. */
  readonly environment: Readonly<Record<string, string>>
  readonly storage: Omit<StorageAsk, 'mountPath'>
  /** Puts a file into the root folder of the storage, as another client would. */
  put(name: string, content: string): Promise<unknown>
  /** The names in the root folder, as the vendor has them. */
  names(): readonly string[]
  /** Number of parts of uploads that were stored so far, and bytes of all bodies that were sent. */
  stored(): { readonly parts: number; readonly bytes: number }
}

/** The double of each vendor, and a storage over it. */
const vendors: Readonly<Record<string, (t: Test) => Promise<VendorDrive>>> = {
  '115 Cloud': async (t) => {
    const double = await start115(t)
    const { oss } = double.uploads
    const root_folder_id = double.makeFolder('/files')
    return {
      environment: double.environment,
      storage: {
        driver: '115 Cloud',
        addition: { cookie: double.account.signIn(), limit_rate: 0, root_folder_id },
      },
      put: (name, content) => double.putFile(`/files/${name}`, content),
      names: () => double.drive.members(root_folder_id).map(({ name }) => name),
      stored: () => ({
        parts: oss.requests.matching(/PUT .*partNumber/).filter(({ status }) => status === 200).length,
        bytes: oss.requests.bodyBytes(),
      }),
    }
  },
}

/** `mebibytes` MiB, each different from the others. */
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

/** Sends a request to the WebDAV address of the daemon, with `from` as its body. */
function send(
  { davUrl, adminPassword }: Daemon,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  from?: Readable,
): Promise<IncomingMessage> {
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  return new Promise((resolve, reject) => {
    const sent = request(davUrl + path, { method, headers: { authorization, ...headers } }, resolve).on('error', reject)
    if (from) pipeline(from, sent).catch(reject)
    else sent.end()
  })
}

async function started(t: Test, drive: VendorDrive, dataFolder?: string): Promise<Daemon> {
  const { environment, storage } = drive
  const daemon = await startDaemon(t, { environment, ...(dataFolder !== undefined && { dataFolder }) })
  if (dataFolder === undefined) await mount(daemon, daemon.adminPassword, [{ mountPath: '/drive', ...storage }])
  return daemon
}

/** The content of a file, when its storage has started. */
async function textOf(daemon: Daemon, name: string): Promise<string> {
  for (let tries = 0; ; tries++) {
    const response = await send(daemon, 'GET', `drive/${name}`)
    const bytes = await response.toArray()
    if (response.statusCode === 200 || tries === 100) return Buffer.concat(bytes as Buffer[]).toString()
    await wait(100)
  }
}

for (const [name, start] of Object.entries(vendors)) {
  void t.test(`${name}: ${count} MiB up and down in bounded memory`, { timeout: 300_000 }, async (t) => {
    const drive = await start(t)
    const daemon = await started(t, drive)
    const expected = await digest(body(count))
    await drive.put('large', 'old')
    const idle = await resident(daemon)
    const up = await risen(daemon, idle, async () => {
      const length = { 'content-length': String(count * mebibyte) }
      const answer = await send(daemon, 'PUT', 'drive/large', length, body(count))
      t.ok([201, 204].includes(answer.resume().statusCode ?? 0), `stored: ${answer.statusCode}`)
    })
    const down = await risen(daemon, idle, async () => {
      t.equal(await digest(await send(daemon, 'GET', 'drive/large')), expected, 'the content is unchanged')
    })
    t.ok(up < 200, `up: ${up} MiB above idle (${Math.round(idle / mebibyte)} MiB)`)
    t.ok(down < 200, `down: ${down} MiB above idle`)
    t.same(drive.names(), ['large'])
    t.equal(await daemon.stop(), 0)
  })

  void t.test(`${name}: an upload that its client breaks off leaves the old file`, async (t) => {
    const drive = await start(t)
    const daemon = await started(t, drive)
    await drive.put('file', 'old')
    const cut = new Readable({ read: () => undefined })
    const broken = send(daemon, 'PUT', 'drive/file', { 'content-length': String(20 * mebibyte) }, cut)
    cut.push(randomBytes(12 * mebibyte))
    setTimeout(() => cut.destroy(new Error('cut')), 300)
    await t.rejects(broken)
    t.equal(await textOf(daemon, 'file'), 'old')
    t.same(drive.names(), ['file'])
    t.equal(await daemon.stop(), 0)
  })

  void t.test(`${name}: the upload of a task goes on after a kill of the daemon`, { timeout: 120_000 }, async (t) => {
    const drive = await start(t)
    await drive.put('file', 'old')
    let daemon = await started(t, drive)
    const content = Buffer.concat((await body(64).toArray()) as Buffer[])
    const client = await connect(daemon)
    await client.upload('/drive/file', content)
    while (drive.stored().parts < 2) await wait(1)
    await daemon.kill()
    const { parts } = drive.stored()
    t.comment(`killed after ${parts} parts`)
    t.same(drive.names(), ['file'], 'nothing half')

    daemon = await started(t, drive, daemon.dataFolder)
    t.match(await ended(await connect(daemon), 'upload'), [{ state: 2 }])
    t.equal(await digest(await send(daemon, 'GET', 'drive/file')), await digest(body(64)), 'the file is complete')
    t.same(drive.names(), ['file'], 'the old one is gone')
    const { bytes } = drive.stored()
    t.ok(bytes < content.length + 17 * mebibyte, `${bytes} of ${content.length} bytes were sent`)
    t.equal(await daemon.stop(), 0)
  })
}
