/** OpenSSH's server on a free port, with its own configuration and keys. It serves the user who runs it. */
import { execFile, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from '../programs.js'
import { freePort } from './free-port.js'

const run = promisify(execFile)

export interface OpenSshServer {
  readonly address: string
  readonly username: string
  readonly privateKey: string
  /** The file of authorized keys. */
  readonly authorizedKeys: string
  /** Fingerprint of its host key, SHA256:… */
  readonly hostKey: string
  stop(): Promise<void>
}

async function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('data', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

/**
 * As root, sshd does not start without `/run/sshd`. Debian's unit creates the folder when the service starts;
 * installing the package does not always.
 */
export async function makePrivilegeSeparationFolder(): Promise<void> {
  if (userInfo().uid === 0) await mkdir('/run/sshd', { recursive: true, mode: 0o755 })
}

/** `words`: options of its SFTP server. */
export async function startOpenSsh(words = ''): Promise<OpenSshServer> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-sshd-'))
  const program = findProgram('sshd')
  if (program === undefined) throw new Error('sshd is not installed')
  const [hostKey, userKey] = [join(folder, 'host_key'), join(folder, 'user_key')]
  for (const key of [hostKey, userKey]) await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
  const port = await freePort()
  const config = [
    ...[`Port ${port}`, 'ListenAddress 127.0.0.1', `HostKey ${hostKey}`, `AuthorizedKeysFile ${userKey}.pub`],
    ...['StrictModes no', 'UsePAM no', 'PasswordAuthentication no', 'PidFile none', 'MaxStartups 100'],
    ...['PermitRootLogin yes', `Subsystem sftp internal-sftp ${words}`],
  ]
  await writeFile(join(folder, 'sshd_config'), `${config.join('\n')}\n`)
  await makePrivilegeSeparationFolder()
  const child = spawn(program, ['-D', '-e', '-f', join(folder, 'sshd_config')], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-5000)))
  const exit = new Promise((resolve) => child.once('exit', resolve))
  for (let tries = 0; !(await answers(port)); tries++) {
    if (child.exitCode !== null || tries > 200) throw new Error(`sshd does not answer: ${said}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const { stdout } = await run('ssh-keygen', ['-lf', `${hostKey}.pub`])
  return {
    address: `127.0.0.1:${port}`,
    username: userInfo().username,
    privateKey: await readFile(userKey, 'utf8'),
    authorizedKeys: `${userKey}.pub`,
    hostKey: stdout.split(' ')[1] ?? '',
    stop: async () => {
      child.kill('SIGTERM')
      await exit
      await rm(folder, { recursive: true, force: true })
    },
  }
}
