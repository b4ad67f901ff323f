/**
 * Apache with mod_dav on a port of its own: one folder, behind Basic and behind Digest authentication, and with TLS.
 */
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from '../programs.js'
import { freePort } from './free-port.js'

const run = promisify(execFile)
const modules = '/usr/lib/apache2/modules'
const realm = 'files'

/** The user name of a second account, with the same password. */
const plainName = 'plain'

export const apacheAccount = { username: 'ünser "user"', password: 'päss:word' } as const

interface ApacheDav {
  readonly port: number
  /** Serves the same folders with TLS and a self-signed certificate. */
  readonly tlsPort: number
  /** The folder that is served below `/basic` and `/digest`. */
  readonly files: string
  stop(): Promise<void>
}

interface Places {
  readonly folder: string
  readonly files: string
  readonly port: number
  readonly tlsPort: number
}

const loaded = [
  ...['mpm_event', 'authn_core', 'authn_file', 'authz_core', 'authz_user', 'auth_basic', 'auth_digest'],
  ...['alias', 'dir', 'dav', 'dav_fs', 'ssl'],
]

function config({ folder, files, port, tlsPort }: Places): string {
  const isRoot = process.getuid?.() === 0
  return `
ServerRoot ${folder}
ServerName 127.0.0.1
Listen 127.0.0.1:${port}
Listen 127.0.0.1:${tlsPort}
PidFile ${folder}/pid
DefaultRuntimeDir ${folder}
ErrorLog ${folder}/error.log
${loaded.map((name) => `LoadModule ${name}_module ${modules}/mod_${name}.so`).join('\n')}
${isRoot ? 'User www-data\nGroup www-data' : ''}
DavLockDB ${folder}/state/locks
# Its own limit is 1 GiB.
LimitRequestBody 0
Alias /basic ${files}
Alias /digest ${files}
Redirect 307 /moved http://127.0.0.1:${port}/basic
<Location /basic>
  AuthType Basic
  AuthName "${realm}"
  AuthUserFile ${folder}/basic
  Require valid-user
</Location>
<Location /digest>
  AuthType Digest
  AuthName "${realm}"
  AuthUserFile ${folder}/digest
  AuthDigestNonceLifetime 2
  Require valid-user
</Location>
# Or a folder with an index.html could not be listed.
DirectoryIndex disabled
<Directory ${files}>
  Dav On
</Directory>
<VirtualHost 127.0.0.1:${tlsPort}>
  SSLEngine on
  SSLCertificateFile ${folder}/certificate.pem
  SSLCertificateKeyFile ${folder}/key.pem
</VirtualHost>
`
}

async function writePasswords(folder: string): Promise<void> {
  const { username, password } = apacheAccount
  const hash = createHash('sha1').update(password).digest('base64')
  const digest = (name: string) => createHash('md5').update(`${name}:${realm}:${password}`).digest('hex')
  const names = [username, plainName]
  await writeFile(join(folder, 'basic'), names.map((name) => `${name}:{SHA}${hash}\n`).join(''))
  await writeFile(join(folder, 'digest'), names.map((name) => `${name}:${realm}:${digest(name)}\n`).join(''))
}

async function writeCertificate(folder: string): Promise<void> {
  const files = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'certificate.pem')]
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  await run('openssl', ['req', '-x509', ...kind, '-subj', '/CN=127.0.0.1', ...files])
}

async function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

export const apachePrograms = ['apache2', 'openssl'] as const

export async function startApacheDav(): Promise<ApacheDav> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-apache-'))
  const files = join(folder, 'files')
  // If it is started by root, its child processes run as another user.
  for (const [path, mode] of [
    [folder, 0o755],
    [files, 0o777],
    [join(folder, 'state'), 0o777],
  ] as const) {
    await mkdir(path, { recursive: true })
    await chmod(path, mode)
  }
  const [port, tlsPort] = [await freePort(), await freePort()]
  await writePasswords(folder)
  await writeCertificate(folder)
  await writeFile(join(folder, 'apache.conf'), config({ folder, files, port, tlsPort }))
  const program = findProgram('apache2')
  if (program === undefined) throw new Error('apache2 is not installed')
  const child = spawn(program, ['-f', join(folder, 'apache.conf'), '-DFOREGROUND'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-5000)))
  const exit = new Promise((resolve) => child.once('exit', resolve))
  for (let tries = 0; !(await answers(port)); tries++) {
    if (child.exitCode !== null || tries > 200) throw new Error(`apache2 does not answer: ${said}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return {
    port,
    tlsPort,
    files,
    stop: async () => {
      child.kill('SIGTERM')
      await exit
      await rm(folder, { recursive: true, force: true })
    },
  }
}
