/**
 * Exclusive locks on paths. A change holds a lock from its last check to the end of the driver's call, so that of two
 * concurrent "create only if new" operations one fails. No lock is held while a request body is received. With several
 * nodes they exclude the changes of all (src/cluster/shared-path-locks.ts). The jobs of a `p-queue` wait for any place,
 * and not for those whose paths overlap with theirs.
 */
import { joinSignals, sharedController, withReason } from '../base/cancellation.js'
import { GatewayError } from '../base/errors.js'
import { foldCase, isWithin, type Path } from '../base/path.js'
import type { ClaimOptions, PathClaim } from '../database/engine.js'

export type { PathClaim } from '../database/engine.js'

export interface AcquireOptions extends ClaimOptions {
  /** Milliseconds to wait for the locks. */
  readonly timeout?: number
}

export interface PathLocks {
  /** Whether locks can be lost before they are released: with the connection to a database. */
  readonly canBeLost: boolean
  /**
   * Acquires all claims together; overlapping requests are served in order. Returns a function that releases them;
   * calling it again has no effect. Rejects with `busy` after the timeout or if too many others wait, and with
   * `aborted`.
   */
  acquire(claims: readonly PathClaim[], signal?: AbortSignal, options?: AcquireOptions): Promise<() => void>
}

/**
 * The path locks of one change. They are taken before its last check, again if that refused it, and released when it
 * has ended.
 */
export class HeldPathLocks {
  readonly #lost: AbortController | undefined
  #joined: ReturnType<typeof joinSignals> | undefined
  #unlock: (() => void) | undefined
  /** Number of releases so far. */
  #releases = 0
  #isOver = false

  /** `request`: the signal of the request. */
  constructor(
    private readonly locks: PathLocks,
    private readonly request: AbortSignal | undefined,
  ) {
    if (locks.canBeLost) this.#lost = sharedController()
  }

  /**
   * The signal for the calls of drivers. Aborts as the signal of the request does, and when the path locks are lost.
   * The reason is then `unavailable`: the request was not aborted by its client.
   */
  get signal(): AbortSignal | undefined {
    if (!this.#lost) return this.request
    this.#joined ??= joinSignals(this.request, this.#lost.signal)
    return this.#joined.signal
  }

  /**
   * Acquires the locks, unless they are held. Rejects as `PathLocks.acquire`, and with `aborted` if the locks were
   * released meanwhile: the driver may give up while this waits, and no one would release them.
   */
  async take(claims: readonly PathClaim[]): Promise<void> {
    if (this.#unlock) return
    const releases = this.#releases
    const lost = this.#lost
    const unlock = await this.locks.acquire(claims, this.request, lost && { onLost: () => lost.abort(locksLost()) })
    if (this.#isOver || releases !== this.#releases) {
      unlock()
      throw new GatewayError('aborted')
    }
    this.#unlock = unlock
  }

  release(): void {
    this.#releases++
    this.#unlock?.()
    this.#unlock = undefined
  }

  /** Releases the locks. `take` rejects from now on. */
  end(): void {
    this.#isOver = true
    this.release()
    this.#joined?.release()
  }

  /** Runs the change, then ends the locks. Rejects with `unavailable` instead of `aborted` if they were lost. */
  async runAndEnd<Result>(change: () => Promise<Result>): Promise<Result> {
    try {
      return await change()
    } catch (error) {
      throw withReason(error, this.#lost?.signal)
    } finally {
      this.end()
    }
  }
}

function locksLost(): GatewayError {
  const reason = 'this server has lost the connection to its database during the change'
  return new GatewayError('unavailable', { reason, retryAfter: 1 })
}

/** Each lock that is released is offered to all who wait, in one turn of the event loop. */
const maxWaiting = 1000

interface Waiter {
  readonly claims: readonly PathClaim[]
  readonly grant: () => void
}

function overlaps(one: PathClaim, other: PathClaim): boolean {
  return (
    one.path === other.path ||
    (one.tree && isWithin(one.path, other.path)) ||
    (other.tree && isWithin(other.path, one.path))
  )
}

/** Excludes changes by this process only. */
export class PathLocksInProcess implements PathLocks {
  /** Trees that are locked, and the number of locks on each single path. */
  readonly #trees = new Set<PathClaim>()
  readonly #names = new Map<Path, number>()
  readonly #waiting: Waiter[] = []
  readonly canBeLost = false

  async acquire(
    requested: readonly PathClaim[],
    signal?: AbortSignal,
    { timeout = 10_000 }: AcquireOptions = {},
  ): Promise<() => void> {
    if (signal?.aborted) throw new GatewayError('aborted')
    // Paths that a case-insensitive backend may treat as the same exclude each other on every backend. Locks are short.
    const claims = requested.map(({ path, tree }) => ({ path: foldCase(path), tree }))
    const isFree = !this.#blocked(claims) && !this.#waiting.some((waiter) => anyOverlap(waiter.claims, claims))
    if (!isFree) await this.#wait(claims, signal, timeout)
    else this.#lock(claims)
    let released = false
    return () => {
      if (released) return
      released = true
      this.#unlock(claims)
      this.#grantNext()
    }
  }

  #lock(claims: readonly PathClaim[]): void {
    for (const claim of claims) {
      if (claim.tree) this.#trees.add(claim)
      else this.#names.set(claim.path, (this.#names.get(claim.path) ?? 0) + 1)
    }
  }

  #unlock(claims: readonly PathClaim[]): void {
    for (const claim of claims) {
      const others = (this.#names.get(claim.path) ?? 0) - 1
      if (claim.tree) this.#trees.delete(claim)
      else if (others > 0) this.#names.set(claim.path, others)
      else this.#names.delete(claim.path)
    }
  }

  #blocked(claims: readonly PathClaim[]): boolean {
    return claims.some(({ path, tree }) => {
      for (const held of this.#trees) if (overlaps(held, { path, tree })) return true
      if (!tree) return this.#names.has(path)
      for (const name of this.#names.keys()) if (isWithin(path, name)) return true
      return false
    })
  }

  #wait(claims: readonly PathClaim[], signal: AbortSignal | undefined, timeout: number): Promise<void> {
    if (this.#waiting.length >= maxWaiting) return Promise.reject(busy())
    return new Promise((resolve, reject) => {
      const finish = (error?: GatewayError) => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        const at = this.#waiting.indexOf(waiter)
        if (at >= 0) this.#waiting.splice(at, 1)
        if (error) {
          reject(error)
          this.#grantNext()
        } else resolve()
      }
      const waiter: Waiter = { claims, grant: () => finish() }
      const onAbort = () => finish(new GatewayError('aborted'))
      const timer = setTimeout(() => finish(busy()), timeout)
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#waiting.push(waiter)
    })
  }

  /**
   * Grants, in order, every waiter whose claims overlap neither with a lock nor with the claims of an earlier waiter.
   */
  #grantNext(): void {
    const ahead: PathClaim[] = []
    for (const waiter of [...this.#waiting]) {
      if (this.#blocked(waiter.claims) || anyOverlap(ahead, waiter.claims)) {
        ahead.push(...waiter.claims)
      } else {
        this.#lock(waiter.claims)
        waiter.grant()
      }
    }
  }
}

function busy(): GatewayError {
  return new GatewayError('busy', { reason: 'somebody else is changing it, try again', retryAfter: 1 })
}

function anyOverlap(some: readonly PathClaim[], others: readonly PathClaim[]): boolean {
  return some.some((one) => others.some((other) => overlaps(one, other)))
}
