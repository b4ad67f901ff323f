/** Parses the request headers of RFC 4918 §10 and the preconditions of RFC 9110 §13. */
import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import type { Preconditions } from '../../src/tree/preconditions.js'
import * as lenient from '../lib/conditions.js'
import { WebdavError } from './errors.js'
import { parseEntityTags, parseIf, submittedTokens } from './if-header.js'
import { locate, type Site } from './location.js'

export type Depth = 0 | 1 | 'infinity'

export interface DavHeaders {
  readonly depth: Depth | undefined
  /** False if the request has `Overwrite: F`. */
  readonly overwrite: boolean
  /** Requested lock timeout in seconds; the default if none can be read. */
  readonly timeout: number
  /** Value of the Lock-Token header, without the brackets. */
  readonly lockToken: string | undefined
  readonly destination: Path | undefined
  readonly conditions: Preconditions
  /** Lock tokens that the If header submits. */
  readonly lockTokens: readonly string[]
}

/** Lock timeouts in seconds: the default, and the maximum of the header (RFC 4918 §10.7). */
const defaultTimeout = 3600
const maxTimeout = 0xffffffff

/**
 * Parses the headers of a request. Throws `invalid` for a malformed header, and a 502 for a Destination that is not on
 * this site. `site` is called only if a header contains a URL.
 */
export function parseHeaders(headers: IncomingHttpHeaders, site: () => Site): DavHeaders {
  const conditions = parseConditions(headers, site)
  return {
    depth: parseDepth(text(headers, 'depth')),
    overwrite: parseOverwrite(text(headers, 'overwrite')),
    timeout: parseTimeout(text(headers, 'timeout')),
    lockToken: parseLockToken(text(headers, 'lock-token')),
    destination: parseDestination(text(headers, 'destination'), site),
    conditions,
    lockTokens: conditions.if === undefined ? [] : submittedTokens(conditions.if),
  }
}

function parseConditions(headers: IncomingHttpHeaders, site: () => Site): Preconditions {
  const ifText = text(headers, 'if')
  const ifMatch = headers['if-match']
  const ifNoneMatch = headers['if-none-match']
  const unmodified = headers['if-unmodified-since']
  if (ifText === undefined && ifMatch === undefined && ifNoneMatch === undefined && unmodified === undefined) return {}
  // Joplin sends an unquoted If-None-Match with every request, to bypass caches
  // (Joplin: packages/lib/WebDavApi.js). It must match nothing.
  const noneMatch = lenient.parseEntityTags(ifNoneMatch)
  // RFC 9110 §13.1.4: ignored if If-Match is present, or the date is invalid.
  const since = unmodified === undefined || ifMatch !== undefined ? NaN : Date.parse(unmodified)
  return {
    if: ifText === undefined ? undefined : parseIf(ifText, (reference) => locate(reference, site())?.path),
    ifMatch: ifMatch === undefined ? undefined : parseEntityTags(ifMatch),
    // RFC 9110 §13.1.2: weak comparison.
    ifNoneMatch: typeof noneMatch === 'object' ? noneMatch.map((tag) => tag.replace(/^W\//, '')) : noneMatch,
    ifUnmodifiedSince: Number.isNaN(since) ? undefined : new Date(since),
  }
}

function parseDepth(value: string | undefined): Depth | undefined {
  if (value === undefined) return undefined
  if (value === '0') return 0
  if (value === '1') return 1
  if (value.toLowerCase() === 'infinity') return 'infinity'
  throw malformed('Depth')
}

function parseOverwrite(value: string | undefined): boolean {
  if (value === undefined || value === 'T' || value === 't') return true
  if (value === 'F' || value === 'f') return false
  throw malformed('Overwrite')
}

/** Uses the first of the requested timeouts that can be read, as Apache does. The tree limits it. */
function parseTimeout(value: string | undefined): number {
  if (value === undefined) return defaultTimeout
  for (const each of value.split(',')) {
    const timeout = each.trim()
    if (/^infinite$/i.test(timeout)) return maxTimeout
    const seconds = /^second-(\d+)$/i.exec(timeout)?.[1]
    if (seconds !== undefined) return Math.min(Number(seconds), maxTimeout)
  }
  return defaultTimeout
}

/** Older Windows clients omit the brackets, which sabre/dav accepts. */
function parseLockToken(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const [, bracketed, token = bracketed] = /^(?:<([^<>\s]+)>|([^<>\s]+))$/.exec(value) ?? []
  if (token === undefined) throw malformed('Lock-Token')
  return token
}

function parseDestination(value: string | undefined, site: () => Site): Path | undefined {
  if (value === undefined) return undefined
  const target = locate(value, site())
  if (target === undefined) throw new WebdavError('foreign_destination')
  return target.path
}

function text(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  return (Array.isArray(value) ? value.join(', ') : value)?.trim()
}

function malformed(header: string): GatewayError {
  return new GatewayError('invalid', { reason: `malformed ${header} header` })
}
