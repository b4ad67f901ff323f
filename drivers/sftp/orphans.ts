/** Retries cleanup on the server after a connection was lost during a change. */
import { isGatewayError } from '../../src/base/errors.js'
import type { DriverLog } from '../../src/base/log.js'
import type { ServerConnection } from './connection.js'

type Repair = (connection: ServerConnection) => Promise<void>

/** Minimum and maximum milliseconds between two attempts. */
const minDelay = 1000
const maxDelay = 300_000
/** Maximum pending repairs. */
const maxRepairs = 1000

export class Orphans {
  readonly #repairs = new Set<Repair>()
  #timer: NodeJS.Timeout | undefined
  #isRunning = false
  #closed = false

  /** `use` runs idempotent work on an open connection. */
  constructor(
    private readonly use: (work: Repair) => Promise<void>,
    private readonly log: DriverLog,
  ) {}

  /**
   * Runs the repair. While the server is unavailable, retries it with exponential backoff; any other error ends it. If
   * the queue is full, the repair is dropped: a later run then removes the staged file.
   */
  add(repair: Repair): void {
    if (this.#repairs.size >= maxRepairs) {
      this.log.warn({ repairs: maxRepairs }, 'cleanup queue full')
      return
    }
    this.#repairs.add(repair)
    if (!this.#isRunning && this.#timer === undefined) void this.#run(minDelay)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#repairs.clear()
  }

  /** `delay`: milliseconds until the next attempt, if this one fails. */
  async #run(delay: number): Promise<void> {
    this.#isRunning = true
    this.#timer = undefined
    for (const repair of this.#repairs) {
      try {
        await this.use(repair)
      } catch (error) {
        if (this.#closed) return
        if (isGatewayError(error, 'unavailable', 'timeout', 'aborted')) break
      }
      this.#repairs.delete(repair)
    }
    this.#isRunning = false
    if (this.#closed || this.#repairs.size === 0) return
    this.#timer = setTimeout(() => void this.#run(Math.min(delay * 2, maxDelay)), delay).unref()
  }
}
