/** Repeats what a restart of a database server has interrupted. */
import { setTimeout as delay } from 'node:timers/promises'

/** Milliseconds for which work waits for a server that restarts. */
const reconnectTime = 5000

/** Runs `work` again, after increasing pauses, while it rejects with an error that is `isRepeatable`. */
export async function retried<T>(work: () => Promise<T>, isRepeatable: (error: unknown) => boolean): Promise<T> {
  const end = performance.now() + reconnectTime
  for (let pause = 20; ; pause = Math.min(2 * pause, 500)) {
    try {
      return await work()
    } catch (error) {
      if (!isRepeatable(error) || performance.now() + pause > end) throw error
    }
    await delay(pause)
  }
}
