/** Files that are written aside: their folder, and how a complete one gets its name. */
import { rmSync } from 'node:fs'
import { link, lstat, mkdir, open, opendir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { lacksHardLinks } from './data-folder.js'
import { thisInstance } from './instance.js'

const prefix = '.tidegate-scratch-'

/**
 * Calls `work` with the path of a new folder in `parent`, for this user only, and removes it afterwards. Folders of
 * killed processes are removed first. Rejects with the errors of the system and of `work`.
 */
export async function inScratchFolder<T>(parent: string, work: (folder: string) => Promise<T>): Promise<T> {
  const { name, isOver } = thisInstance()
  const folder = join(parent, prefix + name)
  await mkdir(folder, { mode: 0o700 })
  const forget = onInterruption(() => rmSync(folder, { recursive: true, force: true }))
  try {
    for await (const found of await opendir(parent)) {
      if (!found.name.startsWith(prefix) || isOver(found.name.slice(prefix.length)) !== true) continue
      await removeOwn(join(parent, found.name)).catch(() => undefined)
    }
    return await work(folder)
  } finally {
    forget()
    await rm(folder, { recursive: true, force: true })
  }
}

const interruptions = ['SIGINT', 'SIGTERM'] as const
const clearing = new Set<() => void>()

/** Calls `clear` before SIGINT or SIGTERM ends this process, until the returned function is called. */
function onInterruption(clear: () => void): () => void {
  if (clearing.size === 0) for (const signal of interruptions) process.on(signal, end)
  clearing.add(clear)
  return () => {
    clearing.delete(clear)
    if (clearing.size === 0) for (const signal of interruptions) process.off(signal, end)
  }
}

function end(signal: NodeJS.Signals): void {
  // A daemon handles the signal: it ends this work, which then removes its folder.
  if (process.listenerCount(signal) > 1) return
  for (const clear of clearing) clear()
  process.off(signal, end)
  process.kill(process.pid, signal)
}

/**
 * Removes the folder if only this user can have made it: in that of another user, names may be replaced while they are
 * removed.
 */
async function removeOwn(folder: string): Promise<void> {
  const { uid, mode } = await lstat(folder)
  if (uid === process.getuid?.() && (mode & 0o077) === 0) await rm(folder, { recursive: true, force: true })
}

/**
 * Writes a file aside: calls `write` with the path of a new file, which it must sync, and of its folder, for other
 * files. The file then gets the name `target`. Rejects with the GatewayErrors of `write`, with `exists` if there is
 * such a file and `replace` is false, and with `no_space` or `unavailable` if it cannot be written.
 */
export async function writeAside<T>(
  target: string,
  write: (file: string, folder: string) => Promise<T>,
  { replace = false } = {},
): Promise<T> {
  try {
    if (!replace) await assertFree(target)
    return await inScratchFolder(dirname(target), async (folder) => {
      const file = join(folder, 'written')
      const result = await write(file, folder)
      await publish(file, target, { replace })
      return result
    })
  } catch (error) {
    if (isGatewayError(error)) throw error
    const { code, message } = error as NodeJS.ErrnoException
    // Without the path of the folder.
    const reason = `${target} cannot be written: ${message.split(',', 1).join('')}`
    throw new GatewayError(code === 'ENOSPC' ? 'no_space' : 'unavailable', { reason, cause: error })
  }
}

/**
 * Gives a complete file, which must be synced, its name in the same file system; the name survives a power failure.
 * Rejects with `exists` if another file has it, unless `replace` is true.
 */
export async function publish(file: string, target: string, { replace = false } = {}): Promise<void> {
  try {
    await (replace ? rename : link)(file, target)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw alreadyExists(target)
    if (replace || !lacksHardLinks(error)) throw error
    await assertFree(target)
    await rename(file, target)
  }
  const folder = await open(dirname(target))
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** Rejects with `exists` if something has this name. */
async function assertFree(target: string): Promise<void> {
  if (await lstat(target).catch(() => undefined)) throw alreadyExists(target)
}

function alreadyExists(file: string): GatewayError {
  return new GatewayError('exists', { reason: `${file} exists already: name another file` })
}
