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
].join(', ')
const secondsToKeep = '43200'

/** Adds the headers of an answer to a page of another origin; answers a preflight itself and says so with true. */
export function answerCors(request: IncomingMessage, response: ServerResponse, origins: readonly string[]): boolean {
  const { origin } = request.headers
  if (origin === undefined) return false
  if (origins.includes('*')) {
    response.setHeader('Access-Control-Allow-Origin', '*')
  } else {
    response.setHeader('Vary', 'Origin')
    if (origins.includes(origin)) response.setHeader('Access-Control-Allow-Origin', origin)
  }
  if (request.method !== 'OPTIONS') return false
  response.setHeader('Access-Control-Allow-Methods', '*')
  const asked = request.headers['access-control-request-headers']
  response.setHeader('Access-Control-Allow-Headers', isTokenList(asked) ? asked : knownHeaders)
  response.setHeader('Access-Control-Max-Age', secondsToKeep)
  response.writeHead(204).end()
  return true
}

function isTokenList(text: string | undefined): text is string {
  return text !== undefined && /^[\w!#$%&'*+.^`|~-]+( *, *[\w!#$%&'*+.^`|~-]+)*$/.test(text)
}
