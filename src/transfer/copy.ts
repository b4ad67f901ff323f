/**
 * Copies and moves of trees between storages, and within a storage that cannot perform them itself, for all protocols
 * and tasks. Every file is verified. A move removes sources only at the end, and only if they are verified and
 * unchanged (see source-removal.ts).
 */
import { randomUUID } from 'node:crypto'
import { contentVersion, isSymlink, isRealFolder, type Entry, type FileIdentity } from '../contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import { childOf, foldCase, nameOf, parentOf, reservedPrefix, type Path } from '../base/path.js'
import { byteSource } from '../contract/sources.js'
import type { Storage } from '../storage/storage.js'
import { targetOf, type CopiedState, type CopyJob, type RecordedMembers } from './copy-job.js'
import {
  copySymlink,
  withBackup,
  withPublishCheck,
  withRemovalCheck,
  writeFile,
  createBundles,
  copyBundle,
  verifiedCopy,
  type Bundle,
} from './copy-file.js'
import { identitiesUpward, matchesAny, sameFileError, sameness, type Sameness } from './same-file.js'
import type { Intents } from './intents.js'
import { hasVanished, SourceRemoval } from './source-removal.js'
import { TreeWalk, type EnteredFolder, type TreeVisitor } from './tree-walk.js'

/**
 * Copies the tree at `from`. Rejects with a TreeError that lists the members that could not be copied; all other
 * members are copied and recorded in the journal.
 */
export async function copyTree(job: CopyJob): Promise<void> {
  await copyInto(job)
  job.failures.throwIfAny()
}

/**
 * Copies the tree, then removes every source that was copied. Members that failed or have changed remain at the source.
 * If an old folder is replaced, the source is removed only if all of it was copied.
 */
export async function moveTree(job: CopyJob): Promise<void> {
  const { entersOld } = await copyInto(job)
  // As long as the source is complete, a comparison with it shows what only the old target has.
  if (entersOld && !job.transfer.journal.resumes) job.failures.throwIfAny()
  // After a source is removed, only its journal row records that it was moved.
  await job.transfer.journal.flushed()
  const isSourceRemoved = await new TreeWalk(new SourceRemoval(job)).run({ from: job.transfer.from.inner })
  if (isSourceRemoved && isRealFolder(job.transfer.entry)) await job.dependencies.intents.endRemoval(job.transfer.from)
  if (!isSourceRemoved && job.failures.count === 0) {
    const path = job.transfer.from.storage.treePath(job.transfer.from.inner)
    await job.failed({ path, from: path, error: new GatewayError('not_empty') })
  }
  job.failures.throwIfAny()
}

async function copyInto(job: CopyJob): Promise<TreeCopy> {
  const { from, journal } = job.transfer
  const known = journal.resumes ? await journal.copied(from.storage.treePath(from.inner)) : undefined
  const copy = new TreeCopy(job)
  await new TreeWalk(copy).run({ from: from.inner, known })
  return copy
}

/** A member of the source that is to be copied. */
interface Member {
  readonly from: Path
  /** The state that an earlier run recorded. */
  readonly known: CopiedState | undefined
  readonly listed?: Entry
}

/** The recorded facts of a copy. */
type Copied = Pick<CopiedState, 'distinct' | 'copy'>

/** A folder whose members are being copied. */
interface Folder {
  readonly from: Path
  readonly to: Path
  readonly entry: Entry
  readonly isTop: boolean
  /** Whether this run created the target folder, so that it was empty. */
  readonly isNew: boolean
  /** A member was rejected because its name is equal to that of another member in the target. */
  readonly hasConflict: boolean
  /** Names that only the old target has in this folder, if it is replaced. */
  readonly extraneous: readonly string[]
}

class TreeCopy implements TreeVisitor<Member | Bundle, Folder> {
  /** Whether a folder that existed at the target is replaced item by item. */
  entersOld = false
  /** Identities of the folders that contain the target. */
  #targetAncestors: Promise<readonly FileIdentity[]> | undefined
  #remainders: ReturnType<Intents['remaindersOn']> | undefined

  constructor(private readonly job: CopyJob) {}

