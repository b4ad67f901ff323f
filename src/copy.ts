/**
 * Copies and moves of trees, within a storage that cannot do them itself and between storages: the one place for all doors and
 * tasks. Every file is verified; a move removes a source only after that, last, and only if it is still the one that was read
 * (see source-removal.ts).
 */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { stateOf, TreeError, type Failure } from './change.js'
import { targetOf, type CopiedState, type CopyJob, type KnownMembers } from './copy-job.js'
import { copyLink, inPlaceOf, isFolder, isLink, isSame, published, removing, writeFile } from './copy-member.js'
import type { Entry, Identity, Source } from './driver.js'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import { identitiesUpward, isAmong, oneAndTheSame, sameness, type Sameness } from './identity.js'
import { childOf, folded, nameOf, parentOf, reservedPrefix, type Path } from './path.js'
import { existing, removeAll } from './removing.js'
import { isSameContent } from './same-content.js'
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

class TreeCopy implements Visits<Member, Folder> {
  /** Folders that the target lies in. */
  #above: Promise<readonly Identity[]> | undefined

  constructor(
    private readonly job: CopyJob,
    private readonly failures: Failure[],
  ) {}

  async visit(member: Member, above: Folder | undefined): Promise<boolean | Opened<Member, Folder>> {
    const { from } = member
    const to = targetOf(this.job, from)
    const entry = await this.#entry(member)
    if (isFolder(entry)) return this.#open(from, to, entry, above)
    const written = await this.#file(member, to, entry, above?.fresh === true)
    if (written) await this.#keep(from, entry, written.apart)
    return written !== undefined
  }

