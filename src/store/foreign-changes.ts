/** How a process hears that another one has written. */
import { settlesWithin } from '../aborting.js'

/** Milliseconds between two looks. */
const interval = 250

/** Milliseconds that a look under way has to end when the store closes: a listener may wait for a backend. */
const closeTimeout = 1000

type Listener = () => void | Promise<void>

export class ForeignChanges {
  /** Listeners, and whether they have still to be told. */
  readonly #listeners = new Map<Listener, boolean>()
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined

  /** `version` resolves to a number that moves when another process commits, and never for our own commits. */
  constructor(
    private readonly version: () => Promise<number>,
    private seen: number,
  ) {}

  listen(listener: Listener): () => void {
    this.#listeners.set(listener, false)
    this.#timer ??= setInterval(() => {
      this.#looking ??= this.#look().finally(() => (this.#looking = undefined))
    }, interval).unref()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  /** Resolves when no look is under way any more, or when a listener takes too long. */
  async close(): Promise<void> {
    this.#listeners.clear()
    this.#stop()
    if (this.#looking) await settlesWithin(this.#looking, closeTimeout)
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #look(): Promise<void> {
    try {
      const version = await this.version()
      if (version !== this.seen) {
        this.seen = version
        for (const listener of this.#listeners.keys()) this.#listeners.set(listener, true)
      }
    } catch {
      // A database that does not answer now is asked again at the next look.
      return
    }
    for (const [listener, due] of this.#listeners) {
      if (due) await this.#tell(listener)
    }
  }

  /** Who could not take the change is told once more at the next look. */
  async #tell(listener: Listener): Promise<void> {
    try {
      this.#listeners.set(listener, false)
      await listener()
    } catch {
      if (this.#listeners.has(listener)) this.#listeners.set(listener, true)
    }
  }
}
