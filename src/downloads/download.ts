/** The stored plans of downloads and of the transfers of their files. */
import type { Path } from '../contract/path.js'
import { hasEnded, planOf, type Task } from '../tasks/task.js'

/**
 * When the files of a download are deleted from the local disk: after they were stored in the tree, or that has failed.
 */
export const deletePolicies = [
  'delete_on_upload_succeed',
  'delete_on_upload_failed',
  'delete_never',
  'delete_always',
  'upload_download_stream',
] as const
export type DeletePolicy = (typeof deletePolicies)[number]

/** The plan of a download. `SimpleHttp` does not use the fields of the local disk. */
export interface DownloadPlan {
  /** The id in the program. */
  readonly id: string
  readonly tool: string
  readonly address: string
  /** The target folder in the whole tree. */
  readonly to: Path
  /** The password of the target folder. */
  readonly password?: string | undefined
  readonly policy: DeletePolicy
  /** Absolute path on the local disk. */
  readonly folder: string
  /** Minutes to seed once the download is complete; negative: for ever. */
  readonly seedMinutes: number
}

/** The transfer of one downloaded file or folder into the tree. */
export interface FetchedPlan extends Pick<DownloadPlan, 'id' | 'to' | 'password' | 'policy' | 'folder'> {
  /** Its name in the folder of the download. */
  readonly entry: string
}

export function downloadPlan(task: Task): DownloadPlan {
  return planOf(task) as DownloadPlan
}

export function fetchedPlan(task: Task): FetchedPlan {
  return planOf(task) as FetchedPlan
}

/** Whether the local files of a transfer are to be deleted. `isForgotten`: the task has been deleted. */
export function shouldDiscardFiles(policy: DeletePolicy, task: Task, isForgotten: boolean): boolean {
  if (!hasEnded(task) || policy === 'delete_never') return false
  // A deleted task cannot be retried.
  if (isForgotten || policy === 'delete_always' || policy === 'upload_download_stream') return true
  if (task.state === 'succeeded') return policy === 'delete_on_upload_succeed'
  return task.state === 'failed' && policy === 'delete_on_upload_failed'
}
