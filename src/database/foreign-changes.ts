/** Notifies listeners of the topics that other processes have changed. */
import { settlesWithin } from '../base/cancellation.js'
import type { ForeignCommits } from './engine.js'
import type { Topic } from './topics.js'

/** Milliseconds after which a listener that failed is notified again. */
const retryDelay = 250

/** Milliseconds that `close` waits for running listeners, which may wait for a backend. */
export const listenersCloseTimeout = 1000

interface Listener {
  readonly topic: Topic
  readonly notify: () => void | Promise<void>
  isPending: boolean
  isRunning: boolean
}

export class ForeignChanges {
  readonly #listeners = new Set<Listener>()
  readonly #running = new Set<Promise<void>>()
  #isStarted = false

  /** Starts `commits` when there is a listener. */
  constructor(private readonly commits: ForeignCommits) {}

  /** Returns a function that removes the listener. */
  listen(topic: Topic, notify: Listener['notify']): () => void {
    const listener: Listener = { topic, notify, isPending: false, isRunning: false }
    this.#listeners.add(listener)
    if (!this.#isStarted) {
      this.#isStarted = true
      this.commits.start((topics) => this.#changed(topics))
    }
    return () => void this.#listeners.delete(listener)
  }

  /** Notifies every listener, as after changes that may have been missed. Rejects if one of them fails. */
  async notifyAll(): Promise<void> {
    await Promise.all([...this.#listeners].map(async ({ notify }) => notify()))
  }

  /** Resolves when running listeners have ended, or after `listenersCloseTimeout`. */
  async close(): Promise<void> {
    this.#listeners.clear()
    await this.commits.stop()
    await settlesWithin(Promise.all(this.#running), listenersCloseTimeout)
  }

  #changed(topics: ReadonlySet<Topic>): void {
    for (const listener of this.#listeners) {
      if (topics.has(listener.topic)) this.#wake(listener)
    }
  }

  /** Calls a listener, and does not wait for it: one that waits for a backend must not delay the others. */
  #wake(listener: Listener): void {
    listener.isPending = true
    if (listener.isRunning || !this.#listeners.has(listener)) return
    const running = this.#notify(listener).finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** A change that comes while the listener runs makes it run again. */
  async #notify(listener: Listener): Promise<void> {
    listener.isRunning = true
    try {
      while (listener.isPending && this.#listeners.has(listener)) {
        listener.isPending = false
        await listener.notify()
      }
    } catch {
      setTimeout(() => this.#wake(listener), retryDelay).unref()
    }
    listener.isRunning = false
  }
}
