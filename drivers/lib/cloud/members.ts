/** The members of a folder, collected from the pages of its listing. */
import { GatewayError } from '../../../src/base/errors.js'

/** Maximum number of members, which are held in memory. */
const maxMembers = 1_000_000
/** Maximum number of entries that are no new members, besides as many as there are members. */
const maxOthers = 1000

export class Members<Item extends { readonly id: string }> {
  readonly #items = new Map<string, Item>()
  /** Number of entries of all pages. */
  received = 0

  get size(): number {
    return this.#items.size
  }

  get all(): readonly Item[] {
    return [...this.#items.values()]
  }

  /**
   * Adds a page. `received`: the number of its entries, some of which may be no members. Throws `unavailable` if the
   * listing seems to have no end.
   */
  add(items: readonly Item[], received: number): void {
    this.received += received
    for (const item of items) this.#items.set(item.id, item)
    // Pages overlap if the folder changes while it is listed.
    if (this.size <= maxMembers && this.received <= 2 * this.size + maxOthers) return
    throw new GatewayError('unavailable', { reason: 'the server lists a folder without an end' })
  }
}
