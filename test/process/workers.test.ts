/** Several workers serve one data folder as one process does. */
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { processStartTime } from '../../src/installation/instance.js'
import { openStore } from '../../src/database/store.js'
import { startScripted } from '../offline-downloads/scripted-server.js'
import { startRclone } from '../drivers/rclone/mount.js'
import { startDaemon, workersOf, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { startAria2 } from '../servers/aria2.js'
import { freePorts } from '../servers/free-port.js'
import { storeOf } from '../store-location.js'
import { until } from '../until.js'

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

interface Sent {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Each request has a connection of its own, which any worker may accept. */
function ask(
  { url, adminPassword }: Daemon,
  method: string,
  path: string,
  { headers, body }: Sent = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
    const sent = request(`${url}${path}`, {
      method,
      agent: new Agent({ keepAlive: false }),
      headers: { ...(path.startsWith('/dav') && { authorization }), ...headers },
    })
    sent.on('error', reject)
    sent.on('response', (response) => {
      text(response).then(
        (body) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
        reject,
      )
    })
    sent.end(body)
  })
}

/** Posts JSON to the API as the administrator. Resolves to `data`; rejects unless the code is 200. */
async function post(daemon: Daemon, path: string, body: unknown, token = ''): Promise<unknown> {
  const headers = { 'content-type': 'application/json', ...(token !== '' && { authorization: token }) }
  const answer = await ask(daemon, 'POST', path, { headers, body: JSON.stringify(body) })
  const { code, message, data } = JSON.parse(answer.body) as { code: number; message: string; data: unknown }
  if (code !== 200) throw new Error(`${path}: ${message}`)
  return data
}

async function tokenOf(daemon: Daemon): Promise<string> {
  const credentials = { username: 'admin', password: daemon.adminPassword }
  return ((await post(daemon, '/api/auth/login', credentials)) as { token: string }).token
}

async function startWorkers(t: Test): Promise<Daemon> {
  return startDaemon(t, { environment: { TIDEGATE_WORKERS: '2' } })
}

const skip = lacks('ps')

void t.test('both workers are nodes, and share sessions, locks and "only if new"', { skip }, async (t) => {
  const daemon = await startWorkers(t)
  const store = await openStore(await storeOf(daemon.dataFolder))
  t.teardown(() => store.close())
  const nodes = (await store.nodes.all()).filter(({ ended }) => ended === undefined)
  t.equal(nodes.length, 2)
  t.equal(new Set(nodes.map(({ addresses }) => addresses)).size, 1)

  const signedIn = await ask(daemon, 'POST', '/api/auth/session', {
    headers: { 'content-type': 'application/json', origin: daemon.url },
    body: JSON.stringify({ username: 'admin', password: daemon.adminPassword }),
  })
  const cookie = String(signedIn.headers['set-cookie']).split(';', 1).join('')
  const headers = { cookie, origin: daemon.url, 'sec-fetch-site': 'same-origin' }
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask(daemon, 'GET', '/api/me', { headers })))
  t.same(
    answers.map(({ body }) => (JSON.parse(body) as { data: { username: string } }).data.username),
    Array(8).fill('admin'),
  )

  // The chunks of an upload would reach different workers.
  const settings = await ask(daemon, 'GET', '/api/public/settings')
  t.match(JSON.parse(settings.body), { data: { multipart_enabled: 'false' } })

  for (let round = 0; round < 5; round++) {
    const create = () => ask(daemon, 'PUT', `/dav/new-${round}`, { body: 'x', headers: { 'if-none-match': '*' } })
    const created = await Promise.all(Array.from({ length: 6 }, create))
    t.same(created.map(({ status }) => status).sort(), [201, 412, 412, 412, 412, 412])
  }

  const lockBody =
    '<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'
  for (let round = 0; round < 5; round++) {
    const path = `/dav/locked-${round}`
    const locked = await ask(daemon, 'LOCK', path, { body: lockBody })
    const token = String(locked.headers['lock-token'])
    const put = (headers = {}) => ask(daemon, 'PUT', path, { body: 'x', headers })
    t.same(
      (await Promise.all([put(), put(), put(), put()])).map(({ status }) => status),
      [423, 423, 423, 423],
    )
    t.same(
      (await Promise.all([put({ if: `(${token})` }), put({ if: `(${token})` })])).map(({ status }) => status),
      [204, 204],
    )
    t.equal((await ask(daemon, 'UNLOCK', path, { headers: { 'lock-token': token } })).status, 204)
    t.same(
      (await Promise.all([put(), put()])).map(({ status }) => status),
      [204, 204],
    )
  }
  t.equal(await daemon.stop(), 0)
})

void t.test('each worker passes uploads on to rclone of its own', { skip: skip || lacks('rclone') }, async (t) => {
  const daemon = await startWorkers(t)
  const rclone = await startRclone()
  t.teardown(() => rclone.stop())
  const addition = JSON.stringify({ remote: await rclone.folder('local:'), config_path: rclone.config })
  const storage = { mount_path: '/remote', driver: 'Rclone', addition }
  await post(daemon, '/api/admin/storage/create', storage, await tokenOf(daemon))
  // The other worker opens the storage shortly after the one that created it; until then, the folder is missing there.
  const put = async (_: unknown, index: number) => {
    let status = 0
    await until(async () => {
      status = (await ask(daemon, 'PUT', `/dav/remote/file-${index}`, { body: `body ${index}` })).status
      return status !== 409
    })
    return status
  }
  t.same(await Promise.all(Array.from({ length: 12 }, put)), Array(12).fill(201))
  t.equal(await daemon.stop(), 0)
})

