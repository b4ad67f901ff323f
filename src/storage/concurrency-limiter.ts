/**
 * Limits the concurrent calls of one driver to its trait `parallel`.
 *
 * A call holds a slot until its promise settles. A listing holds one for each page. An open handle holds none, but each
 * of its calls does. The duration of a write depends on the client, so that writes can hold at most three quarters of
 * the slots. A stream returned by `read` is counted separately until it ends or is destroyed; there can be as many
 * streams as slots. One user can hold at most three quarters of the streams and of the slots for writes.
 *
 * To prevent deadlocks, a caller that holds a slot never waits for another one. Calls within a call of the same driver
 * use its slot. Calls within a call of another driver take a slot immediately, even if the limit is exceeded.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { errorMonitor } from 'node:events'
import type { Readable } from 'node:stream'
import type { CallOptions } from '../contract/call-options.js'
import type { Driver } from '../contract/driver.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError } from '../contract/errors.js'
import { driverProperties, fileProperties, overriding, uploadProperties, type PropertiesOf } from './overriding.js'

interface RunningCall {
  /** The limiter of the call's driver. Undefined for no driver: see `outsideLimit`. */
  readonly limiter: ConcurrencyLimiter | undefined
  isOver: boolean
}

/** The calls that the running code is part of. Work that a call started without awaiting it may outlive the call. */
const runningCalls = new AsyncLocalStorage<readonly RunningCall[]>()

/** Runs a call, and records it in the asynchronous context of `work`. */
async function runCall<T>(limiter: ConcurrencyLimiter | undefined, work: () => Promise<T>): Promise<T> {
  const call: RunningCall = { limiter, isOver: false }
  const outer = (runningCalls.getStore() ?? []).filter(({ isOver }) => !isOver)
  try {
    return await runningCalls.run([...outer, call], work)
  } finally {
    call.isOver = true
  }
}

/**
 * For a caller that opens a stream while it holds another one: the driver calls of `work` take their slots without
 * waiting.
 */
export function outsideLimit<T>(work: () => Promise<T>): Promise<T> {
  return runCall(undefined, work)
}

export class ConcurrencyLimiter {
  readonly #slots: { readonly calls: Slots; readonly writes: Slots; readonly streams: Slots } | undefined

  /** `parallel`: the maximum number of concurrent calls; Infinity for no limit. */
  constructor(parallel: number) {
    if (!Number.isFinite(parallel)) return
    this.#slots = {
      calls: new Slots(parallel),
      writes: new Slots(threeQuartersOf(parallel)),
      streams: new Slots(parallel),
    }
  }

  /** Returns the driver with all its calls limited, or the driver itself if there is no limit. */
  limited(driver: Driver): Driver {
    if (!this.#slots) return driver
    return this.#counted(driver, driverProperties, (inner) => ({
      pages: (path, options) => this.#pages(() => inner.pages(path, options), options),
      read: (path, range, options) => this.#stream(() => inner.read(path, range, options), options),
      write: (path, source, options) => this.limitWrite(() => inner.write(path, source, options), options),
      upload: async (path, plan, options) => {
        const upload = await this.#call(() => inner.upload(path, plan, options), options?.signal)
        return this.#counted(upload, uploadProperties)
      },
      open: async (path, mode, options) => {
        const file = await this.#call(() => inner.open(path, mode, options), options?.signal)
        return this.#counted(file, fileProperties)
      },
      // Takes no slot, because it must be able to cancel running calls.
      close: () => inner.close(),
    }))
  }

  /**
   * Runs the call or calls that write one file, with a slot for writes. Rejects with `aborted` if the signal aborts
   * before.
   */
  limitWrite<T>(work: () => Promise<T>, options: CallOptions = {}): Promise<T> {
    if (!this.#slots || this.#isOwn()) return work()
    return this.#slots.writes.with(options, () => this.#call(work, options.signal))
  }

  #call<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (!this.#slots || this.#isOwn()) return work()
    return this.#slots.calls.with({ signal }, () => runCall(this, work))
  }

  /** Whether the running code is part of a call of this driver. */
  #isOwn(): boolean {
    return runningCalls.getStore()?.some(({ limiter, isOver }) => limiter === this && !isOver) === true
  }

  /** Returns the object. Each method takes a slot, except for those that `special` replaces. */
  #counted<T extends object>(
    target: T,
    properties: PropertiesOf<T>,
    special: (inner: Required<T>) => Partial<T> = () => ({}),
  ): T {
    return overriding(target, properties, special, (method) => (...args) => {
      // Options are the last argument. No other argument has a property `signal`.
      const { signal } = (args.at(-1) ?? {}) as CallOptions
      return this.#call(async () => method(...args), signal)
    })
  }

  /** Releases the slot while the consumer processes a page, because a tree walk lists subfolders meanwhile. */
  async *#pages(
    list: () => AsyncIterable<readonly Entry[]>,
    { signal }: CallOptions = {},
  ): AsyncGenerator<readonly Entry[]> {
    let pages: AsyncIterator<readonly Entry[]> | undefined
    try {
      for (;;) {
        const page = await this.#call(() => (pages ??= list()[Symbol.asyncIterator]()).next(), signal)
        if (page.done === true) return
        yield page.value
      }
    } finally {
      await pages?.return?.()
    }
  }

  async #stream(open: () => Promise<Readable>, options: CallOptions = {}): Promise<Readable> {
    if (!this.#slots || this.#isOwn()) return open()
    const release = await this.#slots.streams.take(options)
    try {
      const stream = await this.#call(open, options.signal)
      if (stream.closed || stream.readableEnded) release()
      else stream.once('end', release).once('close', release).once(errorMonitor, release)
      return stream
    } catch (error) {
      release()
      throw error
    }
  }
}

