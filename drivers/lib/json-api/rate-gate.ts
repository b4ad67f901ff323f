/**
 * The gate that all calls of one account pass, of all storages of this process that use it: it spaces them out, and
 * closes while the server wants none. The end of a longer pause is stored, so that a storage that is opened again does
 * not call in it either. `p-queue` can limit a rate, but has no classes of calls that stop together.
 */
import type { DriverState } from '../../../src/contract/driver-env.js'
import { GatewayError } from '../../../src/base/errors.js'
import { maxPatience } from '../http/repetition.js'
import { BoundState } from './bound-state.js'

/** By how much the time between two calls is longer than the limit demands: the network delays them differently. */
const margin = 0.1
/** Maximum seconds of a pause, whatever the server says. */
const maxPause = 3600
/** The class of calls that name no other. */
export const otherCalls = 'other'

/** Calls that begin in any second at most, for each class of calls that the server limits separately. */
export type CallRates = Readonly<Record<string, number>> & { readonly [otherCalls]: number }

interface RateGateOptions {
  /** Name of the server in error reasons, such as "115 server". */
  readonly server: string
  /**
   * Maximum number of calls that begin in any second, of all classes together or of each; 0 or less: no limit. Storages
   * of one account may have different limits: each call keeps the distance of its own storage from the call before.
   */
  readonly perSecond?: number | CallRates
  /** Whom the server limits, such as its address and the account: storages with the same one share the gate. */
  readonly scope: string
  readonly state: DriverState
}

interface Waiter {
  readonly gate: RateGate
  /** Milliseconds from the last call. */
  readonly interval: number
  readonly start: () => void
  readonly fail: (error: GatewayError) => void
}

/** The gates of the process, by server and scope. They stay for a while when no storage has them open. */
const accounts = new Map<string, Account>()

export class RateGate {
  private constructor(
    private readonly options: RateGateOptions,
    private readonly stored: BoundState<number>,
    private readonly account: Account,
  ) {}

  static async open(options: RateGateOptions): Promise<RateGate> {
    const { server, scope, state } = options
    const stored = await BoundState.open<number>(state, 'paused until', scope)
    const until = stored.value ?? 0
    const isPlausible = until - Date.now() <= maxPause * 1000
    const key = JSON.stringify([server, scope])
    const account = accounts.get(key) ?? new Account(server, () => accounts.delete(key))
    accounts.set(key, account)
    const gate = new RateGate(options, stored, account)
    account.join(gate, isPlausible ? until : 0)
    return gate
  }

  /**
   * Resolves when the call may be made. `kind`: its class. Rejects with `unavailable` and the remaining seconds if the
   * gate is closed for longer than a call waits (`maxPatience`), and with `aborted`.
   */
  async pass(signal?: AbortSignal, kind: string = otherCalls): Promise<void> {
    if (signal?.aborted) throw new GatewayError('aborted')
    const { account } = this
    account.assertOpenSoon()
    const { lane, interval } = this.#laneOf(kind)
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        lane.leave(waiter)
        reject(new GatewayError('aborted'))
      }
      const end = () => signal?.removeEventListener('abort', leave)
      const waiter: Waiter = {
        gate: this,
        interval,
        start: () => {
          end()
          resolve()
        },
        fail: (error) => {
          end()
          reject(error)
        },
      }
      signal?.addEventListener('abort', leave, { once: true })
      lane.enter(waiter)
    })
  }

  /**
   * Closes the gate for some seconds, or longer if it is closed for longer. Waiting calls reject if that is too long.
   */
  async pause(seconds: number): Promise<void> {
    await this.account.pause(Date.now() + Math.min(Math.max(seconds, 0), maxPause) * 1000)
  }

  /** Rejects the waiting calls of this storage with `aborted`. The last call of this object. */
  close(): void {
    this.account.leave(this)
  }

  /** Stores the end of a pause, in milliseconds since the epoch. */
  async store(until: number): Promise<void> {
    await this.stored.set(until)
  }

  #laneOf(kind: string): { readonly lane: Lane; readonly interval: number } {
    const { perSecond = 0 } = this.options
    const rates: CallRates = typeof perSecond === 'number' ? { [otherCalls]: perSecond } : perSecond
    const own = rates[kind]
    const rate = own ?? rates[otherCalls]
    return {
      lane: this.account.lane(own === undefined ? otherCalls : kind),
      interval: rate > 0 ? (1000 / rate) * (1 + margin) : 0,
    }
  }
}

