/** Maps request targets, Destination headers and resource tags to paths of the tree, and paths to hrefs. */
import { GatewayError } from '../../src/base/errors.js'
import { cleanPath, segmentsOf, type Path } from '../../src/base/path.js'
import { decodeLatin1, percentDecoded } from '../../src/base/utf8.js'
import { mergeSlashes } from '../lib/request-target.js'

/** The URLs by which clients reach this protocol. */
export interface Site {
  /** The path of the tree's root, without a trailing slash: `/dav`, `/files/dav`. */
  readonly prefix: string
  /** Hosts of this server, normalized. */
  readonly hosts: ReadonlySet<string>
}

export interface RequestTarget {
  readonly path: Path
  /** Whether the target ended with a slash, as for a folder. */
  readonly slash: boolean
}

/**
 * The target of an absolute URI or an absolute path. Returns undefined if it is on another host or outside of the
 * prefix. Throws `invalid` if it is malformed, or contains a query, a fragment, a `..` segment or an escape that is not
 * UTF-8.
 */
export function locate(reference: string, site: Site): RequestTarget | undefined {
  const parts = /^(?:([a-z][a-z0-9+.-]*):\/\/(?:[^/?#@]*@)?([^/?#]*))?(\/[^?#]*)?$/i.exec(reference)
  if (!parts) throw malformed(reference)
  const [, scheme, host, path] = parts
  if (path === undefined && host === undefined) throw malformed(reference)
  if (host !== undefined && !site.hosts.has(normalizeHost(host, scheme))) return undefined
  return locatePath(mergeSlashes(path ?? '/'), site.prefix)
}

/** Like `locate`, for the percent-encoded path of a request target, without its query. */
export function locatePath(escaped: string, prefix: string): RequestTarget | undefined {
  const decoded = decodePath(escaped)
  if (decoded !== prefix && !decoded.startsWith(`${prefix}/`)) return undefined
  const below = decoded.slice(prefix.length)
  return { path: cleanPath(below), slash: below === '' || below.endsWith('/') }
}

/**
 * Normalizes host and port for comparison: lower case, without a default port. If `scheme` is undefined, the ports of
 * both schemes are removed, because a proxy may terminate TLS.
 */
export function normalizeHost(host: string, scheme?: string): string {
  const lower = host.toLowerCase()
  const port = /:(\d+)$/.exec(lower)?.[1]
  const isDefault = port === '80' ? scheme !== 'https' : port === '443' && scheme !== 'http'
  return isDefault ? lower.slice(0, -1 - (port?.length ?? 0)) : lower
}

/** The href of `path` below `prefix`: percent-encoded, with a trailing slash for a folder. */
export function hrefOf(prefix: string, path: Path, folder: boolean): string {
  const encoded = segmentsOf(path).map(encodeSegment).join('/')
  return `${prefix}/${encoded}${folder && encoded !== '' ? '/' : ''}`
}

/** Encodes a name as a path segment (RFC 3986 §3.3). The result requires no XML escaping. */
export function encodeSegment(name: string): string {
  return /^[\w.~-]*$/.test(name) ? name : encodeURIComponent(name).replaceAll("'", '%27')
}

function decodePath(escaped: string): string {
  // Clients that do not percent-encode send UTF-8.
  const text = decodeLatin1(escaped)
  if (text === undefined) throw malformed(escaped)
  // RFC 3986 does not allow a backslash, and it must not be treated as a separator.
  if (text.includes('\\')) throw malformed(escaped)
  if (!text.includes('%')) return assertNoParentSegment(text)
  // A decoded separator would change the path's segments.
  if (/%2f|%5c|%00/i.test(text)) throw malformed(escaped)
  const decoded = percentDecoded(text)
  if (decoded === undefined) throw malformed(escaped)
  return assertNoParentSegment(decoded)
}

/**
 * Throws `invalid` for a `..` segment. `cleanPath` rejects those below the prefix, but not one that leaves the prefix.
 */
function assertNoParentSegment(text: string): string {
  if (text.includes('..') && /(^|\/)\.\.(\/|$)/.test(text)) throw malformed(text)
  return text
}

function malformed(reference: string): GatewayError {
  return new GatewayError('invalid', { reason: `not a valid URL or path: ${reference.slice(0, 200)}` })
}
