/** The addresses of pictures that an admin gives to the site. */
import type { Settings } from '../../../src/settings.js'

/** Of the setting's lines the first is for a light background, the last for a dark one. Empty where there is none. */
export function firstLogo(settings: Settings): string {
  return settings.get('logo').split('\n', 1)[0]?.trim() ?? ''
}

/** Where browsers find the icon; undefined where there is none, or none that a redirect can lead to. */
export function faviconAddress(settings: Settings): string | undefined {
  const address = settings.get('favicon').trim()
  if (address === '' || !URL.canParse(address, 'http://localhost')) return undefined
  const { protocol } = new URL(address, 'http://localhost')
  return protocol === 'http:' || protocol === 'https:' ? address : undefined
}
