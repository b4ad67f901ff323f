/** What is written down of a download and of what comes of it: it outlives the process. */
import { isOver, planOf, type Task } from '../tasks/task.js'
import type { Path } from '../path.js'

/** When what a program fetched is removed from the local disk: after it was stored in the tree, or could not be. */
export const deletePolicies = [
  'delete_on_upload_succeed',
  'delete_on_upload_failed',
  'delete_never',
  'delete_always',
  'upload_download_stream',
] as const
export type DeletePolicy = (typeof deletePolicies)[number]

/** Of what `SimpleHttp` fetches nothing lies on the local disk. */
export interface DownloadPlan {
  /** Programs know it by this. */
  readonly id: string
  readonly tool: string
  readonly address: string
  /** The folder in the whole tree. */
  readonly to: Path
  /** Of the folder. */
  readonly password?: string | undefined
  readonly policy: DeletePolicy
  /** On the local disk, absolute. */
  readonly folder: string
  /** Minutes to give to others once it is whole; negative: for ever. */
  readonly seedMinutes: number
}

/** One file or folder that a program fetched, on its way into the tree. */
export interface FetchedPlan extends Pick<DownloadPlan, 'id' | 'to' | 'password' | 'policy' | 'folder'> {
  /** Its name in that folder. */
  readonly entry: string
}

export function downloadPlan(task: Task): DownloadPlan {
  return planOf(task) as DownloadPlan
}

export function fetchedPlan(task: Task): FetchedPlan {
  return planOf(task) as FetchedPlan
}

/** Whether what a task brought into the tree, or could not, has to go from the local disk. */
export function isLetGo(policy: DeletePolicy, task: Task, isForgotten: boolean): boolean {
  if (!isOver(task) || policy === 'delete_never') return false
  // Nobody could try it again.
  if (isForgotten || policy === 'delete_always' || policy === 'upload_download_stream') return true
  if (task.state === 'succeeded') return policy === 'delete_on_upload_succeed'
  return task.state === 'failed' && policy === 'delete_on_upload_failed'
}
