/**
 * Calls of one driver: no more of them at once than its trait `parallel` says, and what "unsupported" means of those that are optional.
 *
 * A call takes a slot until it settles; a listing takes one for each page; an open handle takes none, each of its calls does. Writing a
 * file takes as long as its sender likes: a quarter of the slots is left to other calls. A stream that `read` gives is counted beside
 * the calls, until it ends or is destroyed: there may be as many of them. One user holds at most three quarters of the streams, and of
 * the slots for writing.
 *
 * A caller that holds a slot never waits for another one, or all of them could wait for each other: calls within a call of the same
 * driver take no slot, those within a call of another driver take one at once.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { errorMonitor } from 'node:events'
import type { Readable } from 'node:stream'
import type { CallOptions, Driver, Entry } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'

interface RunningCall {
  /** Undefined: of no driver, see `withoutWaiting`. */
  readonly calls: DriverCalls | undefined
  isOver: boolean
}

/** The calls that the running code is part of. What they started and left behind may go on when they are over. */
const runningCalls = new AsyncLocalStorage<readonly RunningCall[]>()

/** Runs a call, and hands down to what it does that it is part of that. */
async function during<T>(calls: DriverCalls | undefined, work: () => Promise<T>): Promise<T> {
  const call: RunningCall = { calls, isOver: false }
  const outer = (runningCalls.getStore() ?? []).filter(({ isOver }) => !isOver)
  try {
    return await runningCalls.run([...outer, call], work)
  } finally {
    call.isOver = true
  }
}

/** For a caller that has a stream open while it opens another one: what `work` asks of drivers takes its slots at once. */
export function withoutWaiting<T>(work: () => Promise<T>): Promise<T> {
  return during(undefined, work)
}

export class DriverCalls {
  readonly #slots: { readonly calls: Slots; readonly writes: Slots; readonly streams: Slots } | undefined

  constructor(parallel: number) {
    if (!Number.isFinite(parallel)) return
    this.#slots = { calls: new Slots(parallel), writes: new Slots(mostOf(parallel)), streams: new Slots(parallel) }
  }

  /** The driver with all its calls counted; the driver itself where there is no limit. */
  limited(driver: Driver): Driver {
    if (!this.#slots) return driver
    // What the driver does not have is not reached: see below.
    const inner = driver as Required<Driver>
    return this.#counted<Driver>(driver, {
      list: (path, options) => this.#pages(() => inner.list(path, options), options),
      read: (path, range, options) => this.#stream(() => inner.read(path, range, options), options),
      write: (path, source, options) => this.writing(() => inner.write(path, source, options), options),
      upload: async (path, plan, options) => {
        return this.#counted(await this.#call(() => inner.upload(path, plan, options), options?.signal))
      },
      open: async (path, mode, options) => {
        return this.#counted(await this.#call(() => inner.open(path, mode, options), options?.signal))
      },
      // It ends the calls that are still running.
      close: () => inner.close(),
    })
  }

  /** One call, or several that are one piece of work, by which a file is written. Rejects with `aborted` where the signal comes first. */
  writing<T>(work: () => Promise<T>, options: CallOptions = {}): Promise<T> {
    if (!this.#slots || this.#isOwn()) return work()
    return this.#slots.writes.with(options, () => this.#call(work, options.signal))
  }

  #call<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (!this.#slots || this.#isOwn()) return work()
    return this.#slots.calls.with({ signal }, () => during(this, work))
  }

  /** Whether the running code is part of a call of this driver. */
  #isOwn(): boolean {
    return runningCalls.getStore()?.some(({ calls, isOver }) => calls === this && !isOver) === true
  }

  /** The same object, each of whose methods takes a slot, except for those in `special`. */
  #counted<T extends object>(target: T, special: Partial<T> = {}): T {
    return new Proxy(target, {
      get: (_target, name) => {
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        if (name in special) return special[name as keyof T]
        return (...args: readonly unknown[]) => {
          // Options are the last argument, and nothing else has a signal.
          const { signal } = (args.at(-1) ?? {}) as CallOptions
          return this.#call(async () => (await Reflect.apply(value, target, args)) as unknown, signal)
        }
      },
    })
  }

  /** The slot of a page is free again while the page is looked at: a walk lists what is below it meanwhile. */
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
    const free = await this.#slots.streams.take(options)
    try {
      const stream = await this.#call(open, options.signal)
      if (stream.closed || stream.readableEnded) free()
      else stream.once('end', free).once('close', free).once(errorMonitor, free)
      return stream
    } catch (error) {
      free()
      throw error
    }
  }
}

/** What of so many slots leaves a quarter to others. */
function mostOf(slots: number): number {
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

/** So many at once; the others wait in the order in which they came, save those whose user has their share. */
class Slots {
  readonly #size: number
  readonly #share: number
  #taken = 0
  readonly #takenBy = new Map<number, number>()
  readonly #waiting = new Set<Waiter>()

  constructor(size: number) {
    this.#size = size
    this.#share = mostOf(size)
  }

  /** Does the work while it holds a slot. Rejects with `aborted` where the signal comes before there is one. */
  async with<T>(options: CallOptions, work: () => Promise<T>): Promise<T> {
    const free = await this.take(options)
    try {
      return await work()
    } finally {
      free()
    }
  }

  /** Resolves to what gives the slot back, which may be called again. Rejects with `aborted`. */
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

  #count(user: number | undefined, more: 1 | -1): void {
    this.#taken += more
    if (user === undefined) return
    const taken = (this.#takenBy.get(user) ?? 0) + more
    if (taken > 0) this.#takenBy.set(user, taken)
    else this.#takenBy.delete(user)
  }

  /** Resolves once the slot was counted. */
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

/** What the quicker way answers; undefined where there is none, or where it refuses before doing anything. */
export async function unlessUnsupported<T>(call: (() => Promise<T>) | undefined): Promise<T | undefined> {
  try {
    return await call?.()
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return undefined
    throw error
  }
}

/** Whether the driver did it; false where it refuses before doing anything. */
export async function succeeds(call: () => Promise<unknown> | undefined): Promise<boolean> {
  try {
    await call()
    return true
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return false
    throw error
  }
}
