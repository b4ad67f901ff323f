import { createHmac, randomBytes } from 'node:crypto'
import type { UserRow } from '../store/rows.js'

/** Milliseconds without use after which one is forgotten. */
const idleTime = 5 * 60_000
const tableSize = 10_000

/**
 * Passwords that were verified lately. Basic authentication sends the password with every request, and a slow hash for each
 * would allow some few requests a second. Kept is a digest under a key that only this process has, never the password.
 */
export class RememberedPasswords {
  readonly #key = randomBytes(32)
  readonly #entries = new Map<string, { readonly user: UserRow; used: number }>()

  constructor(
    private readonly current: (id: number) => UserRow | undefined,
    private readonly now: () => number,
  ) {}

  /** `hash` is the wire's static one. */
  digest(username: string, hash: string): string {
    return createHmac('sha256', this.#key).update(`${hash} ${username}`).digest('base64')
  }

  /** The account, where these very credentials were verified lately and nothing of the account has changed since. */
  get(digest: string): UserRow | undefined {
    const entry = this.#entries.get(digest)
    if (entry === undefined) return undefined
    const now = this.now()
    // Rows are replaced, never changed: another object is another state.
    if (this.current(entry.user.id) !== entry.user || now - entry.used > idleTime) {
      this.#entries.delete(digest)
      return undefined
    }
    entry.used = now
    return entry.user
  }

  add(digest: string, user: UserRow): void {
    this.#entries.delete(digest)
    this.#entries.set(digest, { user, used: this.now() })
    if (this.#entries.size > tableSize) {
      const [oldest] = this.#entries.keys()
      if (oldest !== undefined) this.#entries.delete(oldest)
    }
  }
}
