/**
 * The tasks of other nodes. Their rows are read from the database. What users want of them is stored as requests, which
 * their owners serve; a request that the owner has not served is served by the node that claims the task.
 */
import PQueue from 'p-queue'
import { settlesWithin } from '../base/cancellation.js'
import type { TaskAction, TaskRequestRow } from '../database/tables/tasks.js'
import type { OfOthers, Store } from '../database/tables.js'
import type { OwnTasks } from './own-tasks.js'
import { assertRoomFor, unfinishedOf, type Task } from './task.js'

/** Milliseconds that `send` waits for the owners. */
const serveTimeout = 3000
/** Milliseconds between two times at which progress is stored for other nodes. */
const progressInterval = 3000

/** Selects tasks: all, or those of a kind or of a user. */
export type TaskFilter = Partial<Pick<Task, 'kind' | 'userId'>>

/** Serves requests for tasks of this node. Those that it does not delete remain. */
type Answer = (requests: readonly TaskRequestRow[]) => Promise<void>

/** Lists and asks for tasks of other nodes, and stores the progress of those of this node, which the others list. */
export class TasksElsewhere {
  /** Absent if no other node uses the database, so that no other node lists the progress. */
  #progressTimer: NodeJS.Timeout | undefined
  /** The progress of each running task that was stored last, as JSON. */
  #progress: ReadonlyMap<string, string> = new Map()
  /** Serializes the calls of `answer`: no request is served by two of them. */
  readonly #serving = new PQueue({ concurrency: 1 })
  /** Resolves at the next notice. */
  #notice: Promise<void> = Promise.resolve()
  #wake: () => void = () => undefined
  #unsubscribe: (() => void) | undefined

  /** `ofOthers` runs its work only while another node uses the database. */
  constructor(
    private readonly store: Pick<Store, 'tasks' | 'relaxed' | 'onForeignChange'>,
    private readonly ofOthers: OfOthers,
    private readonly own: OwnTasks,
    private readonly answer: Answer,
  ) {
    this.#expectNotice()
    void ofOthers(async () => {
      this.#progressTimer = setInterval(() => this.#storeProgress(), progressInterval).unref()
    })
  }

  /** Adds those of other nodes, as they were stored last, to `own`, in the order of their creation. */
  async with(own: readonly Task[], which: TaskFilter): Promise<readonly Task[]> {
    const rows = (await this.ofOthers(() => this.store.tasks.all(which))) as Task[] | undefined
    if (!rows) return own
    return [...rows.filter((row) => this.own.isElsewhere(row)), ...own].sort(byCreation)
  }

  /** A task that this node does not own. */
  async get(id: string): Promise<Task | undefined> {
    if (!this.own.isElsewhere({ id })) return undefined
    return (await this.ofOthers(() => this.store.tasks.get(id))) as Task | undefined
  }

  /** Rejects with `throttled` if the unfinished tasks of all nodes leave no room for a new one. */
  async assertRoomFor(task: Task): Promise<void> {
    const ofAll = await this.ofOthers(() => this.store.tasks.unfinished())
    assertRoomFor(task, ofAll ?? unfinishedOf(this.own.all.map((own) => own.task)))
  }

  /** Resolves when the owners have served the requests, or after a short time: they are then served later. */
  async send(ids: readonly string[], action: TaskAction): Promise<void> {
    if (ids.length === 0) return
    await this.store.tasks.request(ids, action)
    // This node may have taken over some of the tasks meanwhile.
    await this.serve()
    const end = performance.now() + serveTimeout
    for (let left = serveTimeout; left > 0; left = end - performance.now()) {
      const notice = this.#notice
      if (!(await this.store.tasks.hasRequests(ids, action))) return
      await settlesWithin(notice, left)
    }
  }

  /** Serves the requests for tasks of this node. From the first call on, it also serves those that come later. */
  serve(): Promise<void> {
    this.#unsubscribe ??= this.store.onForeignChange('tasks', async () => {
      this.#wake()
      this.#expectNotice()
      await this.serve()
    })
    return this.#serving.add(async () => this.answer(await this.store.tasks.requests()))
  }

  close(): void {
    clearInterval(this.#progressTimer)
    this.#unsubscribe?.()
    this.#wake()
  }

  #expectNotice(): void {
    this.#notice = new Promise((resolve) => (this.#wake = resolve))
  }

  #storeProgress(): void {
    const stored = this.#progress
    const running = this.own.all.filter(({ run }) => run !== undefined)
    const rows = running.map(({ task: { id, totalBytes, doneBytes, phase } }) => ({ id, totalBytes, doneBytes, phase }))
    this.#progress = new Map(rows.map((row) => [row.id, JSON.stringify(row)]))
    for (const row of rows) {
      if (this.#progress.get(row.id) === stored.get(row.id)) continue
      // If that fails, the next progress is stored.
      this.store.relaxed.tasks.setProgress(row).catch(() => undefined)
    }
  }
}

function byCreation(one: Task, other: Task): number {
  return one.created.getTime() - other.created.getTime() || (one.id < other.id ? -1 : 1)
}
