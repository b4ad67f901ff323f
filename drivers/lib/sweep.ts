/**
 * Removes what listings come upon that nobody needs any more: beside the calls, one after another, each once at a time. Only so many wait
 * for it, however many a server may show; what is left out is met again by the next listing. Nothing is tried any more once the server
 * cannot be asked.
 */
import { isGatewayError } from '../../src/errors.js'

const waitingAtMost = 1000

export class Sweep<Leftover extends string = string> {
  readonly #waiting = new Set<Leftover>()
  #isBusy = false

  /** `remove` rejects with GatewayErrors. */
  constructor(private readonly remove: (leftover: Leftover) => Promise<unknown>) {}

  soon(leftover: Leftover): void {
    if (this.#waiting.size >= waitingAtMost) return
    this.#waiting.add(leftover)
    if (!this.#isBusy) void this.#work()
  }

  async #work(): Promise<void> {
    this.#isBusy = true
    for (const leftover of this.#waiting) {
      try {
        await this.remove(leftover)
      } catch (error) {
        if (isGatewayError(error, 'unavailable', 'timeout', 'aborted')) this.#waiting.clear()
      }
      this.#waiting.delete(leftover)
    }
    this.#isBusy = false
  }
}
