/**
 * Background tasks and their queues. Every task is stored before it is queued, so a task that a stop, a crash or a kill
 * interrupts resumes at the next start, or on another node (docs/decisions/0013, 0036). The `TaskType` registered for a
 * kind does the work of that kind.
 */
import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Principal } from '../accounts/principal.js'
import { settlesWithin, joinSignals } from '../base/cancellation.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import { FairShare } from '../base/fair-share.js'
import type { Log } from '../base/log.js'
import type { Settings } from '../settings/settings.js'
import type { TaskAction, TaskItemRow, TaskRequestRow } from '../database/rows.js'
import type { Store } from '../database/tables.js'
import type { TaskUploads } from '../transfer/task-uploads.js'
import { failureText, retryDelay, shortened } from './failures.js'
import { taskItemsOf, ItemJournal } from './task-items.js'
import { TaskRequests } from './task-requests.js'
import {
  hasEnded,
  taskKinds,
  assertRoomFor,
  unfinishedByUser,
  type FailedItem,
  type Task,
  type TaskKind,
  type TaskRequest,
  type TaskRun,
  type TaskType,
} from './task.js'

interface TasksDependencies {
  readonly store: Pick<Store, 'tasks' | 'relaxed' | 'isShared' | 'onForeignChange'>
  readonly settings: Pick<Settings, 'number' | 'onChange'>
  readonly log: Log
  /** Resumable uploads of the files that tasks transfer. */
  readonly uploads: Pick<TaskUploads, 'forFile' | 'discardAll' | 'tasksWithUploads' | 'close'>
  /** The current principal of an account. Throws if the account is deleted or disabled. */
  readonly authority: (userId: number) => Principal
}

/** A task of this node, and its state in this process. */
interface TaskEntry {
  task: Task
  /** Aborts the current run. Undefined if the task is not running. */
  controller?: AbortController | undefined
  running?: Promise<void> | undefined
  /** Settles when its last state is stored. */
  stored: Promise<void>
  timer?: NodeJS.Timeout | undefined
  /** The remark of the last run. */
  remark: string
  /** The progress that was stored last, as JSON. */
  progress: string
  /** 'lost': another node owns the task. Set: no longer listed or stored here. */
  gone?: 'deleted' | 'lost' | undefined
}

/** Characters of the finished tasks of one user that a sweep leaves. The oldest are deleted first. */
const maxFinishedSize = 16 * 1024 * 1024
/** Finished tasks of all users that a sweep leaves. The oldest are deleted first. */
const maxFinished = 10_000
/** Milliseconds between two sweeps of finished tasks. */
const sweepInterval = 3_600_000
/** Tasks that end on this node between two sweeps, at most. */
const sweepCount = 100
/** Milliseconds between two times at which progress is stored for other nodes. */
const progressInterval = 3000
/** Milliseconds that a request of another node waits for the one before it. */
const serveTimeout = 500
/** Milliseconds until what could not be stored is stored again. */
const storeRetryDelay = 5000
/** Milliseconds that `close` waits for running tasks. */
export const tasksCloseTimeout = 8000
const day = 86_400_000

/** The setting that limits the concurrent tasks of one user, of each kind. Of all users, twice as many can run. */
const workerSettings: Readonly<Record<TaskKind, string>> = {
  upload: 'upload_task_threads_num',
  copy: 'copy_task_threads_num',
  move: 'move_task_threads_num',
  offline_download: 'offline_download_task_threads_num',
  offline_download_transfer: 'offline_download_transfer_task_threads_num',
}

export class Tasks {
  /** The tasks of this node. */
  readonly #entries = new Map<string, TaskEntry>()
  /** Ids of the tasks whose rows are being deleted. */
  readonly #deleting = new Set<string>()
  readonly #types = new Map<TaskKind, TaskType>()
  /** The tasks that run or wait, by user. */
  readonly #queues: ReadonlyMap<TaskKind, FairShare>
  readonly #runs = new Set<Promise<void>>()
  readonly #journal: ItemJournal
  readonly #requests: TaskRequests
  readonly #stopping = new AbortController()
  readonly #unsubscribe: () => void
  readonly #sweepTimer: NodeJS.Timeout
  readonly #progressTimer: NodeJS.Timeout | undefined
  /** Tasks that have ended since the last sweep. */
  #endedCount = 0

