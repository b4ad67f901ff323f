/**
 * Limits the concurrent calls of one driver to its trait `parallel`.
 *
 * A call holds a slot until its promise settles. A listing holds one for each page. An open handle holds none, but each
 * of its calls does. The duration of a write depends on the client, so that writes can hold at most three quarters of
 * the slots. A stream returned by `read` is counted separately until it ends or is destroyed; there can be as many
 * streams as slots. One user can hold at most three quarters of the streams and of the slots for writes (`FairShare`).
 *
 * To prevent deadlocks, a caller that holds a slot never waits for another one. Calls within a call of the same driver
 * use its slot. Calls within a call of another driver take a slot immediately, even if the limit is exceeded.
 *
 * `p-queue` knows neither the shares of users nor calls within calls.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { errorMonitor } from 'node:events'
import type { Readable } from 'node:stream'
import type { CallOptions } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { FairShare, type Release } from '../base/fair-share.js'

/**
 * The amount that one user can hold, as a multiple of the amount that is left: three quarters of all if there is no
 * other user.
 */
const times = 3

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
  readonly #calls: FairShare
  readonly #writes: FairShare
  readonly #streams: FairShare

  /** `parallel`: the maximum number of concurrent calls. */
  constructor(parallel: number) {
    this.#calls = new FairShare(parallel, { times })
    this.#writes = new FairShare(Math.max(1, Math.floor((parallel * times) / (times + 1))), { times })
    this.#streams = new FairShare(parallel, { times })
  }

  /** Runs one call. Rejects with `aborted` if the signal aborts before it begins; so do the following. */
  call<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#isOwn()) return work()
    return withSlot(this.#calls, { signal }, () => runCall(this, work))
  }

  /** Runs the call or calls that write one file, with a slot for writes. */
  write<T>(work: () => Promise<T>, options: CallOptions = {}): Promise<T> {
    if (this.#isOwn()) return work()
    return withSlot(this.#writes, options, () => this.call(work, options.signal))
  }

  /** Pages of a listing. The slot is free while the consumer processes a page: a tree walk lists subfolders then. */
  async *pages(
    list: () => AsyncIterable<readonly Entry[]>,
    { signal }: CallOptions = {},
  ): AsyncGenerator<readonly Entry[]> {
    let pages: AsyncIterator<readonly Entry[]> | undefined
    try {
      for (;;) {
        const page = await this.call(() => (pages ??= list()[Symbol.asyncIterator]()).next(), signal)
        if (page.done === true) return
        yield page.value
      }
    } finally {
      await pages?.return?.()
    }
  }

  /** Opens a stream, which is counted until it ends. */
  async stream(open: () => Promise<Readable>, options: CallOptions = {}): Promise<Readable> {
    if (this.#isOwn()) return open()
    const release = await takeSlot(this.#streams, options)
    try {
      const stream = await this.call(open, options.signal)
      if (stream.closed || stream.readableEnded) release()
      else stream.once('end', release).once('close', release).once(errorMonitor, release)
      return stream
    } catch (error) {
      release()
      throw error
    }
  }

  /** Whether the running code is part of a call of this driver. */
  #isOwn(): boolean {
    return runningCalls.getStore()?.some(({ limiter, isOver }) => limiter === this && !isOver) === true
  }
}

/** Whether the running code is part of a call of any driver. */
function isWithinCall(): boolean {
  return runningCalls.getStore()?.some(({ isOver }) => !isOver) === true
}

/** Takes a slot. Rejects with `aborted` if the signal aborts while waiting. */
async function takeSlot(slots: FairShare, { holder, signal }: CallOptions): Promise<Release> {
  return isWithinCall() ? slots.hold(holder) : slots.wait(holder, signal)
}

/** Runs `work` while holding a slot. */
async function withSlot<T>(slots: FairShare, options: CallOptions, work: () => Promise<T>): Promise<T> {
  const release = await takeSlot(slots, options)
  try {
    return await work()
  } finally {
    release()
  }
}
