/** The daemon process as an admin and a service manager see it: its output, exit status and signals. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { until } from '../until.js'

const main = fileURLToPath(new URL('../../src/main.js', import.meta.url))

interface Process {
  readonly child: ChildProcessByStdio<null, Readable, Readable>
  /** The standard output of the process so far. */
  readonly out: () => string
  readonly err: () => string
  readonly ended: Promise<number | null>
  /** Resolves to the address of the HTTP protocol. */
  readonly ready: () => Promise<string>
}

function start(t: Test, data: string, words: readonly string[] = [], environment: NodeJS.ProcessEnv = {}): Process {
  const addresses = ['--http', '127.0.0.1:0', '--sftp', '127.0.0.1:0']
  const child = spawn(process.execPath, [main, 'serve', '--data', data, ...addresses, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  })
  t.teardown(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const ended = once(child, 'close').then(([status]) => status as number | null)
  const ready = async () => {
    while (!out.includes('ready')) {
      if (child.exitCode !== null) throw new Error(`it ended: ${err}`)
      await wait(20)
    }
    return /http:\/\/[\d.:]+/.exec(out)?.[0] ?? ''
  }
  return { child, out: () => out, err: () => err, ended, ready }
}

async function dataFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-main-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  return join(folder, 'data')
}

async function signIn(url: string, password: string): Promise<string> {
  const response = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password }),
  })
  return ((await response.json()) as { data: { token: string } }).data.token
}

void t.test(
  'the first run prints a working password, later runs print none, and SIGTERM ends the daemon with status 0',
  async (t) => {
    const data = await dataFolder(t)
    const environment = { TIDEGATE_ADMIN_PASSWORD: '' }
    const first = start(t, data, [], environment)
    const url = await first.ready()
    t.match(first.out(), /ready: http:\/\/127\.0\.0\.1:\d+ sftp:\/\/127\.0\.0\.1:\d+\n/)
    const password = /password (\S+)/.exec(first.out())?.[1] ?? ''
    t.ok(await signIn(url, password))
    first.child.kill('SIGTERM')
    t.equal(await first.ended, 0)
    t.notMatch(first.err(), password, 'the password is not in the log')
    t.match(first.out(), `  ${url}/\nhttp:// is plain HTTP`, 'where the console is, and that it is plain HTTP')

    const second = start(t, data, ['--sftp', 'off'], environment)
    t.ok(await signIn(await second.ready(), password))
    t.match(second.out(), /^tidegate \S+ ready: http:\/\/127\.0\.0\.1:\d+\n$/, 'a protocol that is off is left out')
    second.child.kill('SIGINT')
    t.equal(await second.ended, 0)
  },
)