  private constructor(
    private readonly dependencies: TasksDependencies,
    rows: readonly Task[],
  ) {
    this.#journal = new ItemJournal({ putItems: (items) => this.#putItems(items) })
    this.#requests = new TaskRequests(dependencies.store, (requests) => this.#serve(requests))
    // Every run adds a listener.
    setMaxListeners(0, this.#stopping.signal)
    this.#queues = new Map(taskKinds.map((kind) => [kind, new FairShare(() => 2 * this.#workers(kind))]))
    this.#unsubscribe = dependencies.settings.onChange(() => {
      for (const queue of this.#queues.values()) queue.admit()
      void this.#sweep()
    })
    this.#sweepTimer = setInterval(() => void this.#sweep(), sweepInterval).unref()
    if (dependencies.store.isShared) {
      this.#progressTimer = setInterval(() => this.#storeProgress(), progressInterval).unref()
    }
    for (const task of rows) this.#entries.set(task.id, newEntry(task))
  }

  /** Loads the stored tasks of this node. None of them runs before `start`. */
  static async load(dependencies: TasksDependencies): Promise<Tasks> {
    return new Tasks(dependencies, (await dependencies.store.tasks.owned()) as Task[])
  }

  /** Sets the implementation of a kind. Must be called before `start`. */
  register(kind: TaskKind, type: TaskType): void {
    this.#types.set(kind, type)
  }

  /** Queues the unfinished tasks of earlier processes. */
  async start(): Promise<void> {
    await this.#adopt([...this.#entries.values()], () => this.#requests.start())
  }

  /**
   * Loads the tasks that this node owns now because their nodes have ended, and queues the unfinished ones. Must be
   * repeated if it rejects.
   */
  async takeOver(): Promise<void> {
    const rows = (await this.dependencies.store.tasks.owned()) as Task[]
    const entries = rows.filter((row) => this.#isElsewhere(row)).map(newEntry)
    for (const entry of entries) this.#entries.set(entry.task.id, entry)
    await this.#adopt(entries, () => this.#requests.servePending())
  }

  async #adopt(entries: readonly TaskEntry[], serve: () => Promise<void>): Promise<void> {
    const loaded = entries.map((entry) => ({ entry, task: entry.task }))
    const isUnchanged = ({ entry, task }: (typeof loaded)[number]) => entry.gone === undefined && entry.task === task
    try {
      // First: a task that a user has canceled does not run.
      await serve()
    } catch (error) {
      for (const each of loaded) if (isUnchanged(each)) this.#entries.delete(each.task.id)
      throw error
    }
    for (const each of loaded) if (isUnchanged(each) && !hasEnded(each.task)) await this.#resume(each.entry)
    // An earlier process may have been killed after it stored the end of a task and before it disposed of it.
    const withUploads = new Set(await this.dependencies.uploads.tasksWithUploads())
    for (const each of loaded) {
      if (isUnchanged(each) && hasEnded(each.task) && withUploads.has(each.task.id)) await this.#dispose(each.entry)
    }
    await this.#sweep()
  }

