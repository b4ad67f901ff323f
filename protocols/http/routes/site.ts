/** What browsers and crawlers ask of any site. */
import { endpoint } from '../endpoint.js'

const types = ['text/plain']

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
      { status: 404, description: 'The setting is empty.', types },
    ],
    answer({ context, door }) {
      const address = door.gateway.settings.get('favicon')
      if (address === '') context.status = 404
      else context.redirect(address)
    },
  }),
  endpoint({
    method: 'get',
    path: '/robots.txt',
    tag: 'Site',
    summary: 'What crawlers are told',
    access: 'anybody',
    plain: [{ status: 200, description: 'The setting `robots_txt`.', types }],
    answer({ context, door }) {
      context.body = door.gateway.settings.get('robots_txt')
    },
  }),
]
