/** Keeps what tasks say of their items: gathered, and committed together a few times a second. */
import type { TaskItemRow, Store } from '../store/rows.js'

/** Milliseconds for which rows are gathered. */
const gathering = 200
/** Rows that are committed without waiting for more. */
const enough = 1000
/** Rows that may wait; whoever brings more is kept waiting. */
const most = 4 * enough

export class ItemJournal {
  #rows: TaskItemRow[] = []
  #timer: NodeJS.Timeout | undefined
  /** Commits one after the other. */
  #committing: Promise<void> = Promise.resolve()

  constructor(private readonly store: Pick<Store['tasks'], 'putItems'>) {}

  /** Resolves at once, unless too many rows wait already. Rejects where an earlier commit failed. */
  async put(row: TaskItemRow): Promise<void> {
    this.#rows.push(row)
    if (this.#rows.length >= most) return this.settled()
    if (this.#rows.length >= enough) this.#commitSoon()
    else this.#timer ??= setTimeout(() => this.#commitSoon(), gathering)
  }

  /** Resolves when every row put before is committed. */
  async settled(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const before = this.#committing.catch(() => undefined)
    const commit = before.then(async () => {
      const rows = this.#rows
      this.#rows = []
      try {
        await this.store.putItems(rows)
      } catch (error) {
        // They are tried again with the next ones: without them a file would be compared again, no more.
        this.#rows = [...rows, ...this.#rows].slice(-most)
        throw error
      }
    })
    this.#committing = commit
    return commit
  }

  #commitSoon(): void {
    this.settled().catch(() => undefined)
  }
}
