/**
 * The one spelling of a path, where backends on its way fold case or form: that of the backends. It is found before anything
 * is judged, locked or looked up, so that neither a rule nor a lock nor a cache is passed by another one.
 */
import type { CallOptions } from './driver.js'
import { isGatewayError } from './errors.js'
import type { Mounts } from './mounts.js'
import { childOf, folded, nameOf, parentOf, root, segmentsOf, within, type Path } from './path.js'

/**
 * `path`, of the whole tree, as the storages spell it; what is not there keeps the spelling that it has. Rejects where a
 * storage does not answer.
 */
export async function spelledPath(mounts: Mounts, path: Path, options: CallOptions = {}): Promise<Path> {
  const place = mounts.foldingPlace(path)
  if (!place) return path
  const { storage } = place
  const names = segmentsOf(place.inner)
  let own = storage.mount
  for (const [index, name] of names.entries()) {
    const mounted = mounts.foldersIn(own).find((entry) => folded(entry.name) === folded(name))
    const known = mounted ?? (await memberOf(own, name))
    const rest = names.slice(known ? index + 1 : index)
    if (!known) return rest.reduce(childOf, own)
    own = childOf(own, known.name)
    // From here on, the path is one of another storage.
    if (mounts.isMountPoint(own)) return spelledPath(mounts, rest.reduce(childOf, own), options)
  }
  return own

  async function memberOf(folder: Path, name: string) {
    try {
      return await storage.stat(childOf(within(storage.mount, folder) ?? root, name), options)
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'parent_missing', 'not_dir')) return undefined
      throw error
    }
  }
}

/**
 * The same for the place that `source` is to be moved to. Another spelling of `source` itself is kept: that is what it is to
 * be called.
 */
export async function spelledTarget(
  mounts: Mounts,
  source: Path,
  target: Path,
  options: CallOptions = {},
): Promise<Path> {
  const own = await spelledPath(mounts, target, options)
  return own === source && own !== target ? childOf(parentOf(own), nameOf(target)) : own
}
