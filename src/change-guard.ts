/** What stands in the way of a change that the principal may make: conditions, locks, and others who change the same names. */
import type { Access } from './access.js'
import type { Ask, Change, Conditions } from './change.js'
import { asksForState, assertConditions, type ResourceState } from './conditions.js'
import type { Entry } from './driver.js'
import { isGatewayError, NoStorageError } from './errors.js'
import type { Touch } from './locks.js'
import type { Path } from './path.js'
import type { Claim } from './reservations.js'
import type { TreeParts } from './tree-parts.js'
import type { WholeTree } from './whole-tree.js'

export class ChangeGuard {
  constructor(
    private readonly parts: Pick<TreeParts, 'locks' | 'reservations'>,
    private readonly access: Access,
    private readonly tree: WholeTree,
  ) {}

  /** Conditions, then locks. `entry` is what stands at `at`, of which the conditions ask. */
  async assertFree(touches: readonly Touch[], at: Path, entry: Entry | undefined, change: Change): Promise<void> {
    await this.assertConditions(at, entry, change)
    for (const touch of touches) this.assertUnlocked(touch, change)
  }

  /** Rejects with `precondition_failed` unless the conditions hold for `entry`, which stands at `at`. */
  async assertConditions(at: Path, entry: Entry | undefined, conditions: Conditions & Ask): Promise<void> {
    if (!asksForState(conditions)) return
    await assertConditions(conditions, entry, (other) => this.#stateOf(other, at, entry, conditions))
  }

  assertUnlocked(touch: Touch, change: Change): void {
    const lock = this.parts.locks.blocking(touch, this.access.principal, change.lockTokens ?? [])
    if (lock) throw this.access.locked(lock)
  }

  async #stateOf(other: Path | undefined, at: Path, entry: Entry | undefined, ask: Ask): Promise<ResourceState> {
    const path = other === undefined ? at : this.access.resolve(other)
    const own = path === at ? entry : await this.#readable(path, ask)
    return { entry: own, tokens: this.parts.locks.covering(path).map((lock) => lock.token) }
  }

  /** What stands there; undefined for nothing, and for what the principal may not read: conditions must not tell of it. */
  async #readable(at: Path, ask: Ask): Promise<Entry | undefined> {
    try {
      this.access.judge('read', at, ask)
      return await this.tree.existing(await this.access.follow('read', at, ask), ask)
    } catch (error) {
      const isNobodys =
        error instanceof NoStorageError || isGatewayError(error, 'denied', 'hidden', 'password_required')
      if (isNobodys) return undefined
      throw error
    }
  }

  /** What conditions are asked of, as it is under a reservation; `entry` where nothing asks. */
  async now(at: Path, entry: Entry, change: Change): Promise<Entry | undefined> {
    return asksForState(change) ? this.tree.existing(at, change) : entry
  }

  /** Does the work while nobody else changes what is claimed. */
  async reserved<T>(claims: readonly Claim[], ask: Ask, work: () => Promise<T>): Promise<T> {
    const release = await this.parts.reservations.take(claims, ask.signal)
    try {
      return await work()
    } finally {
      release()
    }
  }
}