  /** The tasks of this node, of all users, finished or not. */
  get all(): readonly Task[] {
    return [...this.#entries.values()].map(({ task }) => task)
  }

  /** The tasks of all nodes in the order of their creation; those of other nodes as they were stored last. */
  async ofAllNodes(which: Partial<Pick<Task, 'kind' | 'userId'>> = {}): Promise<readonly Task[]> {
    const { store } = this.dependencies
    const rows = store.isShared ? ((await store.tasks.all(which)) as Task[]) : []
    const others = rows.filter((row) => this.#isElsewhere(row))
    const { kind, userId } = which
    const own = this.all.filter(
      (task) => (kind === undefined || task.kind === kind) && (userId === undefined || task.userId === userId),
    )
    return store.isShared ? [...others, ...own].sort(byCreation) : own
  }

  /** Whether a stored task is not in memory, because another node owns it or has just owned it. */
  #isElsewhere({ id }: Pick<Task, 'id'>): boolean {
    return !this.#entries.has(id) && !this.#deleting.has(id)
  }

  // Operations of users

  /**
   * Stores and queues a task. It does not depend on the caller's session: it runs with the authority that the account
   * has then. Rejects with `throttled` if the user has too many unfinished tasks, or too large ones.
   */
  async add(principal: Principal, { kind, name, plan, phase, totalBytes }: TaskRequest): Promise<Task> {
    const { userId, username, role } = principal
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
    const { store } = this.dependencies
    assertRoomFor(task, store.isShared ? await store.tasks.unfinished() : unfinishedByUser(this.all))
    const entry = newEntry(task)
    this.#entries.set(task.id, entry)
    try {
      await this.dependencies.store.tasks.insert(task)
    } catch (error) {
      this.#entries.delete(task.id)
      throw error
    }
    this.#enqueue(entry)
    return task
  }

  /** The tasks that the principal may see, in the order of their creation: an admin sees those of all users. */
  async list({ role, userId }: Principal, kind: TaskKind): Promise<readonly Task[]> {
    return this.ofAllNodes({ kind, ...(role !== 'admin' && { userId }) })
  }

  /** Rejects with `not_found` if the task does not exist, is of another kind, or belongs to another user. */
  async get({ role, userId }: Principal, kind: TaskKind, id: string): Promise<Task> {
    const task = this.#entries.get(id)?.task ?? (await this.#stored(id))
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
    if (this.#assertRetryable(task)) await this.#act([task], 'retry')
  }

  /** Deletes the finished tasks that the principal may see and whose state is one of `states`. */
  async clear(principal: Principal, kind: TaskKind, states: readonly Task['state'][]): Promise<void> {
    const tasks = await this.list(principal, kind)
    await this.#act(
      tasks.filter((task) => hasEnded(task) && states.includes(task.state)),
      'clear',
    )
  }

  /** Queues all failed tasks that can run again. */
  async retryFailed(principal: Principal, kind: TaskKind): Promise<void> {
    const failed = (await this.list(principal, kind)).filter(({ state }) => state === 'failed')
    const retryable = failed.filter((task) => {
      try {
        return this.#assertRetryable(task)
      } catch (error) {
        // It cannot run again: it stays failed.
        if (isGatewayError(error, 'unsupported')) return false
        throw error
      }
    })
    await this.#act(retryable, 'retry')
  }

  /** A task that is not in memory. */
  async #stored(id: string): Promise<Task | undefined> {
    const { store } = this.dependencies
    if (!store.isShared || !this.#isElsewhere({ id })) return undefined
    return (await store.tasks.get(id)) as Task | undefined
  }

  /** Whether the task is in a state in which it can be queued. Throws as `TaskType.assertRetryable`. */
  #assertRetryable(task: Task): boolean {
    const { kind, state } = task
    if (state !== 'failed' && state !== 'canceled' && state !== 'waiting') return false
    if (hasEnded(task)) this.#types.get(kind)?.assertRetryable?.(task)
    return true
  }

  /** Acts on the tasks of this node, and sends requests to the owners of the others. */
  async #act(tasks: readonly Task[], action: TaskAction): Promise<void> {
    const entries = tasks.flatMap(({ id }) => this.#entries.get(id) ?? [])
    if (action === 'delete' || action === 'clear') await this.#remove(entries)
    else for (const entry of entries) await this.#perform(entry, action)
    const own = new Set(entries.map(({ task }) => task.id))
    const others = tasks.map(({ id }) => id).filter((id) => !own.has(id))
    await this.#requests.send(others, action)
  }

  async #perform(entry: TaskEntry, action: 'cancel' | 'retry'): Promise<void> {
    await (action === 'cancel' ? this.#cancel(entry) : this.#retry(entry))
  }

  /** Serves requests of other nodes. A request to delete a task is deleted with it. */
  async #serve(requests: readonly TaskRequestRow[]): Promise<void> {
    const { log } = this.dependencies
    const removed = new Set<TaskEntry>()
    for (const { id, taskId, action } of requests) {
      const entry = this.#entries.get(taskId)
      // It is being deleted, or will be loaded.
      if (!entry) continue
      if (action === 'delete' || (action === 'clear' && hasEnded(entry.task))) removed.add(entry)
      // Other requests do not wait for a backend that is slow to dispose of a task.
      else await settlesWithin(this.#serveOne(entry, action, id), serveTimeout)
    }
    this.#remove([...removed]).catch((error: unknown) => log.warn({ err: error }, 'failed to delete tasks'))
  }

  async #serveOne(entry: TaskEntry, action: TaskAction, id: number): Promise<void> {
    const { log, store } = this.dependencies
    try {
      if (action === 'cancel' || action === 'retry') await this.#perform(entry, action)
    } catch (error) {
      log.warn({ err: error, task: entry.task.id }, `failed to ${action} a task for another node`)
    }
    await store.tasks.deleteRequest(id)
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
    if (this.#assertRetryable(entry.task)) await this.#queue(entry, 0)
  }

