/**
 * Background tasks as users see them. Every task is stored before it is queued, so a task that a stop, a crash or a
 * kill interrupts resumes at the next start, or on another node (docs/decisions/0013, 0036): `OwnTasks` holds and
 * stores those of this node, `TaskRuns` queues and runs them, `TasksElsewhere` reaches those of other nodes, and
 * `FinishedTasks` deletes old ones. The `TaskType` registered for a kind does the work of that kind.
 */
import { randomBytes } from 'node:crypto'
import type { Principal } from '../accounts/principal.js'
import { settlesWithin } from '../base/cancellation.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { TaskAction, TaskRequestRow } from '../database/tables/tasks.js'
import type { OfOthers, Store } from '../database/tables.js'
import type { Settings } from '../settings/settings.js'
import { FinishedTasks } from './finished-tasks.js'
import { OwnTasks, type OwnTask } from './own-tasks.js'
import { TaskRuns, type TaskRunsDependencies } from './task-runs.js'
import { TasksElsewhere, type TaskFilter } from './tasks-elsewhere.js'
import { hasEnded, type FailedItem, type Task, type TaskKind, type TaskRequest, type TaskType } from './task.js'

interface TasksDependencies extends TaskRunsDependencies {
  readonly store: Pick<Store, 'tasks' | 'relaxed' | 'onForeignChange'>
  readonly settings: Pick<Settings, 'number' | 'onChange'>
  readonly ofOthers: OfOthers
}

/** Milliseconds that a request of another node waits for the one before it. */
const serveTimeout = 500

export class Tasks {
  readonly #runs: TaskRuns
  readonly #finished: FinishedTasks
  readonly #elsewhere: TasksElsewhere
  readonly #unsubscribe: () => void

