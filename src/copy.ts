/**
 * Copies and moves of trees, within a storage that cannot do them itself and between storages: the one place for all doors and
 * tasks. Every file is verified; a move removes a source only after that, last, and only if it is still the one that was read
 * (see source-removal.ts).
 */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { stateOf, TreeError, type Failure } from './change.js'
import { bundlesOf, copyBundle, type Bundle } from './copy-bundle.js'
import { targetOf, type CopiedState, type CopyJob, type KnownMembers } from './copy-job.js'
import { copyLink, inPlaceOf, isFolder, isLink, published, removing, writeFile } from './copy-member.js'
import { provenCopy } from './copy-proof.js'
import type { Entry, Identity, Source } from './driver.js'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import { identitiesUpward, isAmong, oneAndTheSame, sameness, type Sameness } from './identity.js'
import { childOf, folded, nameOf, parentOf, reservedPrefix, type Path } from './path.js'
import { existing, removeAll } from './removing.js'
import { SourceRemoval } from './source-removal.js'
import type { Storage } from './storage.js'
import { TreeWalk, type Opened, type Visits } from './tree-walk.js'

/** Copies what stands at `from`. Rejects with TreeError for what could not be copied; the rest is there, as the journal tells. */
export async function copyTree(job: CopyJob): Promise<void> {
  const failures: Failure[] = []
  await copyInto(job, failures)
  throwFailures(failures)
}

/** Copies, then removes what was copied. What failed, or changed meanwhile, stays where it was. */
export async function moveTree(job: CopyJob): Promise<void> {
  const failures: Failure[] = []
  await copyInto({ ...job, deep: true }, failures)
  // Of a source that is gone, only the journal could tell that it was moved.
  await job.journal.settled()
  const isGone = await new TreeWalk(new SourceRemoval(job, failures)).run({ from: job.from.inner })
  if (!isGone && failures.length === 0) {
    const path = job.from.storage.treePath(job.from.inner)
    failures.push({ path, from: path, error: new GatewayError('not_empty') })
  }
  throwFailures(failures)
}

async function copyInto(job: CopyJob, failures: Failure[]): Promise<void> {
  const { from, journal } = job
  const known = journal.resumes ? await journal.copied(from.storage.treePath(from.inner)) : undefined
  await new TreeWalk(new TreeCopy(job, failures)).run({ from: from.inner, known })
}

function throwFailures(failures: readonly Failure[]): void {
  const [first, ...others] = failures
  if (first) throw new TreeError([first, ...others])
}

/** Something of the source that is to be copied. */
interface Member {
  readonly from: Path
  /** What an earlier run did of it. */
  readonly known: CopiedState | undefined
  readonly listed?: Entry
}

/** What is told of a copy. */
type Copied = Pick<CopiedState, 'apart' | 'copy'>

/** A folder whose members are being copied. */
interface Folder {
  readonly from: Path
  readonly to: Path
  readonly entry: Entry
  readonly isTop: boolean
  /** Nothing was in the target folder when this run made it. */
  readonly fresh: boolean
  /** Of two members that the target takes for the same, one failed. */
  readonly clash: boolean
  /** What only the old target held, where it is replaced. */
  readonly surplus: readonly string[]
}

class TreeCopy implements Visits<Member | Bundle, Folder> {
  /** Folders that the target lies in. */
  #above: Promise<readonly Identity[]> | undefined

  constructor(
    private readonly job: CopyJob,
    private readonly failures: Failure[],
  ) {}

  async visit(member: Member | Bundle, above: Folder | undefined): Promise<boolean | Opened<Member | Bundle, Folder>> {
    return 'files' in member ? this.#bundle(member, above) : this.#visit(member, above)
  }

