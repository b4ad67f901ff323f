/** The configurations of reverse proxies in docs/operations.md, from its text, each in front of a gateway. */
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startGateway } from '../gateway.js'
import { findProgram, lacks } from '../programs.js'
import { makeCertificate } from '../servers/certificates.js'
import { accepts, freePort } from '../servers/free-port.js'

const run = promisify(execFile)

interface Setup {
  readonly port: number
  /** A folder of the test, with the certificate and its key in PEM files. */
  readonly folder: string
  readonly certificate: string
  readonly key: string
}

interface Proxy {
  /** The program, and the language of its block. */
  readonly name: string
  /** A complete configuration file with the block, for a test. */
  readonly complete: (block: string, setup: Setup) => string
  readonly parameters: (file: string, folder: string) => readonly string[]
}

const proxies: readonly Proxy[] = [
  {
    name: 'nginx',
    complete: (block, { port, folder, certificate, key }) => `
      ${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; pid ${folder}/pid; events {}
      http {
        access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
        fastcgi_temp_path ${folder}/other; uwsgi_temp_path ${folder}/other; scgi_temp_path ${folder}/other;
        server { listen 127.0.0.1:${port} ssl; ssl_certificate ${certificate}; ssl_certificate_key ${key}; ${block} }
      }`,
    parameters: (file, folder) => ['-p', folder, '-c', file, '-e', join(folder, 'error.log')],
  },
  {
    name: 'caddy',
    complete: (block, { port, certificate, key }) =>
      `{\n admin off\n auto_https off\n}\n${block.replace('example.org {', `https://example.org:${port} {\n bind 127.0.0.1\n tls ${certificate} ${key}`)}`,
    parameters: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
  },
  {
    name: 'haproxy',
    complete: (block, { port, folder }) =>
      block.replace(':443', `127.0.0.1:${port}`).replace('/etc/haproxy/example.org.pem', `${folder}/both.pem`),
    parameters: (file) => ['-db', '-f', file],
  },
]

/** Starts the proxy with its block in docs/operations.md. Resolves when it accepts connections. */
async function startProxy(
  t: Test,
  { name, complete, parameters }: Proxy,
  setup: Setup,
  backend: string,
): Promise<void> {
  const page = await readFile('docs/operations.md', 'utf8')
  const [, block = ''] = new RegExp(`^\`\`\`${name}\\n(.*?)^\`\`\`$`, 'ms').exec(page) ?? []
  t.match(block, '127.0.0.1:5244', `the page has a block for ${name}`)
  const { port, folder } = setup
  const file = join(folder, 'configuration')
  await writeFile(file, complete(block.replaceAll('127.0.0.1:5244', backend), setup))
  for (const each of ['body', 'proxy', 'other']) await mkdir(join(folder, each))
  const environment = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const child = spawn(findProgram(name) ?? name, parameters(file, folder), {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment,
  })
  let complaints = ''
  child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
  const ended = new Promise((resolve) => child.once('exit', resolve))
  t.teardown(async () => {
    // Not SIGKILL: the workers of nginx would go on.
    child.kill('SIGTERM')
    await ended
  })
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${complaints}`)
    await wait(50)
  }
}

for (const proxy of proxies) {
  const skip = lacks(proxy.name, 'curl', 'openssl')
  void t.test(`${proxy.name} serves the site, and believes no header of a client`, { skip }, async (t) => {
    const folder = t.testdir()
    const port = await freePort()
    const { certificate, key } = await makeCertificate(folder, ['example.org'])
    await writeFile(join(folder, 'both.pem'), (await readFile(certificate, 'utf8')) + (await readFile(key, 'utf8')))
    const site = `https://example.org:${port}/files`
    const { url, adminPassword } = await startGateway(t, { config: { site_url: site, trusted_proxies: ['127.0.0.1'] } })
    await startProxy(t, proxy, { port, folder, certificate, key }, url.replace('http://', ''))
    const curl = async (...words: readonly string[]) => {
      const common = ['-sS', '--http1.1', '--cacert', certificate, '--resolve', `example.org:${port}:127.0.0.1`]
      const { stdout } = await run('curl', [...common, ...words], { encoding: 'buffer', maxBuffer: 64 * 1024 ** 2 })
      return stdout
    }
    const admin = ['-u', `admin:${adminPassword}`]

    const content = randomBytes(20 * 1024 ** 2)
    await writeFile(join(folder, 'large'), content)
    await curl(...admin, '-f', '-T', join(folder, 'large'), `${site}/dav/large`)
    t.ok((await curl(...admin, '-f', `${site}/dav/large`)).equals(content), 'the content is unchanged')
    const moved = ['-X', 'MOVE', '-H', `Destination: ${site}/dav/moved`, '-w', '%{http_code}']
    t.equal((await curl(...admin, ...moved, `${site}/dav/large`)).toString(), '201')
    const json = ['-H', 'Content-Type: application/json', '-d']
    const signIn = (password: string) => [
      ...json,
      JSON.stringify({ username: 'admin', password }),
      `${site}/api/auth/login`,
    ]
    const { data } = JSON.parse((await curl(...signIn(adminPassword))).toString()) as { data: { token: string } }
    const got = await curl('-H', `Authorization: ${data.token}`, ...json, '{"path":"/moved"}', `${site}/api/fs/get`)
    t.match(JSON.parse(got.toString()), { code: 200, data: { raw_url: new RegExp(`^${site}/`) } })

    const codes: number[] = []
    for (let attempt = 1; attempt <= 6; attempt++) {
      const address = `203.0.113.${attempt}`
      const spoofed = ['-H', `X-Forwarded-For: ${address}`, '-H', `Forwarded: for=${address}`]
      const answer = await curl(...spoofed, ...signIn('wrong'))
      codes.push((JSON.parse(answer.toString()) as { code: number }).code)
    }
    t.equal(codes[5], 429, `an address that guesses is locked, whatever it claims to be: ${codes.join(', ')}`)
    const elsewhere = await curl('--interface', '127.0.0.2', ...signIn(adminPassword))
    t.match(JSON.parse(elsewhere.toString()), { code: 200 }, 'the proxy forwards which address it is')
  })
}
