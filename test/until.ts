/** The wait of tests for a state. */
import { setTimeout as wait } from 'node:timers'
import { promisify } from 'node:util'

const timeout = 120_000

/**
 * Resolves to true once `isSo` holds, and to false after two minutes, which is longer than a busy machine takes: the
 * assertion that follows then says what is wrong.
 */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<boolean> {
  const end = performance.now() + timeout
  while (!(await isSo())) {
    if (performance.now() > end) return false
    await promisify(wait)(10)
  }
  return true
}
