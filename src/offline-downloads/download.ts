/** The stored plans of downloads and of the transfers of their files. */
import type { Path } from '../base/path.js'
import { hasEnded, planOf, type Task } from '../tasks/task.js'

/**
 * When the files of a download are deleted from where they were put first: after they were stored in the tree, or that
 * has failed.
 */
export const deletePolicies = [
  'delete_on_upload_succeed',
  'delete_on_upload_failed',
  'delete_never',
  'delete_always',
  'upload_download_stream',
] as const
export type DeletePolicy = (typeof deletePolicies)[number]

/** Where a storage downloads by itself. */
export interface RemotePlace {
  readonly storageId: number
  /** The folder in that storage. */
  readonly folder: Path
  /** Whether this is the target folder, so that nothing has to be transferred. */
  readonly isTarget: boolean
  /** The id of the download at the backend; absent if it is not known that the backend has one. */
  readonly downloadId?: string | undefined
  /** Whether the backend has downloaded everything. */
  readonly isComplete?: boolean | undefined
}

/** The plan of a download. `SimpleHttp` does not use the fields of the local disk. */
export interface DownloadPlan {
  /** The id of the download in the program. */
  readonly id: string
  readonly tool: string
  readonly address: string
  /** The target folder in the whole tree. */
  readonly to: Path
  /** The password of the target folder. */
  readonly password?: string | undefined
  readonly policy: DeletePolicy
  /** Absolute path on the local disk. A storage that downloads by itself does not use it. */
  readonly folder: string
  /** Stored before a storage starts to download. */
  readonly remote?: RemotePlace | undefined
  /** Minutes to seed once the download is complete; negative: for ever. */
  readonly seedMinutes: number
}

/** The transfer of one downloaded file or folder into the tree. */
export interface FetchedPlan extends Pick<DownloadPlan, 'id' | 'to' | 'password' | 'policy' | 'folder' | 'remote'> {
  /** The name of the file or folder in the folder of the download. */
  readonly entry: string
}

export function downloadPlan(task: Task): DownloadPlan {
  return planOf(task) as DownloadPlan
}

export function fetchedPlan(task: Task): FetchedPlan {
  return planOf(task) as FetchedPlan
}

/** Whether the downloaded files of a transfer are to be deleted. `isForgotten`: the task has been deleted. */
export function shouldDiscardFiles(policy: DeletePolicy, task: Task, isForgotten: boolean): boolean {
  if (!hasEnded(task) || policy === 'delete_never') return false
  // A deleted task cannot be retried.
  if (isForgotten || policy === 'delete_always' || policy === 'upload_download_stream') return true
  if (task.state === 'succeeded') return policy === 'delete_on_upload_succeed'
  return task.state === 'failed' && policy === 'delete_on_upload_failed'
}
