/** Several reasons to stop, joined for as long as one piece of work takes. */
import { setMaxListeners } from 'node:events'

export interface JoinedSignal {
  readonly signal: AbortSignal
  /** Lets go of the reasons. AbortSignal.any would hang on to a long-lived one. */
  release(): void
}

/** One whose signal any number of calls may listen to at once, as those for the files of a tree do. */
export function manyCalls(): AbortController {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return controller
}

/** A signal that aborts, with the same reason, as soon as one of these does. */
export function joinSignals(...signals: readonly (AbortSignal | undefined)[]): JoinedSignal {
  const given = signals.filter((signal) => signal !== undefined)
  const controller = manyCalls()
  const listeners = given.map((signal) => ({ signal, stop: () => controller.abort(signal.reason) }))
  for (const { signal, stop } of listeners) {
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  }
  return {
    signal: controller.signal,
    release: () => {
      for (const { signal, stop } of listeners) signal.removeEventListener('abort', stop)
    },
  }
}
