/**
 * The tasks of this node: in memory, where they are up to date, and as rows. A task is in memory before its row is
 * stored, so that `load` does not return it, and its changes are stored in their order. Only the owner of a task writes
 * its rows. A write that finds that another node has taken the task over, because this one did not respond in time,
 * stops its run here and forgets it.
 */
import { GatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { TaskItemRow } from '../database/tables/tasks.js'
import type { Store } from '../database/tables.js'
import type { Task } from './task.js'

/** A task of this node, and its state in this process. */
export interface OwnTask {
  task: Task
  /** The current run. */
  run?: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined
  /** Settles when its last state is stored. */
  stored: Promise<void>
  /** Queues the task later. */
  timer?: NodeJS.Timeout | undefined
  /** The remark of the last run. */
  remark: string
  /** Whether the end is being recorded: the task neither starts nor is canceled any more. */
  isEnding: boolean
  /** 'lost': another node owns the task. Set: no longer listed or stored here. */
  gone?: 'deleted' | 'lost' | undefined
}

export class OwnTasks {
  readonly #tasks = new Map<string, OwnTask>()
  /** Ids of the tasks whose rows are being deleted. */
  readonly #deleting = new Set<string>()

  constructor(
    private readonly table: Store['tasks'],
    private readonly log: Log,
  ) {}

  get all(): readonly OwnTask[] {
    return [...this.#tasks.values()]
  }

  get(id: string): OwnTask | undefined {
    return this.#tasks.get(id)
  }

  /** Whether a stored task is not in memory, because another node owns it or has just owned it. */
  isElsewhere({ id }: Pick<Task, 'id'>): boolean {
    return !this.#tasks.has(id) && !this.#deleting.has(id)
  }

  /** Loads the stored tasks of this node, and returns those that were not in memory. */
  async load(): Promise<readonly OwnTask[]> {
    const rows = (await this.table.owned()) as Task[]
    return rows.filter((row) => this.isElsewhere(row)).map((task) => this.#hold(task))
  }

  /** Stores a new task. */
  async add(task: Task): Promise<OwnTask> {
    const own = this.#hold(task)
    try {
      await this.table.insert(task)
    } catch (error) {
      this.release(own)
      throw error
    }
    return own
  }

  /** Changes a task at once. Resolves when it is stored. Rejects with `unavailable` if another node owns it. */
  update(own: OwnTask, changes: Partial<Task>): Promise<void> {
    own.task = { ...own.task, ...changes }
    // One statement after another: the database may execute concurrent ones in any order.
    own.stored = own.stored.catch(() => undefined).then(() => this.#store(own))
    return own.stored
  }

  /** Stores items of tasks, except those of tasks that are gone. */
  async putItems(items: readonly TaskItemRow[]): Promise<void> {
    for (const id of await this.table.putItems(items)) this.#lose(id)
  }

  /** Stops the runs of tasks and deletes them. Rejects with `unavailable` if another node owns one of them. */
  async delete(tasks: readonly OwnTask[]): Promise<void> {
    const ids = tasks.map(({ task }) => task.id)
    for (const id of ids) this.#deleting.add(id)
    for (const own of tasks) this.#forget(own, 'deleted')
    try {
      if ((await this.table.delete(ids)) < ids.length) throw takenOver()
    } finally {
      for (const id of ids) this.#deleting.delete(id)
    }
  }

  /** Removes a task from memory. Its row stays, so that `load` returns it again. */
  release({ task }: OwnTask): void {
    this.#tasks.delete(task.id)
  }

  #hold(task: Task): OwnTask {
    const own: OwnTask = { task, stored: Promise.resolve(), remark: '', isEnding: false }
    this.#tasks.set(task.id, own)
    return own
  }

  async #store(own: OwnTask): Promise<void> {
    if (own.gone === undefined && !(await this.table.update(own.task))) this.#lose(own.task.id)
    const isLost = () => own.gone === 'lost'
    if (isLost()) throw takenOver()
  }

  /** Does nothing if the task was deleted here. */
  #lose(id: string): void {
    const own = this.#tasks.get(id)
    if (!own) return
    this.log.warn({ task: id }, 'another node has taken over a task')
    this.#forget(own, 'lost')
  }

  #forget(own: OwnTask, gone: 'deleted' | 'lost'): void {
    own.gone = gone
    this.release(own)
    clearTimeout(own.timer)
    own.run?.stop.abort()
  }
}

function takenOver(): GatewayError {
  return new GatewayError('unavailable', { reason: 'another node has taken over this task' })
}
