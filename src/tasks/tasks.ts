/**
 * Background tasks and their queues. Every task is stored before it is queued, so a task that a stop, a crash or a kill
 * interrupts resumes at the next start (docs/decisions/0013). The `TaskType` registered for a kind does the work of
 * that kind.
 */
import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import PQueue from 'p-queue'
import type { Principal } from '../accounts/principal.js'
import { settlesWithin, joinSignals } from '../contract/cancellation.js'
import { GatewayError, isGatewayError, toGatewayError } from '../contract/errors.js'
import type { Log } from '../contract/log.js'
import type { Settings } from '../settings/settings.js'
import type { Store } from '../store/tables.js'
import type { TaskUploads } from '../transfer/task-uploads.js'
import { failureText, retryDelay } from './failures.js'
import { ItemJournal } from './item-journal.js'
import { taskItemsOf } from './task-items.js'
import {
  hasEnded,
  taskKinds,
  type FailedItem,
  type Task,
  type TaskKind,
  type TaskRequest,
  type TaskRun,
  type TaskType,
} from './task.js'

interface TasksDependencies {
  readonly store: Store['tasks']
  readonly settings: Pick<Settings, 'number' | 'onChange'>
  readonly log: Log
  /** Resumable uploads of the files that tasks transfer. */
  readonly uploads: Pick<TaskUploads, 'forFile' | 'discardAll' | 'tasksWithUploads' | 'close'>
  /** The current principal of an account. Throws if the account is deleted or disabled. */
  readonly authority: (userId: number) => Principal
}

/** A task and its state in this process. */
interface TaskEntry {
  task: Task
  /** Aborts the current run. Undefined if the task is not running. */
  controller: AbortController | undefined
  running: Promise<void> | undefined
  timer: NodeJS.Timeout | undefined
  /** The remark of the last run. */
  remark: string
  /** Deleted: no longer listed or stored. */
  deleted: boolean
}

/** Unfinished tasks of one user. */
const maxPerUser = 10_000
/** Finished tasks of all users. The oldest are deleted first. */
const maxFinished = 10_000
/** Milliseconds between two sweeps of finished tasks. */
const sweepInterval = 3_600_000
/** Milliseconds that `close` waits for running tasks. */
export const tasksCloseTimeout = 8000
const day = 86_400_000

/** The setting that limits the concurrent tasks of each kind. */
const workerSettings: Readonly<Record<TaskKind, string>> = {
  upload: 'upload_task_threads_num',
  copy: 'copy_task_threads_num',
  move: 'move_task_threads_num',
  offline_download: 'offline_download_task_threads_num',
  offline_download_transfer: 'offline_download_transfer_task_threads_num',
}

export class Tasks {
  readonly #entries = new Map<string, TaskEntry>()
  readonly #types = new Map<TaskKind, TaskType>()
  readonly #queues: ReadonlyMap<TaskKind, PQueue>
  readonly #journal: ItemJournal
  readonly #stopping = new AbortController()
  readonly #unsubscribe: () => void
  readonly #sweepTimer: NodeJS.Timeout

  private constructor(
    private readonly dependencies: TasksDependencies,
    rows: readonly Task[],
  ) {
    this.#journal = new ItemJournal(dependencies.store)
    // Every run adds a listener.
    setMaxListeners(0, this.#stopping.signal)
    this.#queues = new Map(taskKinds.map((kind) => [kind, new PQueue({ concurrency: this.#workers(kind) })]))
    this.#unsubscribe = dependencies.settings.onChange(() => {
      for (const [kind, queue] of this.#queues) queue.concurrency = this.#workers(kind)
      void this.#sweep()
    })
    this.#sweepTimer = setInterval(() => void this.#sweep(), sweepInterval).unref()
    for (const task of rows) this.#entries.set(task.id, newEntry(task))
  }

  /** Loads the stored tasks. None of them runs before `start`. */
  static async load(dependencies: TasksDependencies): Promise<Tasks> {
    return new Tasks(dependencies, (await dependencies.store.all()) as Task[])
  }

  /** Sets the implementation of a kind. Must be called before `start`. */
  register(kind: TaskKind, type: TaskType): void {
    this.#types.set(kind, type)
  }

  /** Queues the unfinished tasks of earlier processes. */
  async start(): Promise<void> {
    for (const entry of this.#entries.values()) {
      if (entry.task.state === 'canceling') await this.#finish(entry, { state: 'canceled' })
      else if (!hasEnded(entry.task)) await this.#queue(entry)
    }
    // An earlier process may have been killed after it stored the end of a task and before it disposed of it.
    for (const id of await this.dependencies.uploads.tasksWithUploads()) {
      const entry = this.#entries.get(id)
      if (entry && hasEnded(entry.task)) await this.#dispose(entry)
    }
    await this.#sweep()
  }

