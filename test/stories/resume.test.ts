/** Interrupted transfers over SFTP: real clients resume them, and no file is corrupted. */
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startGateway, type RunOptions } from '../gateway.js'
import { lacks } from '../programs.js'
import { startCuttingProxy } from '../servers/cutting-proxy.js'
import { sftpClients } from './sftp-clients.js'
import { until } from '../until.js'

const mebibyte = 1024 * 1024
/** Size of the file in MiB. */
const size = Math.min(1024, Number(process.env.TIDEGATE_LARGE_MIB ?? 64)) * mebibyte

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

/** Where the files begin to differ, with the bytes there; undefined if one begins with the other. */
async function differenceOf(one: string, other: string): Promise<string | undefined> {
  const handles = [await open(one), await open(other)] as const
  try {
    const buffers = [Buffer.alloc(mebibyte), Buffer.alloc(mebibyte)] as const
    for (let at = 0; ; at += mebibyte) {
      const reads = await Promise.all([
        handles[0].read(buffers[0], 0, mebibyte, at),
        handles[1].read(buffers[1], 0, mebibyte, at),
      ])
      const length = Math.min(...reads.map(({ bytesRead }) => bytesRead))
      if (length === 0) return undefined
      if (buffers[0].compare(buffers[1], 0, length, 0, length) === 0) continue
      const byte = buffers[0].findIndex((value, index) => value !== buffers[1][index])
      const [found, expected] = buffers.map((buffer) => buffer.subarray(byte, byte + 16).toString('hex'))
      return `at ${at + byte}: ${found}, not ${expected}`
    }
  } finally {
    await Promise.all(handles.map((handle) => handle.close()))
  }
}

async function writeRandom(file: string, bytes: number): Promise<void> {
  const handle = await open(file, 'w')
  try {
    for (let at = 0; at < bytes; at += mebibyte) await handle.write(randomBytes(Math.min(mebibyte, bytes - at)))
  } finally {
    await handle.close()
  }
}

async function prepare(t: Test, { bytes = size, keep = false, ...options }: RunOptions & Plan = {}) {
  const running = await startGateway(t, options)
  const { settings } = running.gateway
  const setKeep = (on: boolean) => settings.set(new Map([['sftp_keep_partial_uploads', String(on)]]))
  if (keep) await setKeep(true)
  const proxy = await startCuttingProxy(running.sftpPort)
  t.teardown(() => proxy.stop())
  const clients = await sftpClients(t, running, proxy.port)
  const file = join(clients.folder, 'file')
  await writeRandom(file, bytes)
  /** A file of the gateway, downloaded by a client, beside the local one; undefined if it is missing. */
  const stored = async (name: string) => {
    const fetched = join(clients.folder, '.fetched')
    await rm(fetched, { force: true })
    const { status } = await clients.sftp([`get ${name} .fetched`])
    if (status !== 0) return undefined
    const difference = await differenceOf(fetched, file)
    return { size: (await stat(fetched)).size, hash: await hashOf(fetched), ...(difference && { difference }) }
  }
  /** The gateway may notice the interruption a little later than the client. */
  const settled = async (name: string) => {
    const names = async () => (await clients.sftp(['ls -1'])).out.split('\n').map((line) => line.trim())
    await until(async () => (await names()).includes(name))
    return stored(name)
  }
  const half = Math.floor(bytes / 2)
  return { proxy, file, half, hash: await hashOf(file), stored, settled, setKeep, ...clients }
}

interface Plan {
  readonly bytes?: number
  readonly keep?: boolean
}

