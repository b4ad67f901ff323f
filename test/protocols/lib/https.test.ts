/** The HTTPS port: clients of every kind, certificates that change, and connections that are no TLS. */
import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { copyFile, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Certificate } from '../../../protocols/lib/certificate.js'
import { protocols } from '../../../protocols/index.js'
import { check } from '../../../src/cli/check.js'
import { configSchema, loadConfig } from '../../../src/installation/config.js'
import { startDaemon, startGateway } from '../../gateway.js'
import { lacks } from '../../programs.js'
import { makeCertificate, type CertificateFiles } from '../../servers/certificates.js'
import { startHaproxy } from '../../servers/haproxy.js'

const run = promisify(execFile)

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-https-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const newFiles = async (t: Test): Promise<CertificateFiles> => makeCertificate(await newFolder(t))

const keysOf = ({ certificate, key }: CertificateFiles) => ({ tls_certificate: certificate, tls_key: key })

async function startSecure(t: Test, files: CertificateFiles, config: object = {}) {
  const running = await startGateway(t, { config: { https: '127.0.0.1:0', ...keysOf(files), ...config } })
  const { https = '' } = running.gateway.listening.addresses
  return { ...running, port: Number(https.split(':')[1]), https: `https://localhost:${https.split(':')[1]}` }
}

