/**
 * A worker thread for long sequences of system calls: it looks up part of the names of a large folder, and copies small
 * files. All mounts share one. It is started on demand, and terminated when it has been idle for a while.
 */
import { Worker } from 'node:worker_threads'
import type { Jobs } from './worker-jobs.js'

export interface Message {
  readonly id: number
  readonly kind: keyof Jobs
  readonly job: unknown
}

export interface Reply {
  readonly id: number
  readonly result: unknown
}

/** Milliseconds without a job after which the thread is terminated. */
const idleTimeout = 10_000

export class WorkerThread {
  readonly #worker = new Worker(new URL('./worker.js', import.meta.url))
  readonly #pending = new Map<number, (answer: unknown) => void>()
  #lastId = 0
  #idleTimer: NodeJS.Timeout | undefined
  #isClosed = false
  running = false
  /** Resolves to true when the thread runs, to false if it cannot be started. */
  readonly started: Promise<boolean>

  constructor() {
    // The process can exit while the thread is idle.
    this.#worker.unref()
    this.started = new Promise((resolve) => {
      this.#worker.once('online', () => {
        this.running = true
        this.#startIdleTimer()
        resolve(true)
      })
      for (const end of ['error', 'exit']) {
        this.#worker.once(end, () => {
          this.#close()
          resolve(false)
        })
      }
    })
    this.#worker.on('message', ({ id, result: answer }: Reply) => this.#settleJob(id, answer))
  }

  /** Runs a job. Undefined if the thread ended before it answered: the job may have been completed in part. */
  async run<Kind extends keyof Jobs>(
    kind: Kind,
    order: Parameters<Jobs[Kind]>[0],
  ): Promise<ReturnType<Jobs[Kind]> | undefined> {
    if (this.#isClosed) return undefined
    const id = ++this.#lastId
    clearTimeout(this.#idleTimer)
    const answer = await new Promise<unknown>((resolve) => {
      this.#pending.set(id, resolve)
      // Keeps the process alive while a job is pending.
      this.#worker.ref()
      const message: Message = { id, kind, job: order }
      this.#worker.postMessage(message)
    })
    return answer as ReturnType<Jobs[Kind]> | undefined
  }

  #settleJob(id: number, answer: unknown): void {
    this.#pending.get(id)?.(answer)
    this.#pending.delete(id)
    if (this.#pending.size > 0) return
    this.#worker.unref()
    this.#startIdleTimer()
  }

  #startIdleTimer(): void {
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => {
      this.#close()
      void this.#worker.terminate()
    }, idleTimeout).unref()
  }

  #close(): void {
    this.#isClosed = true
    this.running = false
    if (thread === this) thread = undefined
    for (const id of this.#pending.keys()) this.#settleJob(id, undefined)
    clearTimeout(this.#idleTimer)
  }
}

let thread: WorkerThread | undefined
/** The time of the next attempt after a failed start. */
let retryAfter = 0

/**
 * The thread if it is running. Starts it otherwise, and returns undefined until it runs, or if it cannot be started.
 */
export function workerThread(): WorkerThread | undefined {
  try {
    if (performance.now() >= retryAfter) thread ??= new WorkerThread()
  } catch {
    retryAfter = performance.now() + idleTimeout
  }
  return thread?.running === true ? thread : undefined
}

/** Waits for the thread to start; undefined if it cannot be started. */
export async function startedWorker(): Promise<WorkerThread | undefined> {
  const running = workerThread()
  if (running) return running
  return (await thread?.started) === true ? workerThread() : undefined
}
