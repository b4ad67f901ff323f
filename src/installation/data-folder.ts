/** Locks the data folder: a second daemon would delete the files that the first is receiving. */
import { link, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { GatewayFolders } from '../contract/driver-env.js'
import { GatewayError } from '../base/errors.js'
import { makeFolders } from '../base/make-folders.js'
import { temporaryDownloads } from '../offline-downloads/temporary-folders.js'
import { isRunning, processStartTime } from './instance.js'

const pidFile = 'daemon.pid'

/** The folder of the first storage, below the data folder. */
export const firstStorageFolder = 'files'

/** The folder of the backups before upgrades, below the data folder. */
export const backupFolder = 'backups'

/** The folder of the files of the audit, below the data folder. */
export const auditFolder = 'audit'

/** The gateway's own folders. The data folder must exist. Its database is next to the protected ones. */
export async function gatewayFolders(folder: string): Promise<GatewayFolders> {
  const data = await realpath(folder)
  const names = ['ssh', 'spool', temporaryDownloads, 'rclone', 'thumbnails', backupFolder, auditFolder]
  return { data, protectedPaths: names.map((name) => join(data, name)) }
}

/**
 * Creates the folder if it does not exist, and locks it for this process. Resolves to a function that unlocks it.
 * Rejects with `busy`, with a reason for the admin, if another running process holds the lock. The lock of a killed
 * process is ignored.
 */
export async function lockDataFolder(folder: string): Promise<() => Promise<void>> {
  await makeFolders(resolve(folder), 0o700)
  const file = join(folder, pidFile)
  const own = thisProcess()
  for (;;) {
    if (await createWhole(file, own)) return () => rm(file, { force: true })
    const { holder } = await readHolder(folder)
    if (holder !== own && isHolderRunning(holder)) {
      const reason = `another tidegate (process ${holder.split(' ', 1).join('')}) serves the data folder ${folder}`
      throw new GatewayError('busy', { reason })
    }
    await removeStale(folder, holder)
  }
}

/**
 * Removes the lock of `holder`, which has ended. One process at a time does so, and looks again: another could remove
 * the lock that a third has taken meanwhile.
 */
async function removeStale(folder: string, holder: string): Promise<void> {
  const [file, claim] = [join(folder, pidFile), join(folder, `${pidFile}.stale`)]
  if (!(await createWhole(claim, thisProcess()))) {
    const claimant = await readFile(claim, 'utf8').catch(() => undefined)
    if (claimant !== undefined && !isHolderRunning(claimant)) await rm(claim, { force: true })
    await wait(10)
    return
  }
  try {
    const found = await readFile(file, 'utf8').catch(() => undefined)
    if (found?.split('\n', 1).join('') === holder) await rm(file, { force: true })
  } finally {
    await rm(claim, { force: true })
  }
}

/** Creates a file that no reader sees empty. False where it exists. */
async function createWhole(file: string, text: string): Promise<boolean> {
  const temporary = `${file}.${process.pid}`
  await writeFile(temporary, text, { mode: 0o644 })
  try {
    await link(temporary, file)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    // A reader between creation and writing sees an empty file.
    if (!lacksHardLinks(error)) throw error
    try {
      await writeFile(file, text, { flag: 'wx', mode: 0o644 })
      return true
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw failure
    }
  } finally {
    await rm(temporary, { force: true })
  }
}

/** Whether `link` has rejected because the file system has no hard links. */
export function lacksHardLinks(error: unknown): boolean {
  return ['EPERM', 'ENOTSUP', 'EOPNOTSUPP'].includes((error as NodeJS.ErrnoException).code ?? '')
}

/** The process that holds the lock. */
export interface LockHolder {
  readonly pid: string
  /** The URL of the daemon, without a trailing slash; undefined until it accepts connections. */
  readonly url: string | undefined
}

/** The process that holds the lock of the folder, if any. */
export async function lockHolderOf(folder: string): Promise<LockHolder | undefined> {
  const { holder, url } = await readHolder(folder)
  return isHolderRunning(holder) ? { pid: holder.split(' ', 1).join(''), url } : undefined
}

/** Stores the URL of this daemon for the command line; undefined when it stops. This process must hold the lock. */
export async function storeDaemonUrl(folder: string, url: string | undefined): Promise<void> {
  const file = join(folder, pidFile)
  // Atomically: a process that reads an empty file would take the lock.
  await writeFile(`${file}.new`, url === undefined ? thisProcess() : `${thisProcess()}\n${url}`, { mode: 0o644 })
  await rename(`${file}.new`, file)
}

function thisProcess(): string {
  return `${process.pid} ${processStartTime(process.pid) ?? ''}`
}

async function readHolder(folder: string): Promise<{ readonly holder: string; readonly url: string | undefined }> {
  const [holder = '', url] = (await readFile(join(folder, pidFile), 'utf8').catch(() => '')).split('\n')
  return { holder, url }
}

/** Whether the process that holds the lock is still running. `holder`: the first line of the lock file. */
function isHolderRunning(holder: string): boolean {
  const [pid = '', started = ''] = holder.split(' ')
  return /^\d+$/.test(pid) && isRunning(Number(pid), started)
}
