/**
 * Limits failed sign-ins, for all protocols together. An address is locked out. An account is only slowed down, and not
 * for addresses with a recent successful sign-in, so that users cannot lock each other out. Addresses are those of
 * `networkOf`. Nodes that share a database count the attempts in it together, a process of its own in memory.
 */
import type { SignInAge, SignInParty } from '../database/tables/sign-ins.js'
import type { Store } from '../database/tables.js'
import { PairTable, put } from '../base/bounded-tables.js'
import { afterOthers, type Settle } from './attempts.js'
import { DirectoryLimiter, directoryLimit, directoryTime } from './directory-limiter.js'
import { tooManyAttempts } from './errors.js'
import { SignInsInMemory } from './sign-ins-in-memory.js'
import { spellingOf } from './spelling.js'

type SignIns = Omit<Store['signIns'], 'sweep'>
type Newest = SignIns['newest']

/** The limits of attempts to sign in. */
export interface Limiters {
  readonly signIns: SignInLimiter
  readonly codes: CodeLimiter
  readonly directory: DirectoryLimiter
  readonly lockedOut: LockedOut
  /** Deletes what no limit counts any more. */
  sweep(): Promise<void>
}

/** Counts the attempts of this process. `now`: milliseconds since any time. */
export function limitersInMemory(now: () => number): Limiters {
  const attempts = new SignInsInMemory(now)
  const signIns = new SignInLimiter(attempts, now, 0)
  return {
    signIns,
    codes: new CodeLimiter(attempts),
    directory: new DirectoryLimiter(attempts, signIns),
    lockedOut: new LockedOut(attempts, signIns),
    sweep: async () => undefined,
  }
}

/** Counts the attempts of all processes in the database. */
export function sharedLimiters(attempts: Store['signIns']): Limiters {
  const signIns = new SignInLimiter(attempts)
  return {
    signIns,
    codes: new CodeLimiter(attempts),
    directory: new DirectoryLimiter(attempts, signIns),
    lockedOut: new LockedOut(attempts, signIns),
    sweep: () => sweepSignIns(attempts),
  }
}

const minute = 60_000

/** Failures after which an address is locked, and `time` in milliseconds after the last one until they expire. */
export const lockout = { failures: 5, time: 5 * minute }
/**
 * Failures of one account after which the answers to further ones are delayed, and `time` until they expire. Delays
 * double from `minDelay` up to `maxDelay`. In milliseconds.
 */
const backoff = { failures: 10, time: 15 * minute, minDelay: 200, maxDelay: 5000 }
/** Milliseconds for which an address is familiar to an account after a successful sign-in. */
const familiarTime = 24 * 60 * minute
/** Failures of an account from which its delay does not grow any more. */
const maxCounted = backoff.failures + Math.ceil(Math.log2(backoff.maxDelay / backoff.minDelay))
/** Refused attempts of one address that are counted for their pairs, within `time` milliseconds. */
const countedRefusals = { number: 64, time: 5 * minute }
/** Limits failed sign-ins by address, by address and account (a pair), and by account. */
export class SignInLimiter {
  /** The pairs that this process knows to be locked: until when. */
  #lockedPairs = new PairTable<number>()
  /** When this process last stored a success, by pair. */
  readonly #recorded = new Map<string, number>()

  /**
   * `now`: milliseconds since any time. `recordInterval`: milliseconds within which a repeated success is not stored
   * again.
   */
  constructor(
    private readonly signIns: SignIns,
    private readonly now = () => performance.now(),
    private readonly recordInterval = 3600_000,
  ) {}

