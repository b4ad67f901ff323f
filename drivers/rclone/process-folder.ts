/**
 * Folders for temporary files of processes of rclone, closed to other users, below the data folder. The name of each
 * contains the run of the gateway, and its path is on the command line of its process. So a later run finds what a
 * killed one has left: the folder, and the process where the system could not end it together with the gateway.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Instance } from '../../src/contract/driver-env.js'

/** The flag that names the folder on the command line. */
export const folderFlag = '--temp-dir'

/** Creates the folder of a process. */
export async function createProcessFolder(data: string, instance: Instance): Promise<string> {
  const folder = join(parentFolder(data), `${instance.name}-${randomBytes(4).toString('hex')}`)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return folder
}

export async function removeProcessFolder(folder: string): Promise<void> {
  // A process that was just killed may still be writing.
  await rm(folder, { recursive: true, force: true, maxRetries: 5 }).catch(() => undefined)
}

/** Ends the processes of runs that are over, and removes their folders. Never rejects. */
export async function removeOrphans(data: string, instance: Instance): Promise<void> {
  const names = await readdir(parentFolder(data)).catch(() => [])
  const orphans = names.filter((name) => instance.isOver(name.replace(/-[\da-f]{8}$/, '')) === true)
  for (const name of orphans) {
    const folder = join(parentFolder(data), name)
    for (const pid of await processesOf(folder)) endProcess(pid)
    await removeProcessFolder(folder)
  }
}

function parentFolder(data: string): string {
  return join(data, 'rclone')
}

/** The processes with this folder on their command line; none on systems without /proc. */
async function processesOf(folder: string): Promise<readonly number[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  const found: number[] = []
  for (const pid of pids) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0')
    if (words[words.indexOf(folderFlag) + 1] === folder && words.includes(folderFlag)) found.push(Number(pid))
  }
  return found
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended, or belongs to another user.
  }
}
