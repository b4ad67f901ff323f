/** What background work is, and what it takes to be a kind of it. */
import type { CopyJournal } from '../copy-job.js'
import { GatewayError } from '../errors.js'
import type { Principal, Role } from '../principal.js'
import type { TaskItemRow, TaskRow } from '../store/rows.js'

export const taskKinds = ['upload', 'copy', 'move', 'offline_download', 'offline_download_transfer'] as const
export type TaskKind = (typeof taskKinds)[number]

/** 'waiting': for a moment that is better, to try again. */
export const taskStates = ['pending', 'running', 'waiting', 'canceling', 'succeeded', 'canceled', 'failed'] as const
export type TaskState = (typeof taskStates)[number]

/** Background work as it stands now. */
export interface Task extends TaskRow {
  readonly kind: TaskKind
  readonly role: Role
  readonly state: TaskState
}

/** What somebody asks for. */
export interface TaskRequest {
  readonly kind: TaskKind
  /** In the form that clients read links from. */
  readonly name: string
  /** What is to be done, as JSON can say it: it outlives the process. Paths are of the whole tree. */
  readonly plan: object
  /** What clients read until it runs. */
  readonly status?: string
  /** 0 while that is not known. */
  readonly totalBytes: number
}

/** Of one task, about the things that it copies: what an earlier run verified, and what this one does. */
export interface TaskItems extends Omit<CopyJournal, 'resumes'> {
  /** Replaces those of earlier runs. */
  fail(failures: readonly FailedItem[]): Promise<void>
}

export type FailedItem = Pick<TaskItemRow, 'path' | 'error'>

/** One run of a task. */
export interface TaskRun {
  readonly task: Task
  /** Who asked for it, as the account is now. */
  readonly principal: Principal
  /** Aborts when it is canceled, when the program stops, and when the principal loses authority. */
  readonly signal: AbortSignal
  /** An earlier run may have done something of it. */
  readonly resumes: boolean
  readonly items: TaskItems
  /** What clients read while it runs. */
  status(text: string): void
  /** What clients read once this run is over, beside its error: what they have to know although nothing failed. */
  remark(text: string): void
  /** How much there is to do, as far as that is known. */
  total(bytes: number): void
  /** So many bytes more are done; of what has to be done again, fewer. */
  readonly advance: (bytes: number) => void
}

/** How the tasks of one kind do their work. */
export interface TaskType {
  /** Works from the beginning, or from wherever an earlier run came to. Its rejection is the task's error. */
  run(run: TaskRun): Promise<void>
  /** One that failed can be tried again: what is kept of the files that it had in hand stays. */
  readonly retries?: boolean
  /** Lets go of what was kept for a task: called when it has ended, however, and again when it is forgotten. */
  dispose?(task: Task): Promise<void>
}

export function isOver({ state }: Pick<Task, 'state'>): boolean {
  return state === 'succeeded' || state === 'canceled' || state === 'failed'
}

/** The plan of a task, as it was put in. */
export function planOf(task: Pick<TaskRow, 'plan'>): unknown {
  try {
    return JSON.parse(task.plan) as unknown
  } catch (error) {
    throw new GatewayError('internal', { reason: 'the plan of this task cannot be read', cause: error })
  }
}
