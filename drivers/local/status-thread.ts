/**
 * A second thread that looks at names while the first does the same: a large folder is listed in little more than half the time where a
 * core is free. There is one for all mounts; it is started by the first large listing and ends when none has come for a while.
 */
import { Worker } from 'node:worker_threads'
import type { Status } from './entry.js'

/** Names separated by NUL, each to be looked up right behind `prefix`. */
export interface StatusOrder {
  readonly id: number
  readonly prefix: string
  readonly names: string
}

/** In the order of the names: revisions, separated by NUL and empty where nothing is told; mode, size, modified, created as in `Status`. */
export interface StatusAnswer {
  readonly id: number
  readonly revisions: string
  readonly numbers: Float64Array
}

export const numbersPerName = 4

/** Milliseconds. */
const idleTime = 10_000

type Answered = (answer: StatusAnswer | undefined) => void

export class StatusThread {
  readonly #worker = new Worker(new URL('./status-program.js', import.meta.url))
  readonly #waiting = new Map<number, Answered>()
  #last = 0
  #idle: NodeJS.Timeout | undefined
  running = false

  constructor() {
    // Nobody stays for it.
    this.#worker.unref()
    this.#worker.once('online', () => {
      this.running = true
      this.#rest()
    })
    this.#worker.on('message', (answer: StatusAnswer) => this.#answered(answer.id, answer))
    this.#worker.once('error', () => this.#end())
    this.#worker.once('exit', () => this.#end())
  }

  /**
   * What stands under each of these names; undefined for one of which it has nothing to tell, or altogether where it ended: the caller
   * looks at those.
   */
  async ask(prefix: string, names: readonly string[]): Promise<readonly (Status | undefined)[] | undefined> {
    const id = ++this.#last
    clearTimeout(this.#idle)
    const answer = await new Promise<StatusAnswer | undefined>((resolve) => {
      this.#waiting.set(id, resolve)
      // Whoever waits for an answer may have nothing else to wait for.
      this.#worker.ref()
      const order: StatusOrder = { id, prefix, names: names.join('\0') }
      this.#worker.postMessage(order)
    })
    return answer && statuses(answer)
  }

  #answered(id: number, answer: StatusAnswer | undefined): void {
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
    this.running = false
    if (thread === this) thread = undefined
    for (const id of this.#waiting.keys()) this.#answered(id, undefined)
    clearTimeout(this.#idle)
  }
}

let thread: StatusThread | undefined

/** The thread, as soon as it is up; asking for it starts it. */
export function statusThread(): StatusThread | undefined {
  thread ??= new StatusThread()
  return thread.running ? thread : undefined
}

function statuses({ revisions, numbers }: StatusAnswer): readonly (Status | undefined)[] {
  return revisions.split('\0').map((revision, index) => {
    if (revision === '') return undefined
    const at = index * numbersPerName
    return {
      revision,
      mode: numbers[at] ?? 0,
      size: numbers[at + 1] ?? 0,
      modified: numbers[at + 2] ?? 0,
      created: numbers[at + 3] ?? 0,
    }
  })
}
