/** Path locks that exclude the changes of other nodes too (docs/decisions/0036). */
import { createHash } from 'node:crypto'
import { GatewayError } from '../contract/errors.js'
import { foldCase, parentOf, root, truncateTo, type Path } from '../contract/path.js'
import type { HeldLocks, LockMode } from '../store/advisory-locks.js'
import type { SharedEngine } from '../store/engine.js'
import type { Topic } from '../store/rows.js'
import type { FileNotices } from './file-notices.js'
import { PathLocksInProcess, type PathClaim, type PathLocks } from './path-locks.js'

/** Claims below a deeper path are claims of this depth: the database limits the locks of one change. */
const maxDepth = 64

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
      const held = await this.shared.acquire(modesOf(claims))
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

/**
 * The locks of the claims. A claim of a name excludes other claims of that name, and claims of trees that contain it: it
 * locks the name exclusively, and the trees of its path and of all ancestors in shared mode. A claim of a tree locks that
 * tree exclusively, and those of its ancestors in shared mode.
 */
function modesOf(claims: readonly PathClaim[]): ReadonlyMap<bigint, LockMode> {
  const modes = new Map<bigint, LockMode>()
  const lock = (key: bigint, mode: LockMode) => {
    if (modes.get(key) !== 'exclusive') modes.set(key, mode)
  }
  for (const claim of claims) {
    const path = foldCase(claim.path)
    const reachable = truncateTo(path, maxDepth)
    const tree = claim.tree || reachable !== path
    if (!tree) lock(keyOf('name', path), 'exclusive')
    lock(keyOf('tree', reachable), tree ? 'exclusive' : 'shared')
    for (let at = reachable; at !== root; at = parentOf(at)) lock(keyOf('tree', parentOf(at)), 'shared')
  }
  return modes
}

/** A 64-bit number. Two paths with the same number exclude each other needlessly, which is unlikely and harmless. */
function keyOf(kind: 'name' | 'tree', path: Path): bigint {
  return createHash('sha1').update(`${kind} ${path}`).digest().readBigInt64BE()
}
