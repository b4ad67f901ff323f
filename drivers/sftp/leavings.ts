/** What is to be put right on the server after a connection was lost in the middle of a change. */
import type { DriverLog } from '../../src/driver.js'
import { isGatewayError } from '../../src/errors.js'
import type { Connection } from './connection.js'

type Repair = (connection: Connection) => Promise<void>

/** Milliseconds until the first further try, and at the most. */
const firstPause = 1000
const longestPause = 300_000
/** Repairs that wait for a server that is not there. */
const repairsAtMost = 1000

export class Leavings {
  readonly #repairs = new Set<Repair>()
  #timer: NodeJS.Timeout | undefined
  #isTrying = false
  #closed = false

  /** `use` does work that may be done twice on a connection that stands. */
  constructor(
    private readonly use: (work: Repair) => Promise<void>,
    private readonly log: DriverLog,
  ) {}

  /**
   * Tries until it was done, was found done, or was refused; a server that is not there is tried again ever more seldom. Of too many
   * the rest is left as it is: half a file to a later run, an old file beside its place to whoever looks for it.
   */
  add(repair: Repair): void {
    if (this.#repairs.size >= repairsAtMost) {
      this.log.warn({ repairs: repairsAtMost }, 'what lost connections have left is too much to be put right')
      return
    }
    this.#repairs.add(repair)
    if (!this.#isTrying && this.#timer === undefined) void this.#try(firstPause)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#repairs.clear()
  }

  async #try(pause: number): Promise<void> {
    this.#isTrying = true
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
    this.#isTrying = false
    if (this.#closed || this.#repairs.size === 0) return
    this.#timer = setTimeout(() => void this.#try(Math.min(pause * 2, longestPause)), pause).unref()
  }
}
