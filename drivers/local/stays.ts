/** Pieces of work that end when their caller says so or when the mount does, and whom its end waits for. */
import { GatewayError } from '../../src/errors.js'

/** One piece of work, from when it entered until it leaves. */
export interface Stay {
  /** Aborted by the caller, or by the end of the mount. */
  readonly signal: AbortSignal
  leave(): void
}

export class Stays {
  readonly #ends = new Map<Stay, () => void>()
  #isOver = false
  #allLeft: (() => void) | undefined

  /** Throws `aborted` after the end. */
  enter(caller: AbortSignal | undefined): Stay {
    if (this.#isOver) throw over()
    const controller = new AbortController()
    const stop = () => controller.abort(caller?.reason)
    if (caller?.aborted === true) stop()
    else caller?.addEventListener('abort', stop, { once: true })
    const stay: Stay = {
      signal: controller.signal,
      leave: () => {
        caller?.removeEventListener('abort', stop)
        this.#ends.delete(stay)
        if (this.#ends.size === 0) this.#allLeft?.()
      },
    }
    this.#ends.set(stay, () => controller.abort(over()))
    return stay
  }

  /** Aborts all of them; nobody enters any more. Resolves when the last one has left. */
  end(): Promise<void> {
    this.#isOver = true
    const left = new Promise<void>((resolve) => (this.#allLeft = resolve))
    for (const end of [...this.#ends.values()]) end()
    if (this.#ends.size === 0) this.#allLeft?.()
    return left
  }
}

function over(): GatewayError {
  return new GatewayError('aborted', { reason: 'the storage was closed' })
}
