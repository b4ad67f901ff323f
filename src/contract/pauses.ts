/** Pauses of a long loop, in which other requests are served. */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { throwIfAborted } from './cancellation.js'

/** Milliseconds of work between two pauses. */
const interval = 5

/**
 * For a loop whose work may all be in memory, also where it awaits: promises that are settled already let no other
 * request run. `if (pauses.areDue) await pauses.take()` is the least costly form.
 */
export class Pauses {
  #since = performance.now()

  constructor(private readonly signal?: Pick<AbortSignal, 'aborted'>) {}

  get areDue(): boolean {
    return performance.now() - this.#since >= interval
  }

  /** Lets other work run if that is due. Rejects with `aborted`. */
  async take(): Promise<void> {
    if (!this.areDue) return
    await yieldToEventLoop()
    throwIfAborted(this.signal)
    this.#since = performance.now()
  }
}
