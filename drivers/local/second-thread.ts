/**
 * A second thread for many calls of the disk in a row: it looks at every other few hundred names of a large folder, and copies small files
 * while the first thread says which may take their names. There is one for all mounts; it is started by the first who has enough
 * for it to do, and ends when nobody has had for a while.
 */
import { Worker } from 'node:worker_threads'
import type { Work } from './orders.js'

export interface Message {
  readonly id: number
  readonly kind: keyof Work
  readonly order: unknown
}

export interface Reply {
  readonly id: number
  readonly answer: unknown
}

/** Milliseconds. */
const idleTime = 10_000

export class SecondThread {
  readonly #worker = new Worker(new URL('./second-program.js', import.meta.url))
  readonly #waiting = new Map<number, (answer: unknown) => void>()
  #last = 0
  #idle: NodeJS.Timeout | undefined
  #isOver = false
  running = false
  /** Resolves when it is up, or to false where it never is. */
  readonly started: Promise<boolean>

  constructor() {
    // Nobody stays for it.
    this.#worker.unref()
    this.started = new Promise((resolve) => {
      this.#worker.once('online', () => {
        this.running = true
        this.#rest()
        resolve(true)
      })
      for (const end of ['error', 'exit']) {
        this.#worker.once(end, () => {
          this.#end()
          resolve(false)
        })
      }
    })
    this.#worker.on('message', ({ id, answer }: Reply) => this.#answered(id, answer))
  }

  /** Undefined where it ended before it answered: what it did by then is not told. */
  async ask<Kind extends keyof Work>(
    kind: Kind,
    order: Parameters<Work[Kind]>[0],
  ): Promise<ReturnType<Work[Kind]> | undefined> {
    if (this.#isOver) return undefined
    const id = ++this.#last
    clearTimeout(this.#idle)
    const answer = await new Promise<unknown>((resolve) => {
      this.#waiting.set(id, resolve)
      // Whoever waits for an answer may have nothing else to wait for.
      this.#worker.ref()
      const message: Message = { id, kind, order }
      this.#worker.postMessage(message)
    })
    return answer as ReturnType<Work[Kind]> | undefined
  }

  #answered(id: number, answer: unknown): void {
    this.#waiting.get(id)?.(answer)
    this.#waiting.delete(id)
    if (this.#waiting.size > 0) return
    this.#worker.unref()
    this.#rest()
  }

  #rest(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => {
      this.#end()
      void this.#worker.terminate()
    }, idleTime).unref()
  }

  #end(): void {
    this.#isOver = true
    this.running = false
    if (thread === this) thread = undefined
    for (const id of this.#waiting.keys()) this.#answered(id, undefined)
    clearTimeout(this.#idle)
  }
}

let thread: SecondThread | undefined
/** Where the system has no thread to give, none is asked for before this. */
let notBefore = 0

/** The thread, as soon as it is up; asking for it starts it. Undefined also where there is none to be had: it is done without, then. */
export function secondThread(): SecondThread | undefined {
  try {
    if (performance.now() >= notBefore) thread ??= new SecondThread()
  } catch {
    notBefore = performance.now() + idleTime
  }
  return thread?.running === true ? thread : undefined
}

/** The same for those for whom it is worth a wait; undefined where it cannot be started. */
export async function startedThread(): Promise<SecondThread | undefined> {
  const running = secondThread()
  if (running) return running
  return (await thread?.started) === true ? secondThread() : undefined
}
