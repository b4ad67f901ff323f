/** What stands in the way of a change that the principal may make: conditions, locks, and others who change the same names. */
import type { Access } from './access.js'
import type { Ask, Change, Conditions } from './change.js'
import { asksForState, assertConditions, type ResourceState } from './conditions.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError, NoStorageError } from './errors.js'
import type { Touch } from './locks.js'
import { childOf, type Path } from './path.js'
import { holds } from './principal.js'
import type { Claim } from './reservations.js'
import type { Storage } from './storage.js'
import type { TreeParts } from './tree-parts.js'
import { isUnseen } from './visibility.js'
import type { WholeTree } from './whole-tree.js'

export class ChangeGuard {
  constructor(
    private readonly parts: Pick<TreeParts, 'locks' | 'reservations' | 'rules'>,
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
    const path = other === undefined ? at : await this.access.resolve(other, ask)
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

  /**
   * Rejects with `denied` where a folder holds, at any depth, what a rule hides from the principal: nobody takes away what they
   * cannot see. Asks the backend only where there is such a rule.
   */
  async assertAllSeen(storage: Storage, folder: Path, signal: AbortSignal): Promise<void> {
    const { rules } = this.parts
    const { principal } = this.access
    const at = storage.treePath(folder)
    const nearest = rules.nearest(at)
    const hiding = [...(nearest ? [nearest] : []), ...rules.below(at)].filter(({ hide }) => hide !== '')
    if (hiding.length === 0 || holds(principal, 'seeHidden')) return
    for await (const page of storage.pages(folder, { signal })) {
      for (const { name, kind, isLink } of page) {
        const member = childOf(folder, name)
        if (isUnseen(rules, principal, storage.treePath(member))) {
          throw new GatewayError('denied', { reason: 'permission denied below this folder' })
        }
        if (kind === 'folder' && isLink !== true) await this.assertAllSeen(storage, member, signal)
      }
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