/** The state that the storages of one account share. */
class Account {
  readonly #gates = new Set<RateGate>()
  readonly #lanes = new Map<string, Lane>()
  #forgetting: NodeJS.Timeout | undefined
  /** Until when no call is made, in milliseconds since the epoch. */
  closedUntil = 0

  /** `forget`: called when no storage has had it open for so long that its last calls do not matter. */
  constructor(
    private readonly server: string,
    private readonly forget: () => void,
  ) {}

  join(gate: RateGate, closedUntil: number): void {
    clearTimeout(this.#forgetting)
    this.closedUntil = this.#gates.size === 0 ? closedUntil : Math.max(this.closedUntil, closedUntil)
    this.#gates.add(gate)
  }

  leave(gate: RateGate): void {
    if (!this.#gates.delete(gate)) return
    for (const lane of this.#lanes.values()) lane.fail(new GatewayError('aborted'), gate)
    if (this.#gates.size > 0) return
    const longest = Math.max(0, ...[...this.#lanes.values()].map(({ longestInterval }) => longestInterval))
    this.#forgetting = setTimeout(this.forget, longest).unref()
  }

  lane(kind: string): Lane {
    const lane = this.#lanes.get(kind) ?? new Lane(this)
    this.#lanes.set(kind, lane)
    return lane
  }

  async pause(until: number): Promise<void> {
    if (until <= this.closedUntil) return
    this.closedUntil = until
    const isLong = until - Date.now() > maxPatience
    for (const lane of this.#lanes.values()) {
      if (isLong) lane.fail(this.#paused())
      else lane.reschedule()
    }
    // A shorter pause is over before a storage could be opened again.
    if (until - Date.now() > 1000) await Promise.all([...this.#gates].map((gate) => gate.store(until)))
  }

  assertOpenSoon(): void {
    if (this.closedUntil - Date.now() > maxPatience) throw this.#paused()
  }

  #paused(): GatewayError {
    const retryAfter = Math.ceil((this.closedUntil - Date.now()) / 1000)
    return new GatewayError('unavailable', {
      reason: `the ${this.server} asks for fewer requests; none is sent for ${retryAfter} seconds`,
      retryAfter,
    })
  }
}

/** The calls of one class, in the order in which they came. */
class Lane {
  readonly #waiting = new Set<Waiter>()
  /** Time of the last call, of `performance.now()`. */
  #lastCall = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  /** The longest interval that a call of the class has asked for, in milliseconds. */
  longestInterval = 0

  constructor(private readonly account: Account) {}

  enter(waiter: Waiter): void {
    this.longestInterval = Math.max(this.longestInterval, waiter.interval)
    this.#waiting.add(waiter)
    if (this.#waiting.size === 1) this.reschedule()
  }

  leave(waiter: Waiter): void {
    this.#waiting.delete(waiter)
    this.reschedule()
  }

  /** Rejects the calls that wait, of one storage or of all. */
  fail(error: GatewayError, gate?: RateGate): void {
    for (const waiter of this.#waiting) {
      if (gate !== undefined && waiter.gate !== gate) continue
      this.#waiting.delete(waiter)
      waiter.fail(error)
    }
    this.reschedule()
  }

  /** Starts the calls that may be made now, and waits for the time of the next one. */
  reschedule(): void {
    clearTimeout(this.#timer)
    for (const waiter of this.#waiting) {
      const remaining = this.#remaining(waiter)
      if (remaining > 0) {
        // Timers may fire early.
        this.#timer = setTimeout(() => this.reschedule(), Math.ceil(remaining))
        return
      }
      this.#waiting.delete(waiter)
      this.#lastCall = performance.now()
      waiter.start()
    }
  }

  /** Milliseconds until the call may be made. */
  #remaining({ interval }: Waiter): number {
    return Math.max(this.#lastCall + interval - performance.now(), this.account.closedUntil - Date.now())
  }
}
