/** Runs the client programs with timeouts. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { versionLine, type Ground, type HttpProtocol, type SftpServer } from './peers/peer.js'
import { seconds, type Sample } from './samples.js'

const execute = promisify(execFile)
/** Runs a program and resolves to its output. Rejects if it fails or times out. */
export async function run(program: string, words: readonly string[], { minutes = 5 } = {}): Promise<string> {
  const { stdout } = await execute(program, [...words], { timeout: minutes * 60_000, maxBuffer: 1 << 24 })
  return stdout
}

export function headerWords(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
}

/** Sends a request with curl and discards the response. Resolves to the seconds. Rejects for an unsuccessful status. */
export async function curl(words: readonly string[]): Promise<number> {
  const printed = await run('curl', ['-s', '-S', '-f', '-o', '/dev/null', '-w', '%{time_total}', ...words])
  return Number(printed)
}

/** Requests per second of wrk over 16 keep-alive connections. Rejects for an unsuccessful status. */
export async function wrk({ url, headers }: HttpProtocol, duration: number): Promise<Sample> {
  const printed = await run('wrk', ['-t2', '-c16', `-d${duration}s`, ...headerWords(headers), url])
  if (printed.includes('Non-2xx')) throw new Error(printed)
  const figure = (pattern: RegExp) => Number(pattern.exec(printed)?.[1])
  return { value: figure(/Requests\/sec:\s+([\d.]+)/), requests: figure(/(\d+) requests in/) }
}

/** The rclone program, used as a peer and as a client. */
export const rcloneProgram = process.env.RCLONE || 'rclone'

/** A note on the limitation of an rclone older than 1.63; undefined if it is newer or not installed. */
export async function oldRcloneNote(): Promise<string | undefined> {
  const version = await versionLine(rcloneProgram, ['version'])
  const [, major, minor] = /v(\d+)\.(\d+)/.exec(version ?? '') ?? []
  if (version === undefined || Number(major) > 1 || Number(minor) >= 63) return undefined
  return (
    `${version} is older than 1.63: it uploads each file under its final name and renames nothing, so its copies do not show ` +
    'what a rename costs. The environment variable RCLONE names another one.'
  )
}

export interface SftpOptions {
  readonly cipher: string
  /** Bytes per request: `-B`. */
  readonly block: number
}

/** Runs a batch of OpenSSH's `sftp`. Resolves to the seconds from connecting to the exit of the program. */
export async function sftpBatch(
  { folder, clientKey }: Ground,
  protocol: SftpServer,
  { cipher, block }: SftpOptions,
  commands: readonly string[],
): Promise<number> {
  const batch = join(folder, 'sftp-batch')
  await writeFile(batch, `${commands.join('\n')}\n`)
  const options = [
    `Ciphers=${cipher}`,
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
    'IdentitiesOnly=yes',
    'BatchMode=yes',
  ].flatMap((option) => ['-o', option])
  const words = ['-F', 'none', '-q', '-i', clientKey, '-P', String(protocol.port), '-B', String(block), ...options]
  return seconds(() => run('sftp', [...words, '-b', batch, `${protocol.username}@127.0.0.1`]))
}
