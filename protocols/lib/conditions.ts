/** Conditional requests (RFC 9110 §13): parses their headers and evaluates them for GET and HEAD. */
import type { IncomingHttpHeaders } from 'node:http'

/**
 * Parses If-Match or If-None-Match leniently: `*`, or the entity tags with their quotes and `W/`. Returns undefined if
 * the header is absent, and an empty list, which matches nothing, if it contains no valid tag.
 */
export function parseEntityTags(header: string | undefined): '*' | readonly string[] | undefined {
  if (header === undefined) return undefined
  if (header.trim() === '*') return '*'
  return header.match(/(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g) ?? []
}

/** Parses an HTTP date in any of the three forms of RFC 9110 §5.6.7. Returns undefined for anything else. */
function parseHttpDate(text: string | undefined): Date | undefined {
  if (text === undefined || !/^[A-Z][a-z]{2,8},? [\dA-Za-z :-]+$/.test(text)) return undefined
  const isAsctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/.test(text)
  if (!isAsctime && !text.endsWith(' GMT')) return undefined
  const time = Date.parse(isAsctime ? `${text} GMT` : text)
  return Number.isNaN(time) ? undefined : new Date(time)
}

/** Validators of the selected representation (RFC 9110 §8.8). */
export interface Validators {
  /** The strong entity tag, with its quotes. */
  readonly etag: string
  readonly modified: Date
}

/** Evaluates the preconditions of a GET or HEAD of an existing file (RFC 9110 §13.2.2). Returns the status to send. */
export function evaluateConditions(headers: IncomingHttpHeaders, state: Validators): 200 | 304 | 412 {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers
  const { 'if-unmodified-since': ifUnmodified, 'if-modified-since': ifModified } = headers
  if (ifMatch !== undefined) {
    const tags = parseEntityTags(ifMatch) ?? []
    if (tags !== '*' && !tags.includes(state.etag)) return 412
  } else if (ifUnmodified !== undefined) {
    const date = parseHttpDate(ifUnmodified)
    if (date !== undefined && seconds(state.modified) > seconds(date)) return 412
  }
  if (ifNoneMatch !== undefined) {
    const tags = parseEntityTags(ifNoneMatch) ?? []
    if (tags === '*' || tags.some((tag) => tag.replace(/^W\//, '') === state.etag)) return 304 // weak comparison
  } else if (ifModified !== undefined) {
    const date = parseHttpDate(ifModified)
    if (date !== undefined && seconds(state.modified) <= seconds(date)) return 304
  }
  return 200
}

/** Evaluates If-Range (RFC 9110 §13.1.5): true if Range applies, for an equal strong tag or an equal time. */
export function rangeApplies(ifRange: string | undefined, state: Validators): boolean {
  if (ifRange === undefined) return true
  if (ifRange.includes('"')) return ifRange.trim() === state.etag
  const date = parseHttpDate(ifRange)
  return date !== undefined && seconds(state.modified) === seconds(date)
}

/** Seconds since the epoch, the resolution of HTTP dates. */
function seconds(date: Date): number {
  return Math.floor(date.getTime() / 1000)
}
