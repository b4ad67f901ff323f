/** Background work, as the API reports it. */
import type { Data } from '../api/client.ts'

export const kinds = ['upload', 'copy', 'move', 'offline_download', 'offline_download_transfer'] as const
export type Kind = (typeof kinds)[number]

/** Where the tasks of the user are, and those of all users. */
export type TaskApi = '/api/task' | '/api/admin/task'

export type Task = Data<'/api/task/{kind}/undone'>[number] & { readonly kind: Kind }

/** The key under which the tasks are kept. */
export const rowsKey = 'tasks'

/** Values of `state`. */
export const states = {
  pending: 0,
  running: 1,
  succeeded: 2,
  canceling: 3,
  canceled: 4,
  failed: 7,
  waiting: 8,
} as const

const unfinished: readonly number[] = [states.pending, states.running, states.canceling, states.waiting]

export function isUnfinished({ state }: Task): boolean {
  return unfinished.includes(state)
}
