/** Copies many small files of one folder in one call, if the target's driver supports it (docs/decisions/0016). */
import { isSymlink, isRealFolder, type Entry } from '../contract/entry.js'
import { childOf, type Path } from '../contract/path.js'
import type { CopyJob } from './copy-job.js'
import { hasSameSizeAndHashes } from './copy-member.js'

/** Maximum size in bytes of a file in a bundle. */
const maxSmallSize = 128 * 1024
/** Maximum number of files in a bundle. */
const maxBundleSize = 64
/** Minimum number of files in a bundle; fewer are copied one by one. */
const minBundleSize = 8

/** Small files of one folder of the source. */
export interface Bundle {
  readonly folder: Path
  readonly files: readonly Entry[]
}

/** Bundles of those members of a folder that can be copied together. */
export function createBundles({ from, to }: CopyJob, folder: Path, members: Iterable<Entry>): readonly Bundle[] {
  if (!to.storage.takesFilesOf(from.storage)) return []
  const files = [...members].filter(isSmallFile)
  const bundles: Bundle[] = []
  for (let at = 0; files.length - at >= minBundleSize; at += maxBundleSize)
    bundles.push({ folder, files: files.slice(at, at + maxBundleSize) })
  return bundles
}

function isSmallFile(entry: Entry): boolean {
  return !isRealFolder(entry) && !isSymlink(entry) && entry.size <= maxSmallSize && entry.revision !== undefined
}

/**
 * Copies the files into the folder `to`. Resolves, in the order of the files, to the copy, or to undefined for a file
 * that was not copied or not verified.
 */
export async function copyBundle(
  job: CopyJob,
  { folder, files }: Bundle,
  to: Path,
): Promise<readonly (Entry | undefined)[]> {
  const { from, to: target, signal } = job
  const pathOf = (name: string) => target.storage.treePath(childOf(to, name))
  // What a storage copies within itself is no transfer.
  const isTransfer = from.storage !== target.storage
  const transfers = isTransfer ? [job.meter.start(from.storage, 'read'), job.meter.start(target.storage, 'write')] : []
  let release: (() => void) | undefined
  const beforePublish = async (names: readonly string[]) => {
    const grant = await job.beforePublish(names.map(pathOf), false)
    ;({ release } = grant)
    return new Set(names.filter((name) => !grant.refused.has(pathOf(name))))
  }
  try {
    const copies = await target.storage.copyFiles(
      { source: from.storage, from: folder, to, files, beforePublish },
      { signal },
    )
    const bytes = copies.reduce((sum, copy) => sum + (copy?.size ?? 0), 0)
    for (const transfer of transfers) {
      transfer.count(bytes)
      transfer.end()
    }
    return files.map((entry, index) => {
      const copy = copies[index]
      return copy && hasSameSizeAndHashes(entry, copy) ? copy : undefined
    })
  } catch (error) {
    for (const transfer of transfers) transfer.end(error)
    throw error
  } finally {
    release?.()
  }
}