  async #remove(entries: readonly TaskEntry[]): Promise<void> {
    const ids = entries.map(({ task }) => task.id)
    for (const entry of entries) {
      this.#deleting.add(entry.task.id)
      this.#forget(entry, 'deleted')
    }
    try {
      const deleted = await this.dependencies.store.tasks.delete(ids)
      if (deleted < ids.length) throw takenOver()
    } finally {
      for (const id of ids) this.#deleting.delete(id)
    }
    for (const entry of entries) {
      // The caller does not wait for a backend that is slow to stop.
      if (entry.running) void entry.running.catch(() => undefined).then(() => this.#dispose(entry))
      else await this.#dispose(entry)
    }
  }

  /** Stops the run of a task that was deleted or that another node owns now. */
  #forget(entry: TaskEntry, gone: 'deleted' | 'lost'): void {
    entry.gone = gone
    this.#entries.delete(entry.task.id)
    clearTimeout(entry.timer)
    entry.controller?.abort()
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
      ?.run(task.userId, () => this.#runQueued(entry), this.#stopping.signal)
      .catch((error: unknown) => this.#resumeLater(entry, error))
  }

  /** Queues a task. If it has ended, stores its end. */
  async #resume(entry: TaskEntry): Promise<void> {
    try {
      if (entry.task.state === 'canceling') await this.#finish(entry, { state: 'canceled' })
      else if (hasEnded(entry.task)) await this.#finish(entry, {})
      else await this.#queue(entry)
    } catch (error) {
      this.#resumeLater(entry, error)
    }
  }

  /** `error`: why the state of the task could not be stored. */
  #resumeLater(entry: TaskEntry, error: unknown): void {
    if (entry.gone !== undefined || this.#stopping.signal.aborted) return
    this.dependencies.log.error({ err: error, task: entry.task.id }, 'failed to store a task; trying again')
    clearTimeout(entry.timer)
    entry.timer = setTimeout(() => void this.#resume(entry), storeRetryDelay).unref()
  }

  /** Runs a queued task, unless it was canceled, deleted or started since it was queued. */
  async #runQueued(entry: TaskEntry): Promise<void> {
    if (entry.gone !== undefined || entry.task.state !== 'pending' || entry.controller || this.#stopping.signal.aborted)
      return
    const controller = new AbortController()
    entry.controller = controller
    const running = this.#run(entry, controller.signal).finally(() => {
      this.#runs.delete(running)
      entry.controller = undefined
      entry.running = undefined
      // The user retried the task while the last run was still being disposed of.
      if (entry.task.state === 'pending') this.#enqueue(entry)
    })
    entry.running = running
    this.#runs.add(running)
    await running
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
    await this.#finish(entry, { state: 'succeeded', status: shortened(entry.remark), doneBytes: entry.task.totalBytes })
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
    const { uploads, store } = this.dependencies
    const putItems = (items: readonly TaskItemRow[]) => this.#putItems(items)
    return {
      task: entry.task,
      principal,
      signal,
      resumes,
      items: taskItemsOf(entry.task.id, { uploads, store: store.tasks, putItems, journal: this.#journal }),
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
    if (entry.gone !== undefined || this.#stopping.signal.aborted) return
    if (stop.aborted) {
      await this.#finish(entry, { state: 'canceled', status: '' })
      return
    }
    const { id, tries } = entry.task
    const delay = retryDelay(error, tries)
    log.warn({ err: error, task: id, ...(delay !== undefined && { delay }) }, 'task failed')
    const text = shortened([failureText(error), entry.remark].filter((part) => part !== '').join('; '))
    if (delay === undefined) {
      await this.#finish(entry, { state: 'failed', status: '', error: text })
      return
    }
    const status = `retry ${tries} in ${delay} s`
    await this.#update(entry, { state: 'waiting', phase: undefined, status, error: text })
    entry.timer = setTimeout(() => void this.#resume(entry), delay * 1000).unref()
  }

  async #finish(entry: TaskEntry, changes: Partial<Task>): Promise<void> {
    clearTimeout(entry.timer)
    await this.#update(entry, { ...changes, phase: undefined, ended: new Date() })
    await this.#dispose(entry)
    // After the end is stored: if the process is killed before, the next run sees by the items that all is done.
    if (entry.task.state === 'succeeded') await this.dependencies.store.tasks.deleteItems(entry.task.id)
    this.#endedCount += 1
    if (this.#endedCount >= sweepCount) await this.#sweep()
  }

  /** Rejects with `unavailable` if another node owns the task. */
  async #update(entry: TaskEntry, changes: Partial<Task>): Promise<void> {
    entry.task = { ...entry.task, ...changes }
    // One statement after another: the database may execute concurrent ones in any order.
    entry.stored = entry.stored.catch(() => undefined).then(() => this.#store(entry))
    await entry.stored
  }

  async #store(entry: TaskEntry): Promise<void> {
    if (entry.gone === undefined && !(await this.dependencies.store.tasks.update(entry.task))) this.#lose(entry.task.id)
    if (isLost(entry)) throw takenOver()
  }

  /** Stops the runs of tasks that another node owns now. */
  async #putItems(items: readonly TaskItemRow[]): Promise<void> {
    for (const id of await this.dependencies.store.tasks.putItems(items)) this.#lose(id)
  }

  /** Does nothing if the task was deleted here. */
  #lose(id: string): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    this.dependencies.log.warn({ task: id }, 'another node has taken over a task')
    this.#forget(entry, 'lost')
  }

  /** For other nodes, which list the task. */
  #storeProgress(): void {
    for (const entry of this.#entries.values()) {
      if (entry.controller === undefined) continue
      const { id, totalBytes, doneBytes, phase } = entry.task
      const row = { id, totalBytes, doneBytes, phase }
      const progress = JSON.stringify(row)
      if (progress === entry.progress) continue
      entry.progress = progress
      // If that fails, the next progress is stored.
      this.dependencies.store.relaxed.tasks.setProgress(row).catch(() => undefined)
    }
  }

