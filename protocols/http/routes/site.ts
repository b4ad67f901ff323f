/** What browsers and crawlers ask of any site. */
import { sitePath } from '../../lib/client.js'
import { endpoint, type Endpoint } from '../endpoint.js'
import { manifest, manifestHeaders } from '../site/manifest.js'
import { faviconAddress } from '../site/pictures.js'

const types = ['text/plain']

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
        description: 'A Web Application Manifest, made of the settings `site_title` and `logo`.',
        types: ['application/manifest+json'],
      },
    ],
    answer({ context, door: { gateway } }) {
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
    summary: 'Whether the server answers',
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
    summary: 'The icon of the site',
    access: 'anybody',
    plain: [
      {
        status: 302,
        description: 'To the address that the setting `favicon` holds.',
        types: ['text/html', 'text/plain'],
      },
      { status: 404, description: 'The setting holds no address of http or https.', types },
    ],
    answer({ context, door }) {
      const address = faviconAddress(door.gateway.settings)
      if (address === undefined) context.status = 404
      else context.redirect(address)
    },
  }),
  manifestEndpoint('/manifest.json', 'The manifest with which browsers install the site as an app'),
  manifestEndpoint('/static/manifest.json', 'The manifest where older web clients look for it'),
  endpoint({
    method: 'get',
    path: '/robots.txt',
    tag: 'Site',
    summary: 'What crawlers are told',
    access: 'anybody',
    plain: [{ status: 200, description: 'The setting `robots_txt`.', types }],
    answer({ context, door }) {
      context.type = 'text/plain'
      context.body = door.gateway.settings.get('robots_txt')
    },
  }),
]
