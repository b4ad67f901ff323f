/** Where things are on the server: paths as URLs, and back from what servers write into a `href`. */
import { GatewayError } from '../../src/errors.js'
import { folded, segmentsOf, type Path, withoutTrailing } from '../../src/path.js'

export class Locations {
  #address: URL
  #root: readonly string[]
  /** What the root is called, decoded: by us, and by a server that stands behind another one which rewrites paths. */
  #prefixes: readonly (readonly string[])[]

  /** Rejects with `invalid` where one of them cannot be. */
  constructor(address: URL, rootFolder: string) {
    this.#address = address
    this.#root = rootFolder.split('/').filter((segment) => segment !== '' && segment !== '.')
    if (this.#root.includes('..')) throw new GatewayError('invalid', { reason: 'root_folder_path cannot hold ..' })
    this.#prefixes = [[...decodedSegments(address.pathname), ...this.#root]]
  }

  /**
   * Takes the answer about the root alone: where it came from in the end, for destinations of moves are not redirected as requests are;
   * and what the server calls it.
   */
  learnRoot(url: URL, href: string): void {
    this.#address = url
    this.#root = []
    this.#prefixes = [decodedSegments(url.pathname), ...(isAbsolute(href) ? [pathSegments(href)] : [])]
  }

  /** That of a folder ends with a slash. */
  url(path: Path, kind: 'file' | 'folder'): URL {
    const url = new URL(this.#address)
    const names = [...this.#root, ...segmentsOf(path)].map(encodeURIComponent)
    const all = [withoutTrailing(url.pathname, '/'), ...names].join('/')
    url.pathname = kind === 'folder' ? `${all}/` : all === '' ? '/' : all
    return url
  }

  /**
   * What a href in the answer about `path` is: the thing itself, a member of it by its name, or neither. Absolute or relative, in
   * another case, or with a slash too many. The name is as hostile as the server.
   */
  relationTo(path: Path, href: string): { readonly isItself: boolean; readonly member?: string } {
    const told = pathSegments(href)
    const asked = this.#prefixes.map((prefix) => [...prefix, ...segmentsOf(path)])
    const start = asked.find((segments) => startsWith(told, segments))
    if (isAbsolute(href) && !start) return { isItself: false }
    const below = isAbsolute(href) ? told.slice(start?.length) : told
    const [member] = below
    return below.length === 1 && member !== undefined ? { isItself: false, member } : { isItself: below.length === 0 }
  }
}

function isAbsolute(href: string): boolean {
  return /^(?:[a-z][a-z\d+.-]*:\/)?\//i.test(href)
}

/** Of the path in an href, absolute or relative. A `?` or `#` that should have been escaped is part of a name. */
function pathSegments(href: string): string[] {
  return decodedSegments(href.replace(/^[a-z][a-z\d+.-]*:\/\/[^/]*/i, ''))
}

function startsWith(segments: readonly string[], start: readonly string[]): boolean {
  return (
    start.every((segment, index) => segment === segments[index]) ||
    start.every((segment, index) => folded(segment) === folded(segments[index] ?? ''))
  )
}

/** Each by itself: an escaped slash is part of a name, and makes no segment. */
function decodedSegments(path: string): string[] {
  return path
    .split('/')
    .filter((segment) => segment !== '')
    .map(decoded)
}

/** Escapes that are none stand for themselves; bytes that are no UTF-8 become U+FFFD. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    const pieces = segment.match(/%[\da-f]{2}|%|[^%]+/gi) ?? []
    return Buffer.concat(
      pieces.map((piece) => (/^%[\da-f]{2}$/i.test(piece) ? Buffer.from(piece.slice(1), 'hex') : Buffer.from(piece))),
    ).toString()
  }
}
