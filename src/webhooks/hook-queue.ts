/**
 * Delivers the messages of one webhook, independently of all others: a receiver that does not answer delays no other
 * webhook.
 */
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { DeliveryRow } from '../database/audit-rows.js'
import type { Store } from '../database/tables.js'
import type { Answer } from './send.js'

export interface DeliveryTimes {
  /** Milliseconds from each failed attempt to the next one; after the last, the hook is switched off. */
  readonly schedule: readonly number[]
  /** The factor of such a pause, so that many deliveries do not come at once. */
  readonly jitter: () => number
  /** Milliseconds of one attempt. */
  readonly timeout: number
  /** Milliseconds since 1970. */
  readonly now: () => number
}

const minute = 60_000
const hour = 60 * minute

export const usualTimes: DeliveryTimes = {
  schedule: [5000, 5 * minute, 30 * minute, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * hour)],
  jitter: () => 1 + Math.random() / 10,
  timeout: 15_000,
  now: Date.now,
}

/** Maximum number of concurrent deliveries to one hook, while it answers. Otherwise one. */
const maxAtOnce = 4
/** Milliseconds: the longest that `Retry-After` is obeyed. */
const maxRetryAfter = 24 * hour
/** Milliseconds: no attempt is later than that, unless the clock was set back since its time was chosen. */
const farthest = 2 * maxRetryAfter
/** Milliseconds after which the table is read again: what was written for another process may be missed. */
const idleTime = minute

interface QueueOptions {
  readonly hookId: number
  readonly store: Pick<Store, 'webhookDeliveries'>
  readonly times: DeliveryTimes
  readonly log: Pick<Log, 'warn'>
  /** Makes one attempt. Rejects if there is no response. */
  readonly send: (delivery: DeliveryRow, signal: AbortSignal) => Promise<Answer>
  readonly switchOff: (reason: string) => Promise<void>
}

