/** Pauses of a long loop, in which other requests are served. */
import { throwIfAborted } from './cancellation.js'

/** Milliseconds of work between two pauses. */
const interval = 5

/**
 * Milliseconds for which one loop continues after each of its pauses while others wait. Loops that alternate more often
 * hold all their results at once, and the garbage collector copies them.
 */
const turn = 25

/** The functions that resume paused loops. The loop that paused first is the first. */
const waiting: (() => void)[] = []
/** The number of waiting loops when one was last resumed. If that loop pauses again, more are waiting. */
let others = 0
/** When the loop was resumed whose turn it is. */
let turnSince = 0

/** Resolves in a later turn of the event loop, which no other caller gets: together they could keep it for long. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(resumeOne)
  })
}

/** Resumes the loop that paused last while its turn lasts, otherwise the one that has waited longest. */
function resumeOne(): void {
  const now = performance.now()
  const goesOn = waiting.length > others && now - turnSince < turn
  if (!goesOn) turnSince = now
  const resume = goesOn ? waiting.pop() : waiting.shift()
  others = waiting.length
  resume?.()
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
