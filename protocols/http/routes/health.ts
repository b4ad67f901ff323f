/** Health checks for load balancers and supervisors. They need no credentials and disclose no detail. */
import { endpoint } from '../api/endpoint.js'

const types = ['text/plain']

const headers = { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' }

export const healthEndpoints = [
  endpoint({
    method: 'get',
    path: '/livez',
    tag: 'Site',
    summary: 'Check whether the process responds',
    access: 'anybody',
    plain: [{ status: 200, description: 'The text `ok`.', types }],
    answer({ context }) {
      context.set(headers)
      context.body = 'ok\n'
    },
  }),
  endpoint({
    method: 'get',
    path: '/readyz',
    tag: 'Site',
    summary: 'Check whether the server should get requests',
    description: 'A storage that fails does not make the server unready.',
    access: 'anybody',
    plain: [
      { status: 200, description: 'The text `ok`.', types },
      {
        status: 503,
        description: 'The daemon is stopping, its storages are starting, or the database does not respond.',
        types,
      },
    ],
    async answer({ context, api }) {
      const isReady = await api.gateway.isReady()
      context.set(headers)
      context.status = isReady ? 200 : 503
      context.body = isReady ? 'ok\n' : 'not ready\n'
    },
  }),
]
