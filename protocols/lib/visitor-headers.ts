/** Headers of responses to visitors of shares. */
import type { ServerResponse } from 'node:http'

/** Sets the headers that all responses to visitors have: nothing leads others to a share. */
export function setVisitorHeaders(response: ServerResponse): void {
  response.setHeader('Referrer-Policy', 'no-referrer')
  response.setHeader('X-Robots-Tag', 'noindex')
}

/** The Cache-Control of what visitors get of a share. `code`: that of the share. */
export function visitorCaching(code: string): string {
  return code === '' ? 'private, no-cache' : 'private, no-store'
}