  #setPlan(entry: TaskEntry, plan: object): Promise<void> {
    return this.#update(entry, { plan: JSON.stringify(plan) })
  }

  async #dispose(entry: TaskEntry): Promise<void> {
    const { task, gone } = entry
    const type = this.#types.get(task.kind)
    const isResumable = task.state === 'failed' && gone === undefined && type?.resumable === true
    try {
      await type?.dispose?.(task, (plan) => this.#setPlan(entry, plan))
      if (!isResumable) await this.dependencies.uploads.discardAll(task.id)
    } catch (error) {
      this.dependencies.log.warn({ err: error, task: task.id }, 'failed to clean up after a task')
    }
  }

  /**
   * Deletes finished tasks of this node that are older than `finished_tasks_days`, among the oldest of all nodes beyond
   * `maxFinished`, or among the oldest of their users beyond `maxFinishedSize`.
   */
  async #sweep(): Promise<void> {
    this.#endedCount = 0
    const days = this.dependencies.settings.number('finished_tasks_days')
    try {
      const surplus = (await this.dependencies.store.tasks.endOfOlder(maxFinished))?.getTime() ?? -Infinity
      const expired = days >= 0 ? Date.now() - days * day : -Infinity
      const endOf = ({ task }: TaskEntry) => task.ended?.getTime() ?? Infinity
      const finished = [...this.#entries.values()].filter(({ task }) => hasEnded(task))
      const sizes = new Map<number, number>()
      const old = finished
        .toSorted((one, other) => endOf(other) - endOf(one))
        .filter((entry) => {
          const { userId, name, plan, status, error } = entry.task
          const size = (sizes.get(userId) ?? 0) + name.length + plan.length + status.length + error.length
          sizes.set(userId, size)
          return endOf(entry) <= surplus || endOf(entry) < expired || size > maxFinishedSize
        })
      await this.#remove(old)
    } catch (error) {
      if (!isGatewayError(error) || !this.#stopping.signal.aborted) {
        this.dependencies.log.warn({ err: error }, 'failed to delete old tasks')
      }
    }
  }

  /**
   * Stops all runs. The tasks resume at the next start. A run that does not end within `tasksCloseTimeout` is logged
   * and abandoned.
   */
  async close(): Promise<void> {
    this.#stopping.abort()
    this.#unsubscribe()
    this.#requests.close()
    clearInterval(this.#sweepTimer)
    clearInterval(this.#progressTimer)
    for (const { timer } of this.#entries.values()) clearTimeout(timer)
    const idle = Promise.allSettled([...this.#runs])
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
  return { task, stored: Promise.resolve(), remark: '', progress: '' }
}

function byCreation(one: Task, other: Task): number {
  return one.created.getTime() - other.created.getTime() || (one.id < other.id ? -1 : 1)
}

function isLost({ gone }: TaskEntry): boolean {
  return gone === 'lost'
}

function takenOver(): GatewayError {
  return new GatewayError('unavailable', { reason: 'another node has taken over this task' })
}
