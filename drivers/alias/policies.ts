/** The policies that select which of several folders or copies a change applies to. */
import { GatewayError } from '../../src/contract/errors.js'

interface Choice<T> {
  /** The storages that contain the entry, or its parent folder; at least one. */
  readonly candidates: readonly T[]
  /** Number of merged paths. */
  readonly merged: number
}

/** Returns at least one of `candidates`. Throws `denied` if the policy does not allow the change. */
export function selectByPolicy<T>(policy: string, { candidates, merged }: Choice<T>): readonly T[] {
  switch (policy) {
    case 'first':
      return candidates.slice(0, 1)
    case 'deterministic':
      if (candidates.length > 1) throw denied('path conflict: it exists in more than one of the merged paths')
      return candidates
    case 'deterministic_or_all':
      if (candidates.length > 1 && candidates.length < merged)
        throw denied('it exists in some of the merged paths, but not in all')
      return candidates
    case 'all':
      return candidates
    case 'all_strict':
      if (candidates.length < merged) throw denied('it does not exist in all of the merged paths')
      return candidates
    default:
      throw denied('changes of this kind are disabled for this storage')
  }
}

/** A random element, uniformly distributed. Throws `not_found` if there is none. */
export function pickRandom<T>(all: readonly T[]): T {
  const one = all[Math.floor(Math.random() * all.length)]
  if (one === undefined) throw new GatewayError('not_found')
  return one
}

/** A random element with at least `bytes` free, weighted by free bytes; undefined if there is none. */
export function pickByFreeSpace<T>(
  all: readonly { readonly value: T; readonly free: number }[],
  bytes: number,
): T | undefined {
  const fitting = all.filter(({ free }) => free >= bytes && free > 0)
  let offset = Math.random() * fitting.reduce((sum, { free }) => sum + free, 0)
  for (const { value, free } of fitting) {
    offset -= free
    if (offset < 0) return value
  }
  return fitting.at(-1)?.value
}

export function denied(reason: string): GatewayError {
  return new GatewayError('denied', { reason })
}
