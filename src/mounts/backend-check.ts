/** Finds out that a backend is gone, or is back, while nobody uses its storage. */
import { settlesWithin } from '../base/cancellation.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'

/**
 * Seconds until the next check, by the number of failures. A backend that has answered a call meanwhile is not asked.
 */
const pauses = [60, 120, 300, 900]

/** Milliseconds in which a backend must answer. */
const answerTimeout = 30_000

export class BackendCheck {
  #hasAnswered = false
  #failures = 0
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  /**
   * `mayAsk` returns a function that makes one call, or undefined if the backend cannot be asked now. If the call
   * succeeds, it must lead to `answered`. `report` is called with the reason when the backend does not answer, and with
   * undefined when it does again.
   */
  constructor(
    private readonly mayAsk: () => ((signal: AbortSignal) => Promise<unknown>) | undefined,
    private readonly report: (failure: GatewayError | undefined) => void,
  ) {}

  start(): void {
    const seconds = pauses[Math.min(this.#failures, pauses.length - 1)] ?? 900
    clearTimeout(this.#timer)
    if (!this.#isStopped) this.#timer = setTimeout(() => void this.#check(), seconds * 1000).unref()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /** The backend has answered a call. */
  answered(): void {
    this.#hasAnswered = true
    if (this.#failures === 0 || this.#isStopped) return
    this.#failures = 0
    this.report(undefined)
    this.start()
  }

  async #check(): Promise<void> {
    const ask = this.#hasAnswered ? undefined : this.mayAsk()
    if (ask) {
      const asked = ask(AbortSignal.timeout(answerTimeout)).then(
        () => undefined,
        (error: unknown) => error,
      )
      const isLate = !(await settlesWithin(asked, answerTimeout))
      if (isLate) this.#failed(new GatewayError('timeout'))
      // Not asked again until then: each call to a network file system that does not respond holds a thread.
      const error = await asked
      if (error !== undefined && !isLate) this.#failed(error)
    }
    this.#hasAnswered = false
    this.start()
  }

  #failed(error: unknown): void {
    if (this.#isStopped || isGatewayError(error, 'busy')) return
    this.#failures++
    this.report(isGatewayError(error, 'aborted') ? new GatewayError('timeout') : toGatewayError(error))
  }
}
