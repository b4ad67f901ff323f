/**
 * Stories of a daemon with a storage behind an HTTP API: large files, clients that disconnect, and uploads of tasks
 * that go on after the daemon was killed.
 */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import type { Requests } from '../doubles/requests.js'
import { startDaemon, storageStarted, type Daemon } from '../gateway.js'
import { resident, risen } from '../resident-memory.js'
import { storeVariables } from '../store-location.js'
import { connect, ended } from '../stories/task-client.js'

const mebibyte = 1024 * 1024
const mainProgram = fileURLToPath(new URL('../../src/main.js', import.meta.url))

/** The double of a vendor, with a storage of it. */
export interface DaemonDrive {
  readonly environment: Readonly<Record<string, string>>
  readonly driver: string
  readonly addition: object
  /** Bytes of file contents that have reached the vendor. */
  sentBytes(): number
  /** From now on, the vendor takes its time for every part of an upload. */
  slowDown(): void
  /** The SHA-1 of each file in the root folder, by its name; several of one name have one entry each. */
  files(): readonly (readonly [name: string, sha1: string])[]
}

/** The double of a vendor where a file has a staged name until it is published. */
export interface StagingDrive extends DaemonDrive {
  /**
   * Resolves when the vendor has stored the next file, whose answer is never sent. `isKnown`: a file that the vendor
   * has the bytes of.
   */
  stored(isKnown: boolean): Promise<void>
  /** The staged names in the root folder. */
  staged(): readonly string[]
}

/** A daemon with the drive at `/drive`. */
async function mounted(t: Test, drive: DaemonDrive) {
  const { environment } = drive
  const daemon = await startDaemon(t, { environment })
  await storageStarted(daemon)
  const client = await connect(daemon)
  const addition = JSON.stringify(drive.addition)
  const storage = { mount_path: '/drive', driver: drive.driver, addition, webdav_policy: 'native_proxy' }
  await client.post('/api/admin/storage/create', storage)
  return { daemon, client }
}

