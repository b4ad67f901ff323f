/**
 * The writes of a storage that is closed: they are aborted, and have removed what they have staged before the driver is
 * closed. A driver without connections could not remove it, and a storage that was deleted has no later run that does.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { joinSignals, settlesWithin, sharedController } from '../base/cancellation.js'
import type { CallOptions } from '../contract/call-options.js'
import type { Driver } from '../contract/driver.js'
import { GatewayError } from '../base/errors.js'
import { driverProperties, fileProperties, overriding, uploadProperties } from './overriding.js'

/** Milliseconds that `end` waits for the writes. */
const endTimeout = 2500

export class EndingWrites {
  readonly #closing = sharedController()
  readonly #running = new Set<Promise<unknown>>()
  /** By the signal of a caller, such as that of a connection: what aborts the writes with it, and when they end. */
  readonly #controllers = new WeakMap<AbortSignal, AbortController>()
  /** Those of running writes, and how many these are. */
  readonly #writing = new Map<AbortController, number>()

  /** Returns the driver. Its calls that stage something reject with `aborted` once `end` was called. */
  watched(driver: Driver): Driver {
    return overriding(driver, driverProperties, (inner) => ({
      write: (path, source, options = {}) => this.#run(options, (own) => inner.write(path, source, own)),
      copy: (from, to, options = {}) => this.#run(options, (own) => inner.copy(from, to, own)),
      copyFiles: (bundle, options = {}) => this.#run(options, (own) => inner.copyFiles(bundle, own)),
      // Also while the storage is closed: this removes what a write has staged.
      dropUpload: (token, options) => this.#held(inner.dropUpload(token, options)),
      upload: async (path, plan, options = {}) => {
        this.#assertOpen()
        // Opening is not aborted: a driver may then remove in the background what it has staged.
        const ending = sharedController()
        const joined = joinSignals(options.signal, ending.signal)
        const opening = inner.upload(path, plan, { ...options, signal: joined.signal })
        const upload = await this.#held(opening).catch((error: unknown) => {
          joined.release()
          throw error
        })
        // Its writes are aborted, and then its owner closes it.
        const unfollow = this.#whenEnding(() => ending.abort(this.#closing.signal.reason))
        let close: () => void = () => undefined
        void this.#held(new Promise<void>((resolve) => (close = resolve)))
        const closed = () =>
          upload
            .close()
            .finally(unfollow)
            .finally(() => joined.release())
            .finally(close)
        return overriding(upload, uploadProperties, () => ({ close: closed }))
      },
      open: async (path, mode, options) => {
        if (mode !== 'replace') return inner.open(path, mode, options)
        this.#assertOpen()
        // Opening is not aborted, as that of an upload.
        const file = await this.#held(inner.open(path, mode, options))
        // A handle that is closed while it is committed could remove what has just got its name.
        let committed: Promise<unknown> = Promise.resolve()
        const close = this.#untilClosed(() => committed.catch(() => undefined).then(() => file.close()))
        return overriding(file, fileProperties, (handle) => ({
          close,
          commit: (attributes) => {
            const committing = handle.commit(attributes)
            committed = committing
            return this.#held(committing)
          },
        }))
      },
    }))
  }

  /** Aborts all writes and refuses new ones. Resolves when the last one has ended, or after some seconds. */
  async end(): Promise<void> {
    this.#closing.abort(new GatewayError('aborted', { reason: 'the storage was stopped' }))
    for (const controller of this.#writing.keys()) controller.abort(this.#closing.signal.reason)
    const ended = async () => {
      while (this.#running.size > 0) {
        await Promise.allSettled(this.#running)
        // What follows a write may be another call.
        await nextTurn()
      }
    }
    await settlesWithin(ended(), endTimeout)
  }

  async #run<Options extends CallOptions, T>(options: Options, work: (options: Options) => Promise<T>): Promise<T> {
    this.#assertOpen()
    const controller = this.#controllerOf(options.signal)
    this.#writing.set(controller, (this.#writing.get(controller) ?? 0) + 1)
    try {
      return await this.#held(work({ ...options, signal: controller.signal }))
    } finally {
      const others = (this.#writing.get(controller) ?? 1) - 1
      if (others > 0) this.#writing.set(controller, others)
      else this.#writing.delete(controller)
    }
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

  /**
   * Returns `close`. It is also called when the writes end, because the owner of a handle may keep it open for long,
   * and that is waited for.
   */
  #untilClosed(close: () => Promise<void>): () => Promise<void> {
    const closed = () => {
      unfollow()
      return this.#held(close())
    }
    const unfollow = this.#whenEnding(() => void closed().catch(() => undefined))
    return closed
  }

  /** Calls `listener` when `end` is called, or soon if it was. Returns a function that removes the listener. */
  #whenEnding(listener: () => void): () => void {
    const { signal } = this.#closing
    if (signal.aborted) queueMicrotask(listener)
    else signal.addEventListener('abort', listener, { once: true })
    return () => signal.removeEventListener('abort', listener)
  }

  async #held<T>(work: Promise<T>): Promise<T> {
    this.#running.add(work)
    try {
      return await work
    } finally {
      this.#running.delete(work)
    }
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new GatewayError('aborted', { reason: 'the storage was stopped' })
  }
}
