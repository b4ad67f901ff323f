/** Shortens the waits of drivers before they repeat a call, for tests that make many calls fail. */
import { syncBuiltinESMExports } from 'node:module'
import promises from 'node:timers/promises'

/**
 * Waits as long as it is asked to, also after `shortenWaits`. With that, `setTimeout` of `node:timers/promises` waits a
 * `factor`th of what it is asked to, in this process. The order of what waits stays the same.
 */
export const { setTimeout: fullWait } = promises

export function shortenWaits(factor: number): void {
  promises.setTimeout = (milliseconds = 0, value, options) => fullWait(milliseconds / factor, value, options)
  syncBuiltinESMExports()
}
