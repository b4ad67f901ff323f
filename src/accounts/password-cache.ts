/** Recently verified passwords, for protocols that send the password with every request. */
import { createHmac, randomBytes } from 'node:crypto'
import type { UserRow } from '../store/rows.js'

/** Milliseconds after the last use until an entry expires. */
const idleTimeout = 5 * 60_000
const maxEntries = 10_000

/**
 * Caches recently verified passwords. Basic authentication sends the password with every request; a slow hash for each
 * one would limit clients to a few requests per second. Stores only a digest under a random key of this process, never
 * the password.
 */
export class PasswordCache {
  readonly #key = randomBytes(32)
  readonly #entries = new Map<string, { readonly user: UserRow; used: number }>()

  constructor(
    private readonly current: (id: number) => UserRow | undefined,
    private readonly now: () => number,
  ) {}

  /** The cache key for a user name and a static hash. */
  digest(username: string, hash: string): string {
    return createHmac('sha256', this.#key).update(`${hash} ${username}`).digest('base64')
  }

  /** The account, if these credentials were verified recently and the account has not changed since. */
  get(digest: string): UserRow | undefined {
    const entry = this.#entries.get(digest)
    if (entry === undefined) return undefined
    const now = this.now()
    // Rows are immutable: another object means that the account changed.
    if (this.current(entry.user.id) !== entry.user || now - entry.used > idleTimeout) {
      this.#entries.delete(digest)
      return undefined
    }
    entry.used = now
    return entry.user
  }

  add(digest: string, user: UserRow): void {
    this.#entries.delete(digest)
    this.#entries.set(digest, { user, used: this.now() })
    if (this.#entries.size > maxEntries) {
      const [oldest] = this.#entries.keys()
      if (oldest !== undefined) this.#entries.delete(oldest)
    }
  }
}
