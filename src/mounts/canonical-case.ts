/**
 * Finds the canonical spelling of a path on backends that ignore case or Unicode normalization: the spelling that the
 * backend returns. Paths are converted before authorization, locking and cache lookups, so that another spelling does
 * not bypass a rule or a lock.
 */
import type { CallOptions } from '../contract/call-options.js'
import { isGatewayError } from '../base/errors.js'
import { childOf, foldCase, nameOf, parentOf, root, segmentsOf, within, type Path } from '../base/path.js'
import type { Mounts } from './mounts.js'

/**
 * Returns `path`, a path of the whole tree, in the storages' spelling. Segments that do not exist are not changed.
 * Rejects if a storage cannot be read.
 */
export async function canonicalPath(mounts: Mounts, path: Path, options: CallOptions = {}): Promise<Path> {
  const location = mounts.caseInsensitivePath(path)
  if (!location) return path
  const { storage } = location
  const names = segmentsOf(location.inner)
  let canonical = storage.mountPoint
  for (const [index, name] of names.entries()) {
    const mounted = mounts.foldersIn(canonical).find((entry) => foldCase(entry.name) === foldCase(name))
    const existing = mounted ?? (await memberOf(canonical, name))
    const rest = names.slice(existing ? index + 1 : index)
    if (!existing) return rest.reduce(childOf, canonical)
    canonical = childOf(canonical, existing.name)
    // The rest of the path belongs to another storage.
    if (mounts.isMountPoint(canonical)) return canonicalPath(mounts, rest.reduce(childOf, canonical), options)
  }
  return canonical

  async function memberOf(folder: Path, name: string) {
    try {
      return await storage.stat(childOf(within(storage.mountPoint, folder) ?? root, name), options)
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'parent_missing', 'not_folder')) return undefined
      throw error
    }
  }
}

/**
 * As `canonicalPath`, for the target of a move of `source`. If the target is another spelling of `source` itself, its
 * last segment is not changed, because it is the new name.
 */
export async function canonicalTarget(
  mounts: Mounts,
  source: Path,
  target: Path,
  options: CallOptions = {},
): Promise<Path> {
  const canonical = await canonicalPath(mounts, target, options)
  const isCaseRename = canonical === source && canonical !== target
  return isCaseRename ? childOf(parentOf(canonical), nameOf(target)) : canonical
}
