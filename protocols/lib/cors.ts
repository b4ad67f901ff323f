/** CORS (Fetch standard) for requests from other origins. Credentials are sent in a header, never as cookies. */
import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * Allowed headers if a preflight names none. In Access-Control-Allow-Headers, `*` does not cover Authorization (Fetch
 * standard: CORS non-wildcard request-header name).
 */
const defaultAllowedHeaders = [
  'Authorization',
  'Content-Type',
  'File-Path',
  'As-Task',
  'Password',
  'Overwrite',
  'Last-Modified',
  'Range',
  'X-File-Md5',
  'X-File-Sha1',
  'X-File-Sha256',
  'X-File-Size',
  'X-Upload-Id',
  'X-Chunk-Index',
  'X-Chunk-Size',
].join(', ')
const preflightMaxAge = '43200'

/**
 * Adds CORS headers for a request from one of `origins` (`*`: any). Answers a preflight request and then returns true.
 * `preflight`: 'any' treats each OPTIONS request with an Origin as a preflight; 'declared' requires
 * Access-Control-Request-Method, because OPTIONS has another meaning in the protocol.
 */
export function handleCors(
  request: IncomingMessage,
  response: ServerResponse,
  origins: readonly string[],
  preflight: 'any' | 'declared',
): boolean {
  const { origin } = request.headers
  const isOpen = origins.includes('*')
  // A cache must not serve the response for one origin to another.
  if (!isOpen) response.setHeader('Vary', 'Origin')
  if (origin === undefined) return false
  if (isOpen || origins.includes(origin)) {
    response.setHeader('Access-Control-Allow-Origin', isOpen ? '*' : origin)
    response.setHeader('Access-Control-Expose-Headers', '*')
  }
  const { 'access-control-request-method': method, 'access-control-request-headers': requested } = request.headers
  if (request.method !== 'OPTIONS' || (preflight === 'declared' && method === undefined)) return false
  response.setHeader('Access-Control-Allow-Methods', '*')
  response.setHeader('Access-Control-Allow-Headers', isTokenList(requested) ? requested : defaultAllowedHeaders)
  response.setHeader('Access-Control-Max-Age', preflightMaxAge)
  response.writeHead(204).end()
  return true
}

function isTokenList(text: string | undefined): text is string {
  return text !== undefined && /^[\w!#$%&'*+.^`|~-]+( *, *[\w!#$%&'*+.^`|~-]+)*$/.test(text)
}
