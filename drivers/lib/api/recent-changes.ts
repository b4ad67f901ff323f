/**
 * Own changes of entries that listings may not show yet, by the ids of the entries. An entry that was renamed or moved in
 * several steps would be listed in between: under a name that it had for a moment only, or once more in the folder that it
 * has left.
 */
import type { IdItem } from './shown-names.js'

interface Change {
  /** The folder that it is in now; undefined if that has not changed, or is not known. */
  readonly folderId?: string | undefined
  /** As the backend has it. */
  readonly name?: string
  readonly isRemoved?: boolean
}

interface RecentChange extends Change {
  /** Milliseconds of `performance.now()`: from then on, listings show it. */
  readonly until: number
}

/** Maximum number of entries. */
const maxChanges = 10_000

export class RecentChanges {
  /** By the ids of the entries, the oldest change first. */
  readonly #changes = new Map<string, RecentChange>()

  constructor(
    /** Milliseconds for which a listing may not show a change. */
    private readonly lag: number,
  ) {}

  /** An entry was changed just now. What the change does not mention is as before. */
  add(id: string, change: Change): void {
    if (this.lag === 0) return
    this.#dropExpired()
    const earlier = this.#changes.get(id)
    this.#changes.delete(id)
    this.#changes.set(id, { ...earlier, ...change, until: performance.now() + this.lag })
    const [oldest] = this.#changes.keys()
    if (oldest !== undefined && this.#changes.size > maxChanges) this.#changes.delete(oldest)
  }

  /** The members of a folder as it was listed, with the changes. An entry that the listing lacks is not added. */
  applyTo<Item extends IdItem>(items: readonly Item[], listedFolder: string): readonly Item[] {
    this.#dropExpired()
    if (this.#changes.size === 0) return items
    return items.flatMap((item) => {
      const change = this.#changes.get(item.id)
      if (!change) return [item]
      const { folderId = listedFolder, name = item.name, isRemoved = false } = change
      return isRemoved || folderId !== listedFolder ? [] : [{ ...item, name }]
    })
  }

  #dropExpired(): void {
    const now = performance.now()
    for (const [id, { until }] of this.#changes) {
      if (until > now) return
      this.#changes.delete(id)
    }
  }
}
