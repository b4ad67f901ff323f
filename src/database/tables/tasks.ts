/** Tasks, their items, and the requests to their nodes. */
import type { Path } from '../../base/path.js'
import type { Role } from './accounts.js'

export interface TaskRow {
  readonly id: string
  readonly kind: string
  /** The subject of the task, as JSON text. Of a task that an earlier version added: a text for users. */
  readonly subject: string
  readonly userId: number
  /** Name and role of the user at the time of the request. */
  readonly username: string
  readonly role: Role
  readonly state: string
  readonly status: string
  readonly error: string
  /** The name of the failure: its detail or code. Of several, that of the first. */
  readonly errorName?: string | undefined
  readonly totalBytes: number
  readonly doneBytes: number
  /** The present phase of the task, for other processes; as JSON. */
  readonly phase?: unknown
  /** The task's plan, as JSON text. */
  readonly plan: string
  /** Number of runs since the task was requested or last retried by a user. */
  readonly tries: number
  readonly created: Date
  /** Start of its first run. */
  readonly started: Date | undefined
  readonly ended: Date | undefined
}

/** The unfinished tasks of one user. */
export interface UnfinishedTasks {
  readonly userId: number
  readonly count: number
  /** Characters of their names and plans. */
  readonly size: number
}

/** The action that a user asks for on a task that another node owns. 'clear' deletes a task that has ended. */
export type TaskAction = 'cancel' | 'retry' | 'delete' | 'clear'

export interface TaskRequestRow {
  readonly id: number
  readonly taskId: string
  readonly action: TaskAction
}

/** The journaled result of one item of a copy or move task. */
export interface TaskItemRow {
  readonly taskId: string
  /** Path of the source in the whole tree. */
  readonly path: Path
  /**
   * 'begun': a folder whose copy this task creates, or whose extraneous target entries are already recorded. 'copied':
   * the copy exists, is verified, and is distinct from the source. 'replaced': the copy exists and is verified, but it
   * replaced an entry that could not be proved distinct from the source. 'extraneous': an entry of the target,
   * with no counterpart in the source; it is removed after all other items.
   */
  readonly state: 'begun' | 'copied' | 'replaced' | 'extraneous' | 'failed'
  /** State of the source when it was copied, its `contentVersion`. */
  readonly source: string
  /** State of the copy when it was verified, in the same form; empty if it was not recorded. */
  readonly copy: string
  readonly size: number
  readonly error: string
  readonly errorName?: string | undefined
}

/** Each task belongs to a node, which alone changes it and its items. */
export interface TaskRows {
  /** The tasks of all nodes, in the order of their creation. */
  all(which?: Partial<Pick<TaskRow, 'kind' | 'userId'>>): Promise<TaskRow[]>
  /** The tasks of this node, in the order of their creation. */
  owned(): Promise<TaskRow[]>
  get(id: string): Promise<TaskRow | undefined>
  /** The unfinished tasks of each user who has some, on all nodes. */
  unfinished(): Promise<UnfinishedTasks[]>
  /** When the task ended after which `count` others ended, on all nodes; undefined if there is none. */
  endOfOlder(count: number): Promise<Date | undefined>
  /** Adds a task of this node. */
  insert(row: TaskRow): Promise<void>
  /** False if this node does not own the task, or it was deleted. */
  update(row: TaskRow): Promise<boolean>
  /** Stores the progress of a task that runs on this node. Does nothing for any other. */
  setProgress(row: Pick<TaskRow, 'id' | 'totalBytes' | 'doneBytes' | 'phase'>): Promise<void>
  /** Deletes tasks of this node and their items in one transaction. Returns the number of deleted tasks. */
  delete(ids: readonly string[]): Promise<number>
  /**
   * Stores items in one transaction. A 'failed' row changes only the error of an existing row. Rows of tasks that
   * were deleted, or that this node does not own, are skipped. Resolves to the ids of these tasks.
   */
  putItems(rows: readonly TaskItemRow[]): Promise<ReadonlySet<string>>
  /** Items of the members of a folder. */
  itemsIn(taskId: string, folder: Path): Promise<TaskItemRow[]>
  item(taskId: string, path: Path): Promise<TaskItemRow | undefined>
  /** Items with an error. */
  failed(taskId: string): Promise<TaskItemRow[]>
  deleteItem(taskId: string, path: Path): Promise<void>
  deleteItems(taskId: string): Promise<void>
  clearFailures(taskId: string): Promise<void>
  /** Adds a request for each of the tasks that exist. */
  request(taskIds: readonly string[], action: TaskAction): Promise<void>
  /** The requests for tasks of this node, in the order in which they were added. */
  requests(): Promise<TaskRequestRow[]>
  /** Whether such a request for one of the tasks was not served yet. */
  hasRequests(taskIds: readonly string[], action: TaskAction): Promise<boolean>
  /** Deletes a request that was served. Those for a task are also deleted with it. */
  deleteRequest(id: number): Promise<void>
}
