/**
 * The writes of a storage that is closed: they are aborted, and have removed what they have staged before the driver is
 * closed. A driver without connections could not remove it, and a storage that was deleted has no later run that does.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { joinSignals, settlesWithin, sharedController } from '../base/cancellation.js'
import type { Upload } from '../contract/capabilities.js'
import type { WriteOptions } from '../contract/call-options.js'
import { GatewayError } from '../base/errors.js'
import { Running } from '../base/running.js'

/** Milliseconds that `end` waits for the writes. */
const endTimeout = 2500

/** The `commit` and `close` of a handle that stages a file. */
export interface EndingHandle {
  commit<T>(work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

export class EndingWrites {
  readonly #closing = sharedController()
  /** All work that `end` waits for. It aborts what has a controller. */
  readonly #running = new Running<{ readonly work: Promise<unknown>; readonly controller?: AbortController }>()
  /** The controllers that abort the writes of a caller, by the signal of the caller, such as that of a connection. */
  readonly #controllers = new WeakMap<AbortSignal, AbortController>()

  /** Runs a write, with the options that it gets. Rejects with `aborted` once `end` was called, as all others do. */
  async run<T>(options: WriteOptions = {}, work: (own: WriteOptions) => Promise<T>): Promise<T> {
    this.assertOpen()
    const controller = this.#controllerOf(options.signal)
    return this.#register(work({ ...options, signal: controller.signal }), controller)
  }

  /**
   * Opens an upload with the options that it gets. When the writes end, those of the upload are aborted, and its owner
   * closes it: `ended` is to be called then.
   */
  async upload(
    options: WriteOptions = {},
    open: (own: WriteOptions) => Promise<Upload>,
  ): Promise<{ readonly upload: Upload; readonly ended: () => void }> {
    this.assertOpen()
    // Opening is not aborted: a driver may then remove in the background what it has staged.
    const ending = sharedController()
    const joined = joinSignals(options.signal, ending.signal)
    const opening = open({ ...options, signal: joined.signal })
    const upload = await this.hold(opening).catch((error: unknown) => {
      joined.release()
      throw error
    })
    const unfollow = this.#whenEnding(() => ending.abort(this.#closing.signal.reason))
    let close: () => void = () => undefined
    void this.hold(new Promise<void>((resolve) => (close = resolve)))
    const ended = () => {
      unfollow()
      joined.release()
      close()
    }
    return { upload, ended }
  }

  /**
   * Returns how a handle that stages a file commits and closes. It is also closed when the writes end, because its
   * owner may keep it open for long; but not while it commits, which could remove what has just got its name.
   */
  handle(close: () => Promise<void>): EndingHandle {
    let committed: Promise<unknown> = Promise.resolve()
    const closed = () => {
      unfollow()
      return this.hold(committed.catch(() => undefined).then(close))
    }
    const unfollow = this.#whenEnding(() => void closed().catch(() => undefined))
    const commit = <T>(work: () => Promise<T>) => {
      const committing = work()
      committed = committing
      return this.hold(committing)
    }
    return { commit, close: closed }
  }

  /** Aborts all writes and refuses new ones. Resolves when the last one has ended, or after some seconds. */
  async end(): Promise<void> {
    this.#closing.abort(new GatewayError('aborted', { reason: 'the storage was stopped' }))
    for (const { controller } of this.#running.items) controller?.abort(this.#closing.signal.reason)
    const ended = async () => {
      while (this.#running.size > 0) {
        await Promise.allSettled(this.#running.items.map(({ work }) => work))
        // Another call may follow a write in the next turn.
        await nextTurn()
      }
    }
    await settlesWithin(ended(), endTimeout)
  }

  /**
   * One controller serves all writes with a signal: a new one for each would take a tenth of the time of a small one.
   */
  #controllerOf(signal: AbortSignal | undefined): AbortController {
    const known = signal && this.#controllers.get(signal)
    if (known) return known
    const controller = sharedController()
    if (signal === undefined) return controller
    const abort = () => controller.abort(signal.reason)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
    this.#controllers.set(signal, controller)
    return controller
  }

  /** Calls `listener` when `end` is called, or soon if it was. Returns a function that removes the listener. */
  #whenEnding(listener: () => void): () => void {
    const { signal } = this.#closing
    if (signal.aborted) queueMicrotask(listener)
    else signal.addEventListener('abort', listener, { once: true })
    return () => signal.removeEventListener('abort', listener)
  }

  /** Work that `end` waits for, and does not abort. */
  hold<T>(work: Promise<T>): Promise<T> {
    return this.#register(work)
  }

  async #register<T>(work: Promise<T>, controller?: AbortController): Promise<T> {
    const ended = this.#running.add({ work, ...(controller && { controller }) })
    try {
      return await work
    } finally {
      ended()
    }
  }

  /** Throws `aborted` once `end` was called. */
  assertOpen(): void {
    if (this.#closing.signal.aborted) throw new GatewayError('aborted', { reason: 'the storage was stopped' })
  }
}
