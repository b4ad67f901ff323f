/** Limits how many locks this process holds in the database, because each of them needs a connection. */
import { GatewayError } from '../contract/errors.js'

/** For a storage that is based on a second one, which is based on a third one, whose driver locks something itself. */
const reservedSlots = 3

interface Waiting {
  readonly level: number
  readonly grant: () => void
}

/**
 * A number of slots. Work may take another slot, of the next level, while it holds some. The last slots are for deeper levels
 * only, so that work which holds a slot does not wait for others that do the same.
 */
export class NestedSlots {
  readonly #reserved: number
  #taken = 0
  readonly #waiting = new Set<Waiting>()

  /** `timeout`: milliseconds to wait for a slot. */
  constructor(
    private readonly count: number,
    private readonly timeout: number,
  ) {
    this.#reserved = Math.min(reservedSlots, count - 1)
  }

  /** Resolves to a function that frees the slot. Rejects with `busy` after the timeout. */
  async take(level: number): Promise<() => void> {
    if (!this.#isFree(level)) await this.#wait(level)
    else this.#taken++
    return () => {
      this.#taken--
      // Deeper levels first: they hold slots.
      const waiting = [...this.#waiting].sort((one, other) => other.level - one.level)
      for (const each of waiting) if (this.#isFree(each.level)) each.grant()
    }
  }

  #isFree(level: number): boolean {
    return this.#taken < this.count - this.#reserved + Math.min(level, this.#reserved)
  }

  #wait(level: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(waiting)
      }
      const waiting = {
        level,
        grant: () => {
          end()
          this.#taken++
          resolve()
        },
      }
      const timer = setTimeout(() => {
        end()
        reject(new GatewayError('busy', { reason: 'too many changes wait for the database', retryAfter: 1 }))
      }, this.timeout)
      this.#waiting.add(waiting)
    })
  }
}
