/** Metrics for Prometheus. */
import type { IncomingMessage } from 'node:http'
import { isWithinNetworks, parseNetworks } from '../../../src/net/addresses.js'
import { tokenOf } from '../api/authenticate.js'
import type { HttpApi } from '../api/http-api.js'
import { endpoint } from '../api/endpoint.js'

const types = ['text/plain']

export const metricsEndpoints = [
  endpoint({
    method: 'get',
    path: '/metrics',
    tag: 'Site',
    summary: 'Get metrics for Prometheus',
    description:
      'For requests with the permanent token, and for clients whose address is in the setting `metrics_networks`.',
    access: 'anybody',
    readsToken: true,
    plain: [
      { status: 200, description: 'Metrics in the text format of Prometheus.', types },
      { status: 401, description: 'The token is not the permanent one, and the address is not permitted.', types },
    ],
    async answer({ api, context }) {
      const { metrics } = api.gateway
      context.set({ 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store' })
      if (isPermitted(api, context.req)) {
        context.body = await metrics.text()
        return
      }
      context.set({ 'Content-Type': 'text/plain; charset=utf-8', 'WWW-Authenticate': 'Bearer' })
      context.status = 401
      context.body = 'the permanent token is required\n'
    },
  }),
]

function isPermitted(api: HttpApi, request: IncomingMessage): boolean {
  const { accounts, settings } = api.gateway
  if (accounts.tokens.isPermanent(tokenOf(request))) return true
  // A page of another site must not read them through a browser at a permitted address.
  if (request.headers.origin !== undefined) return false
  const { address } = api.clientOf(request)
  return isWithinNetworks(parseNetworks(settings.get('metrics_networks')), address)
}
