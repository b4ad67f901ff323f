/**
 * Who is changing a name right now. A change reserves its path from the last check to the end of the
 * driver's call, so that of two "create only if new" one fails. Nobody holds one while a body arrives.
 */
import { GatewayError } from './errors.js'
import { folded, isWithin, type Path } from './path.js'

export interface Claim {
  readonly path: Path
  /** true: everything below is claimed too. */
  readonly tree: boolean
}

interface Waiter {
  readonly claims: readonly Claim[]
  readonly grant: () => void
}

function overlaps(one: Claim, other: Claim): boolean {
  return (
    one.path === other.path ||
    (one.tree && isWithin(one.path, other.path)) ||
    (other.tree && isWithin(other.path, one.path))
  )
}

export class Reservations {
  /** Trees that are held, and how often each single name is. */
  readonly #trees = new Set<Claim>()
  readonly #names = new Map<Path, number>()
  readonly #waiting: Waiter[] = []

  /**
   * All claims at once, in turn. Resolves to what releases them. Rejects with `busy` after `patience`
   * milliseconds, with `aborted` on the signal.
   */
  async take(wanted: readonly Claim[], signal?: AbortSignal, patience = 10_000): Promise<() => void> {
    if (signal?.aborted) throw new GatewayError('aborted')
    // Names that a backend might take for one wait for each other, on whatever backend: it is not for long.
    const claims = wanted.map(({ path, tree }) => ({ path: folded(path), tree }))
    const clear = !this.#blocked(claims) && !this.#waiting.some((waiter) => anyOverlap(waiter.claims, claims))
    if (!clear) await this.#wait(claims, signal, patience)
    else this.#hold(claims)
    let released = false
    return () => {
      if (released) return
      released = true
      this.#letGo(claims)
      this.#next()
    }
  }

  #hold(claims: readonly Claim[]): void {
    for (const claim of claims) {
      if (claim.tree) this.#trees.add(claim)
      else this.#names.set(claim.path, (this.#names.get(claim.path) ?? 0) + 1)
    }
  }

  #letGo(claims: readonly Claim[]): void {
    for (const claim of claims) {
      const others = (this.#names.get(claim.path) ?? 0) - 1
      if (claim.tree) this.#trees.delete(claim)
      else if (others > 0) this.#names.set(claim.path, others)
      else this.#names.delete(claim.path)
    }
  }

  #blocked(claims: readonly Claim[]): boolean {
    return claims.some(({ path, tree }) => {
      for (const held of this.#trees) if (overlaps(held, { path, tree })) return true
      if (!tree) return this.#names.has(path)
      for (const name of this.#names.keys()) if (isWithin(path, name)) return true
      return false
    })
  }

  #wait(claims: readonly Claim[], signal: AbortSignal | undefined, patience: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (error?: GatewayError) => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        const at = this.#waiting.indexOf(waiter)
        if (at >= 0) this.#waiting.splice(at, 1)
        if (error) {
          reject(error)
          this.#next()
        } else resolve()
      }
      const waiter: Waiter = { claims, grant: () => settle() }
      const onAbort = () => settle(new GatewayError('aborted'))
      const timer = setTimeout(
        () => settle(new GatewayError('busy', { reason: 'somebody else is changing it, try again', retryAfter: 1 })),
        patience,
      )
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#waiting.push(waiter)
    })
  }

  /** Grants, in order, every waiter whom neither a holder nor an earlier waiter stands in the way of. */
  #next(): void {
    const ahead: Claim[] = []
    for (const waiter of [...this.#waiting]) {
      if (this.#blocked(waiter.claims) || anyOverlap(ahead, waiter.claims)) {
        ahead.push(...waiter.claims)
      } else {
        this.#hold(waiter.claims)
        waiter.grant()
      }
    }
  }
}

function anyOverlap(some: readonly Claim[], others: readonly Claim[]): boolean {
  return some.some((one) => others.some((other) => overlaps(one, other)))
}
