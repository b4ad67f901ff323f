/** Detects commits of other processes. */
import { settlesWithin } from '../contract/cancellation.js'

/** Milliseconds between two polls. */
const interval = 250

/** Milliseconds that `close` waits for a running poll: a listener may wait for a backend. */
const closeTimeout = 1000

type Listener = () => void | Promise<void>

export class ForeignChanges {
  /** Listeners, and whether a notification is pending. */
  readonly #listeners = new Map<Listener, boolean>()
  #timer: NodeJS.Timeout | undefined
  #polling: Promise<void> | undefined

  /**
   * `version` resolves to a number that changes when another process commits, and is unaffected by commits of this
   * connection. `lastVersion` is its current value.
   */
  constructor(
    private readonly version: () => Promise<number>,
    private lastVersion: number,
  ) {}

  listen(listener: Listener): () => void {
    this.#listeners.set(listener, false)
    this.#timer ??= setInterval(() => {
      this.#polling ??= this.#poll().finally(() => (this.#polling = undefined))
    }, interval).unref()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  /** Stops polling. Resolves when the running poll has ended, or after `closeTimeout`. */
  async close(): Promise<void> {
    this.#listeners.clear()
    this.#stop()
    if (this.#polling) await settlesWithin(this.#polling, closeTimeout)
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #poll(): Promise<void> {
    try {
      const version = await this.version()
      if (version !== this.lastVersion) {
        this.lastVersion = version
        for (const listener of this.#listeners.keys()) this.#listeners.set(listener, true)
      }
    } catch {
      // The next poll tries again.
      return
    }
    for (const [listener, isPending] of this.#listeners) {
      if (isPending) await this.#notify(listener)
    }
  }

  /** A listener that fails is notified again at the next poll. */
  async #notify(listener: Listener): Promise<void> {
    try {
      this.#listeners.set(listener, false)
      await listener()
    } catch {
      if (this.#listeners.has(listener)) this.#listeners.set(listener, true)
    }
  }
}
