/**
 * The second half of a move: what was copied is removed from the source, file by file and then their folders. Each is asked once more
 * whether it is still what was copied, whether its copy stands, and whether it may go; and a source never goes that is its own copy.
 */
import { stateOf, type Failure } from './change.js'
import { targetOf, type CopiedState, type CopyJob } from './copy-job.js'
import { isFolder, isLink } from './copy-member.js'
import { provenCopy } from './copy-proof.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError, SourceChangedError, toGatewayError } from './errors.js'
import { oneAndTheSame, sameness } from './identity.js'
import type { Place } from './mounts.js'
import { childOf, type Path } from './path.js'
import { existing } from './removing.js'
import type { Opened, Visits } from './tree-walk.js'

/** Something of the source; what is not known to be copied stays. */
interface Member {
  readonly from: Path
  readonly known?: CopiedState | undefined
  readonly listed?: Entry
}

export class SourceRemoval implements Visits<Member, Member> {
  /** Sources that something failed of already. */
  readonly #failed: ReadonlySet<Path>

  /** What goes wrong is put into `failures`, beside what the copying put there. */
  constructor(
    private readonly job: CopyJob,
    private readonly failures: Failure[],
  ) {
    this.#failed = new Set(failures.flatMap(({ from }) => (from === undefined ? [] : [from])))
  }

  async visit(member: Member, above: Member | undefined): Promise<boolean | Opened<Member, Member>> {
    const { storage } = this.job.from
    const { from } = member
    const path = storage.treePath(from)
    const known = above ? member.known : await this.job.journal.copied(path)
    const entry = member.listed ?? (await storage.stat(from, { signal: this.job.signal, link: true }))
    if (isFolder(entry)) return this.#open({ from, known })
    if (!known || this.#failed.has(path)) return false
    await this.#remove(from, known)
    return true
  }

  async #open(folder: Member): Promise<Opened<Member, Member>> {
    const { from: source, journal, signal, leaveOut } = this.job
    const { copied } = await journal.itemsIn(source.storage.treePath(folder.from))
    const members: Member[] = []
    for await (const page of source.storage.pages(folder.from, { signal, fresh: true })) {
      for (const listed of page) {
        members.push({ from: childOf(folder.from, listed.name), known: copied.get(listed.name), listed })
      }
    }
    const going = members.filter(({ from }) => !leaveOut(source.storage.treePath(from)))
    return { folder, members: going, count: going.length }
  }

  async finish({ from, known }: Member, areGone: boolean): Promise<boolean> {
    if (!areGone || !known) return false
    const { job } = this
    const done = await job.beforeRemove('source', from, false)
    try {
      await job.from.storage.remove(from, { signal: job.signal })
      if (!known.apart) await this.#assertStillThere(from)
    } finally {
      done()
    }
    return true
  }

  /** An empty folder that went with its source is made again. */
  async #assertStillThere(from: Path): Promise<void> {
    const { from: source, to, signal } = this.job
    if (await existing(to.storage, targetOf(this.job, from), signal)) return
    await source.storage.mkdir(from, { signal })
    throw oneAndTheSame()
  }

  failed({ from }: Member, error: unknown): void {
    if (this.job.signal.aborted) throw error
    // A folder that still holds what failed, or what came meanwhile, stays: that is told once, by its member.
    if (isGatewayError(error, 'not_empty') && this.failures.length > 0) return
    const path = this.job.from.storage.treePath(from)
    this.failures.push({ path, from: path, error: toGatewayError(error) })
  }

  async #remove(from: Path, known: CopiedState): Promise<void> {
    const { job } = this
    const { signal } = job
    const source: Place = { storage: job.from.storage, inner: from }
    const target: Place = { storage: job.to.storage, inner: targetOf(job, from) }
    // Nobody of ours changes it from here on.
    const done = await job.beforeRemove('source', from, false)
    try {
      const now = await source.storage.stat(from, { signal, link: true, fresh: true })
      if (stateOf(now) !== known.source) {
        throw new SourceChangedError()
      }
      const copy = await existing(target.storage, target.inner, signal)
      if (!copy) throw new GatewayError('busy', { reason: 'its copy is gone again' })
      const proven = await provenCopy(job, from, now, copy, known)
      if (!proven || (proven !== known && !(await isStill(target, proven, signal)))) {
        throw new GatewayError('busy', { reason: 'something else stands where its copy was' })
      }
      if (isLink(now)) {
        await source.storage.remove(from, { signal })
        return
      }
      const found = await sameness(source, target, signal)
      if (found === 'same') throw oneAndTheSame()
      if (found === 'apart' || proven.apart) await source.storage.remove(from, { signal })
      else await this.#removeDoubtful(source, target)
    } finally {
      done()
    }
  }

  /** Where nobody can tell whether the two are one thing, the source steps aside: if its copy is gone then, it comes back. */
  async #removeDoubtful(source: Place, target: Place): Promise<void> {
    const { setAside, signal } = this.job
    const aside = await setAside(source)
    if (!aside) throw new GatewayError('unsupported', { reason: 'nobody can tell whether it is its own copy' })
    let stands = false
    try {
      stands = (await existing(target.storage, target.inner, signal)) !== undefined
    } finally {
      await (stands ? aside.remove() : aside.settle())
    }
    if (!stands) throw oneAndTheSame()
  }
}

/** Whether it is still what was compared: that may have taken a while. */
async function isStill({ storage, inner }: Place, { copy }: CopiedState, signal: AbortSignal): Promise<boolean> {
  const now = await existing(storage, inner, signal)
  return now !== undefined && stateOf(now) === copy
}
