/** The journal of the items of tasks: rows of the store, which are committed in batches. */
import PQueue from 'p-queue'
import { childOf, nameOf } from '../base/path.js'
import type { TaskItemRow } from '../database/tables/tasks.js'
import type { Store } from '../database/tables.js'
import type { CopiedState } from '../transfer/copy-job.js'
import type { TaskUploads } from '../transfer/task-uploads.js'
import type { TaskItems } from './task.js'

/** Milliseconds between the first row of a batch and its commit. */
const batchDelay = 200
/** Rows of a batch that is committed immediately. */
const batchSize = 1000
/** Pending rows at which `put` waits for a commit. */
const maxPending = 4 * batchSize

/** Batches the item rows of all tasks, and commits each batch in one transaction. */
export class ItemJournal {
  #rows: TaskItemRow[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #commits = new PQueue({ concurrency: 1 })

  constructor(readonly store: { putItems(rows: readonly TaskItemRow[]): Promise<void> }) {}

  /** Adds a row. Resolves immediately, or after a commit if too many rows are pending. Rejects if that commit fails. */
  async put(row: TaskItemRow): Promise<void> {
    this.#rows.push(row)
    if (this.#rows.length >= maxPending) return this.flush()
    if (this.#rows.length >= batchSize) this.#commitSoon()
    else this.#timer ??= setTimeout(() => this.#commitSoon(), batchDelay)
  }

  /** Resolves when all rows that were added before are committed. */
  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    return this.#commits.add(async () => {
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
  }

  #commitSoon(): void {
    this.flush().catch(() => undefined)
  }
}

interface TaskItemsDependencies {
  readonly store: Pick<Store['tasks'], 'clearFailures' | 'deleteItem' | 'item' | 'itemsIn'>
  readonly journal: ItemJournal
  readonly uploads: Pick<TaskUploads, 'forFile'>
}

const noItem = { source: '', copy: '', size: 0, error: '', errorName: undefined } as const

/** The items of one task: rows of the store, and those that the journal has not committed yet. */
export function taskItemsOf(taskId: string, dependencies: TaskItemsDependencies): TaskItems {
  const { store, journal, uploads } = dependencies
  const put = (row: Partial<TaskItemRow> & Pick<TaskItemRow, 'path' | 'state'>) =>
    journal.put({ ...noItem, taskId, ...row })
  // Reads must see the rows that are not committed yet.
  const flush = () => journal.flush()
  return {
    itemsIn: async (folder) => {
      await flush()
      const rows = await store.itemsIn(taskId, folder)
      const copied = rows.flatMap((row) => {
        const state = copiedState(row)
        return state ? ([[nameOf(row.path), state]] as const) : []
      })
      const namesOf = (some: readonly TaskItemRow[]) => some.map(({ path }) => nameOf(path))
      const extraneous = rows.filter(({ state }) => state === 'extraneous')
      const failed = rows.filter(({ error }) => error !== '')
      return { copied: new Map(copied), extraneous: namesOf(extraneous), failed: new Set(namesOf(failed)) }
    },
    copied: async (path) => {
      await flush()
      return copiedState(await store.item(taskId, path))
    },
    record: (path, { distinct, copy = '', ...item }) =>
      put({ path, state: distinct ? 'copied' : 'replaced', copy, ...item }),
    resumableUpload: (path, source) => uploads.forFile(taskId, path, source),
    begin: async (path) => {
      await put({ path, state: 'begun' })
      await flush()
    },
    forget: (path) => store.deleteItem(taskId, path),
    hasBegun: async (path) => {
      await flush()
      const row = await store.item(taskId, path)
      return row?.state === 'begun' || copiedState(row) !== undefined
    },
    recordExtraneous: (folder, names) => {
      const extraneous = names.map((name) => ({ path: childOf(folder, name), state: 'extraneous' }) as const)
      const begun = { path: folder, state: 'begun' } as const
      return journal.store.putItems([begun, ...extraneous].map((row) => ({ ...noItem, taskId, ...row })))
    },
    flushed: flush,
    fail: (path, error, errorName) => put({ path, state: 'failed', error, errorName }),
    clearFailures: async () => {
      await flush()
      await store.clearFailures(taskId)
    },
  }
}

/** Undefined if the item was not copied. */
function copiedState(row: TaskItemRow | undefined): CopiedState | undefined {
  if (row?.state !== 'copied' && row?.state !== 'replaced') return undefined
  const { source, copy, size, state } = row
  return { source, size, distinct: state === 'copied', copy: copy === '' ? undefined : copy }
}
