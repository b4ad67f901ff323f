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

/** Whether the URL is that of a picture on this server, or contains the picture. False for an empty one. */
export function isOwnPicture(address: string): boolean {
  if (/^data:image\//i.test(address)) return true
  const server = 'http://localhost'
  return address !== '' && URL.canParse(address, server) && new URL(address, server).origin === server
}
