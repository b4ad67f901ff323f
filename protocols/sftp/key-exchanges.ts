/**
 * Limits key exchanges by network: each takes milliseconds of the processor, and needs no account. Several begin one shortly
 * after another, so that other connections have their turn. More than `burst` of them wait as `perSecond` says.
 */
import { networkOf } from '../../src/net/networks.js'

export interface KeyExchangeLimits {
  /** Number of key exchanges of a network that do not wait for `perSecond`. */
  readonly burst: number
  readonly perSecond: number
}

/** Milliseconds between two key exchanges of a network. */
const spacing = 10
/** Maximum wait in milliseconds. */
const longestWait = 10_000

interface NetworkState {
  /** When the next key exchange may begin, in milliseconds. */
  next: number
  /** When all the exchanges so far would have ended if each took its share of a second. */
  paid: number
}

export class KeyExchanges {
  /** The network that was counted longest ago is first. */
  readonly #networks = new Map<string, NetworkState>()

  constructor(private readonly limits: KeyExchangeLimits) {}

  /**
   * Counts a key exchange with this address. Returns the milliseconds to wait before it; undefined if the wait would be too
   * long: it must not take place, and is not counted. `now`: milliseconds of a clock that does not go back.
   */
  reserve(address: string, now = performance.now()): number | undefined {
    this.#dropIdle(now)
    const { burst, perSecond } = this.limits
    const network = networkOf(address)
    const state = this.#networks.get(network) ?? { next: now, paid: now }
    const share = 1000 / perSecond
    const start = Math.max(now, state.next, state.paid - (burst - 1) * share)
    if (start - now > longestWait) return undefined
    this.#networks.delete(network)
    this.#networks.set(network, { next: start + spacing, paid: Math.max(now, state.paid) + share })
    return start - now
  }

  #dropIdle(now: number): void {
    for (const [network, { next, paid }] of this.#networks) {
      if (next > now || paid > now) return
      this.#networks.delete(network)
    }
  }
}
