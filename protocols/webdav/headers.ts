/** Request headers of RFC 4918 §10 and the conditions of RFC 9110 §13, parsed before anything else sees them. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Conditions } from '../../src/change.js'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import * as lenient from '../lib/conditions.js'
import { Refusal } from './errors.js'
import { parseEntityTags, parseIf, submittedTokens } from './if-header.js'
import { locate, type Site } from './location.js'

export type Depth = 0 | 1 | 'infinity'

export interface DavHeaders {
  readonly depth: Depth | undefined
  /** `Overwrite: F` was not sent. */
  readonly overwrite: boolean
  /** Seconds a lock shall stand. */
  readonly timeout: number
  /** Of the Lock-Token header, without its brackets. */
  readonly lockToken: string | undefined
  readonly destination: Path | undefined
  readonly conditions: Conditions
  /** Tokens that the If header submits. */
  readonly lockTokens: readonly string[]
}

/** Asked where a client asks for nothing, and the most that the header can say (RFC 4918 §10.7). */
const defaultTimeout = 3600
const longestTimeout = 0xffffffff

/**
 * Rejects with `invalid` for a header that does not follow its grammar, with a 502 refusal for a Destination that is not
 * on this site. `site` is asked only where a header holds an address.
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

function parseConditions(headers: IncomingHttpHeaders, site: () => Site): Conditions {
  const ifText = text(headers, 'if')
  const ifMatch = headers['if-match']
  const ifNoneMatch = headers['if-none-match']
  const unmodified = headers['if-unmodified-since']
  if (ifText === undefined && ifMatch === undefined && ifNoneMatch === undefined && unmodified === undefined) return {}
  // Joplin sends a word without quotes with everything it does, so that no cache answers: it matches nothing.
  const noneMatch = lenient.parseEntityTags(ifNoneMatch)
  // RFC 9110 §13.1.4: ignored beside If-Match, and where it is no valid date.
  const since = unmodified === undefined || ifMatch !== undefined ? NaN : Date.parse(unmodified)
  return {
    if: ifText === undefined ? undefined : parseIf(ifText, (reference) => locate(reference, site())?.path),
    ifMatch: ifMatch === undefined ? undefined : parseEntityTags(ifMatch),
    // RFC 9110 §13.1.2: compared weakly.
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

/** The first of the wishes counts; the core caps it. */
function parseTimeout(value: string | undefined): number {
  if (value === undefined) return defaultTimeout
  const wish = value.split(',', 1)[0]?.trim() ?? ''
  if (/^infinite$/i.test(wish)) return longestTimeout
  const seconds = /^second-(\d{1,12})$/i.exec(wish)?.[1]
  if (seconds === undefined) throw malformed('Timeout')
  return Math.min(Number(seconds), longestTimeout)
}

function parseLockToken(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const token = /^<([^<>\s]+)>$/.exec(value)?.[1]
  if (token === undefined) throw malformed('Lock-Token')
  return token
}

function parseDestination(value: string | undefined, site: () => Site): Path | undefined {
  if (value === undefined) return undefined
  const target = locate(value, site())
  if (target === undefined) throw new Refusal(502, 'the Destination is not on this server')
  return target.path
}

function text(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  return (Array.isArray(value) ? value.join(', ') : value)?.trim()
}

function malformed(header: string): GatewayError {
  return new GatewayError('invalid', { reason: `malformed ${header} header` })
}
