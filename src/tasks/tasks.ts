/**
 * Background work and its queues. A task is a row of the store before it is anything else: what a stop, a crash or a kill cut
 * off goes on by itself (docs/decisions/0013). What the tasks of a kind do is for the type that is registered for it.
 */
import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import PQueue from 'p-queue'
import { settlesWithin } from '../aborting.js'
import { GatewayError, isGatewayError, toGatewayError } from '../errors.js'
import type { KeptUploads } from '../kept-uploads.js'
import type { Log } from '../log.js'
import type { Principal } from '../principal.js'
import type { Settings } from '../settings.js'
import { joinSignals } from '../signals.js'
import type { Store } from '../store/rows.js'
import { failureText, retryDelay } from './failures.js'
import { ItemJournal } from './item-journal.js'
import { itemsOf } from './task-items.js'
import {
  isOver,
  taskKinds,
  type FailedItem,
  type Task,
  type TaskKind,
  type TaskRequest,
  type TaskRun,
  type TaskType,
} from './task.js'

/** What tasks lean on. */
export interface TaskParts {
  readonly store: Store['tasks']
  readonly settings: Pick<Settings, 'number' | 'onChange'>
  readonly log: Log
  /** What is kept of large files that tasks had in hand. */
  readonly uploads: Pick<KeptUploads, 'of' | 'drop' | 'owners' | 'close'>
  /** The authority of an account as it is now; rejects where it has none any more. */
  readonly authority: (userId: number) => Principal
}

/** A task, and what goes on with it. */
interface Entry {
  task: Task
  /** Of the run that is under way. */
  controller: AbortController | undefined
  running: Promise<void> | undefined
  timer: NodeJS.Timeout | undefined
  /** Of the last run. */
  remark: string
  /** Nobody can see it any more. */
  forgotten: boolean
}

/** Tasks of one user that have not ended. */
const mostOfOne = 10_000
/** Tasks that have ended, of all users; the oldest go first. */
const mostKept = 10_000
/** Milliseconds between two looks for what has been kept long enough. */
const sweepEvery = 3_600_000
/** Milliseconds that the runs have to end when the program stops. */
const closeTimeout = 8000
const day = 86_400_000

/** The settings that say how many of a kind run at once. */
const workerSettings: Readonly<Record<TaskKind, string>> = {
  upload: 'upload_task_threads_num',
  copy: 'copy_task_threads_num',
  move: 'move_task_threads_num',
  offline_download: 'offline_download_task_threads_num',
  offline_download_transfer: 'offline_download_transfer_task_threads_num',
}

export class Tasks {
  readonly #entries = new Map<string, Entry>()
  readonly #types = new Map<TaskKind, TaskType>()
  readonly #queues: ReadonlyMap<TaskKind, PQueue>
  readonly #journal: ItemJournal
  readonly #stopping = new AbortController()
  readonly #unsubscribe: () => void
  readonly #sweeping: NodeJS.Timeout

  private constructor(
    private readonly parts: TaskParts,
    rows: readonly Task[],
  ) {
    this.#journal = new ItemJournal(parts.store)
    // Every run listens to it.
    setMaxListeners(0, this.#stopping.signal)
    this.#queues = new Map(taskKinds.map((kind) => [kind, new PQueue({ concurrency: this.#workers(kind) })]))
    this.#unsubscribe = parts.settings.onChange(() => {
      for (const [kind, queue] of this.#queues) queue.concurrency = this.#workers(kind)
      void this.#sweep()
    })
    this.#sweeping = setInterval(() => void this.#sweep(), sweepEvery).unref()
    for (const task of rows) this.#entries.set(task.id, newEntry(task))
  }

  /** Knows of all tasks, and starts none before `start`. */
  static async load(parts: TaskParts): Promise<Tasks> {
    return new Tasks(parts, (await parts.store.all()) as Task[])
  }

  /** How the tasks of this kind do their work. To be told before `start`. */
  register(kind: TaskKind, type: TaskType): void {
    this.#types.set(kind, type)
  }

