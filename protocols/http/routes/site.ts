/** Resources that browsers, crawlers and monitors request from any site. */
import type { ProtocolSettings } from '../../../src/gateway/protocol-gateway.js'
import { sitePath } from '../../lib/client.js'
import { endpoint, type Endpoint } from '../api/endpoint.js'
import { markUrl } from '../site/mark.js'
import { faviconUrl, firstLogo } from '../site/pictures.js'

const types = ['text/plain']

const manifestHeaders = {
  'Content-Type': 'application/manifest+json; charset=utf-8',
  'Cache-Control': 'public, max-age=3600',
}

/**
 * The Web Application Manifest (W3C), with which browsers install the site as an app. `site` is the path of the site,
 * without a trailing slash.
 */
function manifest(settings: ProtocolSettings, site: string): object {
  const start = site || '/'
  const logo = firstLogo(settings)
  return {
    name: settings.get('site_title'),
    display: 'standalone',
    scope: start,
    start_url: start,
    icons: [
      logo === ''
        ? { src: markUrl, sizes: 'any', type: 'image/svg+xml' }
        : { src: logo, sizes: '512x512', type: 'image/png' },
    ],
  }
}

function manifestEndpoint(path: `/${string}`, summary: string): Endpoint {
  return endpoint({
    method: 'get',
    path,
    tag: 'Site',
    summary,
    access: 'anybody',
    plain: [
      {
        status: 200,
        description: 'A Web Application Manifest, generated from the settings `site_title` and `logo`.',
        types: ['application/manifest+json'],
      },
    ],
    answer({ context, api: { gateway } }) {
      context.set(manifestHeaders)
      context.body = JSON.stringify(manifest(gateway.settings, sitePath(gateway.config.site_url)))
    },
  })
}

export const siteEndpoints = [
  endpoint({
    method: 'any',
    path: '/ping',
    tag: 'Site',
    summary: 'Check whether the server responds',
    access: 'anybody',
    plain: [{ status: 200, description: 'The text `pong`.', types }],
    answer({ context }) {
      context.body = 'pong'
    },
  }),
  endpoint({
    method: 'get',
    path: '/favicon.ico',
    tag: 'Site',
    summary: 'Get the icon of the site',
    access: 'anybody',
    plain: [
      {
        status: 302,
        description: 'Redirects to the URL in the setting `favicon`.',
        types: ['text/html', 'text/plain'],
      },
      { status: 404, description: 'The setting is not an http or https URL.', types },
    ],
    answer({ context, api }) {
      const address = faviconUrl(api.gateway.settings)
      if (address === undefined) context.status = 404
      // Two slashes would begin the name of a host, of which browsers and proxies have different views.
      else
        context.redirect(address.startsWith('//') ? new URL(address, api.clientOf(context.req).origin).href : address)
    },
  }),
  manifestEndpoint('/manifest.json', 'Get the web app manifest'),
  manifestEndpoint('/static/manifest.json', 'Get the web app manifest, at the path of older web clients'),
  endpoint({
    method: 'get',
    path: '/robots.txt',
    tag: 'Site',
    summary: 'Get the rules for crawlers',
    access: 'anybody',
    plain: [{ status: 200, description: 'The setting `robots_txt`.', types }],
    answer({ context, api }) {
      context.type = 'text/plain'
      context.body = api.gateway.settings.get('robots_txt')
    },
  }),
]
