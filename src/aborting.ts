/** How calls end with their signal, however long somebody lets them wait. Drivers have it from here too. */
import { GatewayError } from './errors.js'

export function assertGoing(signal: Pick<AbortSignal, 'aborted'> | undefined): void {
  if (signal?.aborted === true) throw new GatewayError('aborted')
}

/** Whether the work has settled, fulfilled or rejected, within so many milliseconds. If not, it continues on its own. */
export async function settlesWithin(work: Promise<unknown>, milliseconds: number): Promise<boolean> {
  // The timer keeps the process alive: work that never settles may leave nothing else to wait for.
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, milliseconds, false)
  })
  const settled = () => true
  try {
    return await Promise.race([work.then(settled, settled), late])
  } finally {
    clearTimeout(timer)
  }
}

export interface Leaving<T> {
  /** Milliseconds that the work has, once it is aborted, to take back by itself what was begun; none where it is left out. */
  readonly patience?: number
  /** Gives back what comes all the same. */
  readonly undo?: ((late: T) => unknown) | undefined
}

/** What the work comes to; `aborted` where the signal says so before. The work goes on by itself then. */
export async function untilAborted<T>(
  working: Promise<T>,
  signal: AbortSignal | undefined,
  { patience = 0, undo }: Leaving<T> = {},
): Promise<T> {
  if (!signal) return working
  let timer: NodeJS.Timeout | undefined
  let leave: () => void = () => undefined
  const left = new Promise<never>((_resolve, reject) => {
    const end = () => reject(new GatewayError('aborted'))
    leave = () => {
      if (patience === 0) end()
      else timer = setTimeout(end, patience)
    }
  })
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([working, left])
  } catch (error) {
    if (!signal.aborted) throw error
    working.then(undo).catch(() => undefined) // it failed, or was given back
    throw new GatewayError('aborted', { cause: error })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}
