/**
 * Own changes that listings may not show yet. An entry that was renamed or moved in several steps would be listed in
 * between: under a name that it had for a moment only, or once more in the folder that it has left.
 */
import type { QuarkItem } from './items.js'

interface Change {
  /** The folder that it was moved to. */
  readonly folderId?: string
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
    /** Milliseconds for which listings do not show a change. */
    private readonly lag: number,
  ) {}

  /** An entry was changed just now. */
  add(id: string, change: Change): void {
    if (this.lag === 0) return
    const earlier = this.#changeOf(id)
    this.#changes.delete(id)
    this.#changes.set(id, { ...earlier, ...change, until: performance.now() + this.lag })
    const [oldest] = this.#changes.keys()
    if (oldest !== undefined && this.#changes.size > maxChanges) this.#changes.delete(oldest)
  }

  /** The members of a folder as it was listed, with the changes. An entry that the listing lacks is not added. */
  applyTo(items: readonly QuarkItem[], listedFolder: string): readonly QuarkItem[] {
    if (this.#changes.size === 0) return items
    return items.flatMap((item) => {
      const { folderId = listedFolder, name = item.name, isRemoved = false } = this.#changeOf(item.id) ?? {}
      return isRemoved || folderId !== listedFolder ? [] : [{ ...item, name }]
    })
  }

  #changeOf(id: string): RecentChange | undefined {
    const change = this.#changes.get(id)
    if (!change || performance.now() < change.until) return change
    this.#changes.delete(id)
    return undefined
  }
}
