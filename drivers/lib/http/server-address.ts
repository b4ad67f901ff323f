/** The address of a server as an admin types it. */
import { GatewayError } from '../../../src/base/errors.js'

/**
 * Parses an address with or without a scheme, which is then https. Throws `invalid`, with the name of the field, if it
 * is not an HTTP URL or contains credentials, a query or a fragment.
 */
export function parseServerAddress(text: string, field: string): URL {
  const typed = text.trim()
  const address = typed.includes('://') ? typed : `https://${typed}`
  if (URL.canParse(address)) {
    const url = new URL(address)
    const isPlain = url.username === '' && url.password === '' && url.search === '' && url.hash === ''
    if (['http:', 'https:'].includes(url.protocol) && isPlain) return url
  }
  throw new GatewayError('invalid', {
    reason: `${field} must be an http or https URL without user name and password`,
  })
}
