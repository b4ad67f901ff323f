/** Paths by which protocols reach shares: `/@s/ID` and what is below. */
import { childOf, cleanPath, root, segmentsOf, type Path } from '../base/path.js'

/** A path within a share. */
export interface PathInShare {
  /** The id of the share; empty if the path has none. */
  readonly id: string
  readonly path: Path
}

/** `@s` and the id of a share begin a path that is not of the tree. */
export const shareFolder = '@s'

/**
 * The share and the path within it for `/@s/ID` and paths below it; undefined for a path of the tree. Throws as
 * `cleanPath`.
 */
export function pathInShare(text: string): PathInShare | undefined {
  if (!text.includes(shareFolder)) return undefined
  const [first, id = '', ...rest] = segmentsOf(cleanPath(text))
  return first === shareFolder ? { id, path: rest.reduce(childOf, root) } : undefined
}

/** Whether a path to be made or written is one below a share. The names above that are those of the tree. */
export function isBelowShare(text: string): boolean {
  const found = pathInShare(text)
  return found !== undefined && found.path !== root
}
