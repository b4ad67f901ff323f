/** Which of several folders or copies a change reaches. */
import { GatewayError } from '../../src/errors.js'

export interface Choice<T> {
  /** Those in which the thing, or the folder for it, is; at least one. */
  readonly there: readonly T[]
  /** How many paths are merged. */
  readonly merged: number
}

/** At least one of `there`. Rejects with `denied`, before anything is done, where the policy allows none. */
export function chosen<T>(policy: string, { there, merged }: Choice<T>): readonly T[] {
  switch (policy) {
    case 'first':
      return there.slice(0, 1)
    case 'deterministic':
      if (there.length > 1) throw refused('path conflict: it is in more than one of the merged paths')
      return there
    case 'deterministic_or_all':
      if (there.length > 1 && there.length < merged) throw refused('it is in some of the merged paths, and not in all')
      return there
    case 'all':
      return there
    case 'all_strict':
      if (there.length < merged) throw refused('it is not in all of the merged paths')
      return there
    default:
      throw refused('changes of this kind are turned off for this storage')
  }
}

/** One of them, each as likely as the others. */
export function anyOf<T>(all: readonly T[]): T {
  const one = all[Math.floor(Math.random() * all.length)]
  if (one === undefined) throw new GatewayError('not_found')
  return one
}

/** One of them, the likelier the more bytes are free there; undefined where none has so many. */
export function byFreeSpace<T>(
  all: readonly { readonly value: T; readonly free: number }[],
  bytes: number,
): T | undefined {
  const fitting = all.filter(({ free }) => free >= bytes && free > 0)
  let at = Math.random() * fitting.reduce((sum, { free }) => sum + free, 0)
  for (const { value, free } of fitting) {
    at -= free
    if (at < 0) return value
  }
  return fitting.at(-1)?.value
}

export function refused(reason: string): GatewayError {
  return new GatewayError('denied', { reason })
}
