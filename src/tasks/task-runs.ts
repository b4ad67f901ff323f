/**
 * Queues the tasks of this node and runs them. Each kind has a queue, which users share fairly. A task runs with the
 * authority that its account has then. What fails for a reason that passes is run again after a delay. A state is
 * stored before what follows from it: 'running' before the run, so that a later process resumes an interrupted one, and
 * the end before the task's resources are released.
 */
import type { Principal } from '../accounts/principal.js'
import type { Audit } from '../audit/audit.js'
import { outcomeOf, type EventFacts } from '../audit/event.js'
import { joinSignals, settlesWithin, sharedController } from '../base/cancellation.js'
import { GatewayError, toGatewayError } from '../base/errors.js'
import { FairShare } from '../base/fair-share.js'
import { failureDetails, type Log } from '../base/log.js'
import type { Store } from '../database/tables.js'
import type { Settings } from '../settings/settings.js'
import type { TaskUploads } from '../transfer/task-uploads.js'
import { failureText, retryDelay, shortened } from './failures.js'
import type { OwnTask, OwnTasks } from './own-tasks.js'
import { ItemJournal, taskItemsOf } from './task-items.js'
import { hasEnded, taskKinds, type Task, type TaskKind, type TaskType } from './task.js'

export interface TaskRunsDependencies {
  readonly store: Pick<Store, 'tasks'>
  readonly settings: Pick<Settings, 'number'>
  readonly log: Log
  /** Gets the end of each task. Absent: nothing is recorded. */
  readonly audit?: Pick<Audit, 'record'>
  /** Resumable uploads of the files that tasks transfer. */
  readonly uploads: Pick<TaskUploads, 'forFile' | 'discardAll' | 'tasksWithUploads' | 'close'>
  /** The current principal of an account. Throws if the account is deleted or disabled. */
  readonly authority: (userId: number) => Principal
}

const noFailure = { error: '', errorName: undefined }

/** Milliseconds until what could not be stored is stored again. */
const storeRetryDelay = 5000
/** Milliseconds that `close` waits for running tasks. */
export const tasksCloseTimeout = 8000

export class TaskRuns {
  /** The implementations of the kinds. */
  readonly types = new Map<TaskKind, TaskType>()
  /** The tasks that run or wait, by user. */
  readonly #queues: ReadonlyMap<TaskKind, FairShare>
  readonly #running = new Set<OwnTask>()
  readonly #journal: ItemJournal
  readonly #stopping = sharedController()

  /** `onEnd` is called when a task has ended and released its resources. */
  constructor(
    private readonly dependencies: TaskRunsDependencies,
    private readonly tasks: OwnTasks,
    private readonly onEnd: () => Promise<void>,
  ) {
    this.#journal = new ItemJournal(tasks)
    // The setting limits the concurrent tasks of one user, of each kind. Of all users, twice as many can run.
    const ofUser = (kind: TaskKind) => Math.max(1, Math.floor(dependencies.settings.number(`${kind}_task_threads_num`)))
    this.#queues = new Map(taskKinds.map((kind) => [kind, new FairShare(() => 2 * ofUser(kind))]))
  }

