/**
 * Failed sign-ins, of all doors together. An address is locked; an account is only slowed down, and not for addresses from
 * which it was signed in to lately: nobody can shut out somebody else. Addresses are those of `networkOf`.
 */
import { tooManyTries } from './errors.js'

const minute = 60_000

/** Failures after which an address is locked, and for how long; earlier ones are forgotten in the same time. */
const lock = { failures: 5, time: 5 * minute }
/** Failures of one account after which each further try waits, twice as long as the one before. */
const slowing = { failures: 10, time: 15 * minute, first: 200, most: 5000 }
/** How long an address stays familiar to an account. */
const familiarTime = 24 * 60 * minute
/** Entries of one table; beyond that the oldest give way, so that an attack from everywhere does not fill the memory. */
const tableSize = 50_000

export class SignInLimiter {
  readonly #addresses: Failures
  readonly #pairs: Failures
  readonly #accounts: Failures
  /** Address and account, and when somebody last signed in. */
  readonly #familiar = new Map<string, number>()

  constructor(private readonly now: () => number) {
    this.#addresses = new Failures(lock.time, now)
    this.#pairs = new Failures(lock.time, now)
    this.#accounts = new Failures(slowing.time, now)
  }

  /** Throws `throttled` where too many passwords for this very account came from this address. */
  refuseGuesser(address: string, name: string): void {
    this.#refuse(this.#pairs, pair(address, name))
  }

  /** Throws `throttled` where the address is locked. The try counts as a failed one for this account. */
  refuseLocked(address: string, name: string): void {
    if (this.#addresses.count(address) < lock.failures) return
    this.#pairs.add(pair(address, name))
    this.#refuse(this.#addresses, address)
  }

  /** Milliseconds that a try has to wait. */
  delay(address: string, name: string): number {
    const beyond = this.#accounts.count(name) - slowing.failures
    if (beyond < 0 || isFamiliar(this.#familiar.get(pair(address, name)), this.now())) return 0
    return Math.min(slowing.most, slowing.first * 2 ** beyond)
  }

  failed(address: string, name: string): void {
    this.#addresses.add(address)
    this.#pairs.add(pair(address, name))
    this.#accounts.add(name)
  }

  /** Does not reset the address's count: one's own account would pay for guessing at others. */
  succeeded(address: string, name: string): void {
    put(this.#familiar, pair(address, name), this.now())
  }

  #refuse(failures: Failures, key: string): void {
    if (failures.count(key) >= lock.failures) throw tooManyTries(failures.remaining(key) / 1000)
  }
}

/** Guesses at the one-time codes of one account that may be wrong within `time`, from all addresses together. */
const codes = { wrong: 10, time: 15 * minute }

/**
 * Wrong one-time codes of an account, from all addresses together: who sends one knows the password, and may use any number of
 * addresses. Beyond the limit a code is compared only for an address from which a right one came within a day. Accounts are
 * independent of each other.
 */
export class CodeLimiter {
  readonly #accounts = new Map<number, CodeHistory>()

  constructor(private readonly now: () => number) {}

  /**
   * Counts a code as wrong before it is compared, so that codes that arrive together cannot pass the limit. Throws `throttled`
   * where the account has reached it. The caller calls the returned function once the code has proved right.
   */
  count(userId: number, network: string): () => void {
    const now = this.now()
    const { wrong, familiar } = this.#accounts.get(userId) ?? { wrong: [], familiar: new Map<string, number>() }
    const recent = wrong.filter((guess) => now - guess.time < codes.time).slice(-codes.wrong)
    const [oldest] = recent
    if (oldest !== undefined && recent.length === codes.wrong && !isFamiliar(familiar.get(network), now)) {
      throw tooManyTries((oldest.time + codes.time - now) / 1000)
    }
    const guess = { time: now }
    put(this.#accounts, userId, { wrong: [...recent, guess], familiar })
    return () => this.#confirm(userId, network, guess)
  }

  #confirm(userId: number, network: string, guess: CodeGuess): void {
    const now = this.now()
    const history = this.#accounts.get(userId)
    const familiar = [...(history?.familiar ?? [])].filter(([, time]) => isFamiliar(time, now))
    put(this.#accounts, userId, {
      wrong: (history?.wrong ?? []).filter((each) => each !== guess),
      familiar: new Map([...familiar, [network, now]]),
    })
  }
}

interface CodeGuess {
  readonly time: number
}

interface CodeHistory {
  /** Oldest first. */
  readonly wrong: readonly CodeGuess[]
  /** Networks from which a right code came, and when. */
  readonly familiar: ReadonlyMap<string, number>
}

function isFamiliar(lastTime: number | undefined, now: number): boolean {
  return lastTime !== undefined && now - lastTime < familiarTime
}

class Failures {
  readonly #entries = new Map<string, { readonly count: number; readonly last: number }>()

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

  /** Milliseconds until they are forgotten. */
  remaining(key: string): number {
    return (this.#entries.get(key)?.last ?? -Infinity) + this.time - this.now()
  }
}

function pair(address: string, name: string): string {
  return `${address} ${name}`
}

/** As the newest entry. */
function put<Key, Value>(table: Map<Key, Value>, key: Key, value: Value): void {
  table.delete(key)
  table.set(key, value)
  if (table.size > tableSize) {
    const [oldest] = table.keys()
    if (oldest !== undefined) table.delete(oldest)
  }
}