void t.test('a first run that fails either prints the password or creates no admin', async (t) => {
  const data = await dataFolder(t)
  const environment = { TIDEGATE_ADMIN_PASSWORD: '' }
  await mkdir(data)
  await writeFile(join(data, 'files'), 'in the way of the folder of the first storage')
  const first = start(t, data, [], environment)
  t.equal(await first.ended, 1)
  t.equal(first.out(), '')
  await rm(join(data, 'files'))
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`
  const second = start(t, data, ['--http', address], environment)
  t.equal(await second.ended, 1)
  t.match(second.err(), 'the port is taken')
  const password = /password (\S+)/.exec(second.out())?.[1] ?? ''
  const third = start(t, data, [], environment)
  const url = await third.ready()
  const token = await signIn(url, password)
  t.notMatch(third.out(), 'password')
  const storages = await fetch(`${url}/api/admin/storage/list`, { headers: { Authorization: token } })
  t.match(await storages.json(), { data: { content: [{ mount_path: '/', status: 'work' }] } })
})

void t.test('SIGTERM to `npm start` ends the daemon', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-npm-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: { start: string } }
  // The test run has built the program, so `npm start` need not build it again.
  await writeFile(join(folder, 'package.json'), JSON.stringify({ scripts: { build: 'true', start: scripts.start } }))
  await symlink(join(main, '../..'), join(folder, 'dist'))
  const words = ['start', '--', '--data', join(folder, 'data'), '--http', '127.0.0.1:0', '--sftp', 'off']
  const npm = spawn('npm', words, { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] })
  t.teardown(() => npm.kill('SIGKILL'))
  let out = ''
  npm.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  const ready = () => /http:\/\/[\d.:]+/.exec(out)?.[0]
  while (ready() === undefined && npm.exitCode === null) await wait(20)
  const url = ready() ?? ''
  t.equal((await fetch(`${url}/ping`)).status, 200)
  npm.kill('SIGTERM')
  // Not before the daemon has ended, because it holds the pipe.
  await once(npm, 'close', { signal: AbortSignal.timeout(10_000) })
  await t.rejects(fetch(`${url}/ping`))
})

/** Sends half of a body of `size` bytes; `finish` sends the rest and resolves to the status, or to the error's code. */
function slowUpload(url: string, token: string, size: number) {
  const upload = request(`${url}/api/fs/put`, {
    method: 'PUT',
    headers: { Authorization: token, 'File-Path': '/slow', 'Content-Length': size, Expect: '100-continue' },
  })
  const answer = new Promise<number | string>((resolve) => {
    upload.on('response', (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    upload.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
  })
  const begun = once(upload, 'continue').then(() => upload.write(Buffer.alloc(size / 2)))
  return {
    /** Resolves when the daemon receives the body. */
    begun,
    answer,
    finish: () => {
      upload.end(Buffer.alloc(size / 2))
      return answer
    },
  }
}

function refusesConnections(url: string): Promise<boolean> {
  return fetch(url).then(
    () => false,
    () => true,
  )
}

void t.test('on SIGTERM, a running upload finishes and new connections are refused', async (t) => {
  const daemon = start(t, await dataFolder(t), [], { TIDEGATE_ADMIN_PASSWORD: 'tide' })
  const url = await daemon.ready()
  const upload = slowUpload(url, await signIn(url, 'tide'), 1_000_000)
  await upload.begun
  daemon.child.kill('SIGTERM')
  t.ok(await until(() => refusesConnections(url)))
  t.equal(await upload.finish(), 200)
  t.equal(await daemon.ended, 0)
})

void t.test('after drain_seconds, running requests are cut off and the status is 0', async (t) => {
  const data = await dataFolder(t)
  const config = join(data, '..', 'tidegate.json')
  await writeFile(config, '{ "drain_seconds": 0.5 }')
  const password = join(data, '..', 'password')
  await writeFile(password, 'tide\n')
  const environment = { TIDEGATE_ADMIN_PASSWORD: '', TIDEGATE_ADMIN_PASSWORD_FILE: password }
  const daemon = start(t, data, ['--config', config], environment)
  const url = await daemon.ready()
  const upload = slowUpload(url, await signIn(url, 'tide'), 1_000_000)
  await upload.begun
  const begun = Date.now()
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.ended, 0)
  t.ok(Date.now() - begun < 10_000)
  t.type(await upload.answer, 'string', 'the client sees that its connection ends')
})

void t.test('a second signal ends the daemon at once with status 1', async (t) => {
  const daemon = start(t, await dataFolder(t), [], { TIDEGATE_ADMIN_PASSWORD: 'tide' })
  const url = await daemon.ready()
  await slowUpload(url, await signIn(url, 'tide'), 1_000_000).begun
  daemon.child.kill('SIGTERM')
  await until(() => refusesConnections(url))
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.ended, 1)
})

void t.test('a bad configuration prints one sentence and exits with status 2', async (t) => {
  const daemon = start(t, await dataFolder(t), ['--http', 'nowhere'])
  t.equal(await daemon.ended, 2)
  t.equal(daemon.err(), 'tidegate: bad configuration: http: must be HOST:PORT\n')
  const environment = { TIDEGATE_ADMIN_PASSWORD: '', TIDEGATE_ADMIN_PASSWORD_FILE: '/nowhere' }
  const other = start(t, await dataFolder(t), [], environment)
  t.equal(await other.ended, 2)
  t.match(
    other.err(),
    /^tidegate: the file \/nowhere, which TIDEGATE_ADMIN_PASSWORD_FILE names, cannot be read: [^\n]+\n$/,
  )
})

void t.test('a data folder that cannot be made prints one sentence and exits with status 2', async (t) => {
  const folder = join(await dataFolder(t), '..')
  const file = join(folder, 'file')
  await writeFile(file, '')
  for (const [data, why] of [
    ['/proc/none/data', 'no folder can be made there'],
    [file, 'a file is in its place'],
    [join(file, 'data'), 'a file is in its path'],
    [join(folder, 'x'.repeat(300)), 'its name is too long'],
  ] as const) {
    const daemon = start(t, data)
    t.equal(await daemon.ended, 2, data)
    t.equal(daemon.err(), `tidegate: the data folder ${data} cannot be used: ${why}\n`)
  }
})

void t.test(
  'dist_dir without index.html prints one sentence and exits with status 2; check reports it, too',
  async (t) => {
    const data = await dataFolder(t)
    const folder = join(data, '..')
    const config = join(folder, 'tidegate.json')
    await writeFile(config, JSON.stringify({ dist_dir: folder }))
    const daemon = start(t, data, ['--config', config])
    t.equal(await daemon.ended, 2)
    const fault = `bad configuration: dist_dir: ${folder}/index.html: there is no such file that can be read`
    t.equal(daemon.err(), `tidegate: ${fault}\n`)
    t.equal(existsSync(data), false, 'no data folder was created')
    const check = spawn(process.execPath, [main, 'check', '--data', data, '--config', config], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.match(await text(check.stdout), `WRONG  web client     ${fault}`)
  },
)

void t.test('a port that is taken prints one sentence and exits with status 1', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`
  for (const protocol of ['--http', '--sftp']) {
    const daemon = start(t, await dataFolder(t), [protocol, address])
    t.equal(await daemon.ended, 1)
    t.equal(daemon.err(), `tidegate: cannot listen on ${address}: the port is taken by another program\n`)
  }
})
