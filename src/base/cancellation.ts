/** Aborts calls by their signal, even if the underlying work does not end. */
import { setMaxListeners } from 'node:events'
import { GatewayError, isGatewayError } from './errors.js'

export function throwIfAborted(signal: Pick<AbortSignal, 'aborted'> | undefined): void {
  if (signal?.aborted === true) throw new GatewayError('aborted')
}

/**
 * The error of a call that was made with the signal. Who aborts a signal with a GatewayError as its reason ends calls
 * for that reason: it is the error where the call rejects with `aborted`.
 */
export function withReason(error: unknown, signal: AbortSignal | undefined): unknown {
  const reason: unknown = signal?.aborted === true ? signal.reason : undefined
  return isGatewayError(error, 'aborted') && reason instanceof GatewayError ? reason : error
}

/**
 * Whether the work settles, fulfilled or rejected, within this many milliseconds. If not, it continues in the
 * background.
 */
export async function settlesWithin(work: Promise<unknown>, milliseconds: number): Promise<boolean> {
  // The timer is not unref'd: if the work never settles, nothing else may keep the process alive.
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

interface AbortOptions<T> {
  /** Milliseconds for which aborted work may still settle by its own cleanup; 0 if omitted. */
  readonly timeout?: number
  /** Called with a result that arrives after the abort, to release it. */
  readonly undo?: ((late: T) => unknown) | undefined
}

/**
 * Resolves or rejects as the work does, or rejects with `aborted` if the signal aborts first. The work then continues
 * in the background.
 */
export async function untilAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  { timeout = 0, undo }: AbortOptions<T> = {},
): Promise<T> {
  if (!signal) return work
  let timer: NodeJS.Timeout | undefined
  let onAbort: () => void = () => undefined
  const aborted = new Promise<never>((_resolve, reject) => {
    const end = () => reject(new GatewayError('aborted'))
    onAbort = () => {
      if (timeout === 0) end()
      else timer = setTimeout(end, timeout)
    }
  })
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([work, aborted])
  } catch (error) {
    if (!signal.aborted) throw error
    work.then(undo).catch(() => undefined) // a late failure is ignored, and so is one of undo
    throw new GatewayError('aborted', { cause: error })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

interface JoinedSignal {
  readonly signal: AbortSignal
  /**
   * Removes the listeners from the joined signals. `AbortSignal.any` would retain memory for as long as they exist
   * (nodejs/node#55351).
   */
  release(): void
}

/** A controller whose signal accepts any number of concurrent listeners, such as the calls for all files of a tree. */
export function sharedController(): AbortController {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return controller
}

/** The signals that a joined signal was made of. */
const sourcesOf = new WeakMap<AbortSignal, readonly AbortSignal[]>()

/**
 * A signal that aborts with the reason of the first of these signals that aborts. If one of them is a joined signal
 * that follows all the others already, that one is returned instead of a new one. It may therefore outlive the caller,
 * who removes the listeners that it adds.
 */
export function joinSignals(...signals: readonly (AbortSignal | undefined)[]): JoinedSignal {
  const sources = signals.filter((signal) => signal !== undefined)
  for (const signal of sources) {
    const own = sourcesOf.get(signal)
    if (own && sources.every((other) => other === signal || own.includes(other))) {
      return { signal, release: () => undefined }
    }
  }
  const controller = sharedController()
  sourcesOf.set(controller.signal, sources)
  const listeners = sources.map((signal) => ({ signal, abort: () => controller.abort(signal.reason) }))
  for (const { signal, abort } of listeners) {
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  }
  return {
    signal: controller.signal,
    release: () => {
      sourcesOf.delete(controller.signal)
      for (const { signal, abort } of listeners) signal.removeEventListener('abort', abort)
    },
  }
}
