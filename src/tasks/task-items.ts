/** What is kept of the things that one task copies: rows of the store, some of them still on their way there. */
import type { CopiedState } from '../copy-job.js'
import type { KeptUploads } from '../kept-uploads.js'
import { childOf, nameOf } from '../path.js'
import type { Store, TaskItemRow } from '../store/rows.js'
import type { ItemJournal } from './item-journal.js'
import type { TaskItems } from './task.js'

interface ItemParts {
  readonly store: Store['tasks']
  readonly journal: ItemJournal
  readonly uploads: Pick<KeptUploads, 'of'>
}

const noItem = { source: '', copy: '', size: 0, error: '' } as const

export function itemsOf(taskId: string, { store, journal, uploads }: ItemParts): TaskItems {
  const put = (row: Partial<TaskItemRow> & Pick<TaskItemRow, 'path' | 'state'>) =>
    journal.put({ ...noItem, taskId, ...row })
  // What is still gathered is known as well.
  const settled = () => journal.settled()
  return {
    itemsIn: async (folder) => {
      await settled()
      const rows = await store.itemsIn(taskId, folder)
      const known = rows.flatMap((row) => {
        const state = copiedState(row)
        return state ? ([[nameOf(row.path), state]] as const) : []
      })
      const surplus = rows.filter(({ state }) => state === 'surplus')
      return { copied: new Map(known), surplus: surplus.map(({ path }) => nameOf(path)) }
    },
    copied: async (path) => {
      await settled()
      return copiedState(await store.item(taskId, path))
    },
    keep: (path, { apart, copy = '', ...item }) => put({ path, state: apart ? 'copied' : 'replaced', copy, ...item }),
    keptUpload: (path, source) => uploads.of(taskId, path, source),
    begin: async (path) => {
      await put({ path, state: 'begun' })
      await settled()
    },
    takeBack: (path) => store.forgetItem(taskId, path),
    hasBegun: async (path) => {
      await settled()
      const row = await store.item(taskId, path)
      return row?.state === 'begun' || copiedState(row) !== undefined
    },
    keepSurplus: (folder, names) => {
      const surplus = names.map((name) => ({ path: childOf(folder, name), state: 'surplus' }) as const)
      const begun = { path: folder, state: 'begun' } as const
      return store.putItems([begun, ...surplus].map((row) => ({ ...noItem, taskId, ...row })))
    },
    settled,
    fail: async (failures) => {
      await settled()
      await store.forgetFailures(taskId)
      await store.putItems(failures.map((failure) => ({ ...noItem, taskId, state: 'failed', ...failure })))
    },
  }
}

/** Undefined of what was not copied. */
function copiedState(row: TaskItemRow | undefined): CopiedState | undefined {
  if (row?.state !== 'copied' && row?.state !== 'replaced') return undefined
  const { source, copy, size, state } = row
  return { source, size, apart: state === 'copied', copy: copy === '' ? undefined : copy }
}
