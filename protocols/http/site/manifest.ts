/** The Web Application Manifest (W3C), with which browsers install the site as an app. */
import type { Settings } from '../../../src/settings/settings.js'
import { firstLogo } from './pictures.js'

export const manifestHeaders = {
  'Content-Type': 'application/manifest+json; charset=utf-8',
  'Cache-Control': 'public, max-age=3600',
}

/** `site` is the path of the site, without a trailing slash. */
export function manifest(settings: Settings, site: string): object {
  const start = site || '/'
  const logo = firstLogo(settings)
  return {
    name: settings.get('site_title'),
    display: 'standalone',
    scope: start,
    start_url: start,
    icons: logo === '' ? [] : [{ src: logo, sizes: '512x512', type: 'image/png' }],
  }
}
