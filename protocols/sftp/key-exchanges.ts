/**
 * Limits key exchanges by network or user: each takes milliseconds of the processor, and needs no account. Several
 * begin one shortly after another, so that other connections have their turn. More than `burst` of them wait as
 * `perSecond` says.
 */
import { networkOf } from '../../src/net/addresses.js'

export interface KeyExchangeLimits {
  /** Number of key exchanges of a network that do not wait for `perSecond`. */
  readonly burst: number
  readonly perSecond: number
}

/** Milliseconds between two key exchanges of a network. */
const spacing = 10
/** Maximum wait in milliseconds. */
const longestWait = 10_000

/** The turn of a key exchange. */
export interface KeyExchangeTurn {
  /** Milliseconds to wait before it. */
  readonly wait: number
  /** Returns the turn, so that it does not count: for a connection that ends before. */
  readonly release: () => void
}

interface NetworkState {
  /** When key exchanges begin that have not been counted long ago, in milliseconds; the latest is last. */
  starts: readonly number[]
  /** When all the exchanges so far would have ended if each took its share of a second. */
  paid: number
}

export class KeyExchanges {
  /** The network that was counted longest ago is first. */
  readonly #networks = new Map<string, NetworkState>()

  constructor(private readonly limits: KeyExchangeLimits) {}

  /**
   * Counts a key exchange with this address, or this user. Undefined if the wait before it would be too long: it must
   * not take place, and is not counted. `now`: milliseconds of a clock that does not go back.
   */
  reserve(address: string, now = performance.now()): KeyExchangeTurn | undefined {
    this.#dropIdle(now)
    const { burst, perSecond } = this.limits
    const network = networkOf(address)
    const state: NetworkState = this.#networks.get(network) ?? { starts: [], paid: now }
    const share = 1000 / perSecond
    const start = Math.max(now, nextOf(state), state.paid - (burst - 1) * share)
    if (start - now > longestWait) return undefined
    this.#networks.delete(network)
    this.#networks.set(network, state)
    state.starts = [...state.starts.filter((each) => each + spacing > now), start]
    state.paid = Math.max(now, state.paid) + share
    const release = () => {
      state.starts = state.starts.filter((each) => each !== start)
      state.paid -= share
    }
    return { wait: start - now, release }
  }

  #dropIdle(now: number): void {
    for (const [network, state] of this.#networks) {
      if (nextOf(state) > now || state.paid > now) return
      this.#networks.delete(network)
    }
  }
}

/** When the next key exchange may begin. */
function nextOf({ starts }: NetworkState): number {
  return (starts.at(-1) ?? -Infinity) + spacing
}
