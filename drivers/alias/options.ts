/** What the options of an Alias storage mean: the paths by their names, and the policies of changes. */
import { GatewayError } from '../../src/base/errors.js'
import { checkName, cleanPath, nameOf, type Path } from '../../src/base/path.js'

/**
 * Paths by name, in the order of the text. Each line is `path` or `name:path`; the default name is the last segment of
 * the path. Throws `invalid` if there is no path or a name is invalid.
 */
export function namedPaths(text: string): ReadonlyMap<string, readonly Path[]> {
  const named = new Map<string, Path[]>()
  for (const line of text.split('\n').map((each) => each.trim())) {
    if (line === '') continue
    const colon = line.indexOf(':')
    const before = line.slice(0, Math.max(colon, 0)).trim()
    const isNamed = colon > 0 && !before.includes('/')
    const path = cleanPath(isNamed ? line.slice(colon + 1).trim() : line)
    const name = isNamed ? checkName(before) : nameOf(path)
    const paths = named.get(name)
    if (paths) paths.push(path)
    else named.set(name, [path])
  }
  if (named.size === 0) throw new GatewayError('invalid', { reason: 'paths must contain at least one path' })
  if (named.size > 1 && named.has(''))
    throw new GatewayError('invalid', { reason: 'the root path needs a name if there are other paths' })
  return named
}

interface Choice<T> {
  /** The storages that contain the entry, or its parent folder; at least one. */
  readonly candidates: readonly T[]
  /** Number of merged paths. */
  readonly merged: number
}

/**
 * Selects which of several folders or copies a change applies to: at least one of `candidates`. Throws `denied` if the
 * policy does not allow the change.
 */
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
