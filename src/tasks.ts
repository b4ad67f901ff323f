import type { Principal } from './principal.js'

export type TaskKind = 'upload' | 'copy' | 'move' | 'offline_download' | 'offline_download_transfer'
export type TaskState =
  | 'pending'
  | 'running'
  | 'succeeded'
  | 'canceling'
  | 'canceled'
  | 'errored'
  | 'failing'
  | 'failed'
  | 'waiting_retry'
  | 'before_retry'

/** Background work as it stands now. */
export interface Task {
  readonly id: string
  readonly kind: TaskKind
  readonly name: string
  readonly userId: number
  readonly username: string
  readonly role: Principal['role']
  readonly state: TaskState
  readonly status: string
  readonly error: string
  readonly totalBytes: number
  readonly doneBytes: number
  readonly started: Date | undefined
  readonly ended: Date | undefined
}

export interface TaskWork {
  readonly kind: TaskKind
  readonly name: string
  readonly totalBytes: number
  /** Does the work; tells the bytes done so far. Its rejection is the task's error. */
  run(progress: (doneBytes: number) => void, signal: AbortSignal): Promise<void>
}

export interface Tasks {
  add(principal: Principal, work: TaskWork): Promise<Task>
}
