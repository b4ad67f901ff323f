/** Limits wrong folder passwords as sign-ins are limited. Counted by each process; a restart forgets them. */
import { createHmac, randomBytes } from 'node:crypto'
import { lockout, put, RecentCounts } from '../accounts/limiter.js'
import type { Principal } from '../accounts/principal.js'
import { GatewayError } from '../contract/errors.js'
import type { Log } from '../contract/log.js'

/** The rule whose password is asked for. */
interface ProtectingRule {
  readonly id: number
  readonly path: string
}

/** Different wrong passwords of one client for one rule that are remembered. */
const maxRemembered = 32

/**
 * Locks the passwords of a rule for a network after `lockout.failures` different wrong ones, for `lockout.time` after the last one: a client
 * sends the same password with every request. Without a network, as in tasks, the user's are counted.
 */
export class PasswordGuesses {
  readonly #key = randomBytes(32)
  readonly #wrong: RecentCounts
  /** Digests of wrong passwords, by client and rule. */
  readonly #remembered = new Map<string, Set<string>>()
  /** The latest digest: a request asks about many paths with one password. */
  #latest = { password: '', digest: '' }

  /** `now`: milliseconds. */
  constructor(
    private readonly log: Pick<Log, 'warn'> | undefined,
    now: () => number = () => performance.now(),
  ) {
    this.#wrong = new RecentCounts(lockout.time, now)
  }

  /** Throws `throttled` if the client has sent too many wrong passwords for the rule. */
  assertNotLocked(rule: ProtectingRule, principal: Principal): void {
    const key = keyOf(rule, principal)
    if (this.#wrong.count(key) < lockout.failures) return
    throw new GatewayError('throttled', {
      reason: 'too many wrong passwords for this folder, try again later',
      retryAfter: Math.max(1, Math.ceil(this.#wrong.remaining(key) / 1000)),
    })
  }

  /** Counts a wrong password, unless this client has sent it before. Logs one line when the rule is locked for the client. */
  countWrong(rule: ProtectingRule, principal: Principal, password: string): void {
    const key = keyOf(rule, principal)
    const remembered = this.#remembered.get(key) ?? new Set<string>()
    const digest = this.#digest(password)
    const isNew = !remembered.has(digest)
    // The latest one last.
    remembered.delete(digest)
    remembered.add(digest)
    const [oldest] = remembered
    if (remembered.size > maxRemembered && oldest !== undefined) remembered.delete(oldest)
    put(this.#remembered, key, remembered)
    if (!isNew) return
    this.#wrong.add(key)
    if (this.#wrong.count(key) < lockout.failures) return
    const { username, protocol, network } = principal
    this.log?.warn(
      { protocol: protocol.name, user: username, network, folder: rule.path },
      'too many wrong passwords for a folder: its passwords are refused for five minutes',
    )
  }

  #digest(password: string): string {
    if (this.#latest.password !== password) {
      const digest = createHmac('sha256', this.#key).update(password).digest('base64')
      this.#latest = { password, digest }
    }
    return this.#latest.digest
  }
}

function keyOf({ id }: ProtectingRule, { userId, network }: Principal): string {
  return `${network ?? `user ${userId}`} ${id}`
}
