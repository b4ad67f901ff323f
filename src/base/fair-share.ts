/**
 * Divides a limited total among those who use it. What one of them may hold depends on what is left (the dynamic
 * threshold of A. K. Choudhury and E. L. Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): nobody can hold all of
 * it alone, and whoever comes next gets a part of the rest, down to the last one. `p-queue` limits how many jobs run,
 * whoever they belong to.
 */
import { GatewayError } from './errors.js'

/**
 * The id of a user, or the network of clients that have not signed in. Undefined: the gateway itself, which only the
 * total limits.
 */
export type Holder = number | string | undefined

interface FairShareOptions {
  /** A holder may hold so many times what is left. By default 1: half of the total if there is no other. */
  readonly times?: number
  /** The most that one holder may hold, however much is left. */
  readonly most?: number
  /** The code of the error of `take`; by default `busy`. */
  readonly code?: 'busy' | 'throttled'
  /** The reason of the error of `take`, for users. */
  readonly reason?: string
  /** The `retryAfter` of the error of `take`, in seconds. */
  readonly retryAfter?: number
}

/** Ends a hold. Further calls have no effect. */
export type Release = () => void

export class FairShare {
  #held = 0
  readonly #heldBy = new Map<Holder, number>()
  /** The callers that wait, by holder. The holder that was served most recently is the last. */
  readonly #waiting = new Map<Holder, Set<() => void>>()

  /** `total`: read at each decision; call `admit` when it has grown. */
  constructor(
    private readonly total: number | (() => number),
    private readonly options: FairShareOptions = {},
  ) {}

  /** The amount that all holders together hold. */
  get held(): number {
    return this.#held
  }

  /** The amount that this holder holds. */
  heldBy(holder: Holder): number {
    return this.#heldBy.get(holder) ?? 0
  }

  /** Takes an amount at once. Throws `busy` if that is more than the holder's share. */
  take(holder: Holder, amount = 1): Release {
    if (this.#hasRoom(holder, amount)) return this.hold(holder, amount)
    const { code = 'busy', reason = 'too many requests of this kind are running', retryAfter = 1 } = this.options
    throw new GatewayError(code, { reason, retryAfter })
  }

  /** Takes an amount, even if that is more than the holder's share, or more than is left. */
  hold(holder: Holder, amount = 1): Release {
    this.#count(holder, amount)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#count(holder, -amount)
      this.admit()
    }
  }

  /**
   * Takes one, and waits for it if necessary. Those who wait are served in turns: one of each holder. Rejects with
   * `aborted`.
   */
  async wait(holder: Holder, signal?: AbortSignal): Promise<Release> {
    if (signal?.aborted === true) throw new GatewayError('aborted')
    if (this.#hasRoom(holder, 1)) return this.hold(holder)
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(holder) ?? new Set()
      this.#waiting.set(holder, waiting)
      const leave = () => {
        waiting.delete(start)
        if (waiting.size === 0 && this.#waiting.get(holder) === waiting) this.#waiting.delete(holder)
        reject(new GatewayError('aborted'))
      }
      const start = () => {
        signal?.removeEventListener('abort', leave)
        resolve(this.hold(holder))
      }
      waiting.add(start)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  /** Runs `work` while it holds one, for which it waits. Rejects with `aborted` if the signal aborts before. */
  async run<Result>(holder: Holder, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const release = await this.wait(holder, signal)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Serves those who wait, as far as there is room. */
  admit(): void {
    // A holder who is served moves to the end, where this loop gets to it again.
    for (const [holder, waiting] of this.#waiting) {
      if (this.#held >= this.#total) return
      const [start] = waiting
      if (start === undefined || !this.#hasRoom(holder, 1)) continue
      waiting.delete(start)
      this.#waiting.delete(holder)
      if (waiting.size > 0) this.#waiting.set(holder, waiting)
      start()
    }
  }

  get #total(): number {
    return typeof this.total === 'number' ? this.total : this.total()
  }

  #hasRoom(holder: Holder, amount: number): boolean {
    const left = this.#total - this.#held - amount
    if (left < 0) return false
    if (holder === undefined) return true
    const own = this.heldBy(holder)
    const { times = 1, most = Infinity } = this.options
    // The first is for whoever comes, down to the last one.
    return own === 0 ? amount <= most : own + amount <= Math.min(most, times * left)
  }

  #count(holder: Holder, change: number): void {
    this.#held += change
    const own = this.heldBy(holder) + change
    if (own > 0) this.#heldBy.set(holder, own)
    else this.#heldBy.delete(holder)
  }
}
