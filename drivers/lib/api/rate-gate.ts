/**
 * The gate that all calls of one mount pass: it spaces them out, and closes while the server wants none. The end of a
 * longer pause is stored, so that a storage that is opened again does not call in it either.
 */
import type { DriverState } from '../../../src/contract/driver-env.js'
import { GatewayError } from '../../../src/contract/errors.js'
import { BoundState } from './bound-state.js'

/** Milliseconds that a call waits for a closed gate to open. If it takes longer, the call rejects at once. */
const maxWait = 10_000
/** Milliseconds that are added between two calls: the network delays them differently. */
const margin = 25
/** Maximum seconds of a pause, whatever the server says. */
const maxPause = 3600

interface RateGateOptions {
  /** Name of the server in error reasons, such as "115 server". */
  readonly server: string
  /** Maximum number of calls that begin in any second; 0 or less: no limit. */
  readonly perSecond?: number
  /** Whom the server limits, such as its address and the account: a pause that is stored for another one does not count. */
  readonly scope: string
  readonly state: DriverState
}

interface Waiter {
  readonly start: () => void
  readonly fail: (error: GatewayError) => void
}

export class RateGate {
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiter>()
  readonly #interval: number
  /** Time of the last call, of `performance.now()`. */
  #lastCall = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined

  private constructor(
    private readonly options: RateGateOptions,
    private readonly stored: BoundState<number>,
    /** Milliseconds since the epoch. */
    private closedUntil: number,
  ) {
    const { perSecond = 0 } = options
    this.#interval = perSecond > 0 ? 1000 / perSecond + margin : 0
  }

  static async open(options: RateGateOptions): Promise<RateGate> {
    const stored = await BoundState.open<number>(options.state, 'paused until', options.scope)
    const until = stored.value ?? 0
    const isPlausible = until - Date.now() <= maxPause * 1000
    return new RateGate(options, stored, isPlausible ? until : 0)
  }

  /**
   * Resolves when the call may be made. Rejects with `unavailable` and the remaining seconds if the gate is closed for
   * longer than a call should wait, and with `aborted`.
   */
  async pass(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) throw new GatewayError('aborted')
    this.#assertOpenSoon()
    if (this.#waiting.size === 0 && this.#remaining() <= 0) {
      this.#lastCall = performance.now()
      return
    }
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(waiter)
        reject(new GatewayError('aborted'))
      }
      const end = () => signal?.removeEventListener('abort', leave)
      const waiter: Waiter = {
        start: () => {
          end()
          resolve()
        },
        fail: (error) => {
          end()
          reject(error)
        },
      }
      this.#waiting.add(waiter)
      signal?.addEventListener('abort', leave, { once: true })
      this.#schedule()
    })
  }

  /** Closes the gate for some seconds, or longer if it is closed for longer. Waiting calls reject if that is too long. */
  async pause(seconds: number): Promise<void> {
    const until = Date.now() + Math.min(Math.max(seconds, 0), maxPause) * 1000
    if (until <= this.closedUntil) return
    this.closedUntil = until
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (until - Date.now() > maxWait) this.#failAll(this.#paused())
    else this.#schedule()
    // A shorter pause is over before a storage could be opened again.
    if (until - Date.now() > 1000) await this.stored.set(until)
  }

  /** Rejects all waiting calls with `aborted`. */
  close(): void {
    clearTimeout(this.#timer)
    this.#failAll(new GatewayError('aborted'))
  }

  #failAll(error: GatewayError): void {
    for (const waiter of this.#waiting) waiter.fail(error)
    this.#waiting.clear()
  }

  #assertOpenSoon(): void {
    if (this.closedUntil - Date.now() > maxWait) throw this.#paused()
  }

  #paused(): GatewayError {
    const retryAfter = Math.ceil((this.closedUntil - Date.now()) / 1000)
    return new GatewayError('unavailable', {
      reason: `the ${this.options.server} asks for fewer requests; none is sent for ${retryAfter} seconds`,
      retryAfter,
    })
  }

  /** Milliseconds until the next call may be made. */
  #remaining(): number {
    return Math.max(this.#lastCall + this.#interval - performance.now(), this.closedUntil - Date.now())
  }

  #schedule(): void {
    if (this.#timer || this.#waiting.size === 0) return
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        const [first] = this.#waiting
        // Timers may fire early.
        if (first && this.#remaining() <= 0) {
          this.#waiting.delete(first)
          this.#lastCall = performance.now()
          first.start()
        }
        this.#schedule()
      },
      Math.ceil(Math.max(0, this.#remaining())),
    )
  }
}
