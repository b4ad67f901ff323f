/** What the log says about a request whose error no operation on the tree has logged. */
import type { IncomingMessage } from 'node:http'

/** Its method, and its URL without the query, which may hold a signature. */
export function requestDetails({ method, url }: IncomingMessage): { readonly method?: string; readonly url?: string } {
  return { ...(method !== undefined && { method }), ...(url !== undefined && { url: url.split('?', 1)[0] ?? '' }) }
}
