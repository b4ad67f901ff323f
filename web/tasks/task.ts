/** Background work, as the API reports it. */
import type { Data } from '../api/client.ts'
import { TaskKind, TaskState } from '../api/schema.ts'

export const kinds = Object.values(TaskKind)

/** Where the tasks of the user are, and those of all users. */
export type TaskApi = '/api/task' | '/api/admin/task'

export type Task = Data<'/api/task/{kind}/undone'>[number] & { readonly kind: TaskKind }

const { pending, running, canceling, waiting } = TaskState
const unfinished: readonly TaskState[] = [pending, running, canceling, waiting]

export function isUnfinished({ state }: Task): boolean {
  return unfinished.includes(state)
}
