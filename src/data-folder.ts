/** One daemon for one data folder: a second one would sweep what the first is receiving. */
import { readFileSync } from 'node:fs'
import { mkdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OwnFolders } from './driver.js'
import { GatewayError } from './errors.js'

const pidFile = 'daemon.pid'

/** Where the first storage has its files, below the data folder. */
export const firstFiles = 'files'

/** The folder must be there. Its database lies beside the closed ones: whatever shows it would show them. */
export async function ownFolders(folder: string): Promise<OwnFolders> {
  const data = await realpath(folder)
  return { data, closed: [join(data, 'ssh'), join(data, 'spool')] }
}

/**
 * Makes the folder where it is missing and takes it for this process. Resolves to what gives it back. Rejects with `busy`, in
 * a sentence for the admin, while another process has it; what a killed one left counts for nothing.
 */
export async function takeDataFolder(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, pidFile)
  const own = `${process.pid} ${startOf(process.pid) ?? ''}`
  for (;;) {
    try {
      await writeFile(file, own, { flag: 'wx', mode: 0o644 })
      return () => rm(file, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = await readFile(file, 'utf8').catch(() => '')
    if (holder !== own && isRunning(holder)) {
      const reason = `another tidegate (process ${holder.split(' ', 1).join('')}) serves the data folder ${folder}`
      throw new GatewayError('busy', { reason })
    }
    await rm(file, { force: true })
  }
}

/** Whether a daemon has the folder now. */
export async function isTaken(folder: string): Promise<boolean> {
  return isRunning(await readFile(join(folder, pidFile), 'utf8').catch(() => ''))
}

function isRunning(holder: string): boolean {
  const [pid = '', started = ''] = holder.split(' ')
  if (!/^\d+$/.test(pid)) return false
  // A number is used again by other processes; when it began tells them apart.
  if (process.platform === 'linux') return startOf(Number(pid)) === started
  try {
    process.kill(Number(pid), 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Clock ticks from boot to the start of a process (proc(5), field 22 of stat); undefined where there is none. */
function startOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}
