/** What the daemon says about itself: its addresses, its version, and the last lines of its log. */
import t, { type Test } from 'tap'
import { LogTail } from '../../../../src/gateway/log-tail.js'
import { configSchema } from '../../../../src/installation/config.js'
import { startDaemon } from '../../../../src/process/daemon.js'
import { createLog } from '../../../../src/process/log.js'
import { protocols } from '../../../../protocols/index.js'
import { publicHostKeys } from '../../../../protocols/sftp/host-keys.js'
import { fingerprintOf, parseKeyLine } from '../../../../src/accounts/public-keys.js'
import { startGateway, startDaemon as startProcess } from '../../../gateway.js'
import { rawRequest } from '../raw-request.js'
import { adminPassword, serve, Served } from '../served.js'

async function signedIn(url: string, password: string): Promise<string> {
  const body = JSON.stringify({ username: 'admin', password })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/api/auth/login`, { method: 'POST', body, headers })
  return ((await response.json()) as { data: { token: string } }).data.token
}

void t.test('users learn by which addresses they reach the server', async (t) => {
  const { url, sftpPort, gateway, adminPassword } = await startGateway(t)
  const served = new Served(url, gateway, await signedIn(url, adminPassword))
  const keys = (await publicHostKeys(gateway.secrets)).map((line) => {
    const { type, blob } = parseKeyLine(line)
    return { type, fingerprint: fingerprintOf(blob) }
  })
  t.match(keys, [{ type: 'ssh-ed25519' }, { type: 'ssh-rsa' }])
  t.strictSame((await served.get('/api/me/access')).data, {
    webdav: `${url}/dav/`,
    sftp: { host: '127.0.0.1', port: sftpPort, host_keys: keys },
    api: `${url}/api/`,
    secure: false,
  })
  for (const [host, shown] of [
    ['files.example:8080', 'files.example'],
    ['[::1]:5244', '::1'],
    ['<b>x', '127.0.0.1'],
  ] as const) {
    const { body } = await rawRequest(url, { path: '/api/me/access', headers: { host, authorization: served.token } })
    t.match(JSON.parse(body), { data: { sftp: { host: shown } } })
  }
  await t.test('over TLS, and without SFTP', async (t) => {
    const served = await serve(t, 'https://files.example/sub', [], { sftp: 'off', trusted_proxies: ['127.0.0.1'] })
    t.strictSame((await served.get('/api/me/access', { 'x-forwarded-proto': 'https' })).data, {
      webdav: 'https://files.example/sub/dav/',
      sftp: null,
      api: 'https://files.example/sub/api/',
      secure: true,
    })
  })
})

void t.test('admins learn the version of the daemon, and where it runs', async (t) => {
  const { url, sftpPort, dataFolder, gateway, adminPassword } = await startGateway(t)
  const served = new Served(url, gateway, await signedIn(url, adminPassword))
  const { data } = await served.get('/api/admin/about')
  t.match(data, {
    version: /^v\d/,
    node: process.version,
    platform: /^Linux \S+ \S+$/,
    data: dataFolder,
    addresses: { http: url.replace('http://', ''), sftp: `127.0.0.1:${sftpPort}` },
  })
  const age = Date.now() - new Date((data as { started: string }).started).getTime()
  t.ok(age > 0 && age < 3600_000, `${age} ms`)
  const { data: nodes } = await served.get('/api/admin/nodes')
  const { addresses } = data as { addresses: object }
  t.match(nodes, [{ name: /:\d+$/, version: /^v\d/, state: 'current', tasks: 0, transfers: 0, self: true, addresses }])
  t.equal((nodes as readonly object[]).length, 1)
})

interface Line {
  readonly id: number
  readonly level: string
  readonly message: string
}

/** A daemon in this process that logs to a tail only. */
async function withLog(t: Test, level: string): Promise<{ served: Served; logTail: LogTail }> {
  const logTail = new LogTail()
  const config = configSchema(protocols).parse({ http: '127.0.0.1:0', sftp: 'off', drain_seconds: 0 })
  const log = createLog(level, logTail)
  const daemon = await startDaemon({ ...config, data: t.testdir() }, log, { password: adminPassword }, { logTail })
  t.teardown(() => daemon.stop())
  const url = `http://${daemon.addresses.http}`
  return { served: new Served(url, daemon.gateway, await signedIn(url, adminPassword)), logTail }
}

void t.test('admins read the last lines of the log, without secrets', async (t) => {
  const { served } = await withLog(t, 'warn')
  const lines = async (query = '') => {
    const { data } = await served.get(`/api/admin/log${query}`)
    return data as { content: readonly Line[]; next: number }
  }
  const before = await lines()
  const { log } = served.gateway
  log.info({}, 'below the level of the log')
  log.warn({ password: 'SECRET', nested: { token: 'SECRET', path: '/x' } }, 'first')
  log.child({ storage: '/s' }).error({ err: new Error('broken') }, 'second')
  const all = await lines(`?after=${before.next}`)
  t.match(all, {
    content: [
      { level: 'warn', message: 'first', time: /^20/, fields: { nested: { path: '/x' } } },
      {
        level: 'error',
        message: 'second',
        fields: { storage: '/s', err: { message: 'broken', stack: /Error: broken/ } },
      },
    ],
    next: before.next + 2,
  })
  t.equal(all.content.length, 2)
  t.notMatch(JSON.stringify(all), 'SECRET')
  t.match(await lines(`?after=${before.next}&level=error`), { content: [{ message: 'second' }], next: all.next })
  t.strictSame(await lines(`?after=${all.next}&level=`), { content: [], next: all.next })
  t.match(await served.get('/api/admin/log?level=loud'), { code: 400, message: /^level: must be one of trace/ })
  t.match(await served.get('/api/admin/log?after=x'), { code: 400 })
})

void t.test('the log of the process is still written to stderr', async (t) => {
  const daemon = await startProcess(t)
  const body = JSON.stringify({ username: 'nobody', password: 'x' })
  const headers = { 'content-type': 'application/json' }
  await fetch(`${daemon.url}/api/auth/login`, { method: 'POST', body, headers })
  const authorization = await signedIn(daemon.url, daemon.adminPassword)
  const answer = await fetch(`${daemon.url}/api/admin/log?level=warn`, { headers: { authorization } })
  const { data } = (await answer.json()) as { data: { content: readonly Line[] } }
  t.match(data.content.at(-1), { message: 'sign-in refused', level: 'warn' })
  t.match(daemon.log, '"msg":"sign-in refused"')
})
