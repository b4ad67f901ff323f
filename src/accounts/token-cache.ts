/** The principals of recently verified tokens, for protocols whose clients send the token with every request. */
import { LRUCache } from 'lru-cache'
import type { Principal, ProtocolFacts } from './principal.js'

const maxEntries = 1000

interface Entry {
  readonly principal: Principal
  /** When the token expires, in milliseconds since 1970. */
  readonly until: number
}

/**
 * Caches the principals of verified tokens. An entry is valid until the token expires or the principal's signal aborts,
 * which every change that affects the token or its account causes at once (`Sessions`).
 */
export class TokenCache {
  /** Tokens differ between protocols only in the principal that they yield. */
  readonly #byProtocol = new Map<ProtocolFacts, LRUCache<string, Entry>>()

  constructor(private readonly now: () => number) {}

  get(token: string, protocol: ProtocolFacts): Principal | undefined {
    const entries = this.#byProtocol.get(protocol)
    const entry = entries?.get(token)
    if (entry === undefined) return undefined
    if (!entry.principal.signal.aborted && this.now() < entry.until) return entry.principal
    entries?.delete(token)
    return undefined
  }

  add(token: string, principal: Principal, until: number): void {
    const { protocol } = principal
    const entries = this.#byProtocol.get(protocol) ?? new LRUCache<string, Entry>({ max: maxEntries })
    this.#byProtocol.set(protocol, entries)
    entries.set(token, { principal, until })
  }
}