function basic({ adminPassword }: Daemon): string {
  return `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
}

/** A body of so many MiB, all of which differ. */
function body(mebibytes: number): Readable {
  const pattern = randomBytes(mebibyte)
  const pieces = function* () {
    for (let index = 0; index < mebibytes; index++) {
      const piece = Buffer.from(pattern)
      piece.writeUInt32BE(index)
      yield piece
    }
  }
  return Readable.from(pieces(), { objectMode: false })
}

async function sha1Of(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha1')
  for await (const chunk of bytes) hash.update(chunk)
  return hash.digest('hex')
}

/** Sends the body by WebDAV. Resolves to the status. */
async function put(daemon: Daemon, path: string, bytes: Readable, size: number): Promise<number> {
  const headers = { authorization: basic(daemon), 'content-length': String(size) }
  const answer = await fetch(`${daemon.davUrl}${path}`, {
    method: 'PUT',
    headers,
    body: Readable.toWeb(bytes) as ReadableStream,
    duplex: 'half',
  })
  return answer.status
}

/** A large file goes up and down in flat memory. */
export async function largeFile(t: Test, drive: DaemonDrive): Promise<void> {
  const { daemon } = await mounted(t, drive)
  const mebibytes = Math.min(512, Number(process.env.TIDEGATE_LARGE_MIB ?? 64))
  const idle = await resident(daemon)
  const grown = await risen(daemon, idle, async () => {
    t.equal(await put(daemon, 'drive/large', body(mebibytes), mebibytes * mebibyte), 201)
    const got = await fetch(`${daemon.davUrl}drive/large`, { headers: { authorization: basic(daemon) } })
    const sha1 = await sha1Of(got.body as unknown as AsyncIterable<Uint8Array>)
    t.same(drive.files(), [['large', sha1]], 'the content is unchanged')
  })
  t.ok(grown < 200, `${grown} MiB above ${Math.round(idle / mebibyte)} MiB`)
  t.equal(await daemon.stop(), 0)
}

/** A client that disconnects in its body leaves the old file, and nothing half. */
export async function cutByClient(t: Test, drive: DaemonDrive): Promise<void> {
  const { daemon } = await mounted(t, drive)
  t.equal(await put(daemon, 'drive/file', Readable.from([Buffer.from('old')]), 3), 201)
  const before = drive.files()
  const request = httpRequest(`${daemon.davUrl}drive/file`, {
    method: 'PUT',
    headers: { authorization: basic(daemon), 'content-length': 30 * mebibyte },
  })
  const closed = new Promise<void>((resolve) => request.on('error', () => undefined).once('close', () => resolve()))
  request.write(randomBytes(15 * mebibyte))
  await wait(300)
  request.destroy()
  await closed
  await wait(300)
  t.same(drive.files(), before)
  t.equal(await daemon.stop(), 0)
}

/**
 * A task stores a file, and the daemon is killed in the middle of it: the old file is whole, and after a restart the
 * upload goes on where the vendor has parts. `partLength`: bytes that may have been sent twice.
 */
export async function killedTask(t: Test, drive: DaemonDrive, partLength: number): Promise<void> {
  const mebibytes = 100
  const { daemon, client } = await mounted(t, drive)
  t.equal(await put(daemon, 'drive/file', Readable.from([Buffer.from('old')]), 3), 201)
  t.equal(await put(daemon, 'file', body(mebibytes), mebibytes * mebibyte), 201)
  const old = drive.files()
  const before = drive.sentBytes()
  drive.slowDown()
  await client.post('/api/fs/copy', { src_dir: '/', dst_dir: '/drive', names: ['file'], overwrite: true })
  while (drive.sentBytes() - before < 2.5 * partLength) await wait(20)
  await daemon.kill()
  t.same(drive.files(), old, 'the old file is whole')
  const { dataFolder, adminPassword } = daemon
  const again = await startDaemon(t, { dataFolder, adminPassword, environment: drive.environment })
  await storageStarted(again)
  const later = await connect(again)
  t.match(await ended(later, 'copy'), [{ state: 2, error: '' }])
  const source = await fetch(`${again.davUrl}file`, { headers: { authorization: basic(again) } })
  const sha1 = await sha1Of(source.body as unknown as AsyncIterable<Uint8Array>)
  t.same(drive.files(), [['file', sha1]])
  const sent = drive.sentBytes() - before
  t.ok(sent <= mebibytes * mebibyte + 1.5 * partLength, `${Math.round(sent / mebibyte)} of ${mebibytes} MiB were sent`)
  t.equal(await again.stop(), 0)
}

/**
 * The daemon is killed when the vendor has stored a file and before its answer arrives: what was there before is whole,
 * and the staged file is removed when the folder is listed after a restart, or gets its name if a task stores it.
 */
export async function killedBeforeAnswer(t: Test, drive: StagingDrive): Promise<void> {
  let { daemon, client } = await mounted(t, drive)
  const { dataFolder, adminPassword } = daemon
  const restart = async () => {
    await daemon.kill()
    daemon = await startDaemon(t, { dataFolder, adminPassword, environment: drive.environment })
    await storageStarted(daemon)
    client = await connect(daemon)
  }
  const swept = async () => {
    while (drive.staged().length > 0) await wait(20)
  }
  t.equal(await put(daemon, 'drive/file', Readable.from([Buffer.from('old')]), 3), 201)
  const before = drive.files()
  for (const { name, isKnown, size } of [
    { name: 'file', isKnown: false, size: 5 },
    { name: 'new', isKnown: false, size: 5 },
    { name: 'file', isKnown: true, size: 3 },
    { name: 'new', isKnown: true, size: 3 },
    { name: 'new', isKnown: false, size: 30 * mebibyte },
  ]) {
    const stored = drive.stored(isKnown)
    const bytes = isKnown ? Buffer.from('old') : randomBytes(size)
    const answer = put(daemon, `drive/${name}`, Readable.from([bytes]), size).catch(() => undefined)
    await stored
    t.same(drive.files(), before)
    t.equal(drive.staged().length, 1)
    await restart()
    await answer
    t.match(await client.post('/api/fs/list', { path: '/drive' }), { total: 1 })
    await swept()
    t.same(drive.files(), before)
  }
  for (const isKnown of [false, true]) {
    const bytes = isKnown ? Buffer.from('old') : randomBytes(5)
    t.match(await put(daemon, 'file', Readable.from([bytes]), bytes.length), /^20[14]$/)
    const stored = drive.stored(isKnown)
    await client.post('/api/fs/copy', { src_dir: '/', dst_dir: '/drive', names: ['file'], overwrite: true })
    await stored
    await restart()
    t.match((await ended(client, 'copy')).at(-1), { state: 2, error: '' })
    await client.post('/api/fs/list', { path: '/drive', refresh: true })
    await swept()
    t.same(drive.files(), [['file', await sha1Of(Readable.from([bytes]))]])
  }
  t.equal(await daemon.stop(), 0)
}

/** A download is redirected to the vendor, for the client that asks, without credentials. */
export async function redirected(t: Test, drive: DaemonDrive): Promise<void> {
  const { daemon, client } = await mounted(t, drive)
  t.equal(await put(daemon, 'drive/file', Readable.from([Buffer.from('hello')]), 5), 201)
  const { sign } = (await client.post('/api/fs/get', { path: '/drive/file' })) as { sign: string }
  const answer = await fetch(`${daemon.url}/d/drive/file?sign=${sign}`, {
    redirect: 'manual',
    headers: { 'user-agent': 'a client/1.0' },
  })
  t.equal(answer.status, 302)
  t.equal(answer.headers.get('set-cookie'), null)
  const target = await fetch(answer.headers.get('location') ?? '', { headers: { 'user-agent': 'a client/1.0' } })
  t.equal(await target.text(), 'hello')
  t.equal(await daemon.stop(), 0)
}

/** The tokens of the vendor's account. */
export interface DriveTokens {
  /** The access token is void from now on. */
  expire(): void
  /** How often the vendor has replaced the tokens. */
  refreshes(): number
}

/** `tidegate check` costs no token: neither beside the daemon nor without it, where it stores what it has renewed. */
export async function checked(t: Test, drive: DaemonDrive, tokens: DriveTokens): Promise<void> {
  const { daemon } = await mounted(t, drive)
  const { dataFolder, adminPassword } = daemon
  const check = async () => {
    const words = ['check', '--data', dataFolder, '--http', '127.0.0.1:0', '--sftp', 'off']
    const env = { ...process.env, ...(await storeVariables(dataFolder)), ...drive.environment }
    return (await promisify(execFile)(process.execPath, [mainProgram, ...words], { env })).stdout
  }
  t.equal(await put(daemon, 'drive/file', Readable.from([Buffer.from('old')]), 3), 201)
  t.match(await check(), /^ok +storage \/drive /m)
  t.equal(tokens.refreshes(), 0, 'beside the daemon')
  tokens.expire()
  t.match(await check(), /^ok +storage \/drive /m)
  t.equal(tokens.refreshes(), 1, 'the daemon has renewed it')
  t.equal(await daemon.stop(), 0)
  tokens.expire()
  t.match(await check(), /^ok +storage \/drive /m)
  t.equal(tokens.refreshes(), 2, 'without the daemon')
  const again = await startDaemon(t, { dataFolder, adminPassword, environment: drive.environment })
  await storageStarted(again)
  t.equal(await put(again, 'drive/file', Readable.from([Buffer.from('new')]), 3), 204)
  t.equal(tokens.refreshes(), 2, 'the daemon uses what the check has stored')
  t.equal(await again.stop(), 0)
}

/**
 * The daemon is killed as soon as it uses the tokens that it has just renewed: the next run has them. `requests`: those
 * to the vendor. `listing`: the call that lists a folder.
 */
export async function killedAfterRenewal(
  t: Test,
  drive: DaemonDrive,
  tokens: DriveTokens,
  { requests, listing }: { readonly requests: Requests; readonly listing: RegExp },
): Promise<void> {
  const { daemon, client } = await mounted(t, drive)
  const { dataFolder, adminPassword } = daemon
  const before = tokens.refreshes()
  tokens.expire()
  const used = new Promise<void>((resolve) => {
    // The first one is refused, with the old tokens.
    requests.inject(listing, { delay: 0 })
    requests.inject(listing, { holdAnswer: resolve })
  })
  const call = client.post('/api/fs/list', { path: '/drive', refresh: true })
  await used
  t.equal(tokens.refreshes(), before + 1)
  await daemon.kill()
  await call
  const again = await startDaemon(t, { dataFolder, adminPassword, environment: drive.environment })
  await storageStarted(again)
  const later = await connect(again)
  t.match(await later.post('/api/fs/list', { path: '/drive' }), { total: 0 })
  t.equal(tokens.refreshes(), before + 1, 'its access token is used')
  tokens.expire()
  t.match(await later.post('/api/fs/list', { path: '/drive', refresh: true }), { total: 0 })
  t.equal(tokens.refreshes(), before + 2, 'and then its refresh token')
  t.equal(await again.stop(), 0)
}
