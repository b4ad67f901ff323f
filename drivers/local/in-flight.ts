/**
 * Tracks operations that end when their caller or the mount aborts them, so that closing the mount can wait for them.
 */
import { GatewayError } from '../../src/contract/errors.js'

/** One operation, from its registration to its end. */
export interface InFlightOperation {
  /** Whether the caller or the closing mount has aborted it. */
  readonly aborted: boolean
  /** Aborts with the operation. Created on first use, because most operations do not need it. */
  readonly signal: AbortSignal
  /** Calls `listener` on abort, or immediately if already aborted. Never called after the operation has ended. */
  onAbort(listener: () => void): void
  end(): void
}

export class InFlight {
  readonly #operations = new Set<Operation>()
  #isClosed = false
  #onEmpty: (() => void) | undefined

  /** Registers an operation. Throws `aborted` after the mount is closed. */
  begin(caller: AbortSignal | undefined): InFlightOperation {
    if (this.#isClosed) throw closedError()
    const operation = new Operation(caller, () => {
      this.#operations.delete(operation)
      if (this.#operations.size === 0) this.#onEmpty?.()
    })
    this.#operations.add(operation)
    return operation
  }

  /** Aborts all operations and refuses new ones. Resolves when the last one has ended. */
  abortAll(): Promise<void> {
    this.#isClosed = true
    const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve))
    for (const operation of [...this.#operations]) operation.abort(closedError())
    if (this.#operations.size === 0) this.#onEmpty?.()
    return empty
  }
}

class Operation implements InFlightOperation {
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
