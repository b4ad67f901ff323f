/** The URLs of downloads, whose requests bypass the router. */
import { GatewayError } from '../../../src/base/errors.js'
import { percentDecoded } from '../../../src/base/utf8.js'

/**
 * The path of the URL from `start`, percent-decoded and with `/` in place of `\`, and its query. Throws `invalid`.
 */
export function splitDownloadUrl(url: string, start: number): { readonly rest: string; readonly query: string } {
  const queryStart = url.indexOf('?')
  const encoded = url.slice(start, queryStart < 0 ? undefined : queryStart)
  const rest = percentDecoded(encoded)?.replaceAll('\\', '/')
  if (rest === undefined) {
    throw new GatewayError('invalid', { reason: 'the URL holds a bad percent-escape, or is not UTF-8' })
  }
  return { rest, query: queryStart < 0 ? '' : url.slice(queryStart + 1) }
}