  /** Goes on with what an earlier process left. */
  async start(): Promise<void> {
    for (const entry of this.#entries.values()) {
      if (entry.task.state === 'canceling') await this.#end(entry, { state: 'canceled' })
      else if (!isOver(entry.task)) await this.#queue(entry)
    }
    // Killed between the end of a task and this.
    for (const id of await this.parts.uploads.owners()) {
      const entry = this.#entries.get(id)
      if (entry && isOver(entry.task)) await this.#dispose(entry)
    }
    await this.#sweep()
  }

  /** Whoever asked for them, and whether or not they have ended. */
  get all(): readonly Task[] {
    return [...this.#entries.values()].map(({ task }) => task)
  }

  /** Those that have not ended. */
  get unfinished(): readonly Task[] {
    return [...this.#entries.values()].map(({ task }) => task).filter((task) => !isOver(task))
  }

  // What users do

  /** Queues work. It goes on when whoever asked has gone, with the authority of their account as it is then. */
  async add(principal: Principal, { kind, name, plan, status = '', totalBytes }: TaskRequest): Promise<Task> {
    const { userId, username, role } = principal
    const waiting = [...this.#entries.values()].filter(({ task }) => task.userId === userId && !isOver(task))
    if (waiting.length >= mostOfOne) throw new GatewayError('throttled', { reason: 'too many tasks are waiting' })
    const task: Task = {
      id: randomBytes(16).toString('base64url'),
      kind,
      name,
      userId,
      username,
      role,
      state: 'pending',
      status,
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
      await this.parts.store.put(task)
    } catch (error) {
      this.#entries.delete(task.id)
      throw error
    }
    this.#enqueue(entry)
    return task
  }

  /** Those that the principal may see: their own, the admin everybody's. In the order in which they were asked for. */
  list(principal: Principal, kind: TaskKind): readonly Task[] {
    return [...this.#entries.values()]
      .map(({ task }) => task)
      .filter((task) => task.kind === kind && isVisible(task, principal))
  }

  /** `not_found` for one that is not there, is of another kind, or not for this principal. */
  get(principal: Principal, kind: TaskKind, id: string): Task {
    return this.#entry(principal, kind, id).task
  }

  /** What the last run of it could not do. */
  async failures(task: Task): Promise<readonly FailedItem[]> {
    return this.parts.store.failed(task.id)
  }

  /** One that has ended stays what it is. */
  async cancel(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    await this.#cancel(this.#entry(principal, kind, id))
  }

  /** Ends it, if it has not ended, and forgets it. */
  async delete(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    await this.#forget([this.#entry(principal, kind, id)])
  }

  /** Runs one again that failed or was canceled; one that waits for its next try goes on at once. */
  async retry(principal: Principal, kind: TaskKind, id: string): Promise<void> {
    await this.#retry(this.#entry(principal, kind, id))
  }

  /** Forgets those of the principal's that have ended in one of these states. */
  async clear(principal: Principal, kind: TaskKind, states: readonly Task['state'][]): Promise<void> {
    await this.#forget(this.#visible(principal, kind).filter(({ task }) => isOver(task) && states.includes(task.state)))
  }

  async retryFailed(principal: Principal, kind: TaskKind): Promise<void> {
    for (const entry of this.#visible(principal, kind)) if (entry.task.state === 'failed') await this.#retry(entry)
  }

  #visible(principal: Principal, kind: TaskKind): readonly Entry[] {
    return [...this.#entries.values()].filter(({ task }) => task.kind === kind && isVisible(task, principal))
  }

  #entry(principal: Principal, kind: TaskKind, id: string): Entry {
    const entry = this.#entries.get(id)
    if (entry?.task.kind !== kind || !isVisible(entry.task, principal)) {
      throw new GatewayError('not_found', { reason: 'task not found' })
    }
    return entry
  }

  async #cancel(entry: Entry): Promise<void> {
    if (isOver(entry.task) || entry.task.state === 'canceling') return
    if (entry.controller === undefined) {
      await this.#end(entry, { state: 'canceled', status: '' })
      return
    }
    const stop = entry.controller
    const changed = this.#change(entry, { state: 'canceling' })
    // At once: a run that fails meanwhile is canceled, not tried again.
    stop.abort()
    await changed
  }

  async #retry(entry: Entry): Promise<void> {
    const { state } = entry.task
    if (state === 'failed' || state === 'canceled' || state === 'waiting') await this.#queue(entry, 0)
  }

  async #forget(entries: readonly Entry[]): Promise<void> {
    for (const entry of entries) {
      entry.forgotten = true
      this.#entries.delete(entry.task.id)
      clearTimeout(entry.timer)
      entry.controller?.abort()
    }
    await this.parts.store.delete(entries.map(({ task }) => task.id))
    for (const entry of entries) {
      // Nobody is kept waiting for a backend that is slow to stop.
      if (entry.running) void entry.running.catch(() => undefined).then(() => this.#dispose(entry))
      else await this.#dispose(entry)
    }
  }

  // How they run

  #workers(kind: TaskKind): number {
    return Math.max(1, Math.floor(this.parts.settings.number(workerSettings[kind])))
  }

  /** `tries`: as if so many runs had been made. */
  async #queue(entry: Entry, tries = entry.task.tries): Promise<void> {
    clearTimeout(entry.timer)
    entry.timer = undefined
    await this.#change(entry, { state: 'pending', status: '', error: '', tries, ended: undefined })
    this.#enqueue(entry)
  }

