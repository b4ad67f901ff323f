/** Path locks that exclude the changes of other nodes too (docs/decisions/0036). */
import { GatewayError } from '../contract/errors.js'
import type { HeldLocks, SharedEngine } from '../store/engine.js'
import type { Topic } from '../store/rows.js'
import type { FileNotices } from './file-notices.js'
import { PathLocksInProcess, type PathClaim, type PathLocks } from './path-locks.js'

export class SharedPathLocks implements PathLocks {
  readonly #own = new PathLocksInProcess()
  /** The numbers of changes that the mirrors contain at least. */
  readonly #mirrored = new Map<Topic, number>()

  /** `mirrors`: what changes are checked against. It is reloaded under the locks if other nodes have changed it. */
  constructor(
    private readonly shared: Pick<SharedEngine, 'acquire'>,
    private readonly notices: Pick<FileNotices, 'take' | 'putBack'>,
    private readonly mirrors: Readonly<Partial<Record<Topic, () => Promise<void>>>>,
  ) {}

  async acquire(claims: readonly PathClaim[], signal?: AbortSignal, timeout?: number): Promise<() => void> {
    const releaseOwn = await this.#own.acquire(claims, signal, timeout)
    try {
      const held = await this.shared.acquire(claims)
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
    for (const [topic, reload] of Object.entries(this.mirrors) as [Topic, () => Promise<void>][]) {
      const count = counts.get(topic) ?? 0
      if (this.#mirrored.get(topic) === count) continue
      await reload()
      // The rows were read after the count. Of concurrent reloads, the last one to end may have an older count.
      this.#mirrored.set(topic, Math.max(count, this.#mirrored.get(topic) ?? 0))
    }
  }
}
