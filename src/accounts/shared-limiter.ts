/** The limits of limiter.ts for all nodes that share a database: every attempt is a row, written before it is compared. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SignInAge, SignInFilter } from '../store/rows.js'
import type { Store } from '../store/tables.js'
import { tooManyAttempts } from './errors.js'
import {
  backoff,
  codeLimit,
  delayOf,
  familiarTime,
  lockout,
  pairOf,
  PairTable,
  put,
  type CodeLimiter,
  type SignInLimiter,
} from './limiter.js'

type SignIns = Store['signIns']
type Newest = (filter: SignInFilter, limit: number) => Promise<readonly SignInAge[]>

/** Failures of an account from which its delay does not grow any more. */
const maxCounted = backoff.failures + Math.ceil(Math.log2(backoff.maxDelay / backoff.minDelay))
/** Milliseconds within which a repeated success is not stored again. */
const recordInterval = 3600_000
/** Milliseconds for which an attempt waits for the outcome of attempts on other nodes, and between two looks. */
const outcomeWait = { total: 2000, pause: 50 }

export class SharedSignInLimiter implements SignInLimiter {
  /** The pairs that this process knows to be locked: until when, as of `performance.now()`. */
  readonly #lockedPairs = new PairTable<number>()
  /** When this process last stored a success, by pair. */
  readonly #recorded = new Map<string, number>()

  constructor(private readonly signIns: SignIns) {}

  assertPairNotLocked(network: string, account: string): void {
    const left = (this.#lockedPairs.get(network, account) ?? 0) - performance.now()
    if (left > 0) throw tooManyAttempts(left / 1000)
  }

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

  isFamiliar(network: string, account: string): Promise<boolean> {
    return isFamiliar((filter, limit) => this.signIns.newest(filter, limit), 'signed_in', network, account)
  }

  async begin(network: string, account: string): Promise<(outcome: 'failed' | 'not failed') => Promise<void>> {
    const { signIns } = this
    let failures = 0
    let ofAddress: readonly SignInAge[] = []
    const check = async (newest: Newest) => {
      failures = await this.#assertPair(newest, network, account)
      ofAddress = await newest({ kinds: ['password'], network }, lockout.failures)
      return !isLocked(ofAddress)
    }
    const end = performance.now() + outcomeWait.total
    for (;;) {
      const id = await signIns.attempt({ kind: 'password', network, account }, check)
      if (id !== undefined) {
        return async (outcome) => {
          if (outcome === 'not failed') return signIns.drop(id)
          await signIns.fail(id)
          this.#learn(network, account, failures + 1)
        }
      }
      if (!ofAddress.some(({ pending }) => pending)) await this.#refuse(network, account, failures, ofAddress)
      // Other nodes are comparing attempts of this address, which may succeed.
      if (performance.now() > end) throw tooManyAttempts(1)
      await sleep(outcomeWait.pause)
    }
  }

  async recordSuccess(network: string, account: string): Promise<void> {
    const key = pairOf(network, account)
    const now = performance.now()
    if (now - (this.#recorded.get(key) ?? -Infinity) < recordInterval) return
    put(this.#recorded, key, now)
    await this.signIns.replace({ kind: 'signed_in', network, account }).catch(() => void this.#recorded.delete(key))
  }

  /** Resolves to the number of failures of the pair. Rejects with `throttled` if it is locked. */
  async #assertPair(newest: Newest, network: string, account: string): Promise<number> {
    const ages = await newest({ kinds: ['password', 'refused'], network, account }, lockout.failures)
    const failures = ages.filter(({ pending }) => !pending)
    const count = unexpired(failures, lockout.time)
    if (count < lockout.failures) return count
    const left = remaining(failures)
    this.#lockedPairs.set(network, account, performance.now() + left)
    throw tooManyAttempts(left / 1000)
  }

  /** Counts an attempt from a locked address as a failure of the pair. Rejects with `throttled`. */
  async #refuse(network: string, account: string, failures: number, ofAddress: readonly SignInAge[]): Promise<never> {
    await this.signIns.record({ kind: 'refused', network, account })
    this.#learn(network, account, failures + 1)
    throw tooManyAttempts(remaining(ofAddress) / 1000)
  }

  /** Remembers that a pair is locked if it has this many failures, the last one now. */
  #learn(network: string, account: string, failures: number): void {
    if (failures < lockout.failures) return
    this.#lockedPairs.set(network, account, performance.now() + lockout.time)
  }
}

export class SharedCodeLimiter implements CodeLimiter {
  constructor(private readonly signIns: SignIns) {}

  async countAttempt(userId: number, network: string): Promise<() => Promise<void>> {
    const { signIns } = this
    const account = String(userId)
    const id = await signIns.attempt({ kind: 'code', network, account }, async (newest) => {
      const recent = await newest({ kinds: ['code'], account }, codeLimit.failures)
      const oldest = recent[codeLimit.failures - 1]
      const left = codeLimit.time - (oldest?.age ?? Infinity)
      if (left > 0 && !(await isFamiliar(newest, 'code_accepted', network, account))) throw tooManyAttempts(left / 1000)
      return true
    })
    return async () => {
      if (id !== undefined) await signIns.drop(id)
      await signIns.replace({ kind: 'code_accepted', network, account })
    }
  }
}

/** Deletes what no limit counts any more. */
export async function sweepSignIns(signIns: SignIns): Promise<void> {
  // Each failure keeps the earlier ones, so that the oldest that counts is this old at most.
  await signIns.sweep(['password', 'refused', 'code'], maxCounted * backoff.time)
  await signIns.sweep(['signed_in', 'code_accepted'], familiarTime)
}

/** How many failures have not expired; newest first. Each keeps the earlier ones for another `time` milliseconds. */
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

async function isFamiliar(
  newest: Newest,
  kind: 'signed_in' | 'code_accepted',
  network: string,
  account: string,
): Promise<boolean> {
  const [last] = await newest({ kinds: [kind], network, account }, 1)
  return last !== undefined && last.age < familiarTime
}
