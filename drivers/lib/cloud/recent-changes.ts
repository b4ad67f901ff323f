/**
 * Own changes of entries that listings may not show yet, by the ids of the entries. An entry that was renamed or moved
 * in several steps would be listed in between: under a name that it had for a moment only, or once more in the folder
 * that it has left.
 */
import { LRUCache } from 'lru-cache'
import type { IdItem } from './shown-names.js'

interface Change {
  /** The folder that it is in now; undefined if that has not changed, or is not known. */
  readonly folderId?: string | undefined
  /** The name as the backend has it. */
  readonly name?: string
  readonly isRemoved?: boolean
}

/** Maximum number of entries. */
const maxChanges = 10_000

export class RecentChanges {
  /** The changes by the ids of the entries, until listings show them. Undefined if they do so at once. */
  readonly #changes: LRUCache<string, Change> | undefined

  /** `lag`: milliseconds for which a listing may not show a change. */
  constructor(lag: number) {
    if (lag > 0) this.#changes = new LRUCache({ maxSize: maxChanges, sizeCalculation: () => 1, ttl: lag })
  }

  /** An entry was changed just now. What the change does not mention is as before. */
  add(id: string, change: Change): void {
    this.#changes?.set(id, { ...this.#changes.get(id), ...change })
  }

  /** The members of a folder as it was listed, with the changes. An entry that the listing lacks is not added. */
  applyTo<Item extends IdItem>(items: readonly Item[], listedFolder: string): readonly Item[] {
    this.#changes?.purgeStale()
    if (!this.#changes?.size) return items
    return items.flatMap((item) => {
      const change = this.#changes?.peek(item.id)
      if (!change) return [item]
      const { folderId = listedFolder, name = item.name, isRemoved = false } = change
      return isRemoved || folderId !== listedFolder ? [] : [{ ...item, name }]
    })
  }
}
