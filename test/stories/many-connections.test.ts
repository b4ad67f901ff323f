/** Many SFTP connections at once: the daemon's memory is bounded for all of them together. */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'ssh2'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'

t.setTimeout(600_000)

const run = promisify(execFile)
const mebibyte = 1024 * 1024
/** By how much memory may rise; V8 collects buffers that are done with only once there are some 60 MiB of them. */
const bound = 160 * mebibyte

async function resident(daemon: Daemon): Promise<number> {
  const status = await readFile(`/proc/${daemon.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024
}

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

/** A session that asks for nothing. */
async function idle(daemon: Daemon): Promise<Client> {
  const client = new Client()
  await new Promise<void>((resolve, reject) => {
    client.on('error', reject).once('ready', () => client.sftp((error) => (error ? reject(error) : resolve())))
    const { sftpPort: port, adminPassword: password } = daemon
    client.connect({ host: '127.0.0.1', port, username: 'admin', password })
  })
  return client
}

const skip = process.platform === 'linux' ? lacks('sftp', 'ssh-keygen') : 'reads /proc'

void t.test('50 idle and 10 busy connections share the memory there is', { skip }, async (t) => {
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
  t.ok(peak - start < bound, told)
})