export class HookQueue {
  /** The ids of deliveries that are being sent. */
  readonly #sending = new Set<number>()
  readonly #controller = new AbortController()
  /** Attempts that have failed since the last one that succeeded. */
  #failures = 0
  #pausesUntil = 0
  #isReading = false
  #isStale = false
  /**
   * True while the hook is switched off, so that an answer meanwhile does not switch it off again after an admin has
   * switched it on.
   */
  #isSwitchingOff = false
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly options: QueueOptions) {}

  /** Ends running attempts, whose outcome is not recorded: they are made again. */
  end(): void {
    this.#controller.abort()
    clearTimeout(this.#timer)
  }

  /** Sends what is due. */
  wake(): void {
    this.#isStale = true
    if (this.#isReading || this.#isEnded) return
    this.#isReading = true
    this.#fill()
      .catch((error: unknown) => this.#stumble(error))
      .finally(() => {
        this.#isReading = false
        if (this.#isStale) this.wake()
      })
  }

  get #isEnded(): boolean {
    return this.#isSwitchingOff || this.#controller.signal.aborted
  }

  async #fill(): Promise<void> {
    while (this.#isStale && !this.#isEnded) {
      this.#isStale = false
      const free = (this.#failures > 0 ? 1 : maxAtOnce) - this.#sending.size
      if (free <= 0) return
      const now = this.options.times.now()
      if (!isDue(this.#pausesUntil, now)) {
        this.#wakeAfter(this.#pausesUntil - now)
        return
      }
      // What is received while the table is read may still be in the result.
      const known = new Set(this.#sending)
      const waiting = (await this.#next(known.size + free, now)).filter(({ id }) => !known.has(id))
      const due = waiting.filter(({ nextAt }) => isDue(nextAt, now)).slice(0, free)
      for (const row of due) this.#start(row)
      if (due.length === 0) this.#wakeAfter((waiting[0]?.nextAt ?? Infinity) - now)
    }
  }

  /** While attempts fail, one that is repeated is before new ones: otherwise these would keep it from its last one. */
  async #next(limit: number, now: number): Promise<readonly DeliveryRow[]> {
    const { hookId, store } = this.options
    const repeated = this.#failures > 0 ? await store.webhookDeliveries.repeated(hookId, now) : undefined
    return repeated === undefined ? store.webhookDeliveries.next(hookId, limit) : [repeated]
  }

  #wakeAfter(milliseconds: number): void {
    clearTimeout(this.#timer)
    if (!this.#isEnded) this.#timer = setTimeout(() => this.wake(), Math.min(milliseconds, idleTime)).unref()
  }

  #start(row: DeliveryRow): void {
    this.#sending.add(row.id)
    this.#deliver(row)
      .catch((error: unknown) => this.#stumble(error))
      .finally(() => {
        this.#sending.delete(row.id)
        this.wake()
      })
  }

  /** The database does not answer. What was sent is sent again. */
  #stumble(error: unknown): void {
    if (this.#isEnded) return
    this.options.log.warn({ err: error, hook: this.options.hookId }, 'deliveries of a webhook could not be recorded')
    this.#pause(0)
    this.#wakeAfter(0)
  }

  /** Pauses for at least these milliseconds. Each failure after a pause makes the next one twice as long. */
  #pause(milliseconds: number): void {
    const { schedule, now } = this.options.times
    const [first = 0, second = first] = schedule
    const time = now()
    if (isDue(this.#pausesUntil, time)) {
      this.#pausesUntil = time + Math.min(first * 2 ** this.#failures, second)
      this.#failures += 1
    }
    this.#pausesUntil = Math.max(this.#pausesUntil, time + milliseconds)
  }

  async #deliver(row: DeliveryRow): Promise<void> {
    const outcome = await this.options.send(row, this.#controller.signal).catch(toGatewayError)
    if (this.#isEnded) return
    if (!isGatewayError(outcome) && outcome.status >= 200 && outcome.status < 300) {
      this.#failures = 0
      await this.options.store.webhookDeliveries.delete(row.id)
    } else await this.#fail(row, outcome)
  }

  async #fail(row: DeliveryRow, outcome: Answer | GatewayError): Promise<void> {
    const { store, times, switchOff } = this.options
    const now = times.now()
    const lastError = failureOf(outcome)
    const lastStatus = isGatewayError(outcome) ? undefined : outcome.status
    const asked = lastStatus === 429 || lastStatus === 503 ? (outcome.retryAfter ?? 0) * 1000 : 0
    const demanded = Math.min(asked, maxRetryAfter)
    this.#pause(demanded)
    const attempts = row.attempts + 1
    const delay = times.schedule[row.attempts]
    const off =
      lastStatus === 410
        ? 'the receiver has answered 410: it is gone'
        : delay === undefined
          ? `${attempts} attempts to deliver one event have failed; the last: ${lastError}`
          : undefined
    const nextAt = off === undefined ? now + Math.max((delay ?? 0) * times.jitter(), demanded) : row.nextAt
    const failedAt = off === undefined ? undefined : new Date(now)
    this.#isSwitchingOff = off !== undefined
    try {
      await store.webhookDeliveries.fail(row.id, {
        attempts,
        nextAt: Math.ceil(nextAt),
        lastStatus,
        lastError,
        failedAt,
      })
      if (off !== undefined) await switchOff(off)
    } catch (error) {
      this.#isSwitchingOff = false
      throw error
    }
  }
}

/** Whether a time has come. Both in milliseconds since 1970. */
function isDue(time: number, now: number): boolean {
  return time <= now || time > now + farthest
}

/** Returns the failure of an attempt in words for admins. */
export function failureOf(outcome: Answer | GatewayError): string {
  if (isGatewayError(outcome)) return outcome.reason
  const isRedirect = outcome.status >= 300 && outcome.status < 400
  return `the server answers with status ${outcome.status}${isRedirect ? ', and redirects are not followed' : ''}`
}
