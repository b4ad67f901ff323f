/** Path locks that exclude the changes of other nodes too (docs/decisions/0036). */
import { throwIfAborted, untilAborted } from '../base/cancellation.js'
import type { HeldLocks, PathClaim, SharedEngine } from '../database/engine.js'
import type { Topic } from '../database/topics.js'
import { PathLocksInProcess, type AcquireOptions, type PathLocks } from '../locks/path-locks.js'
import type { FileNotices } from './file-notices.js'

/** Rows that a process holds in memory, and that changes are checked against. */
export interface Mirror {
  /** Reads the rows again. */
  reload(): Promise<void>
  /**
   * The number of changes of the rows by this process, all of which the mirror contains. Undefined while one is being
   * stored. Absent: they are not counted.
   */
  ownChanges?(): number | undefined
}

/** The state of a mirror when it was last known to be up to date. */
interface MirrorState {
  /** The number of changes of the rows by all processes, all of which it contained. */
  readonly count: number
  /** The number of these changes that this process had made. */
  readonly own: number
}

/** Excludes the changes of other nodes too. */
export class SharedPathLocks implements PathLocks {
  readonly #own = new PathLocksInProcess()
  readonly #mirrored = new Map<Topic, MirrorState>()
  /** The functions `onLost` of those who hold locks. */
  readonly #holders = new Set<() => void>()

  /** `mirrors` by topic: reloaded under the locks if other nodes have changed their rows. */
  constructor(
    private readonly shared: Pick<SharedEngine, 'acquire' | 'spansMachines'>,
    private readonly notices: Pick<FileNotices, 'take' | 'putBack'>,
    private readonly mirrors: ReadonlyMap<Topic, Mirror>,
  ) {}

  /** With SQLite the primary process keeps the locks, and workers end with it. */
  get canBeLost(): boolean {
    return this.shared.spansMachines
  }

  /** Reports all locks as lost to those who hold them: other nodes may take this one for dead. */
  loseAll(): void {
    for (const onLost of this.#holders) onLost()
  }

  /**
   * A caller whose signal aborts is let go at once. What it has asked the database for cannot be withdrawn: its claims
   * exclude the next changes of this process until the database has granted or refused them.
   */
  acquire(claims: readonly PathClaim[], signal?: AbortSignal, options: AcquireOptions = {}): Promise<() => void> {
    return untilAborted(this.#acquire(claims, signal, options), signal, { undo: (release) => release() })
  }

  async #acquire(
    claims: readonly PathClaim[],
    signal: AbortSignal | undefined,
    options: AcquireOptions,
  ): Promise<() => void> {
    const { onLost } = options
    const releaseOwn = await this.#own.acquire(claims, signal, options)
    const before = this.#ownChanges()
    const held = await this.shared.acquire(claims, options).catch((error: unknown) => {
      releaseOwn()
      throw error
    })
    if (onLost) this.#holders.add(onLost)
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      if (onLost) this.#holders.delete(onLost)
      void this.#release(held, releaseOwn)
    }
    try {
      throwIfAborted(signal)
      await this.#refresh(held.counts, before)
      return release
    } catch (error) {
      release()
      throw error
    }
  }

  /** The next change of these paths by this process waits until the database has released the locks. Never rejects. */
  async #release(held: HeldLocks, releaseOwn: () => void): Promise<void> {
    const notices = this.notices.take()
    if (!(await held.release(notices))) this.notices.putBack(notices)
    releaseOwn()
  }

  #ownChanges(): ReadonlyMap<Topic, number | undefined> {
    return new Map([...this.mirrors].map(([topic, mirror]) => [topic, mirror.ownChanges ? mirror.ownChanges() : 0]))
  }

  /** `before`: the own changes when the locks were requested. */
  async #refresh(counts: ReadonlyMap<Topic, number>, before: ReadonlyMap<Topic, number | undefined>): Promise<void> {
    const now = this.#ownChanges()
    for (const [topic, mirror] of this.mirrors) {
      const count = counts.get(topic) ?? 0
      const own = before.get(topic)
      // If this process has changed rows meanwhile, `count` may or may not contain those changes.
      const isExact = own !== undefined && own === now.get(topic)
      const state = this.#mirrored.get(topic)
      if (isExact && state && state.count + own - state.own === count) continue
      await mirror.reload()
      if (isExact) this.#mirrored.set(topic, { count, own })
    }
  }
}
