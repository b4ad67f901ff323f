/** Whether what stands at the target is the copy of a source, for a later run to pass over and for a move to remove the source. */
import { stateOf } from './change.js'
import { targetOf, type CopiedState, type CopyJob } from './copy-job.js'
import { isLink, isSame } from './copy-member.js'
import type { Entry } from './driver.js'
import type { Path } from './path.js'
import { isSameContent } from './same-content.js'

/**
 * What is known of a copy after a look at it: `known`, where it is what was verified; anew, where that cannot be told from its state
 * and its content is that of the source; undefined where it is something else. `entry` is the source, `copy` what stands at the target.
 */
export async function provenCopy(
  job: CopyJob,
  from: Path,
  entry: Entry,
  copy: Entry,
  known: CopiedState | undefined,
): Promise<CopiedState | undefined> {
  if (known?.copy === stateOf(copy) && (isLink(entry) || isSame(entry, copy))) return known
  const isEqual = isLink(entry) ? isEqualLink(job, from, copy) : isEqualFile(job, from, entry, copy)
  if (!(await isEqual)) return undefined
  // Somebody may have put the source itself there.
  return { source: stateOf(entry), size: entry.size, apart: false, copy: stateOf(copy) }
}

/** As `copyLink` copies it: with its text, or what it leads to. */
async function isEqualLink(job: CopyJob, from: Path, copy: Entry): Promise<boolean> {
  const { signal } = job
  const { storage } = job.from
  if (storage === job.to.storage) {
    if (!isLink(copy)) return false
    const [text, other] = await Promise.all([from, targetOf(job, from)].map((at) => storage.readLink(at, { signal })))
    return text === other
  }
  const entry = await storage.stat(from, { signal })
  if (entry.kind !== 'file') return false
  await job.assertReadable(storage.treePath(from))
  return isEqualFile(job, from, entry, copy)
}

async function isEqualFile(job: CopyJob, from: Path, entry: Entry, copy: Entry): Promise<boolean> {
  if (copy.kind !== 'file' || isLink(copy)) return false
  const { from: source, to, signal } = job
  return isSameContent(source.storage.source(from, entry), to.storage.source(targetOf(job, from), copy), signal)
}
