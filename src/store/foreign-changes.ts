/** Detects commits of other processes, and notifies the listeners of the topics that they changed. */
import { settlesWithin } from '../contract/cancellation.js'
import type { Topic } from './rows.js'

/** Milliseconds between two polls. */
const interval = 250

/** Milliseconds that `close` waits for running listeners, which may wait for a backend. */
export const listenersCloseTimeout = 1000

interface Listener {
  readonly topic: Topic
  readonly notify: () => void | Promise<void>
  isPending: boolean
  isRunning: boolean
}

interface ChangeState {
  /** A number that changes when another process commits, and is unaffected by commits of this connection. */
  version(): Promise<number>
  /** The number of changes of each topic, by any process. */
  counts(): Promise<ReadonlyMap<Topic, number>>
}

export class ForeignChanges {
  readonly #listeners = new Set<Listener>()
  readonly #running = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined
  #polling: Promise<void> | undefined

  private constructor(
    private readonly state: ChangeState,
    private lastVersion: number,
    private lastCounts: ReadonlyMap<Topic, number>,
  ) {}

  /** Detects changes that are committed from now on. */
  static async open(state: ChangeState): Promise<ForeignChanges> {
    return new ForeignChanges(state, await state.version(), await state.counts())
  }

  listen(topic: Topic, notify: Listener['notify']): () => void {
    const listener: Listener = { topic, notify, isPending: false, isRunning: false }
    this.#listeners.add(listener)
    this.#timer ??= setInterval(() => {
      this.#polling ??= this.#poll().finally(() => (this.#polling = undefined))
    }, interval).unref()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  /** Stops polling. Resolves when running listeners have ended, or after `listenersCloseTimeout`. */
  async close(): Promise<void> {
    this.#listeners.clear()
    this.#stop()
    await settlesWithin(Promise.all([this.#polling, ...this.#running]), listenersCloseTimeout)
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #poll(): Promise<void> {
    try {
      await this.#detect()
    } catch {
      // The next poll tries again.
      return
    }
    // Not awaited: a listener that waits for a backend must not delay the others.
    for (const listener of this.#listeners) {
      if (!listener.isPending || listener.isRunning) continue
      const running = this.#notify(listener).finally(() => this.#running.delete(running))
      this.#running.add(running)
    }
  }

  async #detect(): Promise<void> {
    const version = await this.state.version()
    if (version === this.lastVersion) return
    // Read after the version: a commit in between is included here, and its new version then changes no count.
    const counts = await this.state.counts()
    for (const listener of this.#listeners) {
      if (counts.get(listener.topic) !== this.lastCounts.get(listener.topic)) listener.isPending = true
    }
    this.lastVersion = version
    this.lastCounts = counts
  }

  /** A listener that fails is notified again at the next poll. */
  async #notify(listener: Listener): Promise<void> {
    listener.isPending = false
    listener.isRunning = true
    try {
      await listener.notify()
    } catch {
      listener.isPending = true
    }
    listener.isRunning = false
  }
}
