/**
 * The first run: start, sign in with the printed password, upload by HTTP, download by WebDAV and by SFTP with a key.
 */
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { usesNativeCiphers } from '../../protocols/sftp/algorithms.js'
import { startDaemon } from '../gateway.js'
import { processorTimeOf } from '../processor-time.js'
import { connectHttp, connectSftp, connectWebDav } from './protocols.js'

const run = promisify(execFile)
const main = fileURLToPath(new URL('../../src/main.js', import.meta.url))

interface FirstRun {
  readonly folder: string
  readonly lines: string
  /** Seconds of processor time until it was ready. */
  readonly milliseconds: number
}

/** Starts a daemon with an empty data folder and no options, and measures its processor time until it is ready. */
async function startAnew(t: Test): Promise<FirstRun> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-first-run-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  const words = [main, '--data', join(folder, 'data'), '--http', '127.0.0.1:0', '--sftp', '127.0.0.1:0']
  const { TIDEGATE_ADMIN_PASSWORD: _none, ...environment } = process.env
  const child = spawn(process.execPath, words, { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const lines = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      if (/ready.*\n/.test(text)) resolve(text)
    })
    child.once('exit', () => reject(new Error('the daemon ended')))
  })
  return { folder, lines, milliseconds: await processorTimeOf(child.pid ?? 0) }
}

void t.test('a clean data folder is served after less than four seconds of work', async (t) => {
  const times: number[] = []
  // The minimum of three runs.
  for (let start = 0; start < 3; start++) times.push((await startAnew(t)).milliseconds)
  t.comment(`ready after ${times.map((time) => Math.round(time)).join(', ')} ms`)
  t.ok(Math.min(...times) < 4000)
})

void t.test('a file uploaded with the printed password can be read by the other protocols', async (t) => {
  const { folder, lines } = await startAnew(t)
  const password = /password (\S+)/.exec(lines)?.[1] ?? ''
  const [http = '', sftp = ''] = lines.match(/127\.0\.0\.1:\d+/g) ?? []
  const where = { url: `http://${http}`, davUrl: `http://${http}/dav/`, sftpPort: Number(sftp.split(':')[1]) }
  const content = Buffer.from('in by one protocol, out by the others\n')

  const api = await connectHttp(where, { username: 'admin', password })
  t.equal(await api.put('/first.txt', content), 'done')
  t.same(await connectWebDav(where, { username: 'admin', password }).get('/first.txt'), content)

  const key = join(folder, 'key')
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
  const signIn = await fetch(`${where.url}/api/auth/login`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password }),
  })
  const { data } = (await signIn.json()) as { data: { token: string } }
  const added = await fetch(`${where.url}/api/me/sshkey/add`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: data.token },
    body: JSON.stringify({ title: 'mine', key: await readFile(`${key}.pub`, 'utf8') }),
  })
  t.equal(((await added.json()) as { code: number }).code, 200)
  const options = ['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-i', key]
  const got = join(folder, 'got')
  await run('sftp', ['-q', ...options, '-P', String(where.sftpPort), 'admin@127.0.0.1:/first.txt', got])
  t.same(await readFile(got), content)
})

void t.test('without the native part of ssh2, SFTP works, and the log says that it is slower', async (t) => {
  const refusal = `import { Module } from 'node:module'
    const load = Module._extensions['.node']
    Module._extensions['.node'] = (module, file) => {
      if (file.endsWith('sshcrypto.node')) throw new Error('not compiled for this version')
      load(module, file)
    }`
  const environment = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(refusal)}` }
  const daemon = await startDaemon(t, { environment })
  const client = await connectSftp(daemon, { username: 'admin', password: daemon.adminPassword })
  const content = randomBytes(300_000)
  t.equal(await client.put('/file', content), 'done')
  t.same(await client.get('/file'), content)
  t.match(daemon.log, /SFTP encrypts in JavaScript/)
  const native = await startDaemon(t)
  t.equal(native.log.includes('SFTP encrypts in JavaScript'), !usesNativeCiphers())
})
