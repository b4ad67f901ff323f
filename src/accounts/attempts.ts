/** Attempts whose outcome others wait for. */
import { setTimeout as sleep } from 'node:timers/promises'
import { untilAborted } from '../base/cancellation.js'
import { tooManyAttempts } from './errors.js'

/** Milliseconds for which an attempt waits for the outcome of others, and between two looks. */
const outcomeWait = { total: 2000, pause: 50 }

/** Tells the limiter the outcome of an attempt, which counts as failed until then. */
export type Settle = (outcome: 'failed' | 'not failed') => Promise<void>

/**
 * Calls `attempt` until it resolves to a result: undefined says that the outcome of other attempts, here or on other
 * nodes, has to be known first. Rejects with `throttled` if that takes too long, and with `aborted`.
 */
export async function afterOthers<T>(attempt: () => Promise<T | undefined>, signal?: AbortSignal): Promise<T> {
  const end = performance.now() + outcomeWait.total
  for (;;) {
    const result = await attempt()
    if (result !== undefined) return result
    if (performance.now() > end) throw tooManyAttempts(1)
    await untilAborted(sleep(outcomeWait.pause), signal)
  }
}
