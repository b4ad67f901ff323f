/** Counts the different wrong texts that a client sends for a secret that is not a sign-in. */
import { createHmac, randomBytes } from 'node:crypto'
import { dropOldest, put, RecentCounts } from '../base/bounded-tables.js'
import { GatewayError } from '../base/errors.js'

/** Maximum number of different wrong texts of one client for one secret that are remembered. */
const maxRemembered = 32

/**
 * A secret is locked for a client after `failures` different wrong texts, for `time` milliseconds after the last one.
 * The key says which client and which secret. In this process only.
 */
export class WrongGuesses {
  readonly #digestKey = randomBytes(32)
  readonly #wrong: RecentCounts
  /** Digests of wrong texts, by key. */
  readonly #remembered = new Map<string, Set<string>>()
  /** The latest digest: a request may ask several times with one text. */
  #latest = { text: '', digest: '' }

  /** `now`: milliseconds. */
  constructor(
    private readonly limit: { readonly failures: number; readonly time: number },
    now: () => number = () => performance.now(),
  ) {
    this.#wrong = new RecentCounts(limit.time, now)
  }

  /** Throws `throttled` if the client has sent too many wrong texts. */
  assertNotLocked(key: string, reason: string): void {
    if (this.#wrong.count(key) < this.limit.failures) return
    const retryAfter = Math.max(1, Math.ceil(this.#wrong.remaining(key) / 1000))
    throw new GatewayError('throttled', { reason, retryAfter })
  }

  /** Counts a wrong text, unless the client has sent it before. Returns whether the secret is locked since then. */
  count(key: string, text: string): boolean {
    const remembered = this.#remembered.get(key) ?? new Set<string>()
    const digest = this.#digest(text)
    const isNew = !remembered.has(digest)
    // The latest one last.
    remembered.delete(digest)
    remembered.add(digest)
    dropOldest(remembered, maxRemembered)
    put(this.#remembered, key, remembered)
    if (!isNew) return false
    this.#wrong.add(key)
    return this.#wrong.count(key) >= this.limit.failures
  }

  #digest(text: string): string {
    if (this.#latest.text !== text) {
      const digest = createHmac('sha256', this.#digestKey).update(text).digest('base64')
      this.#latest = { text, digest }
    }
    return this.#latest.digest
  }
}
