/** The log and the audit of sign-ins. */
import { LRUCache } from 'lru-cache'
import type { Audit } from '../audit/audit.js'
import { outcomeOf, type Actor, type EventFacts } from '../audit/event.js'
import { put } from '../base/bounded-tables.js'
import { hasDetail, isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { UserRow } from '../database/tables/accounts.js'
import { networkOf } from '../net/addresses.js'
import { lockout } from './limiter.js'
import type { Credentials } from './password-check.js'
import type { Principal } from './principal.js'
import type { SignInProof } from './proof.js'
import type { Credential } from './sessions.js'
import type { Users } from './users.js'

/** Sign-ins by protocols that repeat them, and milliseconds until one that goes on is recorded again. */
const repeated = { max: 10_000, ttl: 3600_000 }

/**
 * A user who has signed in, and the credential. `kind`: the proof of the user if it is not a credential of this server,
 * if that is known already.
 */
interface SignedIn {
  readonly user?: Pick<UserRow, 'id' | 'username'> | undefined
  readonly kind?: SignInProof['kind'] | undefined
  readonly credential?: string | undefined
}

interface SignInRecordsOptions {
  readonly users: Pick<Users, 'byName' | 'get'>
  readonly log?: Pick<Log, 'warn'> | undefined
  readonly audit?: Pick<Audit, 'record'> | undefined
  /** The time in milliseconds since 1970. */
  readonly now: () => number
}

export class SignInRecords {
  /** Sign-ins that were recorded, and that their clients repeat with each request. */
  readonly #repeated = new LRUCache<string, true>(repeated)
  /** When a throttled sign-in of a network was logged last, and the number of those since. */
  readonly #throttled = new Map<string, { readonly at: number; suppressed: number }>()

  /** The errors of the sign-ins that `during` has recorded. */
  readonly #recorded = new WeakSet<object>()

  constructor(private readonly options: SignInRecordsOptions) {}

  /**
   * Records the sign-in that `work` is in the audit: also one with a correct password that lacks the code
   * (`code_required`), after which a client asks its user; a wrong code is `wrong_code`. Logs a failed one with its
   * address, and with the name only if the account exists, because it could be a mistyped password. Of throttled ones,
   * logs one of each network within the time of a lockout, with the number of those that were not logged before it.
   * `work` resolves to who has signed in, and by what if it is not the password; without a user, to nothing that is
   * recorded. `kind`: what proves it in place of a credential of this server,
   * if that is known before.
   */
  async during<T extends SignedIn>(
    {
      username,
      code,
      address,
      kind,
    }: Pick<Credentials, 'username' | 'code' | 'address'> & Partial<Pick<SignInProof, 'kind'>>,
    protocol: string,
    work: () => Promise<T>,
  ): Promise<T> {
    const { users, log, audit } = this.options
    try {
      const result = await work()
      const { user, kind: by = kind, credential = by ?? 'password' } = result
      if (user) {
        const actor: Actor = { userId: user.id, name: user.username, protocol, address, credential }
        await audit?.record({ kind: 'signin.ok', actor, result: 'done', subject: by })
      }
      return result
    } catch (error) {
      if (!isGatewayError(error)) throw error
      const outcome = outcomeOf(error)
      const isCode = hasDetail(error, 'code_required')
      const isWrong = isCode && code !== undefined
      await this.refused({ username, address, kind }, protocol, isWrong ? { ...outcome, error: 'wrong_code' } : outcome)
      this.#recorded.add(error)
      if (!isCode || isWrong) {
        const facts = { protocol, by: kind, address, account: users.byName(username)?.username, reason: error.reason }
        if (error.code !== 'throttled') log?.warn(facts, 'sign-in refused')
        else this.#logThrottled(networkOf(address), facts)
      }
      throw error
    }
  }

  /** Whether `during` has recorded the sign-in that has failed with this error. */
  hasRecorded(error: object): boolean {
    return this.#recorded.has(error)
  }

  /** Records that somebody could not sign in; with the name only if an account has it. `kind`: as for `during`. */
  async refused(
    {
      username,
      address,
      kind,
    }: {
      readonly username: string
      readonly address: string | undefined
      readonly kind?: SignInProof['kind'] | undefined
    },
    protocol: string,
    outcome: Pick<EventFacts, 'result' | 'error'>,
  ): Promise<void> {
    const user = this.options.users.byName(username)
    const actor: Actor = { userId: user?.id, name: user?.username ?? '', protocol, address }
    await this.options.audit?.record({ kind: 'signin.refused', actor, subject: kind, ...outcome })
  }

  #logThrottled(network: string, facts: object): void {
    const { log, now } = this.options
    const last = this.#throttled.get(network)
    if (last !== undefined && now() - last.at < lockout.time) {
      last.suppressed++
      return
    }
    put(this.#throttled, network, { at: now(), suppressed: 0 })
    log?.warn({ ...facts, suppressed: last?.suppressed }, 'sign-in refused')
  }

  /** Whether the sign-in goes on, and was recorded. From now on it is. */
  isRepeated({ userId, credential, protocol }: Principal, address: string): boolean {
    const key = `${userId} ${credential} ${protocol.name} ${address}`
    if (this.#repeated.has(key)) return true
    this.#repeated.set(key, true)
    return false
  }

  /** Records that a session of the user was ended by the user. */
  async signedOut(userId: number, credential: Credential, address: string | undefined): Promise<void> {
    const { users, audit } = this.options
    const name = users.get(userId)?.username ?? ''
    const actor: Actor = { userId, name, protocol: 'http', address, credential }
    await audit?.record({ kind: 'signout', actor, result: 'done' })
  }

  /** Waits until the time of last use is stored. A full disk must not keep those out who could delete files. */
  async used(storing: Promise<unknown>): Promise<void> {
    await storing.catch((error: unknown) => {
      this.options.log?.warn({ err: error }, 'failed to store the time of last use of a credential')
    })
  }
}
