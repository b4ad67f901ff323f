/** Ends a change whose path locks are lost with the connection to the database. */
import { joinSignals, sharedController } from '../contract/cancellation.js'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import type { PathLocks } from '../storage/path-locks.js'

export class LockGuard {
  /** For the calls of drivers: aborts as the signal of the request does, and when the path locks are lost. */
  readonly signal: AbortSignal | undefined
  /** For `PathLocks.acquire`. */
  readonly onLost: (() => void) | undefined
  readonly #isLost: () => boolean = () => false
  readonly #release: () => void = () => undefined

  constructor({ canBeLost }: Pick<PathLocks, 'canBeLost'>, signal: AbortSignal | undefined) {
    this.signal = signal
    if (!canBeLost) return
    const lost = sharedController()
    const joined = joinSignals(signal, lost.signal)
    this.signal = joined.signal
    this.onLost = () => lost.abort()
    this.#isLost = () => lost.signal.aborted
    this.#release = () => joined.release()
  }

  /** The error for the client: `unavailable` instead of `aborted`, if the path locks were lost. */
  reported(error: unknown): unknown {
    if (!this.#isLost() || !isGatewayError(error, 'aborted')) return error
    const reason = 'this server has lost the connection to its database during the change'
    return new GatewayError('unavailable', { reason, retryAfter: 1, cause: error })
  }

  /** Must be called when the change has ended. */
  end(): void {
    this.#release()
  }
}