/** The share of one user, and of writes. At least one. */
function threeQuartersOf(slots: number): number {
  return Math.max(1, Math.floor((slots * 3) / 4))
}

/** Whether the running code is part of a call of any driver. */
function isWithinCall(): boolean {
  return runningCalls.getStore()?.some(({ isOver }) => !isOver) === true
}

interface Waiter {
  readonly user: number | undefined
  readonly start: () => void
}

/** A semaphore. Waiters are served in order, except that waiters whose user already holds its share are skipped. */
class Slots {
  readonly #size: number
  readonly #share: number
  #taken = 0
  readonly #takenBy = new Map<number, number>()
  readonly #waiting = new Set<Waiter>()

  constructor(size: number) {
    this.#size = size
    this.#share = threeQuartersOf(size)
  }

  /** Runs `work` while holding a slot. Rejects with `aborted` if the signal aborts while waiting. */
  async with<T>(options: CallOptions, work: () => Promise<T>): Promise<T> {
    const release = await this.take(options)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Takes a slot. Returns a function that releases it; calling it again has no effect. Rejects with `aborted`. */
  async take({ user, signal }: CallOptions): Promise<() => void> {
    if (signal?.aborted) throw new GatewayError('aborted')
    if (isWithinCall() || this.#hasRoom(user)) this.#count(user, 1)
    else await this.#wait(user, signal)
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      this.#count(user, -1)
      this.#startNext()
    }
  }

  #hasRoom(user: number | undefined): boolean {
    if (this.#taken >= this.#size) return false
    return user === undefined || (this.#takenBy.get(user) ?? 0) < this.#share
  }

  #count(user: number | undefined, change: 1 | -1): void {
    this.#taken += change
    if (user === undefined) return
    const taken = (this.#takenBy.get(user) ?? 0) + change
    if (taken > 0) this.#takenBy.set(user, taken)
    else this.#takenBy.delete(user)
  }

  /** Resolves once `#startNext` has taken a slot for the waiter. */
  #wait(user: number | undefined, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(waiter)
        reject(new GatewayError('aborted'))
      }
      const waiter: Waiter = {
        user,
        start: () => {
          signal?.removeEventListener('abort', leave)
          resolve()
        },
      }
      this.#waiting.add(waiter)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  #startNext(): void {
    for (const waiter of this.#waiting) {
      if (this.#taken >= this.#size) return
      if (!this.#hasRoom(waiter.user)) continue
      this.#waiting.delete(waiter)
      this.#count(waiter.user, 1)
      waiter.start()
    }
  }
}
