/**
 * The requirements of an operation on a folder on everything below it, by the rules and grants of the folders there.
 * Paths are of the whole tree.
 */
import { isRealFolder } from '../contract/entry.js'
import { isGatewayError, isWithoutStorage } from '../base/errors.js'
import { childOf, selfAndAncestors, type Path } from '../base/path.js'
import type { Storage } from '../storage/storage.js'
import type { Access } from './access.js'
import { refuse } from './decisions.js'
import type { AccessOptions } from './operation-options.js'
import type { Action } from './policy/one-path.js'
import { withOwnErrors } from './redaction.js'

/**
 * Authorizes a change of a whole tree on every folder below `at` that has a rule, and on every path that has a grant. A
 * copy skips what the principal cannot see, so rules and grants on invisible folders do not refuse it. `granted`: what
 * the grants are asked for.
 */
export function authorizeBelow(
  access: Access,
  action: Action,
  at: Path,
  options: AccessOptions,
  granted: readonly Action[] = [action],
): void {
  const { rules } = access.dependencies
  access.decisions.assertTreeGranted(granted, at)
  // The direct members of a copied folder are authorized one by one, as reads.
  if (action !== 'copy' && rules.nearest(at)?.path === at) access.decisions.authorizeMembersBelow(action, at, options)
  for (const { path } of rules.below(at)) {
    if (action === 'copy' && isInvisibleBelow(access, at, path)) continue
    access.decisions.authorizeMembersBelow(action, path, options)
  }
}

/**
 * Rejects if the principal must not list a folder at or below `at` that listings show and that exists, or not read what
 * is in it, or a storage mounted there does not run. Looks only for folders that have a rule of their own, and paths
 * that have a grant. The error names that path.
 */
export async function assertReadableBelow(access: Access, at: Path, options: AccessOptions): Promise<void> {
  await withOwnErrors(access, 'list', access.ownPath(at), async () => access.decisions.assertContentGranted(at))
  await assertMountsRun(access, at)
  for (const path of access.decisions.unreadableBelow(at)) {
    await withOwnErrors(access, 'list', access.ownPath(path), async () => {
      if (await exists(access, path, options)) access.decisions.assertContentGranted(path)
    })
  }
  for (const { path } of access.dependencies.rules.below(at)) {
    if (isInvisibleBelow(access, at, path)) continue
    await withOwnErrors(access, 'list', access.ownPath(path), async () => {
      const refusal = access.decisions.refusalOf('list', path, options)
      if (refusal && (await exists(access, path, options))) refuse(refusal)
    })
  }
}

async function assertMountsRun(access: Access, at: Path): Promise<void> {
  const { mounts } = access.dependencies
  for (const { name } of mounts.foldersIn(at)) {
    const member = childOf(at, name)
    if (access.decisions.isOmitted(member)) continue
    if (mounts.isMountPoint(member))
      await withOwnErrors(access, 'list', access.ownPath(member), async () => mounts.find(member))
    await assertMountsRun(access, member)
  }
}

async function exists(access: Access, at: Path, { signal }: AccessOptions): Promise<boolean> {
  try {
    return (await access.tree.entryOrUndefined(at, { signal })) !== undefined
  } catch (error) {
    if (isWithoutStorage(error) || isGatewayError(error, 'not_folder')) return false
    throw error
  }
}

/** Whether `at` or a folder between `top` and `at` is invisible to the principal. */
function isInvisibleBelow(access: Access, top: Path, at: Path): boolean {
  for (const path of selfAndAncestors(at)) {
    if (path === top) return false
    if (access.decisions.isOmitted(path)) return true
  }
  return false
}

/**
 * Rejects with `denied` if a folder contains, at any depth, an entry that a rule hides from the principal: a principal
 * cannot remove what it cannot see. Lists the folder only if a rule hides names there. `folder`: in the storage.
 */
export async function assertAllVisible(
  access: Access,
  storage: Storage,
  folder: Path,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!access.decisions.hidesNames(storage.treePath(folder))) return
  for await (const page of storage.pages(folder, { signal })) {
    for (const entry of page) {
      const member = childOf(folder, entry.name)
      access.decisions.assertShownBelow(storage.treePath(member))
      if (isRealFolder(entry)) await assertAllVisible(access, storage, member, signal)
    }
  }
}
