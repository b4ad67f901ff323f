/**
 * Deletes orphans that listings encounter, in the background and one at a time. The queue is limited: what does not fit
 * is encountered again by the next listing. The queue is cleared when the server cannot be reached.
 */
import { isGatewayError } from '../../../src/base/errors.js'

const maxPending = 1000

export class BackgroundDeleter<Orphan extends string = string> {
  readonly #pending = new Set<Orphan>()
  #isRunning = false

  /** `remove` rejects with GatewayErrors only. */
  constructor(private readonly remove: (orphan: Orphan) => Promise<unknown>) {}

  enqueue(orphan: Orphan): void {
    if (this.#pending.size >= maxPending) return
    this.#pending.add(orphan)
    if (!this.#isRunning) void this.#run()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    for (const orphan of this.#pending) {
      try {
        await this.remove(orphan)
      } catch (error) {
        if (isGatewayError(error, 'unavailable', 'timeout', 'aborted')) this.#pending.clear()
      }
      this.#pending.delete(orphan)
    }
    this.#isRunning = false
  }
}
