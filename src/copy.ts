/**
 * Copies and moves of trees, within a storage that cannot do them itself and between storages: the one place for all doors and
 * tasks. Every file is verified; a move removes a source only after that, last, and only if it is still the one that was read.
 */
import { stateOf, TreeError, type Failure } from './change.js'
import type { Copied, CopiedState, CopyJob, KnownMembers } from './copy-job.js'
import {
  assertSame,
  assertUnchanged,
  copyLink,
  inPlaceOf,
  isLink,
  isSame,
  published,
  writeFile,
} from './copy-member.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import { childOf, folded, reservedPrefix, type Path } from './path.js'
import { existing, removeAll } from './removing.js'
import { isSameContent } from './same-content.js'
import type { Storage } from './storage.js'

/** Members that are copied at once. */
const atOnce = 8

/**
 * Copies what stands at `from`. Rejects with TreeError for what could not be copied; the rest is there. What was copied is
 * put into `copied`, folders after their members, also where it rejects.
 */
export async function copyTree(job: CopyJob, copied: Copied[]): Promise<void> {
  const failures: Failure[] = []
  await new TreeCopy(job, copied, failures).run()
  throwFailures(failures)
}

/**
 * Copies, then removes what was copied. What failed, or changed meanwhile, stays where it was. What is gone from the source
 * is put into `moved`, folders after their members, also where it rejects.
 */
export async function moveTree(job: CopyJob, moved: Copied[]): Promise<void> {
  const copied: Copied[] = []
  const failures: Failure[] = []
  await new TreeCopy({ ...job, deep: true }, copied, failures).run()
  // Of a source that is gone, only the journal could tell that it was moved.
  await job.journal?.settled()
  const remove = async (each: Copied) => {
    try {
      await removeSource(job, each)
      moved.push(each)
    } catch (error) {
      if (job.signal.aborted) throw error
      // A folder that still holds what failed, or what came meanwhile, stays: that is told once, by its member.
      if (!(isGatewayError(error, 'not_empty') && failures.length > 0)) {
        const path = job.from.storage.treePath(each.from)
        failures.push({ path, from: path, error: toGatewayError(error) })
      }
    }
  }
  const isFolder = ({ entry }: Copied) => entry.kind === 'folder' && !isLink(entry)
  await inTurns(
    copied.filter((each) => !isFolder(each)),
    remove,
  )
  for (const folder of copied.filter(isFolder)) await remove(folder)
  throwFailures(failures)
}

/** Its copy was verified before: both must still be what they were. */
async function removeSource({ from, to, signal }: CopyJob, copied: Copied): Promise<void> {
  const { entry } = copied
  if (entry.kind !== 'folder') await assertUnchanged(from.storage, copied.from, entry, isLink(entry), signal)
  const copy = await existing(to.storage, copied.to, signal)
  if (!copy) throw new GatewayError('busy', { reason: 'its copy is gone again' })
  if (entry.kind === 'file' && !isLink(entry)) assertSame(entry, copy)
  await from.storage.remove(copied.from, { signal })
}

/** When one gives up, the others are waited for: nothing of this goes on behind the caller's back. */
async function inTurns<T>(all: readonly T[], work: (each: T) => Promise<void>): Promise<void> {
  const waiting = all.values()
  const worker = async () => {
    for (const each of waiting) await work(each)
  }
  const workers = await Promise.allSettled(Array.from({ length: Math.min(atOnce, all.length) }, worker))
  for (const ended of workers) if (ended.status === 'rejected') throw ended.reason
}

function throwFailures(failures: readonly Failure[]): void {
  const [first, ...others] = failures
  if (first) throw new TreeError([first, ...others])
}

/** A folder whose members are being copied. */
interface OpenFolder {
  readonly from: Path
  readonly to: Path
  readonly entry: Entry
  readonly above: OpenFolder | undefined
  /** Nothing was in the target folder when this run made it. */
  readonly fresh: boolean
  /** What only the old target held, where it is replaced. */
  readonly surplus: readonly string[]
  /** Members that go along, by what the target tells them apart by. */
  readonly names: ReadonlyMap<string, Entry>
  /** Those that an earlier run copied. */
  readonly known: ReadonlyMap<string, CopiedState>
  /** Of the names, those that nobody has begun with. */
  readonly waiting: Iterator<Entry>
  /** Members that are not done yet. */
  left: number
  failed: boolean
}

/** One walk. A few members at a time, the deepest first, so that few folders are open at once. */
class TreeCopy {
  /** With members that nobody has begun with, or that have just run out of them. */
  readonly #folders: OpenFolder[] = []
  #busy = 0
  #changed: Promise<void> = Promise.resolve()
  #tellChange: () => void = () => undefined
  #gaveUp: { readonly reason: unknown } | undefined

