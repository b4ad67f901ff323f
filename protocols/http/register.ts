/**
 * Registers an endpoint with a router. Authorizes their callers, parses and validates requests, and builds the
 * envelopes.
 */
import type { IncomingMessage } from 'node:http'
import type { Principal } from '../../src/accounts/principal.js'
import { principalOf } from './authenticate.js'
import type { Exchange, HttpApi, Routes } from './http-api.js'
import type { Audience, Endpoint } from './endpoint.js'
import { success } from './envelope.js'
import { refused } from './errors.js'
import { bodyLimit, checkFields, checkHeaders, fieldsOf } from './fields.js'
import { adminRefusal, endpointMissing, guestRefusal } from './refusals.js'
import { streamEnvelope } from './streamed-array.js'

export function register(routes: Routes, api: HttpApi, endpoint: Endpoint): void {
  const handle = async (context: Exchange): Promise<void> => {
    await handleRequest(api, context, endpoint)
  }
  const path = endpoint.path.replace(/\{(\w+)\}/g, ':$1')
  if (endpoint.method === 'any') routes.all(path, handle)
  else routes[endpoint.method](path, handle)
}

async function handleRequest(api: HttpApi, context: Exchange, endpoint: Endpoint): Promise<void> {
  const principal = await authorize(api, context.req, endpoint)
  if (endpoint.refusalData !== undefined) context.state.refusalData = endpoint.refusalData
  const params = endpoint.params?.safeParse(context.params)
  if (params?.success === false) throw refused(endpointMissing)
  const query = endpoint.query && checkFields(endpoint.query, context.query, endpoint.faultyQuery)
  const headers = endpoint.headers && checkHeaders(endpoint.headers, context.req.headersDistinct)
  const fields =
    endpoint.fields &&
    checkFields(
      endpoint.fields,
      await fieldsOf(context, endpoint.bodyLimit ?? bodyLimit, endpoint.listField),
      endpoint.faultyFields,
    )
  const data = await endpoint.answer({ api, context, principal, params: params?.data, query, headers, fields })
  if (endpoint.plain !== undefined) return
  const envelope = success(endpoint.data === undefined ? null : data, context.state.message)
  const stream = streamEnvelope(envelope)
  if (stream) context.type = 'json'
  context.body = stream ?? envelope
}

/** Resolves to the caller, or to undefined if access is `anybody`. */
async function authorize(
  api: HttpApi,
  request: IncomingMessage,
  { access, guestRefusal: refusalForGuest = guestRefusal }: Endpoint,
): Promise<Principal | undefined> {
  if (access === 'anybody') return undefined
  const principal = await principalOf(api, request)
  if (!isAllowed(access, principal)) throw refused(access === 'admin' ? adminRefusal : refusalForGuest)
  return principal
}

function isAllowed(access: Exclude<Audience, 'anybody'>, { role }: Principal): boolean {
  if (access === 'admin') return role === 'admin'
  return access === 'guest' || role !== 'guest'
}
