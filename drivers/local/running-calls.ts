/**
 * Tracks the calls of a driver that end when their caller or the mount aborts them, so that closing the mount can wait
 * for them.
 */
import { GatewayError } from '../../src/base/errors.js'
import { Running } from '../../src/base/running.js'

export class RunningCalls {
  readonly #calls = new Running<RunningCall>()
  #isClosed = false
  #onEmpty: (() => void) | undefined

  /** Registers a call. Throws `aborted` after the mount is closed. */
  begin(caller: AbortSignal | undefined): RunningCall {
    if (this.#isClosed) throw closedError()
    const call = new RunningCall(caller, () => {
      remove()
      if (this.#calls.size === 0) this.#onEmpty?.()
    })
    const remove = this.#calls.add(call)
    return call
  }

  /** Aborts all calls and refuses new ones. Resolves when the last one has ended. */
  abortAll(): Promise<void> {
    this.#isClosed = true
    const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve))
    for (const call of this.#calls.items) call.abort(closedError())
    if (this.#calls.size === 0) this.#onEmpty?.()
    return empty
  }
}

/**
 * One call of the driver, from its registration to its end. Aborted by the caller or the closing mount. Node creates
 * the signal on first use, which most calls do without.
 */
export class RunningCall extends AbortController {
  aborted = false
  readonly #onCallerAbort = () => this.abort(this.caller?.reason)

  constructor(
    private readonly caller: AbortSignal | undefined,
    private readonly onEnd: () => void,
  ) {
    super()
    if (caller?.aborted === true) this.#onCallerAbort()
    else caller?.addEventListener('abort', this.#onCallerAbort, { once: true })
  }

  override abort(reason: unknown): void {
    this.aborted = true
    super.abort(reason)
  }

  /** Calls `listener` on abort, or immediately if already aborted. */
  onAbort(listener: () => void): void {
    if (this.aborted) listener()
    else this.signal.addEventListener('abort', listener, { once: true })
  }

  /** The call has ended: nothing aborts it from now on. */
  end(): void {
    this.caller?.removeEventListener('abort', this.#onCallerAbort)
    this.onEnd()
  }
}

function closedError(): GatewayError {
  return new GatewayError('aborted', { reason: 'the storage was closed' })
}
