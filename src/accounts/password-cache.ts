/** Recently verified passwords, for protocols that send the password with every request. */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { UserRow } from '../database/tables/accounts.js'

/** Milliseconds after the last use until an entry expires. */
const idleTimeout = 5 * 60_000
/** Milliseconds for which the word of a directory is taken: this process does not learn what changes there. */
const directoryTime = 60_000
const maxEntries = 10_000

/** An account, and whether its password was verified in a directory. */
export interface Verified {
  readonly user: UserRow
  readonly inDirectory: boolean
}

/**
 * Caches recently verified passwords. Basic authentication sends the password with every request; a slow hash for each
 * one would limit clients to a few requests per second. Stores only a digest under a random key of this process, never
 * the password.
 */
export class PasswordCache {
  readonly #key = randomBytes(32)
  readonly #users: LRUCache<string, Verified>

  constructor(
    private readonly current: (id: number) => UserRow | undefined,
    now: () => number,
  ) {
    this.#users = new LRUCache({
      maxSize: maxEntries,
      sizeCalculation: () => 1,
      ttl: idleTimeout,
      ttlResolution: 0,
      perf: { now },
    })
  }

  /** The cache key for a user name and a static hash. */
  digest(username: string, hash: string): string {
    return createHmac('sha256', this.#key).update(`${hash} ${username}`).digest('base64')
  }

  /** The account, if these credentials were verified recently and the account has not changed since. */
  get(digest: string): Verified | undefined {
    const verified = this.#users.peek(digest)
    // Rows are immutable: another object means that the account changed.
    if (verified !== undefined && this.current(verified.user.id) !== verified.user) this.#users.delete(digest)
    return this.#users.get(digest, { updateAgeOnGet: verified?.inDirectory === false })
  }

  /** Adds what was verified just now. What was found here has its time already. */
  add(digest: string, verified: Verified): void {
    if (this.#users.peek(digest) === verified) return
    this.#users.set(digest, verified, verified.inDirectory ? { ttl: directoryTime } : {})
  }
}