  #enqueue(entry: Entry): void {
    const { task } = entry
    this.#queues
      .get(task.kind)
      ?.add(() => this.#start(entry))
      .catch((error: unknown) => this.parts.log.error({ err: error, task: task.id }, 'a task could not be recorded'))
  }

  /** At its turn. It may have been canceled, or be under way, since it was queued. */
  async #start(entry: Entry): Promise<void> {
    if (entry.forgotten || entry.task.state !== 'pending' || entry.controller || this.#stopping.signal.aborted) return
    const controller = new AbortController()
    entry.controller = controller
    entry.running = this.#run(entry, controller.signal).finally(() => {
      entry.controller = undefined
      entry.running = undefined
      // Asked for again while what the last run had kept was still being let go of.
      if (entry.task.state === 'pending') this.#enqueue(entry)
    })
    await entry.running
  }

  async #run(entry: Entry, stop: AbortSignal): Promise<void> {
    const resumes = entry.task.started !== undefined
    const { started = new Date(), tries } = entry.task
    try {
      await this.#change(entry, { state: 'running', started, tries: tries + 1, doneBytes: 0 })
      await this.#work(entry, stop, resumes)
      await this.#journal.settled()
    } catch (error) {
      await this.#failed(entry, stop, toGatewayError(error))
      return
    }
    await this.#end(entry, { state: 'succeeded', status: entry.remark, doneBytes: entry.task.totalBytes })
    // Only now: killed before that, the next run knows by them that all was done.
    await this.parts.store.forgetItems(entry.task.id)
  }

  /** Once more where the account changed meanwhile: it is judged as it is now. */
  async #work(entry: Entry, stop: AbortSignal, resumes: boolean): Promise<void> {
    const { task } = entry
    const type = this.#types.get(task.kind)
    if (!type) throw new GatewayError('unsupported', { reason: 'this server does not do such tasks' })
    const principal = this.parts.authority(task.userId)
    const joined = joinSignals(principal.signal, stop, this.#stopping.signal)
    try {
      await type.run(this.#handle(entry, principal, joined.signal, resumes))
    } catch (error) {
      if (!principal.signal.aborted || stop.aborted || this.#stopping.signal.aborted) throw error
      entry.task = { ...entry.task, doneBytes: 0 }
      await this.#work(entry, stop, true)
    } finally {
      joined.release()
    }
  }

  #handle(entry: Entry, principal: Principal, signal: AbortSignal, resumes: boolean): TaskRun {
    const set = (changes: Partial<Task>) => (entry.task = { ...entry.task, ...changes })
    return {
      task: entry.task,
      principal,
      signal,
      resumes,
      items: itemsOf(entry.task.id, { ...this.parts, journal: this.#journal }),
      status: (status) => set({ status }),
      remark: (text) => (entry.remark = text),
      total: (totalBytes) => set({ totalBytes }),
      advance: (bytes) => set({ doneBytes: entry.task.doneBytes + bytes }),
    }
  }

  async #failed(entry: Entry, stop: AbortSignal, error: GatewayError): Promise<void> {
    const { log } = this.parts
    // A row that says 'running' is what the next start goes on with.
    if (entry.forgotten || this.#stopping.signal.aborted) return
    if (stop.aborted) {
      await this.#end(entry, { state: 'canceled', status: '' })
      return
    }
    const { id, tries } = entry.task
    const delay = retryDelay(error, tries)
    log.warn({ err: error, task: id, ...(delay !== undefined && { delay }) }, 'a task failed')
    const text = [failureText(error), entry.remark].filter((part) => part !== '').join('; ')
    if (delay === undefined) {
      await this.#end(entry, { state: 'failed', status: '', error: text })
      return
    }
    await this.#change(entry, { state: 'waiting', status: `retry ${tries} in ${delay} s`, error: text })
    entry.timer = setTimeout(() => {
      this.#queue(entry).catch((failure: unknown) => log.error({ err: failure, task: id }, 'a task could not go on'))
    }, delay * 1000).unref()
  }

  async #end(entry: Entry, changes: Partial<Task>): Promise<void> {
    clearTimeout(entry.timer)
    await this.#change(entry, { ...changes, ended: new Date() })
    await this.#dispose(entry)
    if (this.#entries.size > mostKept) await this.#sweep()
  }

  async #change(entry: Entry, changes: Partial<Task>): Promise<void> {
    entry.task = { ...entry.task, ...changes }
    if (!entry.forgotten) await this.parts.store.put(entry.task)
  }

  async #dispose({ task, forgotten }: Entry): Promise<void> {
    const type = this.#types.get(task.kind)
    const mayGoOn = task.state === 'failed' && !forgotten && type?.retries === true
    try {
      await type?.dispose?.(task)
      if (!mayGoOn) await this.parts.uploads.drop(task.id)
    } catch (error) {
      this.parts.log.warn({ err: error, task: task.id }, 'what was kept for a task could not be let go of')
    }
  }

  /** Forgets what ended long ago, and the oldest of too many. */
  async #sweep(): Promise<void> {
    const days = this.parts.settings.number('finished_tasks_days')
    const ended = [...this.#entries.values()]
      .filter((entry) => isOver(entry.task))
      .sort((one, other) => endOf(other) - endOf(one))
    const old = ended.filter(
      (entry, index) => index >= mostKept || (days >= 0 && endOf(entry) < Date.now() - days * day),
    )
    try {
      await this.#forget(old)
    } catch (error) {
      if (!isGatewayError(error) || !this.#stopping.signal.aborted) {
        this.parts.log.warn({ err: error }, 'tasks that ended long ago could not be forgotten')
      }
    }
  }

  /** Stops what runs. It goes on when the program starts again. A run that does not end in time is logged and left. */
  async close(): Promise<void> {
    this.#stopping.abort()
    this.#unsubscribe()
    clearInterval(this.#sweeping)
    for (const { timer } of this.#entries.values()) clearTimeout(timer)
    for (const queue of this.#queues.values()) queue.clear()
    const idle = Promise.all([...this.#queues.values()].map((queue) => queue.onIdle()))
    if (!(await settlesWithin(idle, closeTimeout))) {
      const running = [...this.#entries.values()].filter((entry) => entry.running !== undefined)
      const tasks = running.map(({ task: { id, kind, name } }) => ({ id, kind, name }))
      this.parts.log.warn({ tasks }, 'tasks did not end in time; they continue at the next start')
    }
    this.parts.uploads.close()
    await this.#journal.settled().catch((error: unknown) => {
      this.parts.log.warn({ err: error }, 'what tasks did last could not be recorded')
    })
  }
}

function newEntry(task: Task): Entry {
  return { task, controller: undefined, running: undefined, timer: undefined, remark: '', forgotten: false }
}

function isVisible(task: Task, { role, userId }: Principal): boolean {
  return role === 'admin' || task.userId === userId
}

function endOf({ task }: Entry): number {
  return task.ended?.getTime() ?? 0
}
