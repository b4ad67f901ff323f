/** Removes trees, item by item if the backend cannot do it in one step. Helpers for replacing files. */
import { randomUUID } from 'node:crypto'
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError, TreeError, type MemberFailure } from '../contract/errors.js'
import { childOf, parentOf, reservedPrefix, type Path } from '../contract/path.js'
import type { Storage } from './storage.js'

/**
 * Removes the file, symlink or tree at `path`. Symlinks are removed, not followed. Rejects with TreeError if members
 * could not be removed. Adds every removed path to `removed`, also on failure; of a completely removed folder only the
 * folder itself.
 */
export async function removeTree(
  storage: Storage,
  path: Path,
  signal: AbortSignal,
  removed: Path[] = [],
): Promise<void> {
  const entry = await storage.stat(path, { signal, link: true })
  if (entry.kind !== 'folder' || entry.isLink === true) {
    await storage.remove(path, { signal })
  } else if (!(await storage.removeTree(path, { signal }))) {
    const failures: MemberFailure[] = []
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
  failures: MemberFailure[],
  removed: Path[],
): Promise<void> {
  const [failuresBefore, removedBefore] = [failures.length, removed.length]
  const attempt = async (at: Path, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (signal.aborted) throw error
      // Removed concurrently by another request or program.
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
    if (failures.length > failuresBefore) return
    await storage.remove(path, { signal })
    removed.splice(removedBefore, removed.length, path)
  })
}

/** Returns a new path in the same folder, for a backup of the entry at `path` while it is being replaced. */
export function backupPathOf(path: Path): Path {
  return childOf(parentOf(path), `${reservedPrefix}aside-${randomUUID()}`)
}

/** Copies one file within a storage. Rejects with `unsupported` for folders. */
export async function copyFile(storage: Storage, from: Path, to: Path, signal: AbortSignal): Promise<void> {
  const entry = await storage.stat(from, { signal, fresh: true })
  if (entry.kind !== 'file') throw new GatewayError('unsupported')
  const options = { signal, modified: entry.modified, mode: entry.mode }
  if (await storage.copy(from, to, options)) return
  const written = await storage.write(to, storage.source(from, entry), options)
  if (written.size !== entry.size) throw new GatewayError('internal', { reason: 'the copy has another size' })
}

/** The entry at `path`, of a symlink itself; undefined if nothing exists there. */
export async function statOrUndefined(storage: Storage, path: Path, signal: AbortSignal): Promise<Entry | undefined> {
  try {
    return await storage.stat(path, { signal, link: true })
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}
