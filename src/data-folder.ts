/** One daemon for one data folder: a second one would sweep what the first is receiving. */
import { mkdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OwnFolders } from './driver.js'
import { GatewayError } from './errors.js'
import { isRunning, startOf } from './instance.js'

const pidFile = 'daemon.pid'

/** Where the first storage has its files, below the data folder. */
export const firstFiles = 'files'

/** Where programs beside the gateway put what they fetch, below the data folder. */
export const temporaryDownloads = 'temp'

/** The folder must be there. Its database lies beside the closed ones: whatever shows it would show them. */
export async function ownFolders(folder: string): Promise<OwnFolders> {
  const data = await realpath(folder)
  return { data, closed: [join(data, 'ssh'), join(data, 'spool'), join(data, temporaryDownloads)] }
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
    if (holder !== own && stillRuns(holder)) {
      const reason = `another tidegate (process ${holder.split(' ', 1).join('')}) serves the data folder ${folder}`
      throw new GatewayError('busy', { reason })
    }
    await rm(file, { force: true })
  }
}

/** Whether a daemon has the folder now. */
export async function isTaken(folder: string): Promise<boolean> {
  return stillRuns(await readFile(join(folder, pidFile), 'utf8').catch(() => ''))
}

/** `holder`: the text of its file. */
function stillRuns(holder: string): boolean {
  const [pid = '', started = ''] = holder.split(' ')
  return /^\d+$/.test(pid) && isRunning(Number(pid), started)
}
