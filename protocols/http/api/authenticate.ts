/** Authentication of API requests by their Authorization header, or by the cookie of the console. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SessionRequest } from '../../../src/accounts/admission.js'
import type { Principal } from '../../../src/accounts/principal.js'
import { isGatewayError } from '../../../src/base/errors.js'
import type { Awaitable } from '../../../src/contract/call-options.js'
import { noteCaller } from '../../lib/callers.js'
import type { HttpApi } from './http-api.js'
import { clearSessionCookie, consoleSecretOf } from './session-cookie.js'

/** The token of the Authorization header, with or without a `Bearer ` prefix. Empty if the header is missing. */
export function tokenOf(request: IncomingMessage): string {
  return (request.headers.authorization ?? '').replace(/^Bearer +/i, '').trim()
}

/**
 * The principal of the token, else of the cookie; the guest if there is neither; with the network of the client.
 * `setsUpTwoStep`: that of the endpoint. Rejects with `unauthenticated`, or with `denied` if the user must set up
 * two-step verification first.
 */
export async function principalOf(
  api: HttpApi,
  request: IncomingMessage,
  response: ServerResponse,
  setsUpTwoStep = false,
): Promise<Principal> {
  const { address } = api.clientOf(request)
  const principal = await authenticated(api, request, response, { address, setsUpTwoStep })
  const { protocol, userId, username } = principal
  noteCaller(request, { protocol: protocol.name, user: { id: userId, name: username }, address })
  return principal.from(address)
}

function authenticated(
  api: HttpApi,
  request: IncomingMessage,
  response: ServerResponse,
  sessionRequest: SessionRequest & { readonly address: string },
): Awaitable<Principal> {
  const { gateway, protocol } = api
  const { accounts } = gateway
  const token = tokenOf(request)
  if (token !== '') return accounts.tokens.principalOf(token, protocol, sessionRequest)
  const secret = consoleSecretOf(api, request)
  return secret === undefined
    ? accounts.principals.guest(protocol, sessionRequest.address)
    : byCookie(api, response, secret, sessionRequest)
}

/** Whether the request is authenticated by a session of the console. */
export async function isOfConsole(api: HttpApi, request: IncomingMessage): Promise<boolean> {
  const secret = consoleSecretOf(api, request)
  if (secret === undefined) return false
  try {
    const { address } = api.clientOf(request)
    await api.gateway.accounts.consoleSessions.principalOf(secret, api.protocol, { address })
    return true
  } catch (error) {
    if (isGatewayError(error, 'unauthenticated', 'denied')) return false
    throw error
  }
}

async function byCookie(
  api: HttpApi,
  response: ServerResponse,
  secret: string,
  sessionRequest: SessionRequest,
): Promise<Principal> {
  // Caches may store responses to requests without Authorization (RFC 9111 §3.5).
  response.setHeader('Cache-Control', 'no-store')
  try {
    return await api.gateway.accounts.consoleSessions.principalOf(secret, api.protocol, sessionRequest)
  } catch (error) {
    // Scripts cannot remove it, and the guest could not be used as long as the browser sends it.
    if (isGatewayError(error, 'unauthenticated')) clearSessionCookie(api, response)
    throw error
  }
}