  constructor(
    private readonly job: CopyJob,
    private readonly copied: Copied[],
    private readonly failures: Failure[],
  ) {}

  async run(): Promise<void> {
    const { from, to, journal } = this.job
    this.#change()
    const known = journal?.resumes === true ? await journal.copied(from.storage.treePath(from.inner)) : undefined
    await this.#visit(from.inner, to.inner, undefined, known, undefined)
    // All of them are waited for: nothing of this goes on behind the caller's back.
    await Promise.all(Array.from({ length: atOnce }, () => this.#worker()))
    if (this.#gaveUp) throw this.#gaveUp.reason
  }

  async #worker(): Promise<void> {
    while (!this.#gaveUp) {
      const member = this.#next()
      if (member) {
        const [folder, entry] = member
        const [from, to] = [childOf(folder.from, entry.name), childOf(folder.to, entry.name)]
        this.#busy += 1
        await this.#visit(from, to, folder, folder.known.get(entry.name), entry)
        this.#busy -= 1
        this.#change()
      } else if (this.#busy > 0) {
        await this.#changed
      } else {
        return
      }
    }
  }

  #next(): readonly [OpenFolder, Entry] | undefined {
    for (let folder = this.#folders.at(-1); folder; folder = this.#folders.at(-1)) {
      const next = folder.waiting.next()
      if (next.done !== true) return [folder, next.value]
      this.#folders.pop()
    }
    return undefined
  }

  /** Whoever found nothing to do looks again. */
  #change(): void {
    this.#tellChange()
    this.#changed = new Promise((resolve) => (this.#tellChange = resolve))
  }