  async visit(
    member: Member | Bundle,
    parent: Folder | undefined,
  ): Promise<boolean | EnteredFolder<Member | Bundle, Folder>> {
    return 'files' in member ? this.#bundle(member, parent) : this.#visitOne(member, parent)
  }

  /**
   * Visits one member, as `#visit` does. A move leaves out a member that another client has removed since it was
   * listed.
   */
  async #visitOne(
    member: Member,
    parent: Folder | undefined,
  ): Promise<boolean | EnteredFolder<Member | Bundle, Folder>> {
    try {
      return await this.#visit(member, parent)
    } catch (error) {
      if (this.job.transfer.kind === 'copy' || !(await hasVanished(this.job, member.from, error))) throw error
      this.job.advance(member.listed?.size ?? 0)
      return true
    }
  }

  async #visit(member: Member, parent: Folder | undefined): Promise<boolean | EnteredFolder<Member | Bundle, Folder>> {
    const { from } = member
    const to = targetOf(this.job, from)
    if (parent?.isNew !== true) await this.job.assertTargetSeen(to)
    const entry = await this.#entry(member)
    if (isRealFolder(entry)) return this.#enterFolder(from, to, entry, parent)
    const written = await this.#file(member, to, entry, parent?.isNew === true)
    if (written) await this.#record(from, entry, written)
    return written !== undefined
  }

  /**
   * The listed entry of a file with a revision, by which later changes are detected; otherwise the result of a new
   * `stat`, which does not follow symlinks.
   */
  async #entry({ from, listed }: Member): Promise<Entry> {
    if (listed?.kind === 'file' && listed.revision !== undefined && !isSymlink(listed)) return listed
    return this.job.transfer.from.storage.stat(from, { signal: this.job.transfer.signal, ofSymlink: true })
  }

  async failed(member: Member | Bundle, error: unknown): Promise<void> {
    if (this.job.transfer.signal.aborted || 'files' in member) throw error
    const { from } = member
    const path = this.job.transfer.to.storage.treePath(targetOf(this.job, from))
    await this.job.failed({ path, from: this.#source(from), error: toGatewayError(error) })
  }

  #sameness(from: Path, to: Path): Promise<Sameness> {
    const { from: source, to: target, signal } = this.job.transfer
    return sameness({ storage: source.storage, inner: from }, { storage: target.storage, inner: to }, signal)
  }

  #source(from: Path): Path {
    return this.job.transfer.from.storage.treePath(from)
  }

  async #record(from: Path, entry: Entry, { distinct, copy }: Copied): Promise<void> {
    await this.job.transfer.journal.record(this.#source(from), {
      source: contentVersion(entry),
      size: entry.size,
      distinct,
      copy,
    })
  }

  // Folders

  async #enterFolder(
    from: Path,
    to: Path,
    entry: Entry,
    parent: Folder | undefined,
  ): Promise<EnteredFolder<Member | Bundle, Folder>> {
    const { deep, journal } = this.job.transfer
    await this.#assertNotTargetAncestor(from)
    const { names, hasConflict } = deep
      ? await this.#memberNames(from, to)
      : { names: new Map<string, Entry>(), hasConflict: false }
    const earlier = journal.resumes ? await journal.itemsIn(this.#source(from)) : undefined
    const isNew = await this.#createFolder(from, to, earlier)
    if (!isNew && !this.job.transfer.merge) this.entersOld = true
    const folder: Folder = {
      from,
      to,
      entry,
      hasConflict,
      isNew,
      isTop: parent === undefined,
      extraneous: isNew ? [] : await this.#extraneousNames(from, to, names, earlier),
    }
    // Entries that other writers add to a new folder are never replaced by bundles. In a merge each name is checked.
    const bundles = isNew && !this.job.transfer.merge ? createBundles(this.job, from, names.values()) : []
    const members = [...bundles, ...membersOf(from, names, earlier, bundles)]
    return { folder, members, count: members.length }
  }

  /** Rejects if this folder contains the target, by any path: the copy would never end. */
  async #assertNotTargetAncestor(from: Path): Promise<void> {
    const { from: source, to, signal } = this.job.transfer
    this.#targetAncestors ??= identitiesUpward({ storage: to.storage, inner: parentOf(to.inner) }, signal)
    if (await matchesAny({ storage: source.storage, inner: from }, await this.#targetAncestors, signal)) {
      throw new GatewayError('invalid', { reason: 'the target is inside this folder' })
    }
    if (nameOf(from) !== nameOf(to.inner) || from === source.inner) return
    if ((await sameness({ storage: source.storage, inner: from }, to, signal)) === 'distinct') return
    if (await this.#containsMarker(from)) throw sameFileError()
  }

  /**
   * Used if identities are inconclusive: creates a marker file in the target for a moment and checks whether it appears
   * in this folder. Its name is an ordinary one, because servers hide or reject reserved names. If the target rejects
   * the file, the result is false, and the copy itself reports the error.
   */
  async #containsMarker(from: Path): Promise<boolean> {
    const { from: source, to, signal } = this.job.transfer
    const name = `tidegate-marker-${randomUUID()}`
    const marker = childOf(to.inner, name)
    const nothing = byteSource(Buffer.alloc(0))
    const written = await to.storage.write(marker, nothing, { signal }).then(
      () => true,
      () => false,
    )
    try {
      if (signal.aborted) throw new GatewayError('aborted')
      return (
        written &&
        (await source.storage.statOrUndefined(childOf(from, name), { signal, ofSymlink: true })) !== undefined
      )
    } finally {
      // Also after a failed write, which may have created some of several replicas.
      await to.storage.remove(marker).catch(() => undefined)
    }
  }

  /**
   * Names that the old target folder has and the source does not. Listed once and recorded: in a later run, members
   * that were already moved are no longer in the source, and other users may have added entries to the target. Neither
   * is extraneous.
   */
  async #extraneousNames(
    from: Path,
    to: Path,
    names: ReadonlyMap<string, Entry>,
    earlier: RecordedMembers | undefined,
  ): Promise<readonly string[]> {
    const { merge, overwrite, journal, signal } = this.job.transfer
    const { storage } = this.job.transfer.to
    if (merge || !overwrite) return []
    const source = this.#source(from)
    const absentInSource = (all: readonly string[]) => all.filter((name) => !names.has(comparisonKey(storage, name)))
    // Recorded members imply that the names were listed, even if an older version of the program did not record
    // `begun`.
    const isRecorded = async (known: RecordedMembers) =>
      known.extraneous.length > 0 || known.copied.size > 0 || (await journal.hasBegun(source))
    if (earlier && (await isRecorded(earlier))) return absentInSource(earlier.extraneous)
    this.#remainders ??= this.job.dependencies.intents.remaindersOn(this.job.transfer.from.storage)
    if ((await this.#remainders)(from, storage.treePath(to))) return []
    const extraneous: string[] = []
    for await (const page of storage.pages(to, { signal }))
      extraneous.push(...absentInSource(page.map(({ name }) => name)))
    await journal.recordExtraneous(source, extraneous)
    return extraneous
  }

  /** Called after all members were attempted. */
  async finish(
    { from, to, entry, isTop, isNew, hasConflict, extraneous }: Folder,
    allMembersDone: boolean,
  ): Promise<boolean> {
    const done = allMembersDone && !hasConflict
    // Extraneous entries are removed last, and only if everything is copied.
    if (done) for (const name of extraneous) await this.#removeExtraneous(childOf(to, name))
    const isSettable = entry.modified.getTime() > 0 && (isNew || (await this.job.mayChange(to)))
    if (isSettable) await this.#setAttributes(from, to, entry)
    // The record of the top folder states that the whole tree is complete.
    if (!isTop || done) await this.#record(from, entry, { distinct: isNew })
    return done
  }

  /** Sets time and mode of a copied folder. The copy is complete without them: an error is reported only. */
  async #setAttributes(from: Path, to: Path, { modified, mode }: Entry): Promise<void> {
    const { to: target, signal } = this.job.transfer
    try {
      await target.storage.setAttributes(to, { modified, mode }, { signal })
    } catch (error) {
      if (signal.aborted) throw error
      this.job.attributesLost(this.#source(from), toGatewayError(error))
    }
  }

  async #removeExtraneous(at: Path): Promise<void> {
    const { to, signal } = this.job.transfer
    const old = await to.storage.statOrUndefined(at, { signal, ofSymlink: true })
    if (!old) return
    await withRemovalCheck(this.job, 'extraneous', at, isRealFolder(old), (until) =>
      to.storage.removeTree(at, { signal: until }),
    )
  }

  /** Members to be copied, by name. If the target treats two names as equal, the second member fails. */
  async #memberNames(from: Path, to: Path): Promise<{ names: ReadonlyMap<string, Entry>; hasConflict: boolean }> {
    const [source, target] = [this.job.transfer.from.storage, this.job.transfer.to.storage]
    const names = new Map<string, Entry>()
    let hasConflict = false
    for await (const page of source.pages(from, { signal: this.job.transfer.signal })) {
      for (const entry of page) {
        const { name } = entry
        const path = this.#source(childOf(from, name))
        if (name.startsWith(reservedPrefix) || this.job.excludes(path)) continue
        const key = comparisonKey(target, name)
        if (names.has(key)) {
          const reason = 'the target treats this name and another one as equal'
          const error = new GatewayError('exists', { reason })
          await this.job.failed({ path: target.treePath(childOf(to, name)), from: path, error })
          hasConflict = true
        } else {
          names.set(key, entry)
        }
      }
    }
    const skipped = source.skippedNames(from)
    if (skipped) this.job.namesSkipped(this.#source(from), skipped)
    return { names, hasConflict }
  }

  /** Creates the target folder. Resolves to false if it already exists. */
  async #createFolder(from: Path, to: Path, earlier: RecordedMembers | undefined): Promise<boolean> {
    const { job } = this
    const { storage } = job.transfer.to
    const old = await storage.statOrUndefined(to, { signal: job.transfer.signal, ofSymlink: true })
    if (old && isRealFolder(old)) {
      await this.#assertReusable(from, to)
      return false
    }
    if (old && !job.transfer.overwrite) throw new GatewayError('exists')
    // After a kill, the record of the target shows that what is left of the source is a remainder of this move.
    const isRecorded =
      to === job.transfer.to.inner && job.transfer.kind === 'move' && storage === job.transfer.from.storage
    const mkdir = (signal: AbortSignal | undefined) => {
      const make = () => storage.mkdir(to, { signal })
      return isRecorded ? job.dependencies.intents.makeTarget(job.transfer.from, job.transfer.to, make) : make()
    }
    const create = () => withBackup(job, to, old, () => withPublishCheck(job, to, mkdir))
    await (job.transfer.merge ? create() : this.#createRecorded(from, earlier?.extraneous ?? [], create))
    return true
  }

  /** Rejects if an existing target folder may not be entered. */
  async #assertReusable(from: Path, to: Path): Promise<void> {
    const { merge, overwrite, continues, journal } = this.job.transfer
    const isOwn = async () => journal.resumes && (await journal.hasBegun(this.#source(from)))
    if (!overwrite && !merge && !continues && !(await isOwn())) throw new GatewayError('exists')
    if ((await this.#sameness(from, to)) === 'same') throw sameFileError()
  }

  /**
   * Records the folder in the journal before it is created. From the record, a later run knows that this folder is its
   * own and contains no entries of an old target. `extraneous`: names recorded for an old target that no longer exists.
   */
  async #createRecorded(from: Path, extraneous: readonly string[], create: () => Promise<void>): Promise<void> {
    const { journal } = this.job.transfer
    for (const name of extraneous) await journal.forget(this.#source(childOf(from, name)))
    await journal.begin(this.#source(from))
    try {
      await create()
    } catch (error) {
      if (isGatewayError(error, 'exists')) await journal.forget(this.#source(from))
      throw error
    }
  }

  // Files and symlinks

  /** Files that the bundle did not copy are copied one by one, which succeeds or reports the error. */
  async #bundle({ folder, files }: Bundle, parent: Folder | undefined): Promise<boolean> {
    const { job } = this
    const copy = () => copyBundle(job, { folder, files }, targetOf(job, folder))
    const copies = await job.dependencies.transferSlots
      .run(job.transfer.holder, copy, job.transfer.signal)
      .catch((error: unknown) => {
        if (job.transfer.signal.aborted) throw error
        return undefined
      })
    const done = files.map(async (listed, index) => {
      const from = childOf(folder, listed.name)
      const copied = copies?.[index]
      if (!copied) return this.#visitAlone({ from, listed, known: undefined }, parent)
      job.advance(listed.size)
      await this.#record(from, listed, { distinct: true, copy: contentVersion(copied) })
      return true
    })
    // Waits for all of them, so that no work continues after this call has settled.
    const results = await Promise.allSettled(done)
    return results.every((each) => {
      if (each.status === 'rejected') throw each.reason
      return each.value
    })
  }

  async #visitAlone(member: Member, parent: Folder | undefined): Promise<boolean> {
    try {
      return (await this.#visitOne(member, parent)) === true
    } catch (error) {
      await this.failed(member, error)
      return false
    }
  }

  /**
   * Copies a file or a symlink. Resolves to undefined if a merge leaves an existing target unchanged; a move then does
   * not remove the source.
   */
  async #file({ from, known }: Member, to: Path, entry: Entry, isNew: boolean): Promise<Copied | undefined> {
    const { job } = this
    // A file that another writer creates after this check is rejected or replaced by the write itself.
    const lookup = () => job.transfer.to.storage.statOrUndefined(to, { signal: job.transfer.signal, ofSymlink: true })
    const old = isNew && !job.transfer.merge ? undefined : await lookup()
    const earlier = old && (await this.#findEarlierCopy(from, entry, old, known))
    if (earlier) {
      job.advance(entry.size)
      return earlier
    }
    if (job.transfer.merge && old) {
      job.advance(entry.size)
      return undefined
    }
    const distinct = await this.#isDistinct(from, entry, to, old)
    const copy = () => (isSymlink(entry) ? copySymlink(job, from, to, old) : writeFile(job, from, to, entry, old))
    const written = await job.dependencies.transferSlots.run(job.transfer.holder, copy, job.transfer.signal)
    return { distinct, copy: written && contentVersion(written) }
  }

  /**
   * Whether the entry to be replaced is certainly a different file than the source. Rejects if it is the source itself.
   */
  async #isDistinct(from: Path, entry: Entry, to: Path, old: Entry | undefined): Promise<boolean> {
    // Only the name of a symlink is replaced; its target is unaffected.
    if (!old || old.kind === 'folder' || isSymlink(entry)) return true
    const found = await this.#sameness(from, to)
    if (found === 'same') throw sameFileError()
    return found === 'distinct' || old.size !== entry.size
  }

  /**
   * The copy that an earlier run made, if it still exists. If it is not in the journal, because that run ended before
   * it was recorded, the content is compared.
   */
  async #findEarlierCopy(
    from: Path,
    entry: Entry,
    old: Entry,
    known: CopiedState | undefined,
  ): Promise<Copied | undefined> {
    const { job } = this
    if (!(job.transfer.journal.resumes || job.transfer.continues) || isRealFolder(old)) return undefined
    const isUnusable = known ? known.source !== contentVersion(entry) : job.transfer.overwrite || job.transfer.merge
    return isUnusable ? undefined : verifiedCopy(job, from, entry, old, known)
  }
}

/** Members that are in no bundle. */
function* membersOf(
  folder: Path,
  names: ReadonlyMap<string, Entry>,
  earlier: RecordedMembers | undefined,
  bundles: readonly Bundle[],
): Generator<Member> {
  const bundled = new Set(bundles.flatMap(({ files }) => files))
  for (const listed of names.values()) {
    if (bundled.has(listed)) continue
    yield { from: childOf(folder, listed.name), listed, known: earlier?.copied.get(listed.name) }
  }
}

/** Equal for names that the storage treats as equal. */
function comparisonKey({ traits }: Storage, name: string): string {
  return traits.caseSensitive ? name : foldCase(name)
}