  /** As it was listed, where that tells whether it is still the same; a link itself, never its target. */
  async #entry({ from, listed }: Member): Promise<Entry> {
    if (listed?.kind === 'file' && listed.revision !== undefined && !isLink(listed)) return listed
    return this.job.from.storage.stat(from, { signal: this.job.signal, link: true })
  }

  failed({ from }: Member, error: unknown): void {
    if (this.job.signal.aborted) throw error
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

  async #keep(from: Path, entry: Entry, apart: boolean): Promise<void> {
    await this.job.journal.keep(this.#source(from), { source: stateOf(entry), size: entry.size, apart })
  }

  // Folders

  async #open(from: Path, to: Path, entry: Entry, above: Folder | undefined): Promise<Opened<Member, Folder>> {
    const { deep, journal } = this.job
    await this.#assertHoldsNoTarget(from)
    const { names, clash } = deep
      ? await this.#memberNames(from, to)
      : { names: new Map<string, Entry>(), clash: false }
    const old = await this.#makeFolder(from, to)
    const earlier = journal.resumes ? await journal.itemsIn(this.#source(from)) : undefined
    const folder: Folder = {
      ...{ from, to, entry, clash },
      isTop: above === undefined,
      fresh: old === undefined,
      surplus: await this.#surplus(from, old ?? [], names, earlier),
    }
    return { folder, members: membersOf(from, names, earlier), count: names.size }
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
   * Names in a target folder that is replaced and of which the source has nothing. An earlier run has said which they are: what
   * it moved is not in the source any more, and must not be taken for one of them.
   */
  async #surplus(
    from: Path,
    old: readonly string[],
    names: ReadonlyMap<string, Entry>,
    earlier: KnownMembers | undefined,
  ): Promise<readonly string[]> {
    const { journal, to } = this.job
    const others = (all: readonly string[]) => all.filter((name) => !names.has(asTold(to.storage, name)))
    if (earlier && (earlier.surplus.length > 0 || earlier.copied.size > 0)) return others(earlier.surplus)
    const surplus = others(old)
    if (surplus.length > 0) await journal.keepSurplus(this.#source(from), surplus)
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
    if (!isTop || done) await this.#keep(from, entry, fresh)
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
    return { names, clash }
  }

  /** Makes the target folder; where one is there, resolves to the names in it that are to be replaced. */
  async #makeFolder(from: Path, to: Path): Promise<readonly string[] | undefined> {
    const { job } = this
    const { storage } = job.to
    const old = await existing(storage, to, job.signal)
    if (old?.kind === 'folder' && old.isLink !== true) {
      await this.#assertMayEnter(from, to)
      if (job.merge || !job.overwrite) return []
      const names: string[] = []
      for await (const page of storage.pages(to, { signal: job.signal })) names.push(...page.map((entry) => entry.name))
      return names
    }
    const make = () => published(job, to, () => storage.mkdir(to, { signal: job.signal }))
    if (job.overwrite || job.merge) await inPlaceOf(job, to, old, make)
    else if (old) throw new GatewayError('exists')
    else await this.#makeOwn(from, make)
    return undefined
  }

  /** A folder of the target that is there already. */
  async #assertMayEnter(from: Path, to: Path): Promise<void> {
    const { merge, overwrite, journal } = this.job
    const isOurs = async () => journal.resumes && (await journal.hasBegun(this.#source(from)))
    if (!overwrite && !merge && !(await isOurs())) throw new GatewayError('exists')
    if ((await this.#sameness(from, to)) === 'same') throw oneAndTheSame()
  }

  /** The journal says so first: the next run knows by it that this folder is nobody else's. */
  async #makeOwn(from: Path, make: () => Promise<void>): Promise<void> {
    const { journal } = this.job
    await journal.begin(this.#source(from))
    try {
      await make()
    } catch (error) {
      if (isGatewayError(error, 'exists')) await journal.takeBack(this.#source(from))
      throw error
    }
  }

  // Files and links

  /** Copies a file or a link. Undefined: what stands at the target is left alone, and so is the source. */
  async #file(
    { from, known }: Member,
    to: Path,
    entry: Entry,
    fresh: boolean,
  ): Promise<Pick<CopiedState, 'apart'> | undefined> {
    const { job } = this
    // A file that somebody puts there meanwhile is refused, or replaced, by the writing itself.
    const old = fresh && !job.merge ? undefined : await existing(job.to.storage, to, job.signal)
    if (old && (await this.#isCopied(from, entry, to, old, known))) {
      job.advance(entry.size)
      return { apart: known?.apart === true }
    }
    if (job.merge && old) {
      job.advance(entry.size)
      return undefined
    }
    const apart = await this.#isApart(from, entry, to, old)
    const copy = () => (isLink(entry) ? copyLink(job, from, to, old) : writeFile(job, from, to, entry, old))
    await job.turns.run(copy, job.signal)
    return { apart }
  }

  /** Whether what is to be replaced is another thing than the source for sure. Rejects where it is the source itself. */
  async #isApart(from: Path, entry: Entry, to: Path, old: Entry | undefined): Promise<boolean> {
    // A link goes by its name alone, and what it leads to stays.
    if (!old || old.kind === 'folder' || isLink(entry)) return true
    const found = await this.#sameness(from, to)
    if (found === 'same') throw oneAndTheSame()
    return found === 'apart' || old.size !== entry.size
  }

  /** Whether an earlier run copied it: the journal knows, or it stopped between the two and the content tells. */
  async #isCopied(from: Path, entry: Entry, to: Path, old: Entry, known: CopiedState | undefined): Promise<boolean> {
    const { job } = this
    if (!job.journal.resumes || old.kind === 'folder') return false
    if (known) return known.source === stateOf(entry) && (isLink(entry) || isSame(entry, old))
    if (job.overwrite || job.merge || isLink(entry) || old.kind !== 'file') return false
    return isSameContent(job.from.storage.source(from, entry), job.to.storage.source(to, old), job.signal)
  }
}

function* membersOf(
  folder: Path,
  names: ReadonlyMap<string, Entry>,
  earlier: KnownMembers | undefined,
): Generator<Member> {
  for (const listed of names.values()) {
    yield { from: childOf(folder, listed.name), listed, known: earlier?.copied.get(listed.name) }
  }
}

/** A name as the storage tells it from others. */
function asTold({ traits }: Storage, name: string): string {
  return traits.caseSensitive ? name : folded(name)
}
