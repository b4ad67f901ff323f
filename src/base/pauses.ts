/** Pauses of a long loop, in which other requests are served. */
import { throwIfAborted } from './cancellation.js'

/** Milliseconds of work between two pauses. */
const interval = 5

/** Those whose loops are in a pause, the longest first. */
const waiting: (() => void)[] = []

/** Resolves in a later turn of the event loop, which no other caller gets: together they could keep it for long. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(resumeOne)
  })
}

function resumeOne(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(resumeOne)
}

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
    await ownTurn()
    throwIfAborted(this.signal)
    this.#since = performance.now()
  }
}