  /** Runs more tasks if the settings allow more. */
  admit(): void {
    for (const queue of this.#queues.values()) queue.admit()
  }

  /** Queues a task that is stored as pending. */
  enqueue(own: OwnTask): void {
    const { kind, userId } = own.task
    this.#queues
      .get(kind)
      ?.run(userId, () => this.#start(own), this.#stopping.signal)
      .catch((error: unknown) => this.#resumeLater(own, error))
  }

  /** Queues a task of an earlier run. If it has ended, stores its end. */
  async resume(own: OwnTask): Promise<void> {
    try {
      if (own.task.state === 'canceling') await this.#finish(own, { state: 'canceled' })
      else if (hasEnded(own.task)) await this.#finish(own, {})
      else await this.#queue(own, own.task.tries)
    } catch (error) {
      this.#resumeLater(own, error)
    }
  }

  /** Cancels a task. Resolves before its run has ended. Does nothing if the task has ended. */
  async cancel(own: OwnTask): Promise<void> {
    const { task, run } = own
    if (hasEnded(task) || task.state === 'canceling' || own.isEnding) return
    if (!run) return this.#finish(own, { state: 'canceled', status: '' })
    const stored = this.tasks.update(own, { state: 'canceling' })
    // Before the row is stored: a run that fails meanwhile counts as canceled and is not retried.
    run.stop.abort()
    await stored
  }

  /** Queues a task if it is retryable. */
  async retry(own: OwnTask): Promise<void> {
    if (this.isRetryable(own.task)) await this.#queue(own, 0)
  }

  /** Whether the task is in a state in which it can be queued. Throws as `TaskType.assertRetryable`. */
  isRetryable(task: Task): boolean {
    const { kind, state } = task
    if (state !== 'failed' && state !== 'canceled' && state !== 'waiting') return false
    if (hasEnded(task)) this.types.get(kind)?.assertRetryable?.(task)
    return true
  }

  /** Stops the runs of tasks and deletes them. */
  async delete(tasks: readonly OwnTask[]): Promise<void> {
    await this.tasks.delete(tasks)
    for (const own of tasks) {
      // The caller does not wait for a backend that is slow to stop.
      if (own.run) void own.run.ended.catch(() => undefined).then(() => this.dispose(own))
      else await this.dispose(own)
    }
  }

  /** Releases the resources of a task that has ended or is deleted. Never rejects. */
  async dispose(own: OwnTask): Promise<void> {
    const { task, gone } = own
    const type = this.types.get(task.kind)
    const isResumable = task.state === 'failed' && gone === undefined && type?.resumable === true
    try {
      await type?.dispose?.(task, (plan) => this.#setPlan(own, plan))
      if (!isResumable) await this.dependencies.uploads.discardAll(task.id)
    } catch (error) {
      this.dependencies.log.warn({ err: error, task: task.id }, 'failed to clean up after a task')
    }
  }

  /**
   * Stops all runs. The tasks resume at the next start. A run that does not end within `tasksCloseTimeout` is logged
   * and abandoned.
   */
  async close(): Promise<void> {
    const { uploads, log } = this.dependencies
    this.#stopping.abort()
    for (const { timer } of this.tasks.all) clearTimeout(timer)
    const ended = Promise.allSettled([...this.#running].flatMap(({ run }) => run?.ended ?? []))
    if (!(await settlesWithin(ended, tasksCloseTimeout))) {
      const running = [...this.#running].filter(({ gone }) => gone === undefined)
      const tasks = running.map(({ task: { id, kind, subject } }) => ({ id, kind, subject }))
      log.warn({ tasks }, 'tasks did not end in time; they continue at the next start')
    }
    uploads.close()
    await this.#journal.flush().catch((error: unknown) => {
      log.warn({ err: error }, 'failed to store the last items of tasks')
    })
  }

  /** `tries`: the number of runs that the task is considered to have had. */
  async #queue(own: OwnTask, tries: number): Promise<void> {
    clearTimeout(own.timer)
    await this.tasks.update(own, {
      state: 'pending',
      phase: undefined,
      status: '',
      ...noFailure,
      tries,
      ended: undefined,
    })
    this.enqueue(own)
  }

  /** `error`: why the state of the task could not be stored. */
  #resumeLater(own: OwnTask, error: unknown): void {
    if (own.gone !== undefined || this.#stopping.signal.aborted) return
    this.dependencies.log.error({ err: error, task: own.task.id }, 'failed to store a task; trying again')
    this.#resumeAfter(own, storeRetryDelay)
  }

  #resumeAfter(own: OwnTask, milliseconds: number): void {
    clearTimeout(own.timer)
    own.timer = setTimeout(() => void this.resume(own), milliseconds).unref()
  }

  /** Runs a queued task, unless it was canceled, deleted or started since it was queued. */
  async #start(own: OwnTask): Promise<void> {
    if (own.gone !== undefined || own.task.state !== 'pending' || own.run || own.isEnding) return
    if (this.#stopping.signal.aborted) return
    const stop = new AbortController()
    const ended = this.#run(own, stop.signal).finally(() => {
      this.#running.delete(own)
      own.run = undefined
      // The user retried the task while the last run was still being disposed of.
      if (own.task.state === 'pending') this.enqueue(own)
    })
    own.run = { stop, ended }
    this.#running.add(own)
    await ended
  }

  async #run(own: OwnTask, stop: AbortSignal): Promise<void> {
    const resumes = own.task.started !== undefined
    const { started = new Date(), tries } = own.task
    try {
      await this.tasks.update(own, { state: 'running', started, tries: tries + 1, doneBytes: 0 })
      try {
        await this.#runAsAccount(own, stop, resumes)
      } catch (error) {
        // The failures are shown as soon as the task has ended, so they are stored before.
        await this.#journal.flush().catch((failure: unknown) => {
          this.dependencies.log.warn({ err: failure, task: own.task.id }, 'the items of a task are not stored yet')
        })
        throw error
      }
      await this.#journal.flush()
    } catch (error) {
      await this.#handleFailure(own, stop, toGatewayError(error))
      return
    }
    await this.#finish(own, { state: 'succeeded', status: shortened(own.remark), doneBytes: own.task.totalBytes })
  }

  /** Runs the task with the current authority of its account. Restarts it if the account changes meanwhile. */
  async #runAsAccount(own: OwnTask, stop: AbortSignal, resumes: boolean): Promise<void> {
    const type = this.types.get(own.task.kind)
    if (!type) throw new GatewayError('unsupported', { reason: 'this server does not do such tasks' })
    const { authority, store, uploads } = this.dependencies
    const principal = authority(own.task.userId)
    const joined = joinSignals(principal.signal, stop, this.#stopping.signal)
    const set = (changes: Partial<Task>) => (own.task = { ...own.task, ...changes })
    try {
      await type.run({
        task: own.task,
        principal,
        signal: joined.signal,
        resumes,
        items: taskItemsOf(own.task.id, { uploads, store: store.tasks, journal: this.#journal }),
        setPhase: (phase) => set({ phase }),
        setPlan: (plan) => this.#setPlan(own, plan),
        setRemark: (text) => (own.remark = text),
        setTotal: (totalBytes) => set({ totalBytes }),
        advance: (bytes) => set({ doneBytes: own.task.doneBytes + bytes }),
      })
    } catch (error) {
      if (!principal.signal.aborted || stop.aborted || this.#stopping.signal.aborted) throw error
      set({ doneBytes: 0 })
      await this.#runAsAccount(own, stop, true)
    } finally {
      joined.release()
    }
  }

  async #handleFailure(own: OwnTask, stop: AbortSignal, error: GatewayError): Promise<void> {
    // At a shutdown the stored state stays 'running', so the next start resumes the task.
    if (own.gone !== undefined || this.#stopping.signal.aborted) return
    if (stop.aborted) return this.#finish(own, { state: 'canceled', status: '' })
    const { id, tries } = own.task
    const delay = retryDelay(error, tries)
    const text = shortened([failureText(error), own.remark].filter((part) => part !== '').join('; '))
    this.dependencies.log.warn({ task: id, ...failureDetails(error), delay }, `task failed: ${text}`)
    const failure = { error: text, errorName: error.detail ?? error.code }
    if (delay === undefined) return this.#finish(own, { state: 'failed', status: '', ...failure }, error)
    const status = `retry ${tries} in ${delay} s`
    await this.tasks.update(own, { state: 'waiting', phase: undefined, status, ...failure })
    this.#resumeAfter(own, delay * 1000)
  }

  /** `cause`: why it has failed. */
  async #finish(own: OwnTask, changes: Partial<Task>, cause?: GatewayError): Promise<void> {
    clearTimeout(own.timer)
    // The state is changed only when the event is recorded.
    own.isEnding = true
    // Before the end is stored: the end of a task that is run again is recorded again, and none is missing.
    if (changes.state !== undefined) await this.dependencies.audit?.record(endOf(own.task, changes.state, cause))
    own.isEnding = false
    await this.tasks.update(own, { ...changes, phase: undefined, ended: new Date() })
    await this.dispose(own)
    // After the end is stored: if the process is killed before, the next run sees by the items that all is done.
    if (own.task.state === 'succeeded') await this.dependencies.store.tasks.deleteItems(own.task.id)
    await this.onEnd()
  }

  #setPlan(own: OwnTask, plan: object): Promise<void> {
    return this.tasks.update(own, { plan: JSON.stringify(plan) })
  }
}

/** The event of a task that ends in this state. One that was canceled has failed by its user's wish. */
function endOf(
  { id, kind, userId, username, started }: Task,
  state: Task['state'],
  cause = new GatewayError('aborted'),
): EventFacts {
  return {
    kind: 'task.ended',
    actor: { userId, name: username, protocol: 'task', credential: `task:${id}` },
    subject: kind,
    duration: started && Date.now() - started.getTime(),
    ...(state === 'succeeded' ? { result: 'done' } : { result: 'failed', error: outcomeOf(cause).error }),
  }
}