  private constructor(
    private readonly dependencies: TasksDependencies,
    private readonly own: OwnTasks,
  ) {
    const { store } = dependencies
    const answer = (requests: readonly TaskRequestRow[]) => this.#answer(requests)
    this.#elsewhere = new TasksElsewhere(store, dependencies.ofOthers, own, answer)
    this.#runs = new TaskRuns(dependencies, own, () => this.#finished.add())
    this.#finished = new FinishedTasks(dependencies, own, (tasks) => this.#runs.delete(tasks))
    this.#unsubscribe = dependencies.settings.onChange(() => {
      this.#runs.admit()
      void this.#finished.sweep()
    })
  }

  /** Loads the stored tasks of this node. None of them runs before `start`. */
  static async load(dependencies: TasksDependencies): Promise<Tasks> {
    const own = new OwnTasks(dependencies.store.tasks, dependencies.log)
    await own.load()
    return new Tasks(dependencies, own)
  }

  /** Sets the implementation of a kind. Must be called before `start`. */
  register(kind: TaskKind, type: TaskType): void {
    this.#runs.types.set(kind, type)
  }

  /** Queues the unfinished tasks of earlier processes. */
  async start(): Promise<void> {
    await this.#adopt(this.own.all)
  }

  /**
   * Loads the tasks that this node owns now because their nodes have ended, and queues the unfinished ones. Must be
   * repeated if it rejects.
   */
  async takeOver(): Promise<void> {
    await this.#adopt(await this.own.load())
  }

  async #adopt(tasks: readonly OwnTask[]): Promise<void> {
    const loaded = tasks.map((own) => ({ own, task: own.task }))
    const isUnchanged = ({ own, task }: (typeof loaded)[number]) => own.gone === undefined && own.task === task
    try {
      // First: a task that a user has canceled does not run.
      await this.#elsewhere.serve()
    } catch (error) {
      for (const each of loaded) if (isUnchanged(each)) this.own.release(each.own)
      throw error
    }
    for (const each of loaded) if (isUnchanged(each) && !hasEnded(each.task)) await this.#runs.resume(each.own)
    // An earlier process may have been killed after it stored the end of a task and before it disposed of it.
    const withUploads = new Set(await this.dependencies.uploads.tasksWithUploads())
    for (const each of loaded) {
      if (isUnchanged(each) && hasEnded(each.task) && withUploads.has(each.task.id)) await this.#runs.dispose(each.own)
    }
    await this.#finished.sweep()
  }

  /** The tasks of this node, of all users, finished or not. */
  get all(): readonly Task[] {
    return this.own.all.map(({ task }) => task)
  }

  /** The tasks of all nodes in the order of their creation; those of other nodes as they were stored last. */
  async ofAllNodes(which: TaskFilter = {}): Promise<readonly Task[]> {
    const { kind, userId } = which
    const own = this.all.filter(
      (task) => (kind === undefined || task.kind === kind) && (userId === undefined || task.userId === userId),
    )
    return this.#elsewhere.with(own, which)
  }

  /**
   * Stores and queues a task. It does not depend on the caller's session: it runs with the authority that the account
   * has then. Rejects with `throttled` if the user has too many unfinished tasks, or too large ones.
   */
  async add({ userId, username, role }: Principal, { plan, subject, ...request }: TaskRequest): Promise<Task> {
    const task: Task = {
      ...request,
      id: randomBytes(16).toString('base64url'),
      userId,
      username,
      role,
      state: 'pending',
      status: '',
      error: '',
      doneBytes: 0,
      subject: JSON.stringify(subject),
      plan: JSON.stringify(plan),
      tries: 0,
      created: new Date(),
      started: undefined,
      ended: undefined,
    }
    await this.#elsewhere.assertRoomFor(task)
    this.#runs.enqueue(await this.own.add(task))
    return task
  }

  /** The tasks that the principal may see, in the order of their creation: an admin sees those of all users. */
  async list({ role, userId }: Principal, kind: TaskKind): Promise<readonly Task[]> {
    return this.ofAllNodes({ kind, ...(role !== 'admin' && { userId }) })
  }

  /** Rejects with `not_found` if the task does not exist, is of another kind, or belongs to another user. */
  async get({ role, userId }: Principal, kind: TaskKind, id: string): Promise<Task> {
    const task = this.own.get(id)?.task ?? (await this.#elsewhere.get(id))
    if (task?.kind !== kind || (role !== 'admin' && task.userId !== userId)) {
      throw new GatewayError('not_found', { detail: 'task_missing' })
    }
    return task
  }

  /** The items that the last run could not process. */
  async failures(task: Task): Promise<readonly FailedItem[]> {
    return this.dependencies.store.tasks.failed(task.id)
  }

  // For tasks of other nodes, the following send requests to their owners. They resolve when the owners have served
  // them, or after a short time: the requests are then served later.

  /** Cancels a task. Does nothing if it has finished. */
  async cancel(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    const task = await this.get(principal, kind, id)
    if (!hasEnded(task)) await this.#act([task], 'cancel')
  }

  /** Cancels a task if it has not finished, and deletes it. */
  async delete(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    await this.#act([await this.get(principal, kind, id)], 'delete')
  }

  /**
   * Queues a failed, canceled or waiting task immediately. Does nothing in any other state. Rejects as
   * `TaskType.assertRetryable` throws.
   */
  async retry(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    const task = await this.get(principal, kind, id)
    if (this.#runs.isRetryable(task)) await this.#act([task], 'retry')
  }

  /** Deletes the finished tasks that the principal may see and whose state is one of `states`. */
  async clear(principal: Principal, kind: TaskKind, states: readonly Task['state'][]): Promise<void> {
    const tasks = await this.list(principal, kind)
    const finished = tasks.filter((task) => hasEnded(task) && states.includes(task.state))
    await this.#act(finished, 'clear')
  }

  /** Queues all failed tasks that can run again. */
  async retryFailed(principal: Principal, kind: TaskKind): Promise<void> {
    const failed = (await this.list(principal, kind)).filter(({ state }) => state === 'failed')
    const retryable = failed.filter((task) => {
      try {
        return this.#runs.isRetryable(task)
      } catch (error) {
        // It cannot run again: it stays failed.
        if (isGatewayError(error, 'unsupported')) return false
        throw error
      }
    })
    await this.#act(retryable, 'retry')
  }

  /** Acts on the tasks of this node, and sends requests to the owners of the others. */
  async #act(tasks: readonly Task[], action: TaskAction): Promise<void> {
    const own = tasks.flatMap(({ id }) => this.own.get(id) ?? [])
    const others = tasks.map(({ id }) => id).filter((id) => !this.own.get(id))
    if (action === 'delete' || action === 'clear') await this.#runs.delete(own)
    else for (const each of own) await this.#runs[action](each)
    await this.#elsewhere.send(others, action)
  }

  /** Serves requests of other nodes. A request to delete a task is deleted with it. */
  async #answer(requests: readonly TaskRequestRow[]): Promise<void> {
    const { log, store } = this.dependencies
    const deleted = new Set<OwnTask>()
    for (const { id, taskId, action } of requests) {
      const own = this.own.get(taskId)
      // It is being deleted, or will be loaded.
      if (!own) continue
      if (action === 'delete' || (action === 'clear' && hasEnded(own.task))) {
        deleted.add(own)
        continue
      }
      const served = action === 'clear' ? Promise.resolve() : this.#runs[action](own)
      const stored = served
        .catch((error: unknown) =>
          log.warn({ err: error, task: taskId }, `failed to ${action} a task for another node`),
        )
        .then(() => store.tasks.deleteRequest(id))
      // Other requests do not wait for a backend that is slow to dispose of a task.
      await settlesWithin(stored, serveTimeout)
    }
    this.#runs.delete([...deleted]).catch((error: unknown) => log.warn({ err: error }, 'failed to delete tasks'))
  }

  /** Stops the tasks. See `TaskRuns.close`. */
  async close(): Promise<void> {
    this.#unsubscribe()
    this.#elsewhere.close()
    this.#finished.close()
    await this.#runs.close()
  }
}
