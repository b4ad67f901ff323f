/** Waiting for a server that cannot be reached: one wait for all uploads. */
import { apiUrl } from '../api/client.ts'

/** Milliseconds before the first and between the last attempts, and of one attempt. */
const firstDelay = 1000
const longestDelay = 30_000
const attemptTimeout = 10_000

let waiting: Promise<void> | undefined

/** Resolves when the server answers again. Rejects with the reason of the signal. */
export async function serverAnswers(signal: AbortSignal): Promise<void> {
  waiting ??= waitForServer().finally(() => (waiting = undefined))
  const { promise: aborted, end } = rejectionOf(signal)
  try {
    await Promise.race([waiting, aborted])
  } finally {
    end()
  }
}

async function waitForServer(): Promise<void> {
  for (let delay = firstDelay; ; delay = Math.min(2 * delay, longestDelay)) {
    await delayOrOnline(delay)
    if (await answers()) return
  }
}

async function answers(): Promise<boolean> {
  try {
    const response = await fetch(apiUrl('/ping'), { cache: 'no-store', signal: AbortSignal.timeout(attemptTimeout) })
    return response.ok
  } catch {
    return false
  }
}

/** Resolves after the delay, or at once when the browser reports that it is connected again. */
function delayOrOnline(delay: number): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      removeEventListener('online', end)
      resolve()
    }
    const timer = setTimeout(end, delay)
    addEventListener('online', end)
  })
}

function rejectionOf(signal: AbortSignal): { readonly promise: Promise<never>; readonly end: () => void } {
  let end = (): void => undefined
  const promise = new Promise<never>((_resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error)
    signal.addEventListener('abort', abort)
    end = () => signal.removeEventListener('abort', abort)
    if (signal.aborted) abort()
  })
  return { promise, end }
}
