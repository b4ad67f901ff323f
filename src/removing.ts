/** Removing trees, item by item where the backend has no quicker way, and what is set aside while something takes its place. */
import { randomUUID } from 'node:crypto'
import { TreeError, type Failure } from './change.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import { childOf, parentOf, reservedPrefix, type Path } from './path.js'
import type { Storage } from './storage.js'

/**
 * Removes whatever stands at `path`; rejects with TreeError for what stayed. Links are removed, never entered. What is gone
 * is put into `removed`, without the members of what is gone as a whole, also where it rejects.
 */
export async function removeAll(
  storage: Storage,
  path: Path,
  signal: AbortSignal,
  removed: Path[] = [],
): Promise<void> {
  const entry = await storage.stat(path, { signal, link: true })
  if (entry.kind !== 'folder' || entry.isLink === true) {
    await storage.remove(path, { signal })
  } else if (!(await storage.removeTree(path, { signal }))) {
    const failures: Failure[] = []
    await removeFolder(storage, path, signal, failures, removed)
    const [first, ...others] = failures
    if (first) throw new TreeError([first, ...others])
    return
  }
  removed.push(path)
}

async function removeFolder(
  storage: Storage,
  path: Path,
  signal: AbortSignal,
  failures: Failure[],
  removed: Path[],
): Promise<void> {
  const [failed, gone] = [failures.length, removed.length]
  const attempt = async (at: Path, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (signal.aborted) throw error
      // Somebody else removed it meanwhile.
      if (!isGatewayError(error, 'not_found')) {
        failures.push({ path: storage.treePath(at), error: toGatewayError(error) })
      }
    }
  }
  await attempt(path, async () => {
    const members: Entry[] = []
    for await (const page of storage.pages(path, { signal })) members.push(...page)
    for (const member of members) {
      const at = childOf(path, member.name)
      if (member.kind === 'folder' && member.isLink !== true) {
        await removeFolder(storage, at, signal, failures, removed)
      } else {
        await attempt(at, async () => {
          await storage.remove(at, { signal })
          removed.push(at)
        })
      }
    }
    if (failures.length > failed) return
    await storage.remove(path, { signal })
    removed.splice(gone, removed.length, path)
  })
}

/** A name in the same folder for what stands at `path` while something else takes its place. */
export function asideOf(path: Path): Path {
  return childOf(parentOf(path), `${reservedPrefix}aside-${randomUUID()}`)
}

/** One file, where the storage cannot give it another name. */
export async function copyWithin(storage: Storage, from: Path, to: Path, signal: AbortSignal): Promise<void> {
  const entry = await storage.stat(from, { signal, fresh: true })
  if (entry.kind !== 'file') throw new GatewayError('unsupported')
  const options = { signal, modified: entry.modified, mode: entry.mode }
  if (await storage.copy(from, to, options)) return
  const written = await storage.write(to, storage.source(from, entry), options)
  if (written.size !== entry.size) throw new GatewayError('internal', { reason: 'the copy has another size' })
}

/** What stands there, of a link itself; undefined where nothing does. */
export async function existing(storage: Storage, path: Path, signal: AbortSignal): Promise<Entry | undefined> {
  try {
    return await storage.stat(path, { signal, link: true })
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}
