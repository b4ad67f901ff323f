/** Samba on a free port, with its own configuration, accounts and folders. It serves the user who runs it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../programs.js'
import { accepts, freePort } from './free-port.js'

export interface SambaServer {
  readonly port: number
  readonly address: string
  readonly username: string
  readonly password: string
  /** The folder of the share `files`. */
  readonly folder: string
  /** Runs `smbcontrol` for it. */
  control(...words: readonly string[]): Promise<void>
  stop(): Promise<void>
}

export interface SambaSettings {
  /** Further lines for `[global]`, and for the share. */
  readonly global?: readonly string[]
  readonly share?: readonly string[]
}

/** Programs that `startSamba` needs. */
export const sambaPrograms = ['smbd', 'smbpasswd', 'smbcontrol'] as const

const password = 'a password, for tests'

export async function startSamba({ global = [], share = [] }: SambaSettings = {}): Promise<SambaServer> {
  const home = await mkdtemp(join(tmpdir(), 'tidegate-samba-'))
  const folder = join(home, 'files')
  await mkdir(folder)
  await mkdir(join(home, 'state'))
  const port = await freePort()
  const { username } = userInfo()
  const folders = [
    'private dir',
    'lock directory',
    'state directory',
    'cache directory',
    'pid directory',
    'ncalrpc dir',
  ]
  const config = [
    '[global]',
    ...['workgroup = TIDE', 'server role = standalone server', 'interfaces = 127.0.0.1', 'bind interfaces only = yes'],
    ...[`smb ports = ${port}`, 'disable netbios = yes', 'load printers = no', 'disable spoolss = yes', 'log level = 1'],
    ...folders.map((name) => `${name} = ${join(home, 'state')}`),
    ...[`passdb backend = smbpasswd:${join(home, 'accounts')}`, `log file = ${join(home, 'log')}`, ...global],
    ...['[files]', `path = ${folder}`, 'read only = no', ...share],
  ]
  const file = join(home, 'smb.conf')
  await writeFile(file, `${config.join('\n')}\n`)
  await ran('smbpasswd', ['-c', file, '-L', '-a', '-s', username], `${password}\n${password}\n`)
  const child = spawn(programAt('smbd'), ['--daemon', '--foreground', '-s', file], {
    // It ends when its standard input is closed, so that a killed test leaves no process behind.
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const exit = once(child, 'exit')
  for (let tries = 0; !(await accepts(port)); tries++) {
    if (child.exitCode !== null || tries > 200) {
      throw new Error(`smbd does not answer: ${await readFile(join(home, 'log'), 'utf8').catch(() => 'no log')}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return {
    port,
    address: `127.0.0.1:${port}`,
    username,
    password,
    folder,
    control: (...words) => ran('smbcontrol', ['-s', file, ...words]),
    stop: async () => {
      child.kill('SIGTERM')
      await exit
      await rm(home, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

function programAt(name: string): string {
  const program = findProgram(name)
  if (program === undefined) throw new Error(`${name} is not installed`)
  return program
}

async function ran(name: string, words: readonly string[], input = ''): Promise<void> {
  const child = spawn(programAt(name), words, { stdio: ['pipe', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  child.stdin.end(input)
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`${name} failed: ${said}`)
}
