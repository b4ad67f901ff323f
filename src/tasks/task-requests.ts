/** What users want of the tasks of other nodes: requests in the database, which the owners of the tasks serve. */
import { settlesWithin } from '../base/cancellation.js'
import type { TaskAction, TaskRequestRow } from '../database/rows.js'
import type { Store } from '../database/tables.js'

/** Milliseconds that `send` waits for the owners. */
const serveTimeout = 3000

export class TaskRequests {
  #serving: Promise<void> = Promise.resolve()
  /** Resolves at the next notice. */
  #notice: Promise<void> = Promise.resolve()
  #wake: () => void = () => undefined
  #unsubscribe: () => void = () => undefined

  /** `serve` gets the requests for tasks of this node. Those that it does not delete remain. */
  constructor(
    private readonly store: Pick<Store, 'tasks' | 'onForeignChange'>,
    private readonly serve: (requests: readonly TaskRequestRow[]) => Promise<void>,
  ) {
    this.#expectNotice()
  }

  /** Serves requests from now on. */
  async start(): Promise<void> {
    this.#unsubscribe = this.store.onForeignChange('tasks', async () => {
      this.#wake()
      this.#expectNotice()
      await this.servePending()
    })
    await this.servePending()
  }

  /** Resolves when the owners have served the requests, or after a short time: they are then served later. */
  async send(taskIds: readonly string[], action: TaskAction): Promise<void> {
    if (taskIds.length === 0) return
    await this.store.tasks.request(taskIds, action)
    // This node may have taken over some of the tasks meanwhile.
    await this.servePending()
    const end = performance.now() + serveTimeout
    for (let left = serveTimeout; left > 0; left = end - performance.now()) {
      const notice = this.#notice
      if (!(await this.store.tasks.hasRequests(taskIds, action))) return
      await settlesWithin(notice, left)
    }
  }

  /** Serves the requests for tasks of this node. */
  servePending(): Promise<void> {
    // One call after another: no request is served by two of them.
    const serving = this.#serving.catch(() => undefined).then(async () => this.serve(await this.store.tasks.requests()))
    this.#serving = serving
    return serving
  }

  close(): void {
    this.#unsubscribe()
    this.#wake()
  }

  #expectNotice(): void {
    this.#notice = new Promise((resolve) => (this.#wake = resolve))
  }
}
