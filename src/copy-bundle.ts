/** Small files of a tree that is copied, many at once where the target's driver takes them so (docs/decisions/0016). */
import type { CopyJob } from './copy-job.js'
import { isFolder, isLink, isSame } from './copy-member.js'
import type { Entry } from './driver.js'
import { childOf, type Path } from './path.js'

/** Bytes of a file that is small. */
const small = 128 * 1024
/** Files that are copied at once. */
const atMost = 64
/** Fewer are copied one by one. */
const atLeast = 8

/** Small files of one folder of the source. */
export interface Bundle {
  readonly folder: Path
  readonly files: readonly Entry[]
}

/** Those of the members of a folder that can be copied at once. */
export function bundlesOf({ from, to }: CopyJob, folder: Path, members: Iterable<Entry>): readonly Bundle[] {
  if (!to.storage.takesFilesOf(from.storage)) return []
  const files = [...members].filter(isSmallFile)
  const bundles: Bundle[] = []
  for (let at = 0; files.length - at >= atLeast; at += atMost)
    bundles.push({ folder, files: files.slice(at, at + atMost) })
  return bundles
}

function isSmallFile(entry: Entry): boolean {
  return !isFolder(entry) && !isLink(entry) && entry.size <= small && entry.revision !== undefined
}

/** Copies into the folder `to`. In the order of the files: the copy, or undefined of one with which nothing was done. */
export async function copyBundle(
  job: CopyJob,
  { folder, files }: Bundle,
  to: Path,
): Promise<readonly (Entry | undefined)[]> {
  const { from, to: target, signal } = job
  const pathOf = (name: string) => target.storage.treePath(childOf(to, name))
  let release: (() => void) | undefined
  const mayTake = async (names: readonly string[]) => {
    const cleared = await job.beforePublish(names.map(pathOf), false)
    ;({ release } = cleared)
    return new Set(names.filter((name) => !cleared.refused.has(pathOf(name))))
  }
  try {
    const copies = await target.storage.copyFiles(from.storage, { from: folder, to, files, mayTake }, { signal })
    return files.map((entry, index) => {
      const copy = copies[index]
      return copy && isSame(entry, copy) ? copy : undefined
    })
  } finally {
    release?.()
  }
}
