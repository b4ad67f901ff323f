/** What follows a change of the tree: stored properties, folder rules, grants, shares, attributes and WebDAV locks. */
import type { CallOptions } from '../contract/call-options.js'
import { isWithin, root, under, within, type Path } from '../base/path.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { Storage } from '../storage/storage.js'
import type { CopyJournal } from '../transfer/copy-job.js'
import type { TreeDependencies } from './dependencies.js'
import type { CheckedTransfer } from './transfer-job.js'

/**
 * Removes an entry, whose path locks the caller holds; `tree`: with everything below it. Deletes what is recorded about
 * each removed path, also if only a part could be removed.
 */
export async function removeEntry(
  { followers, intents, locks }: Pick<TreeDependencies, 'followers' | 'intents' | 'locks'>,
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
    const top = storage.treePath(inner)
    if (removed.length > 0 && followers.hasWithin(top)) {
      await followers.markRemoved(
        top,
        removed.map((path) => storage.treePath(path)),
      )
    }
  }
}

/**
 * Renames an entry by its backend. Everything recorded about it follows. Resolves to false if the backend cannot
 * rename. The caller holds the path locks of both paths. `replaces`: there was an old target, which was moved to a
 * backup or, if it was an empty folder, removed.
 */
export async function renameByBackend(
  { intents, followers, locks }: Pick<TreeDependencies, 'intents' | 'followers' | 'locks'>,
  from: MountedPath,
  to: MountedPath,
  replaces: boolean,
  { signal }: CallOptions,
): Promise<boolean> {
  const { storage } = from
  const [source, target] = [storage.treePath(from.inner), to.storage.treePath(to.inner)]
  await intents.beforeRemoval(from, 'renamed')
  await followers.updateSpelling(source)
  const move = () => storage.tryMove(from.inner, to.inner, { signal })
  return intents.move(from, to, replaces, move, async () => {
    await locks.dropWithin(source, true)
    await locks.dropWithin(target, false)
  })
}

type Records = Pick<TreeDependencies, 'store' | 'followers' | 'locks'>

/**
 * After a complete copy or move item by item: the properties, and for a move also the rules, grants and locks. Nothing
 * of the old target remains. `deep`: of everything below too. `userId`: who has copied or moved.
 */
export async function followWhole(
  { store, followers, locks }: Records,
  { kind, source, target }: Pick<CheckedTransfer, 'kind' | 'source' | 'target'>,
  deep: boolean,
  userId: number,
): Promise<void> {
  if (!deep) await store.properties.delete(target)
  if (kind === 'copy') await store.properties.copy(source, target, deep, userId)
  else {
    await followers.updateSpelling(source)
    // Attributes are not moved: the write of the target has set them, the removal of the source has deleted them.
    await store.properties.move(source, target)
    await followers.move(source, target)
    await followers.reload()
    await locks.dropWithin(source, true)
  }
  await locks.dropWithin(target, false)
}

/**
 * Makes the follow-up of `followWhole` after an incomplete copy or move: for every path with records, on either side.
 */
export async function followItems(
  { store, followers, locks }: Records,
  { kind, source, target, from }: Pick<CheckedTransfer, 'kind' | 'source' | 'target' | 'from'>,
  journal: CopyJournal,
  userId: number,
): Promise<void> {
  const isDone = async (path: Path) => {
    if (!(await journal.copied(path))) return false
    return kind === 'copy' || (await isThere(from.storage, within(from.storage.mountPoint, path) ?? path)) === false
  }
  const targetFor = (path: Path) => under(target, within(source, path) ?? root)
  // The target first: records of its old files are deleted where the source has none.
  const sides = [
    [target, (path: Path) => under(source, within(target, path) ?? root)],
    [source, (path: Path) => path],
  ] as const
  for (const [top, sourceFor] of sides) {
    for await (const paths of store.properties.within(top)) {
      const done: [Path, Path][] = []
      for (const path of paths.map(sourceFor)) if (await isDone(path)) done.push([path, targetFor(path)])
      await store.properties.transfer(done, kind === 'copy', userId)
    }
  }
  if (kind === 'copy') return
  await followers.updateSpelling(source)
  for (const path of followers.pathsWithin(source)) {
    if (await isDone(path)) await followers.move(path, targetFor(path))
  }
  await followers.reload()
  for (const { path } of locks.list()) {
    if (isWithin(source, path) && (await isDone(path))) await locks.dropWithin(path, true)
  }
}

/** Whether an entry of this name exists; undefined if the storage cannot be read. */
async function isThere(storage: Storage, path: Path): Promise<boolean | undefined> {
  return storage.has(path).catch(() => undefined)
}
