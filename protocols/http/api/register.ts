/**
 * Registers an endpoint with a router. Authorizes their callers, parses and validates requests, and builds the
 * envelopes.
 */
import type { Principal } from '../../../src/accounts/principal.js'
import { principalOf } from './authenticate.js'
import type { Exchange, HttpApi, Routes } from './http-api.js'
import type { Audience, Call, Endpoint } from './endpoint.js'
import { sendJson, success } from './envelope.js'
import { refused } from './errors.js'
import { bodyLimit, checkFields, checkHeadersOf, fieldsOf, queryOf } from './fields.js'
import { adminRefusal, endpointMissing, guestRefusal, recentSignInRefusal } from './refusals.js'
import { streamEnvelope } from './streamed-array.js'

export function register(routes: Routes, api: HttpApi, endpoint: Endpoint): void {
  const handle = (context: Exchange): Promise<void> => handleRequest(api, context, endpoint)
  const path = endpoint.path.replace(/\{(\w+)\}/g, ':$1')
  if (endpoint.method === 'any') routes.all(path, handle)
  else routes[endpoint.method](path, handle)
}

async function handleRequest(api: HttpApi, context: Exchange, endpoint: Endpoint): Promise<void> {
  const principal =
    endpoint.access === 'anybody' ? undefined : await principalOf(api, context.req, context.res, endpoint.setsUpTwoStep)
  if (principal) assertAllowed(principal, endpoint)
  if (endpoint.refusalData !== undefined) context.state.refusalData = endpoint.refusalData.empty
  const params = endpoint.params?.safeParse(context.params)
  if (params?.success === false) throw refused(endpointMissing)
  const query = endpoint.query && checkFields(endpoint.query, queryOf(context), endpoint.faultyQuery)
  const headers = endpoint.headers && checkHeadersOf(endpoint.headers, context.req)
  const fields =
    endpoint.fields === undefined || endpoint.parsesFields === true
      ? undefined
      : checkFields(
          endpoint.fields,
          await fieldsOf(context, endpoint.bodyLimit ?? bodyLimit, endpoint.listField),
          endpoint.faultyFields,
        )
  if (principal && needsRecentSignIn(endpoint, { fields, query })) {
    if (!(await api.gateway.accounts.hasRecentSignIn(principal))) throw refused(recentSignInRefusal)
  }
  const data = await endpoint.answer({ api, context, principal, params: params?.data, query, headers, fields })
  if (endpoint.plain !== undefined) return
  const envelope = success(endpoint.data === undefined ? null : data, context.state.message)
  sendJson(context, streamEnvelope(envelope) ?? JSON.stringify(envelope))
}

function assertAllowed(principal: Principal, { access, guestRefusal: refusalForGuest = guestRefusal }: Endpoint): void {
  if (!isAllowed(access, principal)) throw refused(access === 'admin' ? adminRefusal : refusalForGuest)
}

function isAllowed(access: Audience, { role }: Principal): boolean {
  if (access === 'admin') return role === 'admin'
  return access !== 'user' || role !== 'guest'
}

function needsRecentSignIn({ recentSignIn }: Endpoint, request: Pick<Call, 'fields' | 'query'>): boolean {
  return typeof recentSignIn === 'function' ? recentSignIn(request) : recentSignIn === true
}
