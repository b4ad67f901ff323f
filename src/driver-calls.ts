/** Calls of one driver: in turn where it takes only so many at once, and what "unsupported" means of those that are optional. */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import PQueue from 'p-queue'
import { GatewayError, isGatewayError } from './errors.js'

export class DriverCalls {
  readonly #queue: PQueue | undefined
  /** Whether the code that runs does so within one of these calls: what it asks of the driver must not wait for its own end. */
  readonly #within = new AsyncLocalStorage<true>()

  constructor(parallel: number) {
    this.#queue = Number.isFinite(parallel) ? new PQueue({ concurrency: parallel }) : undefined
  }

  /** One call, at its turn. Rejects with `aborted` where the signal comes before that. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (!this.#queue || this.#within.getStore()) return work()
    if (signal?.aborted) throw new GatewayError('aborted')
    // A queue runs its work in the context of whoever left it room.
    const bound = AsyncResource.bind(() => this.#within.run(true, work))
    const call = { begun: false }
    const waited = this.#queue.add(
      () => {
        call.begun = true
        return bound()
      },
      signal ? { signal } : {},
    )
    try {
      return await waited
    } catch (error) {
      throw signal?.aborted && !call.begun ? new GatewayError('aborted') : error
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
