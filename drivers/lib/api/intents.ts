/**
 * The intents of changes that take several calls. An intent is stored before the first call. A change that is interrupted,
 * also by a kill of the gateway, is settled from its intent: completed or undone.
 */
import type { DriverState, Journal, JournalEntry } from '../../../src/contract/driver-env.js'
import type { DriverLog } from '../../../src/contract/log.js'

interface IntentsOptions<Intent> {
  readonly state: DriverState
  /** The name of the journal. */
  readonly key: string
  /** A stored intent; undefined if it cannot be read, and is ignored. */
  readonly parse: (value: unknown) => Intent | undefined
  /**
   * Completes or undoes a change that was interrupted at `since`, in milliseconds of `performance.now()`, or before. Rejects
   * if that cannot be done now.
   */
  readonly settle: (intent: Intent, since: number, signal: AbortSignal) => Promise<void>
  /**
   * Milliseconds between two attempts to settle; doubled for each further one, to ten minutes at most. Undefined: only the
   * next run tries again.
   */
  readonly retryInterval?: number
  readonly log: DriverLog
}

const maxRetryInterval = 10 * 60_000

export class Intents<Intent> {
  /** Those of running and of interrupted changes, the oldest first, and their entries in the journal. */
  readonly #all = new Map<Intent, JournalEntry>()
  /** When changes were interrupted, in milliseconds of `performance.now()`. */
  readonly #interrupted = new Map<Intent, number>()
  readonly #closed = new AbortController()
  readonly #journal: Journal
  #isLoaded = false
  #settling: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  /** Attempts after which something was left. */
  #attempts = 0

  constructor(private readonly options: IntentsOptions<Intent>) {
    this.#journal = options.state.journal(options.key)
  }

  /**
   * Loads what earlier runs and ended nodes have left. Called once, before any other method. What nodes leave that end
   * later is settled in the background.
   */
  async load(): Promise<void> {
    const { parse } = this.options
    await this.#journal.adopt((left) => {
      for (const { entry, value } of left) {
        const intent = parse(value)
        if (intent === undefined) {
          void entry.set(undefined).catch(() => undefined)
          continue
        }
        this.#all.set(intent, entry)
        this.#interrupted.set(intent, performance.now())
      }
      if (this.#isLoaded) void this.settle()
    })
    this.#isLoaded = true
  }

  /** Those of running and of interrupted changes, the oldest first. */
  get all(): readonly Intent[] {
    return [...this.#all.keys()]
  }

  isInterrupted(intent: Intent): boolean {
    return this.#interrupted.has(intent)
  }

  /** Resolves when the intent is stored; the change may begin then. `earlier`: the one that it takes the place of. */
  async add(intent: Intent, earlier?: Intent): Promise<void> {
    const entry = (earlier === undefined ? undefined : this.#all.get(earlier)) ?? this.#journal.entry()
    if (earlier !== undefined) this.#all.delete(earlier)
    this.#all.set(intent, entry)
    await entry.set(intent)
  }

  /** Nothing is left to do. If it rejects, the next run looks at the intent once more. */
  async forget(intent: Intent): Promise<void> {
    const entry = this.#all.get(intent)
    this.#all.delete(intent)
    this.#interrupted.delete(intent)
    await entry?.set(undefined)
  }

  /** The change was interrupted just now. It is settled in the background. */
  interrupted(intent: Intent): void {
    this.#interrupted.set(intent, performance.now())
    void this.settle()
  }

  /** Settles what was interrupted, as far as that is possible now. Never rejects. */
  settle(): Promise<void> {
    this.#settling ??= this.#settleAll().finally(() => {
      this.#settling = undefined
      this.#settleLater()
    })
    return this.#settling
  }

  /** Resolves when nothing is being settled. What is left is settled by a later run. */
  async close(): Promise<void> {
    this.#closed.abort()
    clearTimeout(this.#timer)
    await this.#settling
  }

  async #settleAll(): Promise<void> {
    const { settle, log } = this.options
    const { signal } = this.#closed
    const isClosed = () => signal.aborted
    for (const [intent, since] of this.#interrupted) {
      if (isClosed()) return
      try {
        await settle(intent, since, signal)
        await this.forget(intent)
      } catch (error) {
        if (!isClosed()) log.warn({ err: error, intent }, 'cannot settle an interrupted change yet')
      }
    }
  }

  #settleLater(): void {
    const { retryInterval } = this.options
    clearTimeout(this.#timer)
    this.#attempts = this.#interrupted.size === 0 ? 0 : this.#attempts + 1
    if (retryInterval === undefined || this.#attempts === 0 || this.#closed.signal.aborted) return
    const delay = Math.min(maxRetryInterval, retryInterval * 2 ** (this.#attempts - 1))
    this.#timer = setTimeout(() => void this.settle(), delay).unref()
  }
}
