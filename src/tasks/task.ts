/**
 * The types of background tasks, the interface that implements one kind of them, and how many may be unfinished: those
 * are in memory.
 */
import type { Principal } from '../accounts/principal.js'
import { GatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import type { TaskItemRow, TaskRow, UnfinishedTasks } from '../database/tables/tasks.js'
import type { CopyJournal } from '../transfer/copy-job.js'
import { maxText } from './failures.js'

export const taskKinds = ['upload', 'copy', 'move', 'offline_download', 'offline_download_transfer'] as const
export type TaskKind = (typeof taskKinds)[number]

/** 'waiting': failed with a transient error, and is retried after a delay. */
export const taskStates = ['pending', 'running', 'waiting', 'canceling', 'succeeded', 'canceled', 'failed'] as const
export type TaskState = (typeof taskStates)[number]

/** The present phase of a task. `tool`: the report of the program that downloads for the task. */
export type TaskPhase =
  | 'looking_up'
  | 'transferring_file'
  | 'listing_folder'
  | 'transferring_folder'
  | 'storing_upload'
  | 'storing_download'
  | 'seeding'
  | { readonly tool: string; readonly state: string }

/** A path of the tree in two parts, as it was when the task was added: storages may have changed. */
export interface TaskPlace {
  /** The mount path of the storage; the root if none is mounted there. */
  readonly mount: Path
  /** The path in the storage. */
  readonly inner: Path
}

/** The subject of a task, for users. `to`: the folder that gets the files. */
export type TaskSubject =
  | { readonly verb: 'copy' | 'move' | 'merge'; readonly from: TaskPlace; readonly to: TaskPlace }
  | { readonly verb: 'upload'; readonly name: string; readonly to: TaskPlace }
  | { readonly verb: 'download'; readonly address: string; readonly to: Path }
  /** `from` is a name if the file is not in the tree. */
  | { readonly verb: 'transfer'; readonly from: TaskPlace | { readonly name: string }; readonly to: TaskPlace }
  /** A text of an earlier version. */
  | { readonly text: string }

/** A task in its current state. */
export interface Task extends TaskRow {
  readonly kind: TaskKind
  readonly state: TaskState
  /** Undefined if it does not run, or has just started. The next run of the task sets its own. */
  readonly phase?: TaskPhase | undefined
}

/** A new task. */
export interface TaskRequest {
  readonly kind: TaskKind
  readonly subject: TaskSubject
  /** The work as a JSON object; it is stored. Its paths are paths of the whole tree. */
  readonly plan: object
  /** The phase until the task runs. */
  readonly phase?: TaskPhase
  /** Bytes of the task; 0 if not known yet. */
  readonly totalBytes: number
}

/** The journal of the items of one task: what earlier runs verified, and what this run has done. */
export interface TaskItems extends Omit<CopyJournal, 'resumes'> {
  /** Forgets the failures of earlier runs. */
  clearFailures(): Promise<void>
}

export type FailedItem = Pick<TaskItemRow, 'path' | 'error' | 'errorName'>

/** One run of a task. */
export interface TaskRun {
  readonly task: Task
  /** The user who created the task, with the current authority of the account. */
  readonly principal: Principal
  /** Aborts when the task is canceled, the program stops, or the principal loses its authority. */
  readonly signal: AbortSignal
  /** True if an earlier run may have done part of the work. */
  readonly resumes: boolean
  readonly items: TaskItems
  setPhase(phase: TaskPhase): void
  /** Replaces the plan of the task. Resolves when it is stored. This run's `task` still has the old one. */
  setPlan(plan: object): Promise<void>
  /** Sets a text that is shown after the run, in addition to its error, such as a warning of a successful run. */
  setRemark(text: string): void
  /** Sets the known total in bytes. */
  setTotal(bytes: number): void
  /** Adds to the completed bytes. Negative if some of them have to be transferred again. */
  readonly advance: (bytes: number) => void
}

/** Implements the tasks of one kind. */
export interface TaskType {
  /** Does the work, or resumes it. A rejection becomes the task's error. */
  run(run: TaskRun): Promise<void>
  /** True if the resumable uploads of a failed task are retained for a retry. */
  readonly resumable?: boolean
  /** Throws `unsupported` if a task that has ended cannot run again. Absent if every task can. */
  assertRetryable?(task: Task): void
  /**
   * Releases the task's resources. Called when the task has ended in any state, and again when it is deleted. `setPlan`
   * as in `TaskRun`.
   */
  dispose?(task: Task, setPlan: TaskRun['setPlan']): Promise<void>
}

export function hasEnded({ state }: Pick<Task, 'state'>): boolean {
  return state === 'succeeded' || state === 'canceled' || state === 'failed'
}

/** The parsed plan of a task. Throws `internal` if the stored text is not JSON. */
export function planOf(task: Pick<TaskRow, 'plan'>): unknown {
  try {
    return JSON.parse(task.plan) as unknown
  } catch (error) {
    throw new GatewayError('internal', { reason: 'the plan of this task cannot be read', cause: error })
  }
}

export function subjectOf({ subject }: Pick<TaskRow, 'subject'>): TaskSubject {
  return subject.startsWith('{') ? (JSON.parse(subject) as TaskSubject) : { text: subject }
}

/** Maximum number of unfinished tasks of one user. */
const maxPerUser = 10_000
/**
 * Characters of the unfinished tasks of all users. One user may have as many as are left after
 * that: half of them if the others have none.
 */
const maxSize = 64 * 1024 * 1024

/** Rejects a new task that its user, or the memory, has no room for. `unfinished`: the tasks that there are. */
export function assertRoomFor(task: Task, unfinished: readonly UnfinishedTasks[]): void {
  const all = [...unfinished, ...unfinishedOf([task])]
  const own = all.filter(({ userId }) => userId === task.userId)
  const count = own.reduce((sum, tasks) => sum + tasks.count, 0)
  // Each of them may still get a text.
  const sizeOf = (of: typeof all) => of.reduce((sum, tasks) => sum + tasks.size + tasks.count * maxText, 0)
  if (count > maxPerUser || sizeOf(own) > maxSize - sizeOf(all)) {
    throw new GatewayError('throttled', { reason: 'too many tasks are waiting' })
  }
}

export function unfinishedOf(tasks: readonly Task[]): UnfinishedTasks[] {
  const unfinished = tasks.filter((task) => !hasEnded(task))
  return unfinished.map(({ userId, subject, plan }) => ({ userId, count: 1, size: subject.length + plan.length }))
}
