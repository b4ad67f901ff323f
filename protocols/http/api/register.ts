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
import { recorded } from './recording.js'
import { streamEnvelope } from './streamed-array.js'

export function register(routes: Routes, api: HttpApi, endpoint: Endpoint): void {
  const handle = (context: Exchange): Promise<void> => handleRequest(api, context, endpoint)
  const path = endpoint.path.replace(/\{(\w+)\}/g, ':$1')
  if (endpoint.method === 'any') routes.all(path, handle)
  else routes[endpoint.method](path, handle)
}

async function handleRequest(api: HttpApi, context: Exchange, endpoint: Endpoint): Promise<void> {
  const { visitors } = endpoint
  const caller = endpoint.access === 'anybody' ? undefined : await callerOf(api, context, endpoint)
  if (caller instanceof Error && visitors === undefined) throw caller
  if (endpoint.access === 'admin') context.state.isAdminCall = true
  if (endpoint.refusalData?.empty) context.state.refusalData = endpoint.refusalData.empty
  const request = await parsed(context, endpoint).catch((error: unknown) => {
    throw caller instanceof Error && visitors?.seem?.(context.req) !== true ? caller : error
  })
  if (visitors?.are(request) === true) {
    sendData(context, endpoint, await visitors.answer({ api, context, ...request, principal: undefined }))
    return
  }
  if (caller instanceof Error) throw caller
  const answer = async () => {
    if (caller && needsRecentSignIn(endpoint, { api, ...request })) {
      if (!(await api.gateway.accounts.signIn.isRecent(caller))) throw refused(recentSignInRefusal)
    }
    return endpoint.answer({ api, context, ...request, principal: caller })
  }
  const { event, about } = endpoint
  const name = caller && about && (async () => about({ api, principal: caller, ...request }))
  const data = await (caller && event ? recorded(api, event, caller, request, answer, name) : answer())
  if (endpoint.plain === undefined) sendData(context, endpoint, data)
}

/** Returns the parameters, query, headers and fields of a request, as the endpoint declares them. */
async function parsed(
  context: Exchange,
  endpoint: Endpoint,
): Promise<Pick<Call, 'params' | 'query' | 'headers' | 'fields'>> {
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
  return { params: params?.data, query, headers, fields }
}

/** Returns the caller. Throws the error for a caller that may not make the request. Visitors need no account. */
async function callerOf(api: HttpApi, { req, res }: Exchange, endpoint: Endpoint): Promise<Principal | Error> {
  try {
    const principal = await principalOf(api, req, res, endpoint.setsUpTwoStep)
    const check = () => assertAllowed(principal, endpoint)
    // The body of a request that is refused is not read: the event does not say what it is about.
    if (endpoint.event && !isAllowed(endpoint.access, principal))
      await recorded(api, endpoint.event, principal, {}, check)
    else check()
    return principal
  } catch (error) {
    if (error instanceof Error) return error
    throw error
  }
}

function sendData(context: Exchange, endpoint: Endpoint, data: unknown): void {
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

function needsRecentSignIn({ recentSignIn }: Endpoint, request: Pick<Call, 'api' | 'fields' | 'query'>): boolean {
  return typeof recentSignIn === 'function' ? recentSignIn(request) : recentSignIn === true
}
