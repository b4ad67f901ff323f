/**
 * Limits failed sign-ins, for all protocols together. An address is locked out. An account is only slowed down, and not
 * for addresses with a recent successful sign-in, so that users cannot lock each other out. Addresses are those of
 * `networkOf`. One process counts in memory; nodes that share a database count in it (shared-limiter.ts).
 */
import type { Awaitable } from '../contract/call-options.js'
import { tooManyAttempts } from './errors.js'

const minute = 60_000

/** Failures after which an address is locked, and `time` in milliseconds after the last one until they expire. */
export const lockout = { failures: 5, time: 5 * minute }
/**
 * Failures of one account after which the answers to further ones are delayed, and `time` until they expire. Delays double from
 * `minDelay` up to `maxDelay`. In milliseconds.
 */
export const backoff = { failures: 10, time: 15 * minute, minDelay: 200, maxDelay: 5000 }
/** Milliseconds for which an address is familiar to an account after a successful sign-in. */
export const familiarTime = 24 * 60 * minute
/**
 * Maximum entries of one table; beyond it, the oldest are removed, so that a distributed attack cannot exhaust the
 * memory.
 */
const maxEntries = 50_000

/** Limits failed sign-ins by address, by address and account (a pair), and by account. */
export interface SignInLimiter {
  /** Throws `throttled` if this process knows of too many failures for this account from this address. */
  assertPairNotLocked(address: string, name: string): void
  /**
   * Resolves to the milliseconds by which the answer to an attempt is delayed if it fails. Rejects with `throttled` if the
   * pair or the address is locked. The attempt then counts as a failure of the pair.
   */
  admit(address: string, name: string): Promise<number>
  /** Whether the address has a recent successful sign-in to the account. */
  isFamiliar(address: string, name: string): Awaitable<boolean>
  /**
   * Counts an attempt before credentials are compared, after the outcome of attempts of this address that are being compared.
   * Rejects as `admit` does. The result must be called with the outcome.
   */
  begin(address: string, name: string): Promise<(outcome: 'failed' | 'not failed') => Promise<void>>
  /**
   * Makes the address familiar to the account. Does not reset the count of the address; otherwise a user could guess the
   * passwords of others between own sign-ins. Does not reject.
   */
  recordSuccess(address: string, name: string): void | Promise<void>
}

/** Limits the sign-ins of one process, in memory. */
export class LocalSignInLimiter implements SignInLimiter {
  readonly #addresses: RecentCounts
  /** Pairs with fewer failures than lock one, and those that are locked: new names cannot remove these. */
  readonly #tried = new PairTable<Failures>()
  readonly #locked = new PairTable<Failures>()
  readonly #accounts: RecentCounts
  /** The end of the attempt that is being compared, by address. */
  readonly #compared = new Map<string, Promise<void>>()
  /** Time of the last successful sign-in, by address and account. */
  readonly #familiar = new Map<string, number>()

  constructor(private readonly now: () => number) {
    this.#addresses = new RecentCounts(lockout.time, now)
    this.#accounts = new RecentCounts(backoff.time, now)
  }

  assertPairNotLocked(address: string, name: string): void {
    const left = this.#left(this.#locked.get(address, name))
    if (left > 0) throw tooManyAttempts(left / 1000)
  }

  async admit(address: string, name: string): Promise<number> {
    this.#assertNotLocked(address, name)
    const excess = this.#accounts.count(name) - backoff.failures
    return this.isFamiliar(address, name) ? 0 : delayOf(excess)
  }

