/** Calls from pages of other origins: the Fetch standard's CORS protocol. Credentials travel in a header, never as cookies. */
import type { IncomingMessage, ServerResponse } from 'node:http'

/** Browsers do not count `*` as covering Authorization: what a preflight does not name itself is named by us. */
const knownHeaders = [
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
const secondsToKeep = '43200'

/**
 * Adds the headers of an answer to a page of one of the origins (`*`: of any); answers a preflight itself and says so with
 * true. `preflight` tells apart what else OPTIONS may mean to the door: 'any' takes each one that comes from a page.
 */
export function answerCors(
  request: IncomingMessage,
  response: ServerResponse,
  origins: readonly string[],
  preflight: 'any' | 'declared',
): boolean {
  const { origin } = request.headers
  const isOpen = origins.includes('*')
  // A cache must not give the answer to one origin to another.
  if (!isOpen) response.setHeader('Vary', 'Origin')
  if (origin === undefined) return false
  if (isOpen || origins.includes(origin)) {
    response.setHeader('Access-Control-Allow-Origin', isOpen ? '*' : origin)
    response.setHeader('Access-Control-Expose-Headers', '*')
  }
  const { 'access-control-request-method': method, 'access-control-request-headers': asked } = request.headers
  if (request.method !== 'OPTIONS' || (preflight === 'declared' && method === undefined)) return false
  response.setHeader('Access-Control-Allow-Methods', '*')
  response.setHeader('Access-Control-Allow-Headers', isTokenList(asked) ? asked : knownHeaders)
  response.setHeader('Access-Control-Max-Age', secondsToKeep)
  response.writeHead(204).end()
  return true
}

function isTokenList(text: string | undefined): text is string {
  return text !== undefined && /^[\w!#$%&'*+.^`|~-]+( *, *[\w!#$%&'*+.^`|~-]+)*$/.test(text)
}
