/** The header `Retry-After`. */
import type { IncomingHttpHeaders } from 'node:http'

/** Parses `Retry-After` (RFC 9110 §10.2.3). `now`: milliseconds since 1970. Returns seconds; undefined without one. */
export function retryAfter({ 'retry-after': text = '' }: IncomingHttpHeaders, now = Date.now()): number | undefined {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  const date = Date.parse(text)
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - now) / 1000))
}
