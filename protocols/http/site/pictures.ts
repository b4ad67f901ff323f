/** URLs of the images in the settings: logo and favicon. */
import type { ProtocolSettings } from '../../../src/gateway/protocol-gateway.js'

/**
 * The first line of the setting `logo`: the logo for a light background. The last line is for a dark one. May be empty.
 */
export function firstLogo(settings: ProtocolSettings): string {
  return settings.get('logo').split('\n', 1)[0]?.trim() ?? ''
}

/** The URL of the favicon. Undefined if the setting is empty or not an http, https or relative URL. */
export function faviconUrl(settings: ProtocolSettings): string | undefined {
  const address = settings.get('favicon').trim()
  if (address === '' || !URL.canParse(address, 'http://localhost')) return undefined
  const { protocol } = new URL(address, 'http://localhost')
  return protocol === 'http:' || protocol === 'https:' ? address : undefined
}