  /** Throws `throttled` if this process knows of too many failures for this account from this address. */
  assertPairNotLocked(network: string, account: string): void {
    const left = (this.#lockedPairs.get(network, account) ?? -Infinity) - this.now()
    if (left > 0) throw tooManyAttempts(left / 1000)
  }

  /**
   * Resolves to the milliseconds by which the answer to an attempt is delayed if it fails. Rejects with `throttled` if
   * the pair or the address is locked. If only the address is, the attempt counts as a failure of the pair.
   */
  async admit(network: string, account: string): Promise<number> {
    const newest: Newest = (filter, limit) => this.signIns.newest(filter, limit)
    const failures = await this.#assertPair(newest, network, account)
    const ofAddress = await newest({ kinds: ['password'], network }, lockout.failures)
    if (isLocked(ofAddress) && !ofAddress.some(({ pending }) => pending)) {
      await this.#refuse(network, account, failures, ofAddress)
    }
    const ofAccount = await newest({ kinds: ['password'], account }, maxCounted)
    const settled = ofAccount.filter(({ pending }) => !pending)
    const delay = delayOf(unexpired(settled, backoff.time) - backoff.failures)
    return delay > 0 && (await this.isFamiliar(network, account)) ? 0 : delay
  }

  /** Whether the address has a recent successful sign-in to the account. */
  async isFamiliar(network: string, account: string): Promise<boolean> {
    return isRecent(await this.signIns.newest({ kinds: ['signed_in'], network, account }, 1))
  }

  /**
   * Counts an attempt before credentials are compared, after the outcome of attempts of this address that are being
   * compared. Rejects as `admit` does, and with `throttled` if these take too long. The result must be called with the
   * outcome.
   */
  begin(network: string, account: string): Promise<Settle> {
    return afterOthers(() => this.beginNow(network, account))
  }

  /**
   * Counts an attempt as `begin` does, but does not wait: resolves to undefined if the outcome of other attempts must
   * be known first.
   */
  async beginNow(network: string, account: string): Promise<Settle | undefined> {
    let failures = 0
    let ofAddress: readonly SignInAge[] = []
    const check = async (newest: Newest) => {
      failures = await this.#assertPair(newest, network, account)
      ofAddress = await newest({ kinds: ['password'], network }, lockout.failures)
      return !isLocked(ofAddress)
    }
    const attempt = await this.signIns.attempt({ kind: 'password', network, account }, check)
    if (attempt !== undefined) {
      return async (outcome) => {
        await attempt[outcome === 'failed' ? 'fail' : 'drop']()
        if (outcome === 'failed') this.#learn(network, account, failures + 1)
      }
    }
    if (!ofAddress.some(({ pending }) => pending)) await this.#refuse(network, account, failures, ofAddress)
    return undefined
  }

  /**
   * Makes the address familiar to the account. Does not reset the count of the address; otherwise a user could guess
   * the passwords of others between own sign-ins. Does not reject.
   */
  async recordSuccess(network: string, account: string): Promise<void> {
    const key = `${network} ${account}`
    const now = this.now()
    if (now - (this.#recorded.get(key) ?? -Infinity) < this.recordInterval) return
    put(this.#recorded, key, now)
    await this.signIns.replace({ kind: 'signed_in', network, account }).catch(() => void this.#recorded.delete(key))
  }

  /** Forgets which pairs are locked, so that it is looked up again. */
  forgetLocks(): void {
    this.#lockedPairs = new PairTable()
  }

  /** Resolves to the number of failures of the pair. Rejects with `throttled` if it is locked. */
  async #assertPair(newest: Newest, network: string, account: string): Promise<number> {
    this.assertPairNotLocked(network, account)
    const ages = await newest({ kinds: ['password', 'refused'], network, account }, lockout.failures)
    const failures = ages.filter(({ pending }) => !pending)
    const count = unexpired(failures, lockout.time)
    if (count < lockout.failures) return count
    const left = remaining(failures)
    this.#lockedPairs.set(network, account, this.now() + left)
    throw tooManyAttempts(left / 1000)
  }

  /**
   * Counts an attempt from a locked address as `recordRefusal` does. Rejects with `throttled`.
   */
  async #refuse(network: string, account: string, failures: number, ofAddress: readonly SignInAge[]): Promise<never> {
    await this.recordRefusal(network, account)
    this.#learn(network, account, failures + 1)
    throw tooManyAttempts(remaining(ofAddress) / 1000)
  }

  /** Counts an attempt that was not compared as a failure of the pair, unless the address names ever more accounts. */
  async recordRefusal(network: string, account: string): Promise<void> {
    const refused = await this.signIns.newest({ kinds: ['refused'], network }, countedRefusals.number)
    const oldest = refused[countedRefusals.number - 1]
    if (!oldest || oldest.age >= countedRefusals.time) await this.signIns.record({ kind: 'refused', network, account })
  }

  /** Remembers that a pair is locked if it has this many failures, the last one now. */
  #learn(network: string, account: string, failures: number): void {
    if (failures < lockout.failures) return
    this.#lockedPairs.set(network, account, this.now() + lockout.time)
  }
}

/** Maximum wrong one-time codes for one account within `time` milliseconds, from all addresses together. */
const codeLimit = { failures: 10, time: 15 * minute }

/**
 * Limits wrong one-time codes per account, for all addresses together: an attacker who has the password may use many
 * addresses. Beyond the limit, a code is accepted only from an address with a correct code in the last day.
 */
export class CodeLimiter {
  constructor(private readonly signIns: SignIns) {}

  /**
   * Counts a code as wrong before it is compared, so that concurrent attempts cannot exceed the limit. Rejects with
   * `throttled` if the account has reached the limit. The caller must call the returned function if the code is
   * correct.
   */
  async countAttempt(userId: number, network: string): Promise<() => Promise<void>> {
    const account = String(userId)
    const attempt = await this.signIns.attempt({ kind: 'code', network, account }, async (newest) => {
      const recent = await newest({ kinds: ['code'], account }, codeLimit.failures)
      const oldest = recent[codeLimit.failures - 1]
      const left = codeLimit.time - (oldest?.age ?? Infinity)
      if (left <= 0 || isRecent(await newest({ kinds: ['code_accepted'], network, account }, 1))) return true
      throw tooManyAttempts(left / 1000)
    })
    return async () => {
      await attempt?.drop()
      await this.signIns.replace({ kind: 'code_accepted', network, account })
    }
  }
}

/**
 * The attempts to sign in that are refused now. `pair`: those of a network for an account; `directory`: passwords of a
 * person in a directory, and `codes`: one-time codes for an account, both from networks without a correct one in the
 * last day.
 */
export interface LockedParty extends SignInParty {
  readonly kind: 'address' | 'pair' | 'directory' | 'codes'
  readonly failures: number
  /** Milliseconds until an attempt is accepted again. */
  readonly left: number
}

interface UnlockedAccount {
  readonly id: number
  readonly username: string
  readonly subjects: readonly string[]
}

/** The locks of the limits, for admins, who list them and end them. */
export class LockedOut {
  constructor(
    private readonly attempts: SignIns,
    private readonly signIns: SignInLimiter,
  ) {}

  /**
   * Lists the locks. `account` is the name that was sent for a pair, a user id for codes, and the `person` of a `Guess`
   * for `directory`.
   */
  async list(): Promise<readonly LockedParty[]> {
    const locked: LockedParty[] = []
    for (const { kind, kinds, fields, limit } of lockedKinds) {
      for (const { party, ages } of await this.attempts.newestOfEach(kinds, fields)) {
        // A code, or a guess at a directory, counts as wrong until it is known to be right.
        const failures = fields.length === 1 && fields[0] === 'account' ? ages : ages.filter(({ pending }) => !pending)
        const left = limit(failures)
        if (left > 0) locked.push({ ...party, kind, failures: failures.length, left })
      }
    }
    return locked
  }

  /** Forgets the failures of an address. */
  async unlockNetwork(network: string): Promise<void> {
    await this.attempts.forget({ kinds: ['password', 'refused'], network })
    this.signIns.forgetLocks()
  }

  /**
   * Forgets the failures of an account from all addresses, by all spellings of its name, and its wrong codes.
   * `subjects`: those of its identities in directories.
   */
  async unlockAccount({ id, username, subjects }: UnlockedAccount): Promise<void> {
    for (const account of new Set([username, spellingOf(username)])) {
      await this.attempts.forget({ kinds: ['password', 'refused'], account })
    }
    for (const account of [spellingOf(username), ...subjects]) {
      await this.attempts.forget({ kinds: ['directory'], account })
    }
    await this.attempts.forget({ kinds: ['code'], account: String(id) })
    this.signIns.forgetLocks()
  }
}

/**
 * Each kind of lock with the failures that cause it. `limit` gets the failures, newest first, and returns for how many
 * more milliseconds they lock.
 */
const lockedKinds = [
  { kind: 'address', kinds: ['password'], fields: ['network'], limit: lockTime },
  { kind: 'pair', kinds: ['password', 'refused'], fields: ['network', 'account'], limit: lockTime },
  { kind: 'directory', kinds: ['directory'], fields: ['account'], limit: directoryTime },
  {
    kind: 'codes',
    kinds: ['code'],
    fields: ['account'],
    limit: (failures: readonly SignInAge[]) => codeLimit.time - (failures[codeLimit.failures - 1]?.age ?? Infinity),
  },
] as const

function lockTime(failures: readonly SignInAge[]): number {
  return unexpired(failures, lockout.time) < lockout.failures ? 0 : remaining(failures)
}

async function sweepSignIns(signIns: Store['signIns']): Promise<void> {
  // Each failure keeps the earlier ones, so that the oldest that counts is this old at most.
  await signIns.sweep(['password', 'code'], maxCounted * backoff.time)
  await signIns.sweep(['directory'], directoryLimit.time)
  await signIns.sweep(['refused'], lockout.failures * lockout.time)
  await signIns.sweep(['signed_in', 'code_accepted'], familiarTime)
}

/**
 * The number of failures that have not expired. `failures`: newest first. Each failure keeps the earlier ones for
 * another `time` milliseconds.
 */
function unexpired(failures: readonly SignInAge[], time: number): number {
  const end = failures.findIndex(({ age }, index) => age - (failures[index - 1]?.age ?? 0) >= time)
  return end < 0 ? failures.length : end
}

function isLocked(ofAddress: readonly SignInAge[]): boolean {
  return unexpired(ofAddress, lockout.time) >= lockout.failures
}

/** Milliseconds until the failures of an address or a pair expire; newest first. */
function remaining([newest]: readonly SignInAge[]): number {
  return lockout.time - (newest?.age ?? 0)
}

/** Whether an address is familiar after its last success. */
function isRecent([last]: readonly SignInAge[]): boolean {
  return last !== undefined && last.age < familiarTime
}

/** The delay of a failed attempt after `excess` failures above the limit of the account. Milliseconds. */
function delayOf(excess: number): number {
  return excess < 0 ? 0 : Math.min(backoff.maxDelay, backoff.minDelay * 2 ** excess)
}