  /** All tasks of all users, finished or not. */
  get all(): readonly Task[] {
    return [...this.#entries.values()].map(({ task }) => task)
  }

  /** The tasks of all users that have not finished. */
  get unfinished(): readonly Task[] {
    return [...this.#entries.values()].map(({ task }) => task).filter((task) => !hasEnded(task))
  }

  // Operations of users

  /**
   * Stores and queues a task. It does not depend on the caller's session: it runs with the authority that the account
   * has then. Rejects with `throttled` if the user has too many unfinished tasks.
   */
  async add(principal: Principal, { kind, name, plan, phase, totalBytes }: TaskRequest): Promise<Task> {
    const { userId, username, role } = principal
    const unfinished = [...this.#entries.values()].filter(({ task }) => task.userId === userId && !hasEnded(task))
    if (unfinished.length >= maxPerUser) throw new GatewayError('throttled', { reason: 'too many tasks are waiting' })
    const task: Task = {
      id: randomBytes(16).toString('base64url'),
      kind,
      name,
      userId,
      username,
      role,
      state: 'pending',
      phase,
      status: '',
      error: '',
      totalBytes,
      doneBytes: 0,
      plan: JSON.stringify(plan),
      tries: 0,
      created: new Date(),
      started: undefined,
      ended: undefined,
    }
    const entry = newEntry(task)
    this.#entries.set(task.id, entry)
    try {
      await this.dependencies.store.put(task)
    } catch (error) {
      this.#entries.delete(task.id)
      throw error
    }
    this.#enqueue(entry)
    return task
  }

  /** The tasks that the principal may see, in the order of their creation: an admin sees those of all users. */
  list(principal: Principal, kind: TaskKind): readonly Task[] {
    return [...this.#entries.values()]
      .map(({ task }) => task)
      .filter((task) => task.kind === kind && isVisible(task, principal))
  }

  /** Throws `not_found` if the task does not exist, is of another kind, or belongs to another user. */
  get(principal: Principal, kind: TaskKind, id: string): Task {
    return this.#entry(principal, kind, id).task
  }

  /** The items that the last run could not process. */
  async failures(task: Task): Promise<readonly FailedItem[]> {
    return this.dependencies.store.failed(task.id)
  }

  /** Cancels a task. Does nothing if it has finished. */
  async cancel(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    await this.#cancel(this.#entry(principal, kind, id))
  }

  /** Cancels a task if it has not finished, and deletes it. */
  async delete(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    await this.#remove([this.#entry(principal, kind, id)])
  }

  /**
   * Queues a failed, canceled or waiting task immediately. Does nothing in any other state. Rejects as
   * `TaskType.assertRetryable` throws.
   */
  async retry(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    await this.#retry(this.#entry(principal, kind, id))
  }

  /** Deletes the finished tasks that the principal may see and whose state is one of `states`. */
  async clear(principal: Principal, kind: TaskKind, states: readonly Task['state'][]): Promise<void> {
    await this.#remove(
      this.#visible(principal, kind).filter(({ task }) => hasEnded(task) && states.includes(task.state)),
    )
  }

  /** Queues all failed tasks that can run again. */
  async retryFailed(principal: Principal, kind: TaskKind): Promise<void> {
    for (const entry of this.#visible(principal, kind)) {
      if (entry.task.state !== 'failed') continue
      // `assertRetryable` has refused a task that cannot run again: it stays failed.
      await this.#retry(entry).catch((error: unknown) => {
        if (!isGatewayError(error, 'unsupported')) throw error
      })
    }
  }

  #visible(principal: Principal, kind: TaskKind): readonly TaskEntry[] {
    return [...this.#entries.values()].filter(({ task }) => task.kind === kind && isVisible(task, principal))
  }

  #entry(principal: Principal, kind: TaskKind, id: string): TaskEntry {
    const entry = this.#entries.get(id)
    if (entry?.task.kind !== kind || !isVisible(entry.task, principal)) {
      throw new GatewayError('not_found', { detail: 'task_missing' })
    }
    return entry
  }

