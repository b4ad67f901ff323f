/** The usage of a backend, with a timeout: while a slow request is pending, later callers do not wait for it. */
import { settlesWithin } from '../../base/cancellation.js'
import type { Usage } from '../../contract/capabilities.js'

/** Milliseconds that a caller waits. */
const callerTimeout = 1000
/** Milliseconds after which the request to the backend is canceled. */
const requestTimeout = 30_000

export class UsageProbe {
  /** The pending request, shared by all callers. */
  #pending: Promise<Usage | undefined> | undefined
  #isOverdue = false

  constructor(private readonly request: (signal: AbortSignal) => Promise<Usage>) {}

  /** Returns undefined if the request fails or times out, and immediately while a request is overdue. */
  async usageWithTimeout(): Promise<Usage | undefined> {
    this.#pending ??= this.request(AbortSignal.timeout(requestTimeout))
      .catch(() => undefined)
      .finally(() => {
        this.#pending = undefined
        this.#isOverdue = false
      })
    if (this.#isOverdue) return undefined
    const pending = this.#pending
    if (await settlesWithin(pending, callerTimeout)) return pending
    this.#isOverdue = true
    return undefined
  }
}
