/** Finds out that a backend is gone, or is back, while nobody uses its storage. */
import { settlesWithin } from '../contract/cancellation.js'
import { GatewayError, isGatewayError, toGatewayError } from '../contract/errors.js'

/** Seconds until the next check, by the number of failures. A backend that has answered a call meanwhile is not asked. */
const pauses = [60, 120, 300, 900]

/** Milliseconds in which a backend must answer. */
const answerTimeout = 30_000

export class BackendCheck {
  #hasAnswered = false
  #failures = 0
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  /**
   * `ask` makes one call; if it succeeds, it must lead to `answered`. `report` is called with the reason when the backend
   * does not answer, and with undefined when it does again.
   */
  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<unknown>,
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
    if (!this.#hasAnswered) {
      const asked = this.ask(AbortSignal.timeout(answerTimeout)).catch((error: unknown) => this.#failed(error))
      if (!(await settlesWithin(asked, answerTimeout))) this.#failed(new GatewayError('timeout'))
      // Not asked again until then: each call to a network file system that does not respond holds a thread.
      await asked
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
