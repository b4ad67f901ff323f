/** How many files all copies and moves together may have in hand: each of them takes memory, and a turn of the disk. */
import { GatewayError } from './errors.js'

export class FileTurns {
  #busy = 0
  readonly #waiting = new Set<() => void>()

  /** `limit`: as it is now; what it lets in later is let in when a turn ends. */
  constructor(private readonly limit: () => number) {}

  /** Does `work` at its turn. Rejects with `aborted` where the signal comes before that; what has begun is waited for. */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#turn(signal)
    try {
      return await work()
    } finally {
      this.#busy -= 1
      this.#next()
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw new GatewayError('aborted')
    if (this.#busy < this.limit()) {
      this.#busy += 1
      return
    }
    await new Promise<void>((resolve, reject) => {
      const go = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.delete(go)
        reject(new GatewayError('aborted'))
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.add(go)
    })
  }

  /** The first of those who wait goes on, with the turn taken for it. */
  #next(): void {
    for (const go of this.#waiting) {
      if (this.#busy >= this.limit()) return
      this.#waiting.delete(go)
      this.#busy += 1
      go()
    }
  }
}
