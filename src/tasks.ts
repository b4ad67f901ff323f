/**
 * Background work: what it is, how far it is, and its queues. Tasks are rows of the store; one that a stop or a crash
 * cut off says so afterwards.
 */
import { randomBytes } from 'node:crypto'
import PQueue from 'p-queue'
import { toGatewayError } from './errors.js'
import type { Log } from './log.js'
import type { Principal, Role } from './principal.js'
import type { Settings } from './settings.js'
import { joinSignals } from './signals.js'
import type { Store, TaskRow } from './store/rows.js'

export const taskKinds = ['upload', 'copy', 'move', 'offline_download', 'offline_download_transfer'] as const
export type TaskKind = (typeof taskKinds)[number]

export const taskStates = ['pending', 'running', 'succeeded', 'canceled', 'failed'] as const
export type TaskState = (typeof taskStates)[number]

/** Background work as it stands now. */
export interface Task extends TaskRow {
  readonly kind: TaskKind
  readonly username: string
  readonly role: Role
  readonly state: TaskState
}

export interface TaskWork {
  readonly kind: TaskKind
  readonly name: string
  readonly totalBytes: number
  /** What a client reads while it runs. */
  readonly status: string
  /** Does the work; tells the bytes done so far. Its rejection is the task's error. */
  run(progress: (doneBytes: number) => void, signal: AbortSignal): Promise<void>
  /** Whatever became of it: lets go of what was kept for it. */
  dispose(): Promise<void>
}

export class Tasks {
  readonly #queues: ReadonlyMap<TaskKind, PQueue>
  readonly #stopping = new AbortController()

  private constructor(
    readonly store: Store['tasks'],
    readonly log: Log,
    settings: Settings,
  ) {
    const concurrency = (kind: TaskKind) => Math.max(1, settings.number(`${workerSettings[kind]}_threads_num`))
    this.#queues = new Map(taskKinds.map((kind) => [kind, new PQueue({ concurrency: concurrency(kind) })]))
  }

  static async load(store: Store['tasks'], settings: Settings, log: Log): Promise<Tasks> {
    for (const row of await store.all()) {
      if (row.state !== 'pending' && row.state !== 'running') continue
      await store.put({ ...row, state: 'failed', error: 'cut off by a restart', ended: new Date() })
    }
    return new Tasks(store, log, settings)
  }

  /** Queues the work; it runs with the authority of who asked, and ends with it. */
  async add(principal: Principal, work: TaskWork): Promise<Task> {
    const task: Task = {
      id: randomBytes(16).toString('base64url'),
      kind: work.kind,
      name: work.name,
      userId: principal.userId,
      username: principal.username,
      role: principal.role,
      state: 'pending',
      status: '',
      error: '',
      totalBytes: work.totalBytes,
      doneBytes: 0,
      started: undefined,
      ended: undefined,
    }
    await this.store.put(rowOf(task))
    const run = () => this.#run(task, principal, work)
    this.#queues
      .get(work.kind)
      ?.add(run)
      .catch((error: unknown) => this.log.error({ err: error, task: task.id }, 'a task could not be recorded'))
    return task
  }

  async #run(task: Task, principal: Principal, work: TaskWork): Promise<void> {
    const joined = joinSignals(principal.signal, this.#stopping.signal)
    const started = new Date()
    let doneBytes = 0
    try {
      await this.store.put(rowOf({ ...task, state: 'running', status: work.status, started }))
      await work.run((bytes) => (doneBytes = bytes), joined.signal)
      await this.store.put(
        rowOf({ ...task, state: 'succeeded', doneBytes: task.totalBytes, started, ended: new Date() }),
      )
    } catch (error) {
      const { message } = toGatewayError(error)
      const why = principal.signal.aborted ? 'the account that asked for it lost its authority' : message
      this.log.warn({ err: error, task: task.id }, 'a task failed')
      await this.store.put(rowOf({ ...task, state: 'failed', error: why, doneBytes, started, ended: new Date() }))
    } finally {
      joined.release()
      await work.dispose()
    }
  }

  /** Running work is stopped and says so. */
  async close(): Promise<void> {
    this.#stopping.abort()
    for (const queue of this.#queues.values()) queue.clear()
    await Promise.all([...this.#queues.values()].map((queue) => queue.onIdle()))
  }
}

/** The settings that say how many of a kind run at once. */
const workerSettings: Readonly<Record<TaskKind, string>> = {
  upload: 'upload_task',
  copy: 'copy_task',
  move: 'move_task',
  offline_download: 'offline_download_task',
  offline_download_transfer: 'offline_download_transfer_task',
}

function rowOf(task: Task): TaskRow {
  const { username: _username, role: _role, ...row } = task
  return row
}
