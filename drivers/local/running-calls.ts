/**
 * Tracks the calls of a driver that end when their caller or the mount aborts them, so that closing the mount can wait
 * for them.
 */
import { GatewayError } from '../../src/base/errors.js'
import { Running } from '../../src/base/running.js'

/** One call of the driver, from its registration to its end. */
export interface RunningCall {
  /** Whether the caller or the closing mount has aborted it. */
  readonly aborted: boolean
  /** Aborts with the call. Created on first use, because most calls do not need it. */
  readonly signal: AbortSignal
  /** Calls `listener` on abort, or immediately if already aborted. Never called after the call has ended. */
  onAbort(listener: () => void): void
  end(): void
}

export class RunningCalls {
  readonly #calls = new Running<Call>()
  #isClosed = false
  #onEmpty: (() => void) | undefined

  /** Registers a call. Throws `aborted` after the mount is closed. */
  begin(caller: AbortSignal | undefined): RunningCall {
    if (this.#isClosed) throw closedError()
    const call = new Call(caller, () => {
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

class Call implements RunningCall {
  #isAborted = false
  #reason: unknown
  #controller: AbortController | undefined
  #listeners: (() => void)[] = []
  readonly #onCallerAbort = () => this.abort(this.caller?.reason)

  constructor(
    private readonly caller: AbortSignal | undefined,
    private readonly onLeave: () => void,
  ) {
    if (caller?.aborted === true) this.#onCallerAbort()
    else caller?.addEventListener('abort', this.#onCallerAbort, { once: true })
  }

  get aborted(): boolean {
    return this.#isAborted
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#isAborted) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  onAbort(listener: () => void): void {
    if (this.#isAborted) listener()
    else this.#listeners.push(listener)
  }

  abort(reason: unknown): void {
    if (this.#isAborted) return
    this.#isAborted = true
    this.#reason = reason
    this.#controller?.abort(reason)
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }

  end(): void {
    this.caller?.removeEventListener('abort', this.#onCallerAbort)
    this.#listeners = []
    this.onLeave()
  }
}

function closedError(): GatewayError {
  return new GatewayError('aborted', { reason: 'the storage was closed' })
}
