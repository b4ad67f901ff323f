/**
 * The second half of a move: removes every copied member from the source, folders after their members. Before each
 * removal it checks again that the source is unchanged since it was copied, that its copy exists, that the principal
 * may remove it, and that the two are different files.
 */
import { contentVersion, isSymlink, isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError, undefinedIfMissing } from '../base/errors.js'
import { childOf, type Path } from '../base/path.js'
import type { MountedPath } from '../mounts/mounts.js'
import { targetOf, type CopiedState, type CopyJob } from './copy-job.js'
import { sameFileError, sameness } from './same-file.js'
import type { EnteredFolder, TreeVisitor } from './tree-walk.js'
import { verifiedCopy, withRemovalCheck } from './copy-file.js'

/** A member of the source. Without a recorded state (`known`) it is not removed. */
interface Member {
  readonly from: Path
  readonly known?: CopiedState | undefined
  readonly listed?: Entry
}

export class SourceRemoval implements TreeVisitor<Member, Member> {
  #begun: Promise<void> | undefined

  constructor(private readonly job: CopyJob) {}

  async visit(member: Member, parent: Member | undefined): Promise<boolean | EnteredFolder<Member, Member>> {
    try {
      return await this.#visit(member, parent)
    } catch (error) {
      if (await hasVanished(this.job, member.from, error)) return true
      throw error
    }
  }