  async #visit(
    from: Path,
    to: Path,
    above: OpenFolder | undefined,
    known: CopiedState | undefined,
    listed: Entry | undefined,
  ): Promise<void> {
    const done = await this.#attempt(from, to, async () => {
      const entry = await this.#entry(from, listed)
      if (entry.kind === 'folder' && !isLink(entry)) return this.#open(from, to, entry, above)
      const written = await this.#member(from, to, entry, known, above?.fresh === true)
      if (written) await this.#keep(from, to, entry)
      return true
    })
    if (done !== undefined && above) await this.#memberDone(above, done)
  }

  /** As it was listed, where that tells whether it is still the same; a link itself, never its target. */
  async #entry(from: Path, listed: Entry | undefined): Promise<Entry> {
    if (listed?.kind === 'file' && listed.revision !== undefined && !isLink(listed)) return listed
    return this.job.from.storage.stat(from, { signal: this.job.signal, link: true })
  }

  /** Whether it was done; undefined where that is told later. */
  async #attempt(from: Path, to: Path, work: () => Promise<boolean | undefined>): Promise<boolean | undefined> {
    try {
      return await work()
    } catch (error) {
      if (this.job.signal.aborted) {
        this.#gaveUp ??= { reason: error }
        return undefined
      }
      const { storage } = this.job.to
      const source = this.job.from.storage.treePath(from)
      this.failures.push({ path: storage.treePath(to), from: source, error: toGatewayError(error) })
      return false
    }
  }

  async #keep(from: Path, to: Path, entry: Entry): Promise<void> {
    this.copied.push({ from, to, entry })
    const { size } = entry
    await this.job.journal?.keep(this.job.from.storage.treePath(from), { source: stateOf(entry), size })
  }

  // Folders

  /** Undefined: its members have still to be done. */
  async #open(from: Path, to: Path, entry: Entry, above: OpenFolder | undefined): Promise<boolean | undefined> {
    const { deep, journal } = this.job
    const old = await this.#makeFolder(to)
    const { names, clash } = deep
      ? await this.#memberNames(from, to)
      : { names: new Map<string, Entry>(), clash: false }
    const source = this.job.from.storage.treePath(from)
    const earlier = journal?.resumes === true ? await journal.itemsIn(source) : undefined
    const folder: OpenFolder = {
      ...{ from, to, entry, above, names },
      fresh: old === undefined,
      surplus: await this.#surplus(source, old ?? [], names, earlier),
      known: earlier?.copied ?? new Map(),
      waiting: names.values(),
      left: names.size,
      failed: clash,
    }
    if (names.size === 0) return this.#finish(folder)
    this.#folders.push(folder)
    this.#change()
    return undefined
  }

  /**
   * Names in a target folder that is replaced and of which the source has nothing. An earlier run has said which they are: what
   * it moved is not in the source any more, and must not be taken for one of them.
   */
  async #surplus(
    source: Path,
    old: readonly string[],
    names: OpenFolder['names'],
    earlier: KnownMembers | undefined,
  ): Promise<readonly string[]> {
    const { journal, to } = this.job
    const others = (all: readonly string[]) => all.filter((name) => !names.has(asTold(to.storage, name)))
    if (earlier && (earlier.surplus.length > 0 || earlier.copied.size > 0)) return others(earlier.surplus)
    const surplus = others(old)
    if (surplus.length > 0) await journal?.keepSurplus(source, surplus)
    return surplus
  }

  async #memberDone(folder: OpenFolder, done: boolean): Promise<void> {
    folder.left -= 1
    folder.failed ||= !done
    if (folder.left > 0) return
    const finished = await this.#attempt(folder.from, folder.to, () => this.#finish(folder))
    if (finished !== undefined && folder.above) await this.#memberDone(folder.above, finished)
  }

  /** Everything in it has been tried. Whether all of it was done. */
  async #finish({ from, to, entry, above, surplus, failed }: OpenFolder): Promise<boolean> {
    const { to: target, signal } = this.job
    const { storage } = target
    // What the old target held beyond the copy goes last, and only if everything of the copy is there.
    if (!failed) {
      for (const name of surplus) {
        if (await existing(storage, childOf(to, name), signal)) await removeAll(storage, childOf(to, name), signal)
      }
    }
    if (entry.modified.getTime() > 0) {
      await storage.setAttributes(to, { modified: entry.modified, mode: entry.mode }, { signal }).catch(() => undefined)
    }
    // That of the whole tree says that nothing of it is left to be done.
    if (above || !failed) await this.#keep(from, to, entry)
    else this.copied.push({ from, to, entry })
    return !failed
  }

  /** Members of a folder of the source that go along; of two that the target takes for the same, one fails. */
  async #memberNames(from: Path, to: Path): Promise<{ names: ReadonlyMap<string, Entry>; clash: boolean }> {
    const [source, target] = [this.job.from.storage, this.job.to.storage]
    const names = new Map<string, Entry>()
    let clash = false
    for await (const page of source.pages(from, { signal: this.job.signal })) {
      for (const entry of page) {
        const { name } = entry
        const path = source.treePath(childOf(from, name))
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
  async #makeFolder(to: Path): Promise<readonly string[] | undefined> {
    const { job } = this
    const { storage } = job.to
    const old = await existing(storage, to, job.signal)
    if (old?.kind === 'folder' && old.isLink !== true) {
      // An earlier run of the same work made it.
      const isOurs = job.journal?.resumes === true
      if (!job.overwrite && !job.merge && !isOurs) throw new GatewayError('exists')
      if (job.merge || !job.overwrite) return []
      const names: string[] = []
      for await (const page of storage.pages(to, { signal: job.signal })) names.push(...page.map((entry) => entry.name))
      return names
    }
    await inPlaceOf(job, to, old, () => published(job, to, () => storage.mkdir(to, { signal: job.signal })))
    return undefined
  }

  // Files and links

  /** Copies a file or a link. false: what stands at the target is left alone, and so is the source. */
  async #member(from: Path, to: Path, entry: Entry, known: CopiedState | undefined, fresh: boolean): Promise<boolean> {
    const { job } = this
    // A file that somebody puts there meanwhile is refused, or replaced, by the writing itself.
    const old = fresh && !job.merge ? undefined : await existing(job.to.storage, to, job.signal)
    if (old && (await this.#isCopied(from, entry, to, old, known))) {
      job.advance(entry.size)
      return true
    }
    if (job.merge && old) {
      job.advance(entry.size)
      return false
    }
    const copy = () => (isLink(entry) ? copyLink(job, from, to, old) : writeFile(job, from, to, entry, old))
    await job.turns.run(copy, job.signal)
    return true
  }

  /** Whether an earlier run copied it: the journal knows, or it stopped between the two and the content tells. */
  async #isCopied(from: Path, entry: Entry, to: Path, old: Entry, known: CopiedState | undefined): Promise<boolean> {
    const { job } = this
    if (job.journal?.resumes !== true || old.kind === 'folder') return false
    if (known) return known.source === stateOf(entry) && (isLink(entry) || isSame(entry, old))
    if (job.overwrite || job.merge || isLink(entry) || old.kind !== 'file') return false
    return isSameContent(job.from.storage.source(from, entry), job.to.storage.source(to, old), job.signal)
  }
}

/** A name as the storage tells it from others. */
function asTold({ traits }: Storage, name: string): string {
  return traits.caseSensitive ? name : folded(name)
}
