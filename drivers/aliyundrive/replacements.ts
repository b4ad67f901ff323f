/**
 * Files that take the place of others, on a backend where several entries may have one name: the new file gets the name
 * first, and then the old one is removed by its id. What is to be removed is stored before, so that a run that is killed
 * in between leaves nothing behind: the next one removes it. An entry is removed only while the file that replaces it has
 * the same name in the same folder.
 */
import type { DriverState } from '../../src/contract/driver-env.js'
import { isGatewayError } from '../../src/contract/errors.js'
import type { DriverLog } from '../../src/contract/log.js'
import { BoundState } from '../lib/api/bound-state.js'

export interface Replacement {
  /** Id of the folder. */
  readonly folder: string
  /** The name, as the backend has it. */
  readonly name: string
  /** Id of the entry that is replaced. */
  readonly old: string
  /** Id of the entry that replaces it. */
  readonly by: string
}

interface ReplacementsOptions {
  readonly state: DriverState
  /** What the ids belong to, such as the account. */
  readonly scope: string
  readonly log: DriverLog
  /** The ids of the entries of a folder with this name, as the backend lists them now. */
  readonly named: (folder: string, name: string, signal: AbortSignal) => Promise<readonly string[]>
  readonly remove: (id: string, signal: AbortSignal) => Promise<void>
}

/** Milliseconds after which a removal that has failed is tried again. */
const retryInterval = 60_000
/** Milliseconds for the removal of an entry that was replaced. */
const removeTimeout = 60_000

export class Replacements {
  readonly #closed = new AbortController()
  /** Those that are being made by calls of this run. */
  readonly #running = new Set<Replacement>()
  #storing: Promise<void> = Promise.resolve()
  #settling: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  private constructor(
    private readonly options: ReplacementsOptions,
    private readonly stored: BoundState<readonly Replacement[]>,
    private pending: readonly Replacement[],
  ) {}

  /** Settles in the background what an earlier run has left. */
  static async open(options: ReplacementsOptions): Promise<Replacements> {
    const stored = await BoundState.open<readonly Replacement[]>(options.state, 'replacements', options.scope)
    const replacements = new Replacements(options, stored, stored.value ?? [])
    replacements.#settle()
    return replacements
  }

  /**
   * Calls `publish`, which gives the new entry its name, and then removes the old one. If the removal fails, it is tried
   * again later, and the call resolves nevertheless.
   */
  async run<T>(replacement: Replacement, publish: () => Promise<T>): Promise<T> {
    this.#running.add(replacement)
    try {
      await this.#change([...this.pending, replacement])
      const result = await publish()
      await this.#removeOld(replacement)
      return result
    } finally {
      this.#running.delete(replacement)
      // The outcome may be unknown.
      this.#settle()
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer)
    this.#closed.abort()
    await this.#settling
  }

  /** Never rejects. */
  async #removeOld(replacement: Replacement): Promise<void> {
    try {
      await this.options.remove(replacement.old, AbortSignal.timeout(removeTimeout))
    } catch (error) {
      if (!isGatewayError(error, 'not_found')) {
        this.options.log.warn({ err: error }, 'a replaced file could not be removed yet')
        return
      }
    }
    await this.#forget(replacement)
  }

  async #forget(replacement: Replacement): Promise<void> {
    await this.#change(this.pending.filter((one) => one !== replacement)).catch((error: unknown) => {
      // It is looked at once more by the next run, which finds nothing to do.
      this.options.log.warn({ err: error }, 'the removal of a replaced file could not be recorded')
    })
  }

  /** Changes are stored in their order. */
  #change(pending: readonly Replacement[]): Promise<void> {
    this.pending = pending
    const storing = this.#storing
      .catch(() => undefined)
      .then(() => this.stored.set(pending.length === 0 ? undefined : pending))
    this.#storing = storing
    return storing
  }

  #settle(): void {
    if (this.#closed.signal.aborted || this.#settling) return
    const left = this.pending.filter((one) => !this.#running.has(one))
    if (left.length === 0) return
    clearTimeout(this.#timer)
    this.#settling = this.#settleAll(left).finally(() => {
      this.#settling = undefined
      if (this.pending.every((one) => this.#running.has(one)) || this.#closed.signal.aborted) return
      this.#timer = setTimeout(() => this.#settle(), retryInterval)
      this.#timer.unref()
    })
  }

  /** Never rejects. */
  async #settleAll(left: readonly Replacement[]): Promise<void> {
    const { named, remove, log } = this.options
    const { signal } = this.#closed
    const isClosed = () => signal.aborted
    for (const replacement of left) {
      if (isClosed()) return
      const { folder, name, old, by } = replacement
      try {
        const ids = await named(folder, name, signal)
        if (ids.includes(by) && ids.includes(old)) await remove(old, signal)
        await this.#forget(replacement)
      } catch (error) {
        if (isGatewayError(error, 'not_found')) await this.#forget(replacement)
        else if (!isClosed()) log.warn({ err: error }, 'a replaced file could not be removed yet')
      }
    }
  }
}
