/** The client programs, each run bounded in time. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Ground, SftpDoor } from './peers/peer.js'

const execute = promisify(execFile)
const limit = 300_000

/** Resolves to what the program printed; rejects where it fails or takes longer than five minutes. */
export async function run(program: string, words: readonly string[]): Promise<string> {
  const { stdout } = await execute(program, [...words], { timeout: limit, maxBuffer: 1 << 24 })
  return stdout
}

/** Seconds that `work` takes. */
export async function seconds(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now()
  await work()
  return (performance.now() - begin) / 1000
}

export function headerWords(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
}

/** One request by curl, its answer dropped; rejects where the status is no success. Resolves to seconds. */
export async function curl(words: readonly string[]): Promise<number> {
  const printed = await run('curl', ['-s', '-S', '-f', '-o', '/dev/null', '-w', '%{time_total}', ...words])
  return Number(printed)
}

/** Requests a second that wrk gets answered over 16 kept connections; rejects where a status is no success. */
export async function wrk(url: string, headers: Readonly<Record<string, string>> = {}): Promise<number> {
  const printed = await run('wrk', ['-t2', '-c16', '-d4s', ...headerWords(headers), url])
  if (printed.includes('Non-2xx')) throw new Error(printed)
  return Number(/Requests\/sec:\s+([\d.]+)/.exec(printed)?.[1])
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
