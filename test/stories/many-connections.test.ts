/** Many concurrent SFTP connections: the daemon's memory is bounded for all of them together. */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client } from 'ssh2'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { flags, PacketClient, status, string, types, uint32, uint64 } from '../protocols/sftp/packet-client.js'
import { openChannel } from '../protocols/sftp/server-fixture.js'
import { resident } from '../resident-memory.js'

const run = promisify(execFile)
const mebibyte = 1024 * 1024

async function addKey(daemon: Daemon, key: string): Promise<void> {
  const post = async (path: string, body: object, token = '') => {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const response = await fetch(`${daemon.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as { readonly code: number; readonly data: { readonly token: string } }
  }
  const { data } = await post('/api/auth/login', { username: 'admin', password: daemon.adminPassword })
  const added = await post('/api/me/sshkey/add', { title: 'test', key: await readFile(key, 'utf8') }, data.token)
  if (added.code !== 200) throw new Error('the key was refused')
}

/** A connection with an idle session. */
async function idle(daemon: Daemon): Promise<Client> {
  const client = await connected(daemon)
  await promisify(client.sftp.bind(client))()
  return client
}

async function connected({ sftpPort: port, adminPassword: password }: Daemon): Promise<Client> {
  const client = new Client()
  await new Promise<void>((resolve, reject) => {
    client.on('error', reject).once('ready', resolve)
    client.connect({ host: '127.0.0.1', port, username: 'admin', password })
  })
  return client
}

const skip = process.platform === 'linux' ? lacks('sftp', 'ssh-keygen') : 'reads /proc'

void t.test('50 idle and 10 busy connections stay within the memory limit', { skip }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-many-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const daemon = await startDaemon(t)
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')])
  await addKey(daemon, join(folder, 'key.pub'))
  const content = randomBytes(48 * mebibyte)
  const digest = createHash('sha256').update(content).digest('hex')
  await writeFile(join(folder, 'file'), content)

  const start = await resident(daemon)
  const still: Client[] = []
  for (let each = 0; each < 50; each++) still.push(await idle(daemon))
  t.teardown(() => still.forEach((client) => client.end()))
  const quiet = await resident(daemon)
  let peak = quiet
  const timer = setInterval(() => void resident(daemon).then((now) => (peak = Math.max(peak, now))), 20)
  t.teardown(() => clearInterval(timer))

  const options = ['-q', '-F', 'none', '-i', 'key', '-P', String(daemon.sftpPort), '-R', '64', '-B', '261120']
  options.push('-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-o', 'IdentitiesOnly=yes')
  const busy = Array.from({ length: 10 }, async (_, number) => {
    const batch = join(folder, `batch${number}`)
    await writeFile(batch, `put file ${number}\nget ${number} back${number}\n`)
    await run('sftp', [...options, '-b', batch, 'admin@127.0.0.1'], { cwd: folder })
    const back = join(folder, `back${number}`)
    t.equal(
      createHash('sha256')
        .update(await readFile(back))
        .digest('hex'),
      digest,
    )
    await rm(back)
  })
  await Promise.all(busy)
  clearInterval(timer)
  const told = [start, quiet, peak].map((bytes) => Math.round(bytes / mebibyte)).join(', ')
  t.comment(`MiB at start, with 50 idle connections, at most: ${told}`)
  // The memory in use is much less: unused buffers are collected only when they reach about 64 MiB.
  t.ok(peak - start < 176 * mebibyte, told)
})

void t.test('40 connections that never read their responses use little memory', { skip }, async (t) => {
  const daemon = await startDaemon(t)
  const client = new PacketClient(await openChannel(await connected(daemon)))
  await client.start()
  t.equal(await client.put('/file', randomBytes(16 * mebibyte)), status.ok)
  const clients: Client[] = []
  t.teardown(() => clients.forEach((each) => each.end()))
  const stalled: PacketClient[] = []
  for (let each = 0; each < 40; each++) {
    const greedy = await connected(daemon)
    clients.push(greedy)
    const session = new PacketClient(await openChannel(greedy))
    await session.start()
    stalled.push(session)
  }
  const start = await resident(daemon)
  for (const session of stalled) {
    const handle = await session.mustOpen('/file', flags.read)
    session.channel.pause()
    for (let at = 0; at < 64; at++) {
      void session.ask(types.read, string(handle), uint64(at * 261_120), uint32(261_120))
    }
  }
  await wait(3000)
  const risen = Math.round(((await resident(daemon)) - start) / mebibyte)
  t.comment(`risen by ${risen} MiB`)
  t.ok(risen < 140, `${risen} MiB`)
  t.match(await client.stat('/file'), { size: 16 * mebibyte }, 'others are served')
  client.channel.end()
})