void t.test('downloads', { skip: lacks('sftp', 'lftp', 'rclone') }, async (t) => {
  const { proxy, folder, hash, half, sftp, lftp, rclone } = await prepare(t)
  t.equal((await sftp(['put file'])).status, 0)
  const back = join(folder, 'back')

  await t.test('sftp resumes with reget', async (t) => {
    proxy.cut('down', half, 1)
    t.not((await sftp(['get file back'])).status, 0)
    const part = (await stat(back)).size
    t.ok(part > 0 && part <= half, `${part} bytes were received`)
    t.equal((await sftp(['reget file back'])).status, 0)
    t.equal(await hashOf(back), hash)
  })

  await t.test('lftp resumes automatically, and with get -c', async (t) => {
    await rm(back)
    proxy.cut('down', half, 1)
    const before = proxy.cuts
    const outcome = await lftp(['get file -o back'])
    t.equal(outcome.status, 0, outcome.complaints)
    t.equal(proxy.cuts, before + 1)
    t.equal(await hashOf(back), hash)
    await truncate(back, half)
    t.equal((await lftp(['get -c file -o back'])).status, 0)
    t.equal(await hashOf(back), hash)
  })

  await t.test('rclone resumes automatically', async (t) => {
    await rm(back)
    proxy.cut('down', half, 1)
    const before = proxy.cuts
    // The default number of retries: one fails if rclone continues on the lost connection.
    const outcome = await rclone('copyto', 'sftp:file', back, '--multi-thread-streams', '0', '--retries', '3')
    t.equal(outcome.status, 0, outcome.complaints)
    t.equal(proxy.cuts, before + 1)
    t.equal(await hashOf(back), hash)
  })
})

for (const [driver, bytes] of [
  ['Local', size],
  ['Memory', 8 * mebibyte],
] as const) {
  void t.test(`uploads to ${driver}`, { skip: lacks('sftp', 'lftp', 'rclone') }, async (t) => {
    const prepared = await prepare(t, { bytes, keep: true, ...(driver === 'Memory' && { driver: { name: driver } }) })
    const { proxy, hash, half, sftp, lftp, rclone, settled, stored, setKeep } = prepared

    await t.test('sftp resumes with reput if partial uploads are kept', async (t) => {
      proxy.cut('up', half, 1)
      t.not((await sftp(['put file'])).status, 0)
      const part = (await settled('file'))?.size ?? 0
      t.ok(part > 0 && part <= half, `${part} bytes were stored`)
      t.equal((await sftp(['reput file'])).status, 0)
      t.equal((await stored('file'))?.hash, hash)
    })

    await t.test('lftp resumes automatically, and with put -c', async (t) => {
      proxy.cut('up', half, 1)
      const before = proxy.cuts
      const whole = await lftp(['put file -o by-lftp'])
      t.equal(whole.status, 0, whole.complaints)
      t.equal(proxy.cuts, before + 1)
      t.same(await stored('by-lftp'), { size: bytes, hash })
      proxy.cut('up', half, 1)
      t.not((await sftp(['put file part'])).status, 0)
      t.ok(((await settled('part'))?.size ?? 0) > 0)
      const outcome = await lftp(['put -c file -o part'])
      t.equal(outcome.status, 0, outcome.complaints)
      t.same(await stored('part'), { size: bytes, hash })
    })

    await t.test('rclone retries', async (t) => {
      proxy.cut('up', half, 1)
      const before = proxy.cuts
      const outcome = await rclone('copyto', prepared.file, 'sftp:by-rclone', '--retries', '3')
      t.equal(outcome.status, 0, outcome.complaints)
      t.equal(proxy.cuts, before + 1)
      t.equal((await stored('by-rclone'))?.hash, hash)
    })

    await t.test('an old file is never partially overwritten, with either value of the setting', async (t) => {
      await writeFile(join(prepared.folder, 'other'), 'something else')
      t.equal((await sftp(['put other old'])).status, 0)
      const old = await stored('old')
      for (const keep of [true, false]) {
        await setKeep(keep)
        proxy.cut('up', half, 1)
        t.not((await sftp(['put file old'])).status, 0)
        await wait(500)
        t.same(await stored('old'), old)
      }
    })

    await t.test('nothing remains of an interrupted upload if the setting is off', async (t) => {
      await setKeep(false)
      proxy.cut('up', half, 1)
      t.not((await sftp(['put file new'])).status, 0)
      await wait(500)
      t.notMatch((await sftp(['ls -1a'])).out, /new/)
    })
  })
}
