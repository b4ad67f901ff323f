/** Attempts at a backend that somebody waits for: a few at once, each for a limited time. */
import { joinSignals, sharedController, untilAborted, withReason } from './cancellation.js'
import { GatewayError } from './errors.js'

interface AttemptLimits {
  /** Attempts at once. One that its caller has given up counts until it has ended. */
  readonly atOnce: number
  /** Milliseconds that one may take. */
  readonly time: number
  /** The reason of the error while others are running. */
  readonly busy: string
}

export class Attempts {
  #running = 0

  constructor(private readonly limits: AttemptLimits) {}

  /**
   * Resolves or rejects as the attempt does; rejects with `busy` during others, with `timeout`, and with the reason of
   * `signal`. The signal that the attempt gets also aborts when it has ended: that ends what it does in the background.
   */
  async run<Result>(attempt: (signal: AbortSignal) => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const { atOnce, time, busy } = this.limits
    if (this.#running >= atOnce) throw new GatewayError('busy', { reason: busy })
    const limit = sharedController()
    const timer = setTimeout(() => limit.abort(new GatewayError('timeout')), time)
    const joined = joinSignals(signal, limit.signal)
    this.#running++
    const running = attempt(joined.signal).finally(() => this.#running--)
    try {
      return await untilAborted(running, joined.signal)
    } catch (error) {
      throw withReason(error, joined.signal)
    } finally {
      clearTimeout(timer)
      limit.abort()
      joined.release()
    }
  }
}
