/** One daemon for one data folder: a second one would sweep what the first is receiving. */
import { mkdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises'
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
  const own = thisProcess()
  for (;;) {
    try {
      await writeFile(file, own, { flag: 'wx', mode: 0o644 })
      return () => rm(file, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const { holder } = await readHolder(folder)
    if (holder !== own && stillRuns(holder)) {
      const reason = `another tidegate (process ${holder.split(' ', 1).join('')}) serves the data folder ${folder}`
      throw new GatewayError('busy', { reason })
    }
    await rm(file, { force: true })
  }
}

/** A process that has the folder now. */
export interface Holder {
  readonly pid: string
  /** Where the daemon answers, without a slash at the end; undefined until it does. */
  readonly url: string | undefined
}

/** Undefined where no process has the folder. */
export async function holderOf(folder: string): Promise<Holder | undefined> {
  const { holder, url } = await readHolder(folder)
  return stillRuns(holder) ? { pid: holder.split(' ', 1).join(''), url } : undefined
}

/** Stores where the daemon of this process answers, for commands beside it. The folder must be taken. */
export async function announceAddress(folder: string, url: string): Promise<void> {
  const file = join(folder, pidFile)
  // In one step: a reader who saw an empty file would take the folder.
  await writeFile(`${file}.new`, `${thisProcess()}\n${url}`, { mode: 0o644 })
  await rename(`${file}.new`, file)
}

function thisProcess(): string {
  return `${process.pid} ${startOf(process.pid) ?? ''}`
}

async function readHolder(folder: string): Promise<{ readonly holder: string; readonly url: string | undefined }> {
  const [holder = '', url] = (await readFile(join(folder, pidFile), 'utf8').catch(() => '')).split('\n')
  return { holder, url }
}

/** `holder`: the first line of the file. */
function stillRuns(holder: string): boolean {
  const [pid = '', started = ''] = holder.split(' ')
  return /^\d+$/.test(pid) && isRunning(Number(pid), started)
}