  isFamiliar(address: string, name: string): boolean {
    return isRecent(this.#familiar.get(pairOf(address, name)), this.now())
  }

  async begin(address: string, name: string): Promise<(outcome: 'failed' | 'not failed') => Promise<void>> {
    while (this.#compared.has(address)) await this.#compared.get(address)
    this.#assertNotLocked(address, name)
    let end: () => void = () => undefined
    this.#compared.set(address, new Promise((resolve) => (end = resolve)))
    return async (outcome) => {
      this.#compared.delete(address)
      end()
      if (outcome === 'not failed') return
      this.#addresses.add(address)
      this.#addToPair(address, name)
      this.#accounts.add(name)
    }
  }

  recordSuccess(address: string, name: string): void {
    put(this.#familiar, pairOf(address, name), this.now())
  }

  #assertNotLocked(address: string, name: string): void {
    this.assertPairNotLocked(address, name)
    if (this.#addresses.count(address) < lockout.failures) return
    this.#addToPair(address, name)
    throw tooManyAttempts(this.#addresses.remaining(address) / 1000)
  }

  #addToPair(address: string, name: string): void {
    const known = this.#locked.get(address, name) ?? this.#tried.get(address, name)
    const count = known !== undefined && this.#left(known) > 0 ? known.count + 1 : 1
    this.#tried.delete(address, name)
    this.#locked.delete(address, name)
    const pairs = count < lockout.failures ? this.#tried : this.#locked
    pairs.set(address, name, { count, last: this.now() })
  }

  /** Milliseconds until the failures of a pair are forgotten. */
  #left(failures: Failures | undefined): number {
    return (failures?.last ?? -Infinity) + lockout.time - this.now()
  }
}

/** The delay of a failed attempt after `excess` failures above the limit of the account. Milliseconds. */
export function delayOf(excess: number): number {
  return excess < 0 ? 0 : Math.min(backoff.maxDelay, backoff.minDelay * 2 ** excess)
}

/** Maximum wrong one-time codes for one account within `time` milliseconds, from all addresses together. */
export const codeLimit = { failures: 10, time: 15 * minute }

/**
 * Limits wrong one-time codes per account, for all addresses together: an attacker who has the password may use many
 * addresses. Beyond the limit, a code is accepted only from an address with a correct code in the last day.
 */
export interface CodeLimiter {
  /**
   * Counts a code as wrong before it is compared, so that concurrent attempts cannot exceed the limit. Rejects with
   * `throttled` if the account has reached the limit. The caller must call the returned function if the code is
   * correct.
   */
  countAttempt(userId: number, network: string): Promise<() => Promise<void>>
}

/** Limits the codes of one process, in memory. */
export class LocalCodeLimiter implements CodeLimiter {
  readonly #accounts = new Map<number, CodeHistory>()

  constructor(private readonly now: () => number) {}

  async countAttempt(userId: number, network: string): Promise<() => Promise<void>> {
    const now = this.now()
    const { wrong, familiar } = this.#accounts.get(userId) ?? { wrong: [], familiar: new Map<string, number>() }
    const recent = wrong.filter(({ time }) => now - time < codeLimit.time).slice(-codeLimit.failures)
    const [oldest] = recent
    if (oldest !== undefined && recent.length === codeLimit.failures && !isRecent(familiar.get(network), now)) {
      throw tooManyAttempts((oldest.time + codeLimit.time - now) / 1000)
    }
    const attempt = { time: now }
    put(this.#accounts, userId, { wrong: [...recent, attempt], familiar })
    return async () => this.#confirm(userId, network, attempt)
  }

  #confirm(userId: number, network: string, attempt: CodeAttempt): void {
    const now = this.now()
    const history = this.#accounts.get(userId)
    const familiar = [...(history?.familiar ?? [])].filter(([, time]) => isRecent(time, now))
    put(this.#accounts, userId, {
      wrong: (history?.wrong ?? []).filter((each) => each !== attempt),
      familiar: new Map([...familiar, [network, now]]),
    })
  }
}

interface CodeAttempt {
  readonly time: number
}

interface CodeHistory {
  /** Oldest first. */
  readonly wrong: readonly CodeAttempt[]
  /** Time of the last correct code, by network. */
  readonly familiar: ReadonlyMap<string, number>
}

function isRecent(lastTime: number | undefined, now: number): boolean {
  return lastTime !== undefined && now - lastTime < familiarTime
}

interface Failures {
  readonly count: number
  readonly last: number
}

/**
 * Values of pairs. Beyond `maxEntries`, the oldest one of the address with the most is removed: an address that tries many
 * names removes its own.
 */
export class PairTable<Value> {
  /** By name, by address; those of which a value was set last are last. */
  readonly #addresses = new Map<string, Map<string, Value>>()
  #size = 0

  get(address: string, name: string): Value | undefined {
    return this.#addresses.get(address)?.get(name)
  }

  set(address: string, name: string, value: Value): void {
    this.delete(address, name)
    const names = this.#addresses.get(address) ?? new Map<string, Value>()
    this.#addresses.delete(address)
    this.#addresses.set(address, names)
    names.set(name, value)
    this.#size++
    if (this.#size > maxEntries) this.#removeOne()
  }

  delete(address: string, name: string): void {
    const names = this.#addresses.get(address)
    if (names?.delete(name) !== true) return
    this.#size--
    if (names.size === 0) this.#addresses.delete(address)
  }

  #removeOne(): void {
    let [largest, most] = ['', new Map<string, Value>()]
    for (const [address, names] of this.#addresses) if (names.size > most.size) [largest, most] = [address, names]
    const [oldest] = most.keys()
    if (oldest !== undefined) this.delete(largest, oldest)
  }
}

/** Counts events by key; those of a key are forgotten `time` milliseconds after its last one. */
export class RecentCounts {
  readonly #entries = new Map<string, Failures>()

  constructor(
    private readonly time: number,
    private readonly now: () => number,
  ) {}

  add(key: string): void {
    put(this.#entries, key, { count: this.count(key) + 1, last: this.now() })
  }

  count(key: string): number {
    return this.remaining(key) > 0 ? (this.#entries.get(key)?.count ?? 0) : 0
  }

  /** Milliseconds until the events of the key are forgotten. */
  remaining(key: string): number {
    return (this.#entries.get(key)?.last ?? -Infinity) + this.time - this.now()
  }
}

/** The key of an address and an account. */
export function pairOf(address: string, name: string): string {
  return `${address} ${name}`
}

/** Sets the entry as the newest one, and removes the oldest one if the table is full. */
export function put<Key, Value>(table: Map<Key, Value>, key: Key, value: Value): void {
  table.delete(key)
  table.set(key, value)
  if (table.size > maxEntries) {
    const [oldest] = table.keys()
    if (oldest !== undefined) table.delete(oldest)
  }
}
