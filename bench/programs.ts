/** The client programs, each run bounded in time. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { versionLine, type Ground, type HttpDoor, type SftpDoor } from './peers/peer.js'
import { seconds, type Sample } from './samples.js'

const execute = promisify(execFile)
/** Resolves to what the program printed; rejects where it fails or takes too long. */
export async function run(program: string, words: readonly string[], { minutes = 5 } = {}): Promise<string> {
  const { stdout } = await execute(program, [...words], { timeout: minutes * 60_000, maxBuffer: 1 << 24 })
  return stdout
}

export function headerWords(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
}

/** One request by curl, its answer dropped; rejects where the status is no success. Resolves to seconds. */
export async function curl(words: readonly string[]): Promise<number> {
  const printed = await run('curl', ['-s', '-S', '-f', '-o', '/dev/null', '-w', '%{time_total}', ...words])
  return Number(printed)
}

/** Requests a second that wrk gets answered over 16 keep-alive connections; rejects where a status is no success. */
export async function wrk({ url, headers }: HttpDoor, duration: number): Promise<Sample> {
  const printed = await run('wrk', ['-t2', '-c16', `-d${duration}s`, ...headerWords(headers), url])
  if (printed.includes('Non-2xx')) throw new Error(printed)
  const figure = (pattern: RegExp) => Number(pattern.exec(printed)?.[1])
  return { value: figure(/Requests\/sec:\s+([\d.]+)/), requests: figure(/(\d+) requests in/) }
}

/** The rclone that the bench runs, as a peer and as a client. */
export const rcloneProgram = process.env.RCLONE || 'rclone'

/** What an rclone older than 1.63 does not show, in a sentence; undefined for a newer one, or where there is none. */
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
  /** Bytes of one request: `-B`. */
  readonly block: number
}

/** One batch of OpenSSH's `sftp`, from connecting to the end of the program, in seconds. */
export async function sftpBatch(
  { folder, clientKey }: Ground,
  door: SftpDoor,
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
  const words = ['-F', 'none', '-q', '-i', clientKey, '-P', String(door.port), '-B', String(block), ...options]
  return seconds(() => run('sftp', [...words, '-b', batch, `${door.username}@127.0.0.1`]))
}