void t.test('aria2 downloads through the proxy of either worker', { skip: skip || lacks('aria2c') }, async (t) => {
  const aria2 = await startAria2()
  t.teardown(() => aria2.stop())
  const served = await startScripted(t, (_request, answer) => answer.end('bytes'))
  const daemon = await startWorkers(t)
  const [port = 0] = await freePorts(1)
  const token = await tokenOf(daemon)
  const values = { egress_networks: '127.0.0.1/32', egress_proxy: `127.0.0.1:${port}` }
  const items = Object.entries(values).map(([key, value]) => ({ key, value }))
  await post(daemon, '/api/admin/setting/save', items, token)
  await post(daemon, '/api/admin/setting/set_aria2', { uri: aria2.uri, secret: aria2.secret }, token)
  // The other worker probes aria2 when it has the settings.
  const knows = async () => (await ask(daemon, 'GET', '/api/public/offline_download_tools')).body.includes('aria2')
  while ((await Promise.all(Array.from({ length: 8 }, knows))).includes(false)) await wait(50)
  const urls = Array.from({ length: 10 }, (_, index) => `${served.url}/file-${index}`)
  const order = { path: '/in', tool: 'aria2', delete_policy: 'delete_on_upload_succeed' }
  // Each request may reach the other worker, which may not have the setting yet, and so may each connection of aria2 to
  // the proxy.
  const accepted = async (url: string): Promise<void> => {
    try {
      await post(daemon, '/api/fs/add_offline_download', { ...order, urls: [url] }, token)
    } catch (error) {
      if (!String(error).includes('a network that is not allowed')) throw error
      await wait(50)
      await accepted(url)
    }
  }
  await Promise.all(urls.map(accepted))
  for (const kind of ['offline_download', 'offline_download_transfer']) {
    let tasks: readonly { readonly state: number; readonly error: string }[] = []
    while (tasks.length < urls.length) {
      await wait(200)
      const { body } = await ask(daemon, 'GET', `/api/task/${kind}/done`, { headers: { authorization: token } })
      tasks = (JSON.parse(body) as { data: typeof tasks }).data
    }
    t.same(
      tasks.map(({ state, error }) => ({ state, error })),
      Array(urls.length).fill({ state: 2, error: '' }),
    )
  }
  // aria2 tries a download again that a proxy has refused, so each connection is asserted by itself.
  const store = await openStore(await storeOf(daemon.dataFolder))
  t.teardown(() => store.close())
  const password = await store.secrets.get('egress proxy')
  const target = `127.0.0.1:${new URL(served.url).port}`
  const tunnel = () =>
    new Promise<number | undefined>((resolve, reject) => {
      const credentials = Buffer.from(`somebody:${password}`).toString('base64')
      const headers = { 'proxy-authorization': `Basic ${credentials}` }
      const asked = request({ host: '127.0.0.1', port, method: 'CONNECT', path: target, headers, agent: false })
      asked.on('error', reject)
      asked.on('connect', ({ statusCode }, socket) => {
        socket.destroy()
        resolve(statusCode)
      })
      asked.end()
    })
  t.same(await Promise.all(Array.from({ length: 8 }, tunnel)), Array(8).fill(200))
  t.equal(await daemon.stop(), 0)
})

void t.test('a killed worker is replaced, and the others go on', { skip }, async (t) => {
  const daemon = await startWorkers(t)
  const before = await workersOf(daemon)
  t.equal(before.length, 2)
  process.kill(before[0] ?? 0, 'SIGKILL')
  // Node does not pass a connection on that it has just given to a worker that ends.
  while (!daemon.log.includes('a worker has ended')) await wait(10)
  for (let count = 0; count < 20; count++) {
    t.equal((await ask(daemon, 'PUT', `/dav/file-${count}`, { body: 'x' })).status, 201)
    await wait(20)
  }
  const hasChanged = async () => {
    const now = await workersOf(daemon)
    return now.length === 2 && !now.includes(before[0] ?? 0)
  }
  while (!(await hasChanged())) await wait(50)
  const { body } = await ask(daemon, 'PROPFIND', '/dav/', { headers: { depth: '1' } })
  t.equal(new Set(body.match(/file-\d+/g)).size, 20)
  t.equal(await daemon.stop(), 0)
})

void t.test('workers whose start takes half a minute are waited for', async (t) => {
  const slow = `import cluster from 'node:cluster'
    if (cluster.isWorker) await new Promise((resolve) => setTimeout(resolve, 32_000))`
  const preloaded = `--import=data:text/javascript,${encodeURIComponent(slow)}`
  const daemon = await startDaemon(t, { environment: { TIDEGATE_WORKERS: '2', NODE_OPTIONS: preloaded } })
  t.notMatch(daemon.log, 'does not answer')
  t.equal(await daemon.stop(), 0)
})

void t.test('a worker that does not answer does not keep the daemon from stopping', { skip }, async (t) => {
  const daemon = await startWorkers(t)
  const [worker = 0] = await workersOf(daemon)
  process.kill(worker, 'SIGSTOP')
  t.equal(await daemon.stop(), 0)
  t.equal(processStartTime(worker), undefined)
})

void t.test('workers end with their primary process', { skip }, async (t) => {
  const daemon = await startWorkers(t)
  const workers = await workersOf(daemon)
  await daemon.kill()
  // Undefined for a process that has ended, also before its parent has noticed.
  const isRunning = (pid: number) => processStartTime(pid) !== undefined
  while (workers.some(isRunning)) await wait(20)
  const { port } = new URL(daemon.url)
  await t.rejects(
    new Promise((resolve, reject) => {
      connect(Number(port), '127.0.0.1', () => resolve(undefined)).on('error', reject)
    }),
  )
  // The next run takes the data folder over.
  const next = await startDaemon(t, { dataFolder: daemon.dataFolder })
  t.equal(await next.stop(), 0)
})