  async #visit(member: Member, above: Folder | undefined): Promise<boolean | Opened<Member | Bundle, Folder>> {
    const { from } = member
    const to = targetOf(this.job, from)
    const entry = await this.#entry(member)
    if (isFolder(entry)) return this.#open(from, to, entry, above)
    const written = await this.#file(member, to, entry, above?.fresh === true)
    if (written) await this.#keep(from, entry, written)
    return written !== undefined
  }

  /** As it was listed, where that tells whether it is still the same; a link itself, never its target. */
  async #entry({ from, listed }: Member): Promise<Entry> {
    if (listed?.kind === 'file' && listed.revision !== undefined && !isLink(listed)) return listed
    return this.job.from.storage.stat(from, { signal: this.job.signal, link: true })
  }

  failed(member: Member | Bundle, error: unknown): void {
    if (this.job.signal.aborted || 'files' in member) throw error
    const { from } = member
    const path = this.job.to.storage.treePath(targetOf(this.job, from))
    this.failures.push({ path, from: this.#source(from), error: toGatewayError(error) })
  }

  #sameness(from: Path, to: Path): Promise<Sameness> {
    const { from: source, to: target, signal } = this.job
    return sameness({ storage: source.storage, inner: from }, { storage: target.storage, inner: to }, signal)
  }

  #source(from: Path): Path {
    return this.job.from.storage.treePath(from)
  }

  async #keep(from: Path, entry: Entry, { apart, copy }: Copied): Promise<void> {
    await this.job.journal.keep(this.#source(from), { source: stateOf(entry), size: entry.size, apart, copy })
  }

  // Folders

  async #open(from: Path, to: Path, entry: Entry, above: Folder | undefined): Promise<Opened<Member | Bundle, Folder>> {
    const { deep, journal } = this.job
    await this.#assertHoldsNoTarget(from)
    const { names, clash } = deep
      ? await this.#memberNames(from, to)
      : { names: new Map<string, Entry>(), clash: false }
    const earlier = journal.resumes ? await journal.itemsIn(this.#source(from)) : undefined
    const fresh = await this.#makeFolder(from, to, earlier)
    const folder: Folder = {
      ...{ from, to, entry, clash, fresh },
      isTop: above === undefined,
      surplus: fresh ? [] : await this.#surplus(from, to, names, earlier),
    }
    // What others put into it meanwhile is left alone; where folders are merged, each name is looked at.
    const bundles = fresh && !this.job.merge ? bundlesOf(this.job, from, names.values()) : []
    const members = [...bundles, ...membersOf(from, names, earlier, bundles)]
    return { folder, members, count: members.length }
  }

  /** By other paths than those that were asked for, the target may lie in what is copied: there would be no end to it. */
  async #assertHoldsNoTarget(from: Path): Promise<void> {
    const { from: source, to, signal } = this.job
    this.#above ??= identitiesUpward({ storage: to.storage, inner: parentOf(to.inner) }, signal)
    if (await isAmong({ storage: source.storage, inner: from }, await this.#above, signal)) {
      throw new GatewayError('invalid', { reason: 'the target lies in this folder' })
    }
    if (nameOf(from) !== nameOf(to.inner) || from === source.inner) return
    if ((await sameness({ storage: source.storage, inner: from }, to, signal)) === 'apart') return
    if (await this.#showsTarget(from)) throw oneAndTheSame()
  }

  /**
   * Where nobody can tell: whether what is put into the target for a moment is seen in this folder. Its name is an ordinary one, because
   * servers hide and refuse others. A target that takes no such file cannot be asked; the copy itself will tell why.
   */
  async #showsTarget(from: Path): Promise<boolean> {
    const { from: source, to, signal } = this.job
    const name = `tidegate-witness-${randomUUID()}`
    const witness = childOf(to.inner, name)
    const nothing: Source = { size: 0, rereadable: true, read: async () => Readable.from([]) }
    const written = await to.storage.write(witness, nothing, { signal }).then(
      () => true,
      () => false,
    )
    try {
      if (signal.aborted) throw new GatewayError('aborted')
      return written && (await existing(source.storage, childOf(from, name), signal)) !== undefined
    } finally {
      // Also what was refused: of several copies of one file, some may stand.
      await to.storage.remove(witness).catch(() => undefined)
    }
  }

  /**
   * Names in a target folder that is replaced and of which the source has nothing. They are asked once: what an earlier run moved
   * is not in the source any more, nor is what others have put there since, and neither must be taken for one of them.
   */
  async #surplus(
    from: Path,
    to: Path,
    names: ReadonlyMap<string, Entry>,
    earlier: KnownMembers | undefined,
  ): Promise<readonly string[]> {
    const { merge, overwrite, journal, signal } = this.job
    const { storage } = this.job.to
    if (merge || !overwrite) return []
    const source = this.#source(from)
    const others = (all: readonly string[]) => all.filter((name) => !names.has(asTold(storage, name)))
    // Where members are known, the names were asked, also by a program that did not say so of the folder.
    const isAsked = async ({ surplus, copied }: KnownMembers) =>
      surplus.length > 0 || copied.size > 0 || (await journal.hasBegun(source))
    if (earlier && (await isAsked(earlier))) return others(earlier.surplus)
    const surplus: string[] = []
    for await (const page of storage.pages(to, { signal })) surplus.push(...others(page.map(({ name }) => name)))
    await journal.keepSurplus(source, surplus)
    return surplus
  }

  /** Everything in it has been tried. */
  async finish({ from, to, entry, isTop, fresh, clash, surplus }: Folder, allDone: boolean): Promise<boolean> {
    const { to: target, signal } = this.job
    const { storage } = target
    const done = allDone && !clash
    // What the old target held beyond the copy goes last, and only if everything of the copy is there.
    if (done) for (const name of surplus) await this.#removeOld(childOf(to, name))
    if (entry.modified.getTime() > 0) {
      await storage.setAttributes(to, { modified: entry.modified, mode: entry.mode }, { signal }).catch(() => undefined)
    }
    // That of the whole tree says that nothing of it is left to be done.
    if (!isTop || done) await this.#keep(from, entry, { apart: fresh })
    return done
  }

  async #removeOld(at: Path): Promise<void> {
    const { to, signal } = this.job
    const old = await existing(to.storage, at, signal)
    if (!old) return
    await removing(this.job, 'surplus', at, old, () => removeAll(to.storage, at, signal))
  }

  /** Members of a folder of the source that go along; of two that the target takes for the same, one fails. */
  async #memberNames(from: Path, to: Path): Promise<{ names: ReadonlyMap<string, Entry>; clash: boolean }> {
    const [source, target] = [this.job.from.storage, this.job.to.storage]
    const names = new Map<string, Entry>()
    let clash = false
    for await (const page of source.pages(from, { signal: this.job.signal })) {
      for (const entry of page) {
        const { name } = entry
        const path = this.#source(childOf(from, name))
        if (name.startsWith(reservedPrefix) || this.job.leaveOut(path)) continue
        const key = asTold(target, name)
        if (names.has(key)) {
          const reason = 'the target takes it and another one for the same'
          const error = new GatewayError('exists', { reason })
          this.failures.push({ path: target.treePath(childOf(to, name)), from: path, error })
          clash = true
        } else {
          names.set(key, entry)
        }
      }
    }
    const leftOut = source.leftOut(from)
    if (leftOut) this.job.leftOut(this.#source(from), leftOut)
    return { names, clash }
  }

  /** Makes the target folder; false where one is there. */
  async #makeFolder(from: Path, to: Path, earlier: KnownMembers | undefined): Promise<boolean> {
    const { job } = this
    const { storage } = job.to
    const old = await existing(storage, to, job.signal)
    if (old?.kind === 'folder' && old.isLink !== true) {
      await this.#assertMayEnter(from, to)
      return false
    }
    if (old && !job.overwrite) throw new GatewayError('exists')
    const mkdir = () => published(job, to, () => storage.mkdir(to, { signal: job.signal }))
    const make = () => inPlaceOf(job, to, old, mkdir)
    await (job.merge ? make() : this.#makeOwn(from, earlier?.surplus ?? [], make))
    return true
  }

  /** A folder of the target that is there already. */
  async #assertMayEnter(from: Path, to: Path): Promise<void> {
    const { merge, overwrite, journal } = this.job
    const isOurs = async () => journal.resumes && (await journal.hasBegun(this.#source(from)))
    if (!overwrite && !merge && !(await isOurs())) throw new GatewayError('exists')
    if ((await this.#sameness(from, to)) === 'same') throw oneAndTheSame()
  }

  /**
   * The journal says so first: the next run knows by it that this folder is nobody else's, and that nothing in it is of an old
   * target. `surplus`: what was to go of one that is gone.
   */
  async #makeOwn(from: Path, surplus: readonly string[], make: () => Promise<void>): Promise<void> {
    const { journal } = this.job
    for (const name of surplus) await journal.takeBack(this.#source(childOf(from, name)))
    await journal.begin(this.#source(from))
    try {
      await make()
    } catch (error) {
      if (isGatewayError(error, 'exists')) await journal.takeBack(this.#source(from))
      throw error
    }
  }

  // Files and links

  /** Those with which nothing was done are copied one by one: that tells why, or succeeds. */
  async #bundle({ folder, files }: Bundle, above: Folder | undefined): Promise<boolean> {
    const { job } = this
    const copy = () => copyBundle(job, { folder, files }, targetOf(job, folder))
    const copies = await job.turns.run(copy, job.signal).catch((error: unknown) => {
      if (job.signal.aborted) throw error
      return undefined
    })
    const done = files.map(async (listed, index) => {
      const from = childOf(folder, listed.name)
      const copied = copies?.[index]
      if (!copied) return this.#byItself({ from, listed, known: undefined }, above)
      job.advance(listed.size)
      await this.#keep(from, listed, { apart: true, copy: stateOf(copied) })
      return true
    })
    // All of them are waited for: nothing of this goes on behind the caller's back.
    const ended = await Promise.allSettled(done)
    return ended.every((each) => {
      if (each.status === 'rejected') throw each.reason
      return each.value
    })
  }

  async #byItself(member: Member, above: Folder | undefined): Promise<boolean> {
    try {
      return (await this.#visit(member, above)) === true
    } catch (error) {
      this.failed(member, error)
      return false
    }
  }

  /** Copies a file or a link. Undefined: what stands at the target is left alone, and so is the source. */
  async #file({ from, known }: Member, to: Path, entry: Entry, fresh: boolean): Promise<Copied | undefined> {
    const { job } = this
    // A file that somebody puts there meanwhile is refused, or replaced, by the writing itself.
    const old = fresh && !job.merge ? undefined : await existing(job.to.storage, to, job.signal)
    const earlier = old && (await this.#earlierCopy(from, entry, old, known))
    if (earlier) {
      job.advance(entry.size)
      return earlier
    }
    if (job.merge && old) {
      job.advance(entry.size)
      return undefined
    }
    const apart = await this.#isApart(from, entry, to, old)
    const copy = () => (isLink(entry) ? copyLink(job, from, to, old) : writeFile(job, from, to, entry, old))
    const written = await job.turns.run(copy, job.signal)
    return { apart, copy: written && stateOf(written) }
  }

  /** Whether what is to be replaced is another thing than the source for sure. Rejects where it is the source itself. */
  async #isApart(from: Path, entry: Entry, to: Path, old: Entry | undefined): Promise<boolean> {
    // A link goes by its name alone, and what it leads to stays.
    if (!old || old.kind === 'folder' || isLink(entry)) return true
    const found = await this.#sameness(from, to)
    if (found === 'same') throw oneAndTheSame()
    return found === 'apart' || old.size !== entry.size
  }

  /** What an earlier run copied and is there still: the journal knows, or it stopped between the two and the content tells. */
  async #earlierCopy(
    from: Path,
    entry: Entry,
    old: Entry,
    known: CopiedState | undefined,
  ): Promise<Copied | undefined> {
    const { job } = this
    if (!job.journal.resumes || isFolder(old)) return undefined
    const isLost = known ? known.source !== stateOf(entry) : job.overwrite || job.merge
    return isLost ? undefined : provenCopy(job, from, entry, old, known)
  }
}

/** Those that are in no bundle. */
function* membersOf(
  folder: Path,
  names: ReadonlyMap<string, Entry>,
  earlier: KnownMembers | undefined,
  bundles: readonly Bundle[],
): Generator<Member> {
  const bundled = new Set(bundles.flatMap(({ files }) => files))
  for (const listed of names.values()) {
    if (bundled.has(listed)) continue
    yield { from: childOf(folder, listed.name), listed, known: earlier?.copied.get(listed.name) }
  }
}

/** A name as the storage tells it from others. */
function asTold({ traits }: Storage, name: string): string {
  return traits.caseSensitive ? name : folded(name)
}
