/** What follows a change of the tree: stored properties, folder rules, attributes and WebDAV locks. */
import type { CallOptions } from '../contract/call-options.js'
import type { Path } from '../base/path.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { TreeDependencies } from './dependencies.js'

/**
 * Removes an entry, whose path locks the caller holds; `tree`: with everything below it. Deletes what is recorded about
 * each removed path, also if only a part could be removed.
 */
export async function removeEntry(
  { intents, locks }: Pick<TreeDependencies, 'intents' | 'locks'>,
  { storage, inner }: MountedPath,
  tree: boolean,
  { signal }: CallOptions,
): Promise<void> {
  await intents.beforeRemoval({ storage, inner }, 'removed')
  const removed: Path[] = []
  try {
    if (tree) await storage.removeTree(inner, { signal, removed })
    else {
      await storage.remove(inner, { signal })
      removed.push(inner)
    }
  } finally {
    for (const path of removed) {
      const at = storage.treePath(path)
      await storage.records.properties.delete(at)
      await locks.dropWithin(at, true)
    }
  }
}

/**
 * Renames an entry by its backend. Everything recorded about it follows. Resolves to false if the backend cannot
 * rename. The caller holds the path locks of both paths. `replaces`: there was an old target, which was moved to a
 * backup or, if it was an empty folder, removed.
 */
export async function renameByBackend(
  { intents, rules, locks }: Pick<TreeDependencies, 'intents' | 'rules' | 'locks'>,
  from: MountedPath,
  to: MountedPath,
  replaces: boolean,
  { signal }: CallOptions,
): Promise<boolean> {
  const { storage } = from
  const [source, target] = [storage.treePath(from.inner), to.storage.treePath(to.inner)]
  await intents.beforeRemoval(from, 'renamed')
  await rules.updateSpelling(source)
  const move = () => storage.tryMove(from.inner, to.inner, { signal })
  return intents.move(from, to, replaces, move, async () => {
    await locks.dropWithin(source, true)
    await locks.dropWithin(target, false)
  })
}
