/** Pieces of work that end when their caller says so or when the mount does, and whom its end waits for. */
import { GatewayError } from '../../src/errors.js'

/** One piece of work, from when it entered until it leaves. */
export interface Stay {
  /** The caller, or the end of the mount, has asked for its end. */
  readonly aborted: boolean
  /** Aborts then. Made for those who ask for it: most files come and go without. */
  readonly signal: AbortSignal
  /** Calls `end` then, or at once where it is so already; not after it has left. */
  onAbort(end: () => void): void
  leave(): void
}

export class Stays {
  readonly #inside = new Set<OneStay>()
  #isOver = false
  #allLeft: (() => void) | undefined

  /** Throws `aborted` after the end. */
  enter(caller: AbortSignal | undefined): Stay {
    if (this.#isOver) throw over()
    const stay = new OneStay(caller, () => {
      this.#inside.delete(stay)
      if (this.#inside.size === 0) this.#allLeft?.()
    })
    this.#inside.add(stay)
    return stay
  }

  /** Aborts all of them; nobody enters any more. Resolves when the last one has left. */
  end(): Promise<void> {
    this.#isOver = true
    const left = new Promise<void>((resolve) => (this.#allLeft = resolve))
    for (const stay of [...this.#inside]) stay.abort(over())
    if (this.#inside.size === 0) this.#allLeft?.()
    return left
  }
}

class OneStay implements Stay {
  #isAborted = false
  #reason: unknown
  #controller: AbortController | undefined
  #ends: (() => void)[] = []
  readonly #stop = () => this.abort(this.caller?.reason)

  constructor(
    private readonly caller: AbortSignal | undefined,
    private readonly left: () => void,
  ) {
    if (caller?.aborted === true) this.#stop()
    else caller?.addEventListener('abort', this.#stop, { once: true })
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

  onAbort(end: () => void): void {
    if (this.#isAborted) end()
    else this.#ends.push(end)
  }

  abort(reason: unknown): void {
    if (this.#isAborted) return
    this.#isAborted = true
    this.#reason = reason
    this.#controller?.abort(reason)
    const ends = this.#ends
    this.#ends = []
    for (const end of ends) end()
  }

  leave(): void {
    this.caller?.removeEventListener('abort', this.#stop)
    this.#ends = []
    this.left()
  }
}

function over(): GatewayError {
  return new GatewayError('aborted', { reason: 'the storage was closed' })
}
