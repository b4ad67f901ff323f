/**
 * Checks whether the entry at the target is the copy of a source, so that a later run can skip it, or a move can remove
 * the source.
 */
import { contentVersion, isSymlink, type Entry } from '../contract/entry.js'
import type { Path } from '../contract/path.js'
import { targetOf, type CopiedState, type CopyJob } from './copy-job.js'
import { hasSameSizeAndHashes } from './copy-member.js'
import { isSameContent } from './same-content.js'

/**
 * Resolves to `known` if the copy is in the state that was verified. Otherwise compares the content, and resolves to a
 * new state if it is equal, or to undefined if it differs. `entry` is the source, `copy` the entry at the target.
 */
export async function verifiedCopy(
  job: CopyJob,
  from: Path,
  entry: Entry,
  copy: Entry,
  known: CopiedState | undefined,
): Promise<CopiedState | undefined> {
  if (known?.copy === contentVersion(copy) && (isSymlink(entry) || hasSameSizeAndHashes(entry, copy))) return known
  const isEqual = isSymlink(entry) ? isEqualSymlink(job, from, copy) : isEqualFile(job, from, entry, copy)
  if (!(await isEqual)) return undefined
  // Another writer may have put the source itself there, so the two are not known to be distinct.
  return { source: contentVersion(entry), size: entry.size, distinct: false, copy: contentVersion(copy) }
}

/** Compares in the way `copySymlink` copies: the target text, or the content of the file it leads to. */
async function isEqualSymlink(job: CopyJob, from: Path, copy: Entry): Promise<boolean> {
  const { signal } = job
  const { storage } = job.from
  if (storage === job.to.storage) {
    if (!isSymlink(copy)) return false
    const [text, other] = await Promise.all(
      [from, targetOf(job, from)].map((at) => storage.readSymlink(at, { signal })),
    )
    return text === other
  }
  const entry = await storage.stat(from, { signal })
  if (entry.kind !== 'file') return false
  await job.assertReadable(storage.treePath(from))
  return isEqualFile(job, from, entry, copy)
}

async function isEqualFile(job: CopyJob, from: Path, entry: Entry, copy: Entry): Promise<boolean> {
  if (copy.kind !== 'file' || isSymlink(copy)) return false
  const { from: source, to, meter, signal } = job
  const one = meter.source(source.storage, from, entry)
  return isSameContent(one, meter.source(to.storage, targetOf(job, from), copy), signal)
}