  async #cancel(entry: TaskEntry): Promise<void> {
    if (hasEnded(entry.task) || entry.task.state === 'canceling') return
    if (entry.controller === undefined) {
      await this.#finish(entry, { state: 'canceled', status: '' })
      return
    }
    const { controller } = entry
    const stored = this.#update(entry, { state: 'canceling' })
    // Before the row is stored: a run that fails meanwhile counts as canceled and is not retried.
    controller.abort()
    await stored
  }

  async #retry(entry: TaskEntry): Promise<void> {
    const { kind, state } = entry.task
    if (state !== 'failed' && state !== 'canceled' && state !== 'waiting') return
    if (hasEnded(entry.task)) this.#types.get(kind)?.assertRetryable?.(entry.task)
    await this.#queue(entry, 0)
  }

  async #remove(entries: readonly TaskEntry[]): Promise<void> {
    for (const entry of entries) {
      entry.deleted = true
      this.#entries.delete(entry.task.id)
      clearTimeout(entry.timer)
      entry.controller?.abort()
    }
    await this.dependencies.store.delete(entries.map(({ task }) => task.id))
    for (const entry of entries) {
      // The caller does not wait for a backend that is slow to stop.
      if (entry.running) void entry.running.catch(() => undefined).then(() => this.#dispose(entry))
      else await this.#dispose(entry)
    }
  }

  // Execution

  #workers(kind: TaskKind): number {
    return Math.max(1, Math.floor(this.dependencies.settings.number(workerSettings[kind])))
  }

  /** `tries`: the number of runs that the task is considered to have had. */
  async #queue(entry: TaskEntry, tries = entry.task.tries): Promise<void> {
    clearTimeout(entry.timer)
    entry.timer = undefined
    await this.#update(entry, { state: 'pending', phase: undefined, status: '', error: '', tries, ended: undefined })
    this.#enqueue(entry)
  }

  #enqueue(entry: TaskEntry): void {
    const { task } = entry
    this.#queues
      .get(task.kind)
      ?.add(() => this.#runQueued(entry))
      .catch((error: unknown) => this.dependencies.log.error({ err: error, task: task.id }, 'failed to store a task'))
  }

  /** Runs a queued task, unless it was canceled, deleted or started since it was queued. */
  async #runQueued(entry: TaskEntry): Promise<void> {
    if (entry.deleted || entry.task.state !== 'pending' || entry.controller || this.#stopping.signal.aborted) return
    const controller = new AbortController()
    entry.controller = controller
    entry.running = this.#run(entry, controller.signal).finally(() => {
      entry.controller = undefined
      entry.running = undefined
      // The user retried the task while the last run was still being disposed of.
      if (entry.task.state === 'pending') this.#enqueue(entry)
    })
    await entry.running
  }

  async #run(entry: TaskEntry, stop: AbortSignal): Promise<void> {
    const resumes = entry.task.started !== undefined
    const { started = new Date(), tries } = entry.task
    try {
      await this.#update(entry, { state: 'running', started, tries: tries + 1, doneBytes: 0 })
      await this.#runAsAccount(entry, stop, resumes)
      await this.#journal.flush()
    } catch (error) {
      await this.#handleFailure(entry, stop, toGatewayError(error))
      return
    }
    await this.#finish(entry, { state: 'succeeded', status: entry.remark, doneBytes: entry.task.totalBytes })
    // After the end is stored: if the process is killed before, the next run sees by the items that all is done.
    await this.dependencies.store.deleteItems(entry.task.id)
  }

  /** Runs the task with the current authority of its account. Restarts it if the account changes meanwhile. */
  async #runAsAccount(entry: TaskEntry, stop: AbortSignal, resumes: boolean): Promise<void> {
    const { task } = entry
    const type = this.#types.get(task.kind)
    if (!type) throw new GatewayError('unsupported', { reason: 'this server does not do such tasks' })
    const principal = this.dependencies.authority(task.userId)
    const joined = joinSignals(principal.signal, stop, this.#stopping.signal)
    try {
      await type.run(this.#handle(entry, principal, joined.signal, resumes))
    } catch (error) {
      if (!principal.signal.aborted || stop.aborted || this.#stopping.signal.aborted) throw error
      entry.task = { ...entry.task, doneBytes: 0 }
      await this.#runAsAccount(entry, stop, true)
    } finally {
      joined.release()
    }
  }

  #handle(entry: TaskEntry, principal: Principal, signal: AbortSignal, resumes: boolean): TaskRun {
    const set = (changes: Partial<Task>) => (entry.task = { ...entry.task, ...changes })
    return {
      task: entry.task,
      principal,
      signal,
      resumes,
      items: taskItemsOf(entry.task.id, { ...this.dependencies, journal: this.#journal }),
      setPhase: (phase) => set({ phase }),
      setPlan: (plan) => this.#setPlan(entry, plan),
      setRemark: (text) => (entry.remark = text),
      setTotal: (totalBytes) => set({ totalBytes }),
      advance: (bytes) => set({ doneBytes: entry.task.doneBytes + bytes }),
    }
  }

  async #handleFailure(entry: TaskEntry, stop: AbortSignal, error: GatewayError): Promise<void> {
    const { log } = this.dependencies
    // At a shutdown the stored state stays 'running', so the next start resumes the task.
    if (entry.deleted || this.#stopping.signal.aborted) return
    if (stop.aborted) {
      await this.#finish(entry, { state: 'canceled', status: '' })
      return
    }
    const { id, tries } = entry.task
    const delay = retryDelay(error, tries)
    log.warn({ err: error, task: id, ...(delay !== undefined && { delay }) }, 'task failed')
    const text = [failureText(error), entry.remark].filter((part) => part !== '').join('; ')
    if (delay === undefined) {
      await this.#finish(entry, { state: 'failed', status: '', error: text })
      return
    }
    const status = `retry ${tries} in ${delay} s`
    await this.#update(entry, { state: 'waiting', phase: undefined, status, error: text })
    entry.timer = setTimeout(() => {
      this.#queue(entry).catch((failure: unknown) =>
        log.error({ err: failure, task: id }, 'failed to queue a task for retry'),
      )
    }, delay * 1000).unref()
  }

  async #finish(entry: TaskEntry, changes: Partial<Task>): Promise<void> {
    clearTimeout(entry.timer)
    await this.#update(entry, { ...changes, phase: undefined, ended: new Date() })
    await this.#dispose(entry)
    if (this.#entries.size > maxFinished) await this.#sweep()
  }

  async #update(entry: TaskEntry, changes: Partial<Task>): Promise<void> {
    entry.task = { ...entry.task, ...changes }
    if (!entry.deleted) await this.dependencies.store.put(entry.task)
  }

  #setPlan(entry: TaskEntry, plan: object): Promise<void> {
    return this.#update(entry, { plan: JSON.stringify(plan) })
  }

  async #dispose(entry: TaskEntry): Promise<void> {
    const { task, deleted } = entry
    const type = this.#types.get(task.kind)
    const isResumable = task.state === 'failed' && !deleted && type?.resumable === true
    try {
      await type?.dispose?.(task, (plan) => this.#setPlan(entry, plan))
      if (!isResumable) await this.dependencies.uploads.discardAll(task.id)
    } catch (error) {
      this.dependencies.log.warn({ err: error, task: task.id }, 'failed to clean up after a task')
    }
  }

  /** Deletes finished tasks that are older than `finished_tasks_days`, and the oldest beyond `maxFinished`. */
  async #sweep(): Promise<void> {
    const days = this.dependencies.settings.number('finished_tasks_days')
    const ended = [...this.#entries.values()]
      .filter((entry) => hasEnded(entry.task))
      .sort((one, other) => endTime(other) - endTime(one))
    const old = ended.filter(
      (entry, index) => index >= maxFinished || (days >= 0 && endTime(entry) < Date.now() - days * day),
    )
    try {
      await this.#remove(old)
    } catch (error) {
      if (!isGatewayError(error) || !this.#stopping.signal.aborted) {
        this.dependencies.log.warn({ err: error }, 'failed to delete old tasks')
      }
    }
  }

  /**
   * Stops all runs. The tasks resume at the next start. A run that does not end within `tasksCloseTimeout` is logged and
   * abandoned.
   */
  async close(): Promise<void> {
    this.#stopping.abort()
    this.#unsubscribe()
    clearInterval(this.#sweepTimer)
    for (const { timer } of this.#entries.values()) clearTimeout(timer)
    for (const queue of this.#queues.values()) queue.clear()
    const idle = Promise.all([...this.#queues.values()].map((queue) => queue.onIdle()))
    if (!(await settlesWithin(idle, tasksCloseTimeout))) {
      const running = [...this.#entries.values()].filter((entry) => entry.running !== undefined)
      const tasks = running.map(({ task: { id, kind, name } }) => ({ id, kind, name }))
      this.dependencies.log.warn({ tasks }, 'tasks did not end in time; they continue at the next start')
    }
    this.dependencies.uploads.close()
    await this.#journal.flush().catch((error: unknown) => {
      this.dependencies.log.warn({ err: error }, 'failed to store the last items of tasks')
    })
  }
}

function newEntry(task: Task): TaskEntry {
  return { task, controller: undefined, running: undefined, timer: undefined, remark: '', deleted: false }
}

function isVisible(task: Task, { role, userId }: Principal): boolean {
  return role === 'admin' || task.userId === userId
}

function endTime({ task }: TaskEntry): number {
  return task.ended?.getTime() ?? 0
}
