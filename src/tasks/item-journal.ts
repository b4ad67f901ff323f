/** Batches the item rows of all tasks, and commits each batch in one transaction. */
import type { TaskItemRow } from '../store/rows.js'

/** Milliseconds between the first row of a batch and its commit. */
const batchDelay = 200
/** Rows of a batch that is committed immediately. */
const batchSize = 1000
/** Pending rows at which `put` waits for a commit. */
const maxPending = 4 * batchSize

export class ItemJournal {
  #rows: TaskItemRow[] = []
  #timer: NodeJS.Timeout | undefined
  /** Serializes the commits. */
  #committing: Promise<void> = Promise.resolve()

  constructor(private readonly store: { putItems(rows: readonly TaskItemRow[]): Promise<void> }) {}

  /** Adds a row. Resolves immediately, or after a commit if too many rows are pending. Rejects if that commit fails. */
  async put(row: TaskItemRow): Promise<void> {
    this.#rows.push(row)
    if (this.#rows.length >= maxPending) return this.flush()
    if (this.#rows.length >= batchSize) this.#commitSoon()
    else this.#timer ??= setTimeout(() => this.#commitSoon(), batchDelay)
  }

  /** Resolves when all rows that were added before are committed. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const previous = this.#committing.catch(() => undefined)
    const commit = previous.then(async () => {
      const rows = this.#rows
      this.#rows = []
      try {
        await this.store.putItems(rows)
      } catch (error) {
        // Retried with the next batch. A lost row only means that a file is compared again.
        this.#rows = [...rows, ...this.#rows].slice(-maxPending)
        throw error
      }
    })
    this.#committing = commit
    return commit
  }

  #commitSoon(): void {
    this.flush().catch(() => undefined)
  }
}
