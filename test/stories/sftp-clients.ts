/** SFTP client programs, each configured for one account of a running gateway. */
import { execFile, type ExecFileException } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import type { RunningGateway } from '../gateway.js'

interface Outcome {
  /** The exit status; -1: ended by a signal. */
  readonly status: number
  readonly out: string
  readonly complaints: string
}

interface SftpClients {
  /** The local working folder of the clients. */
  readonly folder: string
  /** Options of OpenSSH's programs. */
  readonly options: readonly string[]
  readonly run: (program: string, words: readonly string[], input?: string) => Promise<Outcome>
  readonly sftp: (lines: readonly string[], ...words: readonly string[]) => Promise<Outcome>
  readonly lftp: (lines: readonly string[]) => Promise<Outcome>
  readonly rclone: (...words: readonly string[]) => Promise<Outcome>
}

const patience = 240_000

/** The clients connect to `port` with a key of the admin. */
export async function sftpClients(t: Test, { gateway }: RunningGateway, port: number): Promise<SftpClients> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-sftp-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  await gateway.accounts.keys.add(gateway.accounts.users.byName('admin')?.id ?? 0, 'test', pair.public)
  const key = join(folder, '.key')
  await writeFile(key, pair.private, { mode: 0o600 })
  const options = ['-F', 'none', '-i', key, '-o', 'BatchMode=yes', '-o', 'StrictHostKeyChecking=no']
  options.push('-o', 'UserKnownHostsFile=/dev/null', '-o', 'IdentitiesOnly=yes', '-o', 'LogLevel=ERROR')
  const config = join(folder, '.rclone.conf')
  const remote = `type = sftp\nhost = 127.0.0.1\nport = ${port}\nuser = admin\nkey_file = ${key}\n`
  await writeFile(config, `[sftp]\n${remote}shell_type = none\ndisable_hashcheck = true\n`)

  const run = (program: string, words: readonly string[], input = '') =>
    new Promise<Outcome>((resolve) => {
      const done = (error: ExecFileException | null, out: string, complaints: string) =>
        resolve({ status: error ? Number(error.code ?? -1) : 0, out, complaints })
      // The user's settings and histories of the clients are not used.
      const env = { ...process.env, HOME: folder, LFTP_HOME: folder }
      const child = execFile(program, [...words], { cwd: folder, timeout: patience, maxBuffer: 1 << 26, env }, done)
      child.stdin?.on('error', () => undefined)
      child.stdin?.end(input)
    })
  const sftp = (lines: readonly string[], ...words: readonly string[]) =>
    run('sftp', ['-q', '-P', String(port), ...options, ...words, '-b', '-', 'admin@127.0.0.1'], lines.join('\n'))
  const lftp = (lines: readonly string[]) => {
    const settings = [
      `set sftp:connect-program "ssh -a -x ${options.join(' ')}"`,
      'set cmd:fail-exit yes',
      'set net:reconnect-interval-base 1',
      'set net:max-retries 2',
      `open -u admin,none -p ${port} sftp://127.0.0.1`,
    ]
    return run('lftp', ['--norc', '-c', [...settings, ...lines].join('\n')])
  }
  const rclone = (...words: readonly string[]) => run('rclone', ['--config', config, '--retries', '1', ...words])
  return { folder, options, run, sftp, lftp, rclone }
}
