/** The requests of graphical clients around a transfer. Both use version 3 and announce no extensions. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { flags, names, PacketClient, permissions, status, string, types, uint32, uint64 } from './packet-client.js'
import { openChannel, startProtocol, type Running } from './server-fixture.js'

const { read, write, create, truncate } = flags
const packetSize = 32 * 1024

let protocol: Running
t.before(async () => {
  protocol = await startProtocol(t)
})

async function session(): Promise<PacketClient> {
  const client = new PacketClient(await openChannel(await protocol.connect()))
  await client.start()
  return client
}

/** Times of access and modification, as in one SETSTAT. */
const times = (seconds: number) => Buffer.concat([uint32(8), uint32(seconds), uint32(seconds)])
/** WinSCP sends mode and times together. */
const modeAndTimes = (mode: number, seconds: number) =>
  Buffer.concat([uint32(4 | 8), uint32(mode), uint32(seconds), uint32(seconds)])

/** WRITEs without waiting for responses, as pipelining clients send them. */
async function send(client: PacketClient, handle: Buffer, bytes: Buffer, from = 0): Promise<void> {
  const answers: Promise<number>[] = []
  for (let at = from; at < bytes.length; at += packetSize) {
    answers.push(client.write(handle, at, bytes.subarray(at, at + packetSize)))
  }
  t.ok((await Promise.all(answers)).every((answer) => answer === status.ok))
}

async function fetched(client: PacketClient, path: string, length: number): Promise<Buffer> {
  const handle = await client.mustOpen(path, read)
  const pieces: Promise<Buffer | number>[] = []
  for (let at = 0; at < length; at += packetSize) pieces.push(client.read(handle, at, packetSize))
  const bytes = (await Promise.all(pieces)).map((piece) => (Buffer.isBuffer(piece) ? piece : Buffer.alloc(0)))
  t.equal(await client.read(handle, length, packetSize), status.eof)
  await client.close(handle)
  return Buffer.concat(bytes)
}

void t.test('WinSCP uploads to a .filepart, renames it, and sets mode and time', async (t) => {
  const client = await session()
  const content = randomBytes(500_000)
  const upload = async (seconds: number) => {
    const exists = (await client.stat('/report.pdf', types.lstat)) !== status.noSuchFile
    t.equal(await client.stat('/report.pdf.filepart', types.lstat), status.noSuchFile)
    const handle = await client.mustOpen('/report.pdf.filepart', write | create | truncate)
    await send(client, handle, content)
    t.equal(await client.close(handle), status.ok)
    if (exists) t.equal(await client.status(names.remove, string('/report.pdf')), status.ok)
    const rename = [string('/report.pdf.filepart'), string('/report.pdf')]
    t.equal(await client.status(names.rename, ...rename), status.ok)
    t.equal(await client.status(types.setstat, string('/report.pdf'), modeAndTimes(0o644, seconds)), status.ok)
    t.match(await client.stat('/report.pdf'), { size: 500_000, modified: seconds })
  }
  await upload(1_500_000_000)
  await upload(1_600_000_000)
  t.ok(content.equals(await fetched(client, '/report.pdf', content.length)))
  t.notOk((await client.list('/')).has('report.pdf.filepart'))
})

void t.test('WinSCP resumes a .filepart after its connection broke', async (t) => {
  await protocol.gateway.settings.set(new Map([['sftp_keep_partial_uploads', 'true']]))
  t.teardown(() => protocol.gateway.settings.set(new Map([['sftp_keep_partial_uploads', 'false']])))
  const content = randomBytes(300_000)
  const ssh = await protocol.connect()
  const first = new PacketClient(await openChannel(ssh))
  await first.start()
  await send(first, await first.mustOpen('/big.iso.filepart', write | create | truncate), content.subarray(0, 200_000))
  ssh.destroy()
  const client = await session()
  let found = await client.stat('/big.iso.filepart', types.lstat)
  while (typeof found === 'number') found = await client.stat('/big.iso.filepart', types.lstat)
  t.equal(found.size, 200_000)
  const handle = await client.mustOpen('/big.iso.filepart', write)
  await send(client, handle, content, found.size)
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.status(names.rename, string('/big.iso.filepart'), string('/big.iso')), status.ok)
  t.ok(content.equals(await fetched(client, '/big.iso', content.length)))
})

void t.test('FileZilla lists, uploads to the final name, sets time and mode, and lists again', async (t) => {
  const client = await session()
  const answer = await client.ask(names.realpath, string('.'))
  t.ok(answer.body.includes('/'))
  t.equal(await client.status(names.mkdir, string('/site'), uint32(0)), status.ok)
  t.equal(
    await client.status(names.mkdir, string('/site'), uint32(0)),
    status.failure,
    'it creates folders without checking for them',
  )
  t.same([...(await client.list('/site')).keys()].sort(), ['.', '..'])
  const content = randomBytes(100_000)
  const handle = await client.mustOpen('/site/index.html', write | create | truncate)
  await send(client, handle, content)
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.status(types.setstat, string('/site/index.html'), times(1_400_000_000)), status.ok)
  t.equal(await client.status(types.setstat, string('/site/index.html'), permissions(0o640)), status.ok)
  t.match(await client.stat('/site/index.html'), { size: 100_000, modified: 1_400_000_000 })
  t.match((await client.list('/site')).get('index.html'), /^-rw-r----- .* 100000 May 13 +2014 index\.html$/)
  t.ok(content.equals(await fetched(client, '/site/index.html', content.length)))
})

void t.test('FileZilla resumes an upload: it reads the size by STAT and writes from there', async (t) => {
  const client = await session()
  const content = randomBytes(90_000)
  t.equal(await client.put('/resumed', content.subarray(0, 40_000)), status.ok)
  t.match(await client.stat('/resumed'), { size: 40_000 })
  const handle = await client.mustOpen('/resumed', write)
  t.match(await client.fstat(handle), { size: 40_000 })
  await send(client, handle, content, 40_000)
  t.equal(await client.close(handle), status.ok)
  t.ok(content.equals(await fetched(client, '/resumed', content.length)))
})

void t.test('a client may set the size first, to reserve space, and write afterwards', async (t) => {
  const client = await session()
  const handle = await client.mustOpen('/allocated', write | create | truncate)
  t.equal(await client.status(types.fsetstat, string(handle), uint32(1), uint64(50_000)), status.ok)
  await send(client, handle, randomBytes(50_000))
  t.equal(await client.close(handle), status.ok)
  t.match(await client.stat('/allocated'), { size: 50_000 })
})