  async #visit(member: Member, parent: Member | undefined): Promise<boolean | EnteredFolder<Member, Member>> {
    const { storage } = this.job.transfer.from
    const { from } = member
    const path = storage.treePath(from)
    const known = parent ? member.known : await this.#copied(path)
    const entry = member.listed ?? (await storage.stat(from, { signal: this.job.transfer.signal, ofSymlink: true }))
    if (isRealFolder(entry)) return this.#enterFolder({ from, known })
    if (!known) return false
    await this.#remove(from, known)
    return true
  }

  async #enterFolder(folder: Member): Promise<EnteredFolder<Member, Member>> {
    const { from: source, journal, signal } = this.job.transfer
    const { copied, failed } = await journal.itemsIn(source.storage.treePath(folder.from))
    const members: Member[] = []
    for await (const page of source.storage.pages(folder.from, { signal, refresh: true })) {
      for (const listed of page) {
        const { name } = listed
        // A member that an earlier run has copied may have failed in this run.
        const known = failed.has(name) ? undefined : copied.get(name)
        members.push({ from: childOf(folder.from, name), known, listed })
      }
    }
    const included = members.filter(({ from }) => !this.job.excludes(source.storage.treePath(from)))
    return { folder, members: included, count: included.length }
  }

  /** The recorded state of the whole source. If that is a file which was not copied in this run, it is the failure. */
  async #copied(path: Path): Promise<CopiedState | undefined> {
    const { journal, entry } = this.job.transfer
    return this.job.failures.count > 0 && !isRealFolder(entry) ? undefined : journal.copied(path)
  }

  async finish({ from, known }: Member, allRemoved: boolean): Promise<boolean> {
    if (!allRemoved || !known) return false
    const { job } = this
    await withRemovalCheck(job, 'source', from, false, async (signal) => {
      // An empty folder that may be its own copy is put back below.
      if (known.distinct) await this.#begin()
      await undefinedIfMissing(job.transfer.from.storage.remove(from, { signal }))
      if (!known.distinct) await this.#assertCopyExists(from)
    })
    return true
  }

  /** Recreates an empty folder if its removal also removed its copy. */
  async #assertCopyExists(from: Path): Promise<void> {
    const { from: source, to, signal } = this.job.transfer
    if (await to.storage.statOrUndefined(targetOf(this.job, from), { signal, ofSymlink: true })) return
    await source.storage.mkdir(from, { signal })
    throw sameFileError()
  }

  async failed({ from }: Member, error: unknown): Promise<void> {
    if (this.job.transfer.signal.aborted) throw error
    // A folder that is not empty remains. It is not reported in addition to the failures of its members.
    if (isGatewayError(error, 'not_empty') && this.job.failures.count > 0) return
    const path = this.job.transfer.from.storage.treePath(from)
    await this.job.failed({ path, from: path, error: toGatewayError(error) })
  }

  /** To be called before the first member is removed: what is left of a folder is a remainder from then on. */
  #begin(): Promise<void> {
    const { from, to, entry } = this.job.transfer
    const { intents } = this.job.dependencies
    this.#begun ??= isRealFolder(entry) ? intents.beginRemoval(from, to) : Promise.resolve()
    return this.#begun
  }

  /** From the last check on, the path lock and the pause of handles prevent changes through the gateway. */
  #remove(from: Path, known: CopiedState): Promise<void> {
    const { job } = this
    const source: MountedPath = { storage: job.transfer.from.storage, inner: from }
    return withRemovalCheck(job, 'source', from, false, async (signal = job.transfer.signal) => {
      const paused = await job.dependencies.inPlaceHandles.pause(source, signal)
      try {
        await this.#removePaused(source, known, paused.count > 0, signal)
      } finally {
        await paused.resume()
      }
    })
  }

  async #removePaused(
    source: MountedPath,
    known: CopiedState,
    hasHandles: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const { job } = this
    const target: MountedPath = { storage: job.transfer.to.storage, inner: targetOf(job, source.inner) }
    const now = await source.storage.stat(source.inner, { signal, ofSymlink: true, refresh: true })
    if (contentVersion(now) !== known.source) {
      throw new GatewayError('busy', { detail: 'source_changed' })
    }
    const copy = await target.storage.statOrUndefined(target.inner, { signal, ofSymlink: true })
    if (!copy) throw new GatewayError('busy', { reason: 'its copy no longer exists' })
    // A backend may not show by time or revision what a handle has written a moment after it was copied.
    const verified = await verifiedCopy(job, source.inner, now, copy, hasHandles ? undefined : known)
    if (!verified || (verified !== known && !(await isUnchanged(target, verified, signal)))) {
      throw new GatewayError('busy', { reason: 'its copy was changed or replaced' })
    }
    const relation = isSymlink(now) ? 'distinct' : await sameness(source, target, signal)
    if (relation === 'same') throw sameFileError()
    if (relation === 'distinct' || verified.distinct) {
      await this.#begin()
      await source.storage.remove(source.inner, { signal })
    } else await this.#removeUnidentified(source, target, signal)
  }

  /**
   * Used if identities are inconclusive: moves the source to a backup, and restores it if the copy no longer exists,
   * because then both were the same file.
   */
  async #removeUnidentified(source: MountedPath, target: MountedPath, signal: AbortSignal): Promise<void> {
    const backup = await this.job.dependencies.intents.moveToBackup(source, signal)
    if (!backup)
      throw new GatewayError('unsupported', {
        reason: 'cannot determine whether the source and its copy are the same file',
      })
    let copyExists = false
    try {
      copyExists = (await target.storage.statOrUndefined(target.inner, { signal, ofSymlink: true })) !== undefined
      if (copyExists) await this.#begin()
    } finally {
      await (copyExists ? backup.remove() : backup.restoreOrDiscard())
    }
    if (!copyExists) throw sameFileError()
  }
}

/**
 * Whether the error of a member is that another client has removed it since it was listed. Not if the whole source is
 * missing, as on a disk that is no longer mounted.
 */
export async function hasVanished(
  { transfer: { from, signal } }: CopyJob,
  member: Path,
  error: unknown,
): Promise<boolean> {
  if (!isGatewayError(error, 'not_found')) return false
  const options = { signal, ofSymlink: true, refresh: true }
  if (await from.storage.statOrUndefined(member, options)) return false
  return (await from.storage.statOrUndefined(from.inner, options)) !== undefined
}

/** Whether the copy is still in the state that was compared, because comparing the content may take long. */
async function isUnchanged(
  { storage, inner }: MountedPath,
  { copy }: CopiedState,
  signal: AbortSignal,
): Promise<boolean> {
  const now = await storage.statOrUndefined(inner, { signal, ofSymlink: true })
  return now !== undefined && contentVersion(now) === copy
}
