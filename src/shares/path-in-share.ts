/**
 * Paths by which protocols reach shares: `/@s/ID` and what is below, and their URLs: the page is at that path, and the
 * files are at `/sd/ID` and below.
 */
import { childOf, cleanPath, encodePath, root, segmentsOf, shareFolder, type Path } from '../base/path.js'

/** A path within a share. */
export interface PathInShare {
  /** The id of the share; empty if the path has none. */
  readonly id: string
  readonly path: Path
}

/** The beginnings of the paths of URLs, before the id of the share: for pages, and for files. */
export const sharedPages = `/${shareFolder}/`
export const sharedFiles = '/sd/'

/** The path of the URL of the page of a share. */
export function sharePageUrl(id: string): string {
  return sharedPages + encodeURIComponent(id)
}

/** The path of the URL of a shared file. */
export function sharedFileUrl(id: string, path: Path): string {
  return sharedFiles + encodeURIComponent(id) + encodePath(path)
}

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
