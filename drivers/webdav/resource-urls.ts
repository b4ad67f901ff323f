/** Converts paths to URLs of the server, and `href` values in responses back to names. */
import { GatewayError } from '../../src/base/errors.js'
import { foldCase, segmentsOf, trimTrailing, type Path } from '../../src/base/path.js'

export class ResourceUrls {
  #address: URL
  #root: readonly string[]
  /**
   * Decoded path prefixes of the root: as requested, and as the server reports it, which differs behind a rewriting
   * proxy.
   */
  #prefixes: readonly (readonly string[])[]

  /** Throws `invalid` if `rootFolder` contains `..`. */
  constructor(address: URL, rootFolder: string) {
    this.#address = address
    this.#root = rootFolder.split('/').filter((segment) => segment !== '' && segment !== '.')
    if (this.#root.includes('..')) throw new GatewayError('invalid', { reason: 'root_folder_path must not contain ..' })
    this.#prefixes = [[...decodedSegments(address.pathname), ...this.#root]]
  }

  /**
   * Records the response about the root. `url`: its URL after redirects, which is needed because `Destination` headers
   * are not redirected. `href`: the root as the server reports it.
   */
  learnRoot(url: URL, href: string): void {
    this.#address = url
    this.#root = []
    this.#prefixes = [decodedSegments(url.pathname), ...(isAbsolute(href) ? [pathSegments(href)] : [])]
  }

  /** The URL of a path. That of a folder ends with a slash. */
  url(path: Path, kind: 'file' | 'folder'): URL {
    const url = new URL(this.#address)
    const names = [...this.#root, ...segmentsOf(path)].map(encodeURIComponent)
    const all = [trimTrailing(url.pathname, '/'), ...names].join('/')
    url.pathname = kind === 'folder' ? `${all}/` : all === '' ? '/' : all
    return url
  }

  /**
   * Classifies an `href` in a response about `path`: the resource itself, a member with its name, or neither. The href
   * may be absolute or relative, differ in case, or contain extra slashes. The name is untrusted.
   */
  classifyHref(path: Path, href: string): { readonly isItself: boolean; readonly member?: string } {
    const segments = pathSegments(href)
    const bases = this.#prefixes.map((prefix) => [...prefix, ...segmentsOf(path)])
    const base = bases.find((each) => startsWith(segments, each))
    if (isAbsolute(href) && !base) return { isItself: false }
    const below = isAbsolute(href) ? segments.slice(base?.length) : segments
    const [member] = below
    return below.length === 1 && member !== undefined ? { isItself: false, member } : { isItself: below.length === 0 }
  }
}

function isAbsolute(href: string): boolean {
  return /^(?:[a-z][a-z\d+.-]*:\/)?\//i.test(href)
}

/** Decoded segments of the path in an href, absolute or relative. An unescaped `?` or `#` is part of a name. */
function pathSegments(href: string): string[] {
  return decodedSegments(href.replace(/^[a-z][a-z\d+.-]*:\/\/[^/]*/i, ''))
}

function startsWith(segments: readonly string[], start: readonly string[]): boolean {
  return (
    start.every((segment, index) => segment === segments[index]) ||
    start.every((segment, index) => foldCase(segment) === foldCase(segments[index] ?? ''))
  )
}

/** Splits before decoding, so that an escaped slash is part of a name. */
function decodedSegments(path: string): string[] {
  return path
    .split('/')
    .filter((segment) => segment !== '')
    .map(decoded)
}

/** Percent-decodes. Malformed escapes are left unchanged; invalid UTF-8 becomes U+FFFD. */
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
