/** The option `paths`: which paths of the tree are shown under which names. */
import { GatewayError } from '../../src/errors.js'
import { checkName, cleanPath, nameOf, type Path } from '../../src/path.js'

/**
 * Paths by name, both in the order in which they were written. A line is a path, or a name, a colon and a path; without a
 * name the path is shown by its last segment. Rejects with `invalid` where there is no path, or a name cannot be one.
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
  if (named.size === 0) throw new GatewayError('invalid', { reason: 'no path is given' })
  if (named.size > 1 && named.has(''))
    throw new GatewayError('invalid', { reason: 'the root needs a name beside others' })
  return named
}
