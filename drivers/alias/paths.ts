/** Parses the option `paths`: names, and the paths of the tree that each of them shows. */
import { GatewayError } from '../../src/contract/errors.js'
import { checkName, cleanPath, nameOf, type Path } from '../../src/contract/path.js'

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
