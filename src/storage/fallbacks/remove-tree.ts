/** Removes a folder item by item, for backends that cannot remove it in one step. */
import { isGatewayError, toGatewayError } from '../../base/errors.js'
import { Failures } from '../../base/failures.js'
import type { CallOptions } from '../../contract/call-options.js'
import { isRealFolder, type Entry } from '../../contract/entry.js'
import { childOf, type Path } from '../../base/path.js'
import type { Storage } from '../storage.js'

/** Removes a folder item by item. See `Storage.removeTree`. */
export async function removeItems(
  storage: Storage,
  path: Path,
  removed: Path[],
  { signal }: CallOptions,
): Promise<void> {
  const failures = new Failures()
  await removeFolder(storage, path, signal, failures, removed)
  failures.throwIfAny()
}

async function removeFolder(
  storage: Storage,
  path: Path,
  signal: AbortSignal | undefined,
  failures: Failures,
  removed: Path[],
): Promise<void> {
  const [failuresBefore, removedBefore] = [failures.count, removed.length]
  const attempt = async (at: Path, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (signal?.aborted === true) throw error
      // Removed concurrently by another request or program.
      if (!isGatewayError(error, 'not_found')) {
        failures.add({ path: storage.treePath(at), error: toGatewayError(error) })
      }
    }
  }
  await attempt(path, async () => {
    const members: Entry[] = []
    for await (const page of storage.pages(path, { signal })) members.push(...page)
    for (const member of members) {
      const at = childOf(path, member.name)
      if (isRealFolder(member)) {
        await removeFolder(storage, at, signal, failures, removed)
      } else {
        await attempt(at, async () => {
          await storage.remove(at, { signal })
          removed.push(at)
        })
      }
    }
    if (failures.count > failuresBefore) return
    await storage.remove(path, { signal })
    removed.splice(removedBefore, removed.length, path)
  })
}