/** The serial number of the certificate that a server presents. */
async function servedBy(port: number): Promise<string> {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

const serialOf = async ({ certificate }: CertificateFiles) =>
  new X509Certificate(await readFile(certificate)).serialNumber

/** Replaces a file as programs that renew certificates do. */
async function replace(from: string, to: string): Promise<void> {
  await copyFile(from, `${to}.new`)
  await rename(`${to}.new`, to)
}

void t.test(
  'the API and WebDAV are served over TLS, and URLs are of https',
  { skip: lacks('curl', 'openssl') },
  async (t) => {
    const files = await newFiles(t)
    const { https, url, adminPassword } = await startSecure(t, files)
    const curl = async (...words: readonly string[]) =>
      (
        await run('curl', [
          '-sS',
          '--fail',
          '--cacert',
          files.certificate,
          '--user',
          `admin:${adminPassword}`,
          ...words,
        ])
      ).stdout
    const content = join(await newFolder(t), 'content')
    await writeFile(content, 'c'.repeat(1_000_000))
    await curl('--upload-file', content, `${https}/dav/file.txt`)
    t.equal(await curl(`${https}/dav/file.txt`), 'c'.repeat(1_000_000))
    t.equal(await curl('--http1.1', `${https}/ping`), 'pong')
    t.match(await curl('-X', 'PROPFIND', '-H', 'Depth: 1', `${https}/dav/`), /file\.txt/)
    const moved = ['-X', 'MOVE', '-H', `Destination: ${https}/dav/moved.txt`, `${https}/dav/file.txt`]
    await curl(...moved)
    const login = [
      '-H',
      'Content-Type: application/json',
      '-d',
      JSON.stringify({ username: 'admin', password: adminPassword }),
    ]
    const { data } = JSON.parse(await curl(...login, `${https}/api/auth/login`)) as { data: { token: string } }
    const ask = [
      '-H',
      `Authorization: ${data.token}`,
      '-H',
      'Content-Type: application/json',
      '-d',
      '{"path":"/moved.txt"}',
    ]
    t.match(JSON.parse(await curl(...ask, `${https}/api/fs/get`)), { data: { raw_url: new RegExp(`^${https}/`) } })
    t.match(JSON.parse(await curl(...ask, `${url}/api/fs/get`)), { data: { raw_url: /^http:/ } }, 'HTTP stays')
  },
)

void t.test(
  'with http off, everything is served over TLS, also to the command line',
  { skip: lacks('openssl') },
  async (t) => {
    const files = await newFiles(t)
    const { https, port, dataFolder, gateway } = await startSecure(t, files, { http: 'off' })
    t.equal(gateway.listening.addresses.http, 'off')
    const file = configSchema(protocols).parse({
      http: 'off',
      https: `127.0.0.1:${port}`,
      sftp: 'off',
      ...keysOf(files),
    })
    const findings = await check({ ...file, data: dataFolder })
    t.same(
      findings.filter(({ ok }) => ok !== true),
      [],
    )
    t.match(findings.find(({ what }) => what === 'daemon')?.detail, new RegExp(`answers at https://127.0.0.1:${port}$`))
    t.match(findings.find(({ what }) => what === 'https')?.detail, /is answered by a running Tidegate/)
    t.ok(https)
  },
)

void t.test(
  'a configuration that cannot be served over TLS is refused with a sentence',
  { skip: lacks('openssl') },
  async (t) => {
    const load = (file: object) => {
      const config = join(t.testdir({ 'c.json': JSON.stringify(file) }), 'c.json')
      return loadConfig({ flags: { config }, environment: {}, protocols })
    }
    await t.rejects(load({ http: 'off' }), {
      code: 'invalid',
      message: /http: can be "off" only if https is an address/,
    })
    await t.rejects(load({ https: '127.0.0.1:0' }), {
      code: 'invalid',
      message: /https: needs tls_certificate and tls_key/,
    })
    const log = { info: () => undefined, warn: () => undefined }
    const files = await newFiles(t)
    const other = await newFiles(t)
    const missing = { ...files, key: '/no/such/key' }
    await t.rejects(Certificate.load(missing, log), { code: 'invalid', message: /^tls_key cannot be read: ENOENT/ })
    const pipe = join(await newFolder(t), 'pipe')
    await run('mkfifo', [pipe])
    await t.rejects(Certificate.load({ ...files, key: pipe }, log), {
      message: /^tls_key cannot be read: it is no file/,
    })
    const mixed = { ...files, key: other.key }
    await t.rejects(Certificate.load(mixed, log), {
      code: 'invalid',
      message: /are no certificate and its key: .*mismatch/,
    })
  },
)

void t.test(
  'a pair of certificate and key replaces the old one once both fit',
  { skip: lacks('openssl') },
  async (t) => {
    const old = await newFiles(t)
    const renewed = await newFiles(t)
    const folder = await newFolder(t)
    const live = { certificate: join(folder, 'certificate.pem'), key: join(folder, 'key.pem') }
    await replace(old.certificate, live.certificate)
    await replace(old.key, live.key)
    const lines: string[] = []
    const log = {
      info: (_: object, text = '') => void lines.push(text),
      warn: (_: object, text = '') => void lines.push(text),
    }
    const certificate = await Certificate.load(live, log)
    t.teardown(() => certificate.close())
    let changes = 0
    certificate.onChange(() => changes++)
    await replace(renewed.certificate, live.certificate)
    await certificate.reload()
    t.equal(changes, 0, 'the key is the old one still')
    t.same(lines, ['the TLS certificate in use stays'])
    t.same(certificate.pair.cert, await readFile(old.certificate))
    await replace(renewed.key, live.key)
    await certificate.reload()
    t.equal(changes, 1)
    t.same(certificate.pair, { cert: await readFile(renewed.certificate), key: await readFile(renewed.key) })
    await certificate.reload()
    t.equal(changes, 1, 'an unchanged pair is no change')
  },
)

for (const workers of [1, 2]) {
  void t.test(
    `SIGHUP reads the certificate again, through symlinks, with ${workers} processes`,
    { skip: lacks('openssl') },
    async (t) => {
      const [old, renewed] = [await newFiles(t), await newFiles(t)]
      const folder = await newFolder(t)
      const link = join(folder, 'live')
      await symlink(dirname(old.certificate), link)
      const files = { certificate: join(link, 'certificate.pem'), key: join(link, 'key.pem') }
      const config = join(folder, 'tidegate.json')
      await writeFile(config, JSON.stringify({ https: '127.0.0.1:0', ...keysOf(files) }))
      const environment = { TIDEGATE_CONFIG: config, TIDEGATE_WORKERS: String(workers) }
      const daemon = await startDaemon(t, { environment })
      const port = Number(daemon.bound.https?.split(':')[1])
      t.equal(await servedBy(port), await serialOf(old))
      await symlink(dirname(renewed.certificate), `${link}.new`)
      await rename(`${link}.new`, link)
      process.kill(daemon.pid, 'SIGHUP')
      const wanted = await serialOf(renewed)
      // Workers take connections in turn.
      for (let inTurn = 0; inTurn < 2 * workers;) {
        inTurn = (await servedBy(port)) === wanted ? inTurn + 1 : 0
        await wait(20)
      }
      t.equal((await fetch(`${daemon.url}/ping`)).status, 200, 'the daemon lives')
      t.equal(await daemon.stop(), 0)
    },
  )
}

void t.test(
  'connections that are no TLS are closed, and harm no other',
  { skip: lacks('openssl', 'curl') },
  async (t) => {
    const files = await newFiles(t)
    const { https, port } = await startSecure(t, files)
    const received = (text: string) =>
      new Promise<string>((resolve) => {
        let all = ''
        const socket = connect(port, '127.0.0.1', () => socket.write(text))
        socket.on('data', (chunk: Buffer) => (all += chunk.toString('latin1')))
        socket.on('error', () => undefined)
        socket.on('close', () => resolve(all))
      })
    t.notMatch(await received('GET /ping HTTP/1.1\r\nHost: x\r\n\r\n'), /pong/)
    await received('\x16\x03\x01\x02\x00' + 'x'.repeat(600))
    await received('')
    const { stdout } = await run('curl', ['-sS', '--cacert', files.certificate, `${https}/ping`])
    t.equal(stdout, 'pong')
  },
)

void t.test(
  'behind HAProxy, clients of the HTTPS port are told apart',
  { skip: lacks('haproxy', 'openssl', 'curl') },
  async (t) => {
    const files = await newFiles(t)
    const { port } = await startSecure(t, files, { proxy_protocol: ['127.0.0.1/32'] })
    const { v1, v2 } = await startHaproxy(t, port)
    const signIn = async (address: string, through: number) => {
      const body = JSON.stringify({ username: 'admin', password: 'wrong' })
      const words = ['-sS', '-k', '--interface', address, '-H', 'Content-Type: application/json', '-d', body]
      const { stdout } = await run('curl', [...words, `https://127.0.0.1:${through}/api/auth/login`])
      return (JSON.parse(stdout) as { code: number }).code
    }
    let code = 0
    for (let count = 0; count < 30 && code !== 429; count++) code = await signIn('127.1.0.1', count % 2 === 0 ? v1 : v2)
    t.equal(code, 429, 'the client is locked out')
    for (const through of [v1, v2]) t.equal(await signIn('127.2.0.1', through), 400, 'another client is not')
  },
)
