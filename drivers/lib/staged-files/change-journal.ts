/**
 * The journal of changes that take several calls. A change is stored before its first call. One that is interrupted,
 * also by a kill of the gateway, is settled: completed or undone.
 */
import type { DriverState, Journal, JournalEntry, LeftEntry } from '../../../src/contract/driver-env.js'
import type { DriverLog } from '../../../src/base/log.js'

interface ChangeJournalOptions<Change> {
  readonly state: DriverState
  /** The names of the journal. Changes are stored under the first; the others are those of older versions. */
  readonly keys: readonly [string, ...string[]]
  /** A stored change; undefined if it cannot be read, and is removed. */
  readonly parse: (value: unknown) => Change | undefined
  /**
   * Completes or undoes a change that was interrupted at `since`, in milliseconds of `performance.now()`, or before,
   * and forgets it. Rejects if that cannot be done now.
   */
  readonly settle: (change: Change, since: number, signal: AbortSignal) => Promise<void>
  /**
   * Milliseconds between two attempts to settle; doubled for each further one, to ten minutes at most. Undefined: only
   * `settle` and the next run try again.
   */
  readonly retryInterval?: number
  readonly log: DriverLog
}

const maxRetryInterval = 10 * 60_000

export class ChangeJournal<Change> {
  /** Running and interrupted changes, the oldest first, and their entries in the journal. */
  readonly #all = new Map<Change, JournalEntry>()
  /** When changes were interrupted, in milliseconds of `performance.now()`. */
  readonly #interrupted = new Map<Change, number>()
  readonly #closed = new AbortController()
  readonly #journal: Journal
  readonly #formerJournals: readonly Journal[]
  #isLoaded = false
  #settling: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  /** Attempts after which something was left. */
  #attempts = 0

  constructor(private readonly options: ChangeJournalOptions<Change>) {
    const [key, ...formerKeys] = options.keys
    this.#journal = options.state.journal(key)
    this.#formerJournals = formerKeys.map((each) => options.state.journal(each))
  }

  /**
   * Loads what earlier runs and ended nodes have left. Called once, before any other method. What nodes leave that end
   * later is settled in the background.
   */
  async load(): Promise<void> {
    for (const journal of [...this.#formerJournals, this.#journal]) await journal.adopt((left) => this.#adopt(left))
    this.#isLoaded = true
  }

  #adopt(left: readonly LeftEntry[]): void {
    for (const { entry, value } of left) {
      const change = this.options.parse(value)
      if (change === undefined) {
        void entry.set(undefined).catch(() => undefined)
        continue
      }
      this.#all.set(change, entry)
      this.#interrupted.set(change, performance.now())
    }
    if (this.#isLoaded) void this.settle()
  }

  /** Running and interrupted changes, the oldest first. */
  get all(): readonly Change[] {
    return [...this.#all.keys()]
  }

  get hasInterrupted(): boolean {
    return this.#interrupted.size > 0
  }

  isInterrupted(change: Change): boolean {
    return this.#interrupted.has(change)
  }

  /** Resolves when the change is stored, and may begin. `earlier`: the one that it takes the place of. */
  async add(change: Change, earlier?: Change): Promise<void> {
    const entry = (earlier === undefined ? undefined : this.#all.get(earlier)) ?? this.#journal.entry()
    if (earlier !== undefined) this.#all.delete(earlier)
    this.#all.set(change, entry)
    try {
      await entry.set(change)
    } catch (error) {
      // It does not begin.
      if (earlier === undefined) await this.forget(change)
      throw error
    }
  }

  /** Nothing is left to do. Never rejects: if it stays stored, the next run settles it, and finds nothing to do. */
  async forget(change: Change): Promise<void> {
    const entry = this.#all.get(change)
    this.#all.delete(change)
    this.#interrupted.delete(change)
    await entry?.set(undefined).catch(() => undefined)
  }

  /** The change was interrupted just now. With a `retryInterval`, it is settled in the background. */
  interrupted(change: Change): void {
    this.#interrupted.set(change, performance.now())
    if (this.options.retryInterval !== undefined) void this.settle()
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
    for (const [change, since] of this.#interrupted) {
      if (isClosed()) return
      try {
        await settle(change, since, signal)
      } catch (error) {
        if (!isClosed()) log.warn({ err: error, change }, 'cannot settle an interrupted change yet')
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
