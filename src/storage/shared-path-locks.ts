/** Path locks that exclude the changes of other nodes too (docs/decisions/0036). */
import { GatewayError } from '../contract/errors.js'
import type { HeldLocks, SharedEngine } from '../store/engine.js'
import type { Topic } from '../store/rows.js'
import type { FileNotices } from './file-notices.js'
import { PathLocksInProcess, type AcquireOptions, type PathClaim, type PathLocks } from './path-locks.js'

/** Rows that a process holds in memory, and that changes are checked against. */
interface Mirror {
  /** Reads the rows again. */
  reload(): Promise<void>
  /** The number of changes of the rows by this process, which the mirror contains. Absent: they are not counted. */
  ownChanges?(): number
}

/** A state of a mirror: it contains at least `count` changes, of which this process had then made `own`. */
interface MirrorState {
  readonly count: number
  readonly own: number
}

export class SharedPathLocks implements PathLocks {
  readonly #own = new PathLocksInProcess()
  readonly #mirrored = new Map<Topic, MirrorState>()

  /** `mirrors` by topic: reloaded under the locks if other nodes have changed their rows. */
  constructor(
    private readonly shared: Pick<SharedEngine, 'acquire' | 'spansMachines'>,
    private readonly notices: Pick<FileNotices, 'take' | 'putBack'>,
    private readonly mirrors: ReadonlyMap<Topic, Mirror>,
  ) {}

  /** The primary process keeps the locks of workers on SQLite, which end with it. */
  get canBeLost(): boolean {
    return this.shared.spansMachines
  }

  async acquire(claims: readonly PathClaim[], signal?: AbortSignal, options: AcquireOptions = {}): Promise<() => void> {
    const releaseOwn = await this.#own.acquire(claims, signal, options)
    try {
      const held = await this.shared.acquire(claims, options.onLost)
      let isReleased = false
      const release = () => {
        if (isReleased) return
        isReleased = true
        void this.#release(held, releaseOwn)
      }
      try {
        await this.#refresh(held.counts)
        if (signal?.aborted === true) throw new GatewayError('aborted')
      } catch (error) {
        release()
        throw error
      }
      return release
    } catch (error) {
      releaseOwn()
      throw error
    }
  }

  /** The next change of this process waits until the database has released the locks. Never rejects. */
  async #release(held: HeldLocks, releaseOwn: () => void): Promise<void> {
    const notices = this.notices.take()
    if (!(await held.release(notices))) this.notices.putBack(notices)
    releaseOwn()
  }

  async #refresh(counts: ReadonlyMap<Topic, number>): Promise<void> {
    for (const [topic, mirror] of this.mirrors) {
      const count = counts.get(topic) ?? 0
      const own = mirror.ownChanges?.() ?? 0
      const state = this.#mirrored.get(topic)
      // A change by this process is counted in the database first: equal numbers contain no change by another one.
      if (state && state.count + own - state.own === count) continue
      await mirror.reload()
      this.#mirrored.set(topic, { count, own })
    }
  }
}
