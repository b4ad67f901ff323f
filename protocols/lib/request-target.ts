/** The target of an HTTP request (RFC 9112 §3.2). */
import type { IncomingMessage } from 'node:http'

/**
 * The target in origin form, with one slash for each run of slashes in its path: clients whose base URL ends with a
 * slash send `//dav/…`. Proxies may send the absolute form, whose host is not used. `*` is returned as it is.
 */
export function originForm(target: string): string {
  if (target.startsWith('/') && !target.includes('//')) return target
  const local = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '')
  const end = local.search(/[?#]/)
  const path = end < 0 ? local : local.slice(0, end)
  return (mergeSlashes(path) || '/') + local.slice(path.length)
}

/** The path with one slash for each run of slashes. */
export function mergeSlashes(path: string): string {
  return path.replace(/\/{2,}/g, '/')
}

/** The path of a target in origin form, without its query. */
export function pathOf(target: string): string {
  const query = target.indexOf('?')
  return query < 0 ? target : target.slice(0, query)
}

/** The id of a share, in the URL of its page, of its files, or of its drive. */
const shareId = /(^\/sd\/|\/(?:@|%40)s\/)[^/]+/gi

/**
 * What the log says about a request whose error no operation on the tree has logged: its method, and its target without
 * the query, which may hold a signature, and without the id of a share, which opens it.
 */
export function requestDetails({ method, url }: IncomingMessage): { readonly method?: string; readonly url?: string } {
  return {
    ...(method !== undefined && { method }),
    ...(url !== undefined && { url: pathOf(url).replace(shareId, '$1…') }),
  }
}
