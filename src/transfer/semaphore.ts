/**
 * Limits how many files all copies and moves process concurrently, because each of them uses memory and disk bandwidth.
 */
import { GatewayError } from '../contract/errors.js'

export class Semaphore {
  #running = 0
  readonly #waiting = new Set<() => void>()

  /** `limit` is read at each decision; a raised limit takes effect when the next running call ends. */
  constructor(private readonly limit: () => number) {}

  /**
   * Runs `work` when a slot is free. Rejects with `aborted` if the signal aborts before that; running work is not
   * interrupted.
   */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#acquire(signal)
    try {
      return await work()
    } finally {
      this.#running -= 1
      this.#admitWaiting()
    }
  }

  async #acquire(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw new GatewayError('aborted')
    if (this.#running < this.limit()) {
      this.#running += 1
      return
    }
    await new Promise<void>((resolve, reject) => {
      const admit = () => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const onAbort = () => {
        this.#waiting.delete(admit)
        reject(new GatewayError('aborted'))
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#waiting.add(admit)
    })
  }

  /** Starts waiting calls, oldest first, and counts them as running. */
  #admitWaiting(): void {
    for (const admit of this.#waiting) {
      if (this.#running >= this.limit()) return
      this.#waiting.delete(admit)
      this.#running += 1
      admit()
    }
  }
}
