/** Where a request target, a Destination or the tag of an If list lies in the tree, and the way back to an href. */
import { GatewayError } from '../../src/errors.js'
import { cleanPath, segmentsOf, type Path } from '../../src/path.js'

/** How clients address this door. */
export interface Site {
  /** The path of the tree's root, without a trailing slash: `/dav`, `/files/dav`. */
  readonly prefix: string
  /** Hosts that are us, as `normalHost` spells them. */
  readonly hosts: ReadonlySet<string>
}

export interface Target {
  readonly path: Path
  /** It was written with a slash at its end, as the names of folders are. */
  readonly slash: boolean
}

/**
 * The target of an absolute URI or an absolute path; undefined where it is on another host or outside of the
 * prefix. Rejects with `invalid` where it is neither, holds a query or fragment, a segment that climbs, or an
 * escape that is no UTF-8.
 */
export function locate(reference: string, site: Site): Target | undefined {
  const parts = /^(?:([a-z][a-z0-9+.-]*):\/\/(?:[^/?#@]*@)?([^/?#]*))?(\/[^?#]*)?$/i.exec(reference)
  if (!parts) throw malformed(reference)
  const [, scheme, host, path] = parts
  if (path === undefined && host === undefined) throw malformed(reference)
  if (host !== undefined && !site.hosts.has(normalHost(host, scheme))) return undefined
  return locatePath(path ?? '/', site.prefix)
}

/** The same for the path of a request target, with its escapes, without query. */
export function locatePath(escaped: string, prefix: string): Target | undefined {
  const decoded = decodePath(escaped)
  if (decoded !== prefix && !decoded.startsWith(`${prefix}/`)) return undefined
  const below = decoded.slice(prefix.length)
  return { path: cleanPath(below), slash: below === '' || below.endsWith('/') }
}

/**
 * A host and port to compare by: lower case, without the default port of either scheme, because TLS may end at a
 * proxy and the two sides then disagree about the scheme.
 */
export function normalHost(host: string, scheme?: string): string {
  const lower = host.toLowerCase()
  const port = /:(\d+)$/.exec(lower)?.[1]
  const isDefault = port === '80' ? scheme !== 'https' : port === '443' && scheme !== 'http'
  return isDefault ? lower.slice(0, -1 - (port?.length ?? 0)) : lower
}

/** `path` as an href below `prefix`: percent-encoded, with a slash at the end for a folder. */
export function hrefOf(prefix: string, path: Path, folder: boolean): string {
  const encoded = segmentsOf(path).map(encodeSegment).join('/')
  return `${prefix}/${encoded}${folder && encoded !== '' ? '/' : ''}`
}

/** One name as a segment of an href (RFC 3986 §3.3). Needs no XML escaping. */
export function encodeSegment(name: string): string {
  return /^[\w.~-]*$/.test(name) ? name : encodeURIComponent(name).replaceAll("'", '%27')
}

function decodePath(escaped: string): string {
  let text = escaped
  // Node hands over raw bytes above 127 as Latin-1; clients that do not escape send UTF-8.
  if (/[\u0080-\u00ff]/.test(text)) {
    text = Buffer.from(text, 'latin1').toString('utf8')
    if (text.includes('\ufffd')) throw malformed(escaped)
  }
  // RFC 3986 has no such character, and it must not be taken for a separator.
  if (text.includes('\\')) throw malformed(escaped)
  if (!text.includes('%')) return climbless(text)
  // An escaped separator would change what is a name and what is a folder.
  if (/%2f|%5c|%00/i.test(text)) throw malformed(escaped)
  try {
    return climbless(decodeURIComponent(text))
  } catch (error) {
    if (error instanceof URIError) throw malformed(escaped)
    throw error
  }
}

/** cleanPath refuses a `..` below the prefix; here one that would climb out of it. */
function climbless(text: string): string {
  if (/(^|\/)\.\.(\/|$)/.test(text)) throw malformed(text)
  return text
}

function malformed(reference: string): GatewayError {
  return new GatewayError('invalid', { reason: `not a valid address: ${reference.slice(0, 200)}` })
}
