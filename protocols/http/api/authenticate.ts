/** Authentication of API requests by their Authorization header, or by the cookie of the console. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Principal } from '../../../src/accounts/principal.js'
import { isGatewayError } from '../../../src/base/errors.js'
import type { Awaitable } from '../../../src/contract/call-options.js'
import { networkOf } from '../../../src/net/addresses.js'
import type { HttpApi } from './http-api.js'
import { clearSessionCookie, consoleSecretOf } from './session-cookie.js'

/** The token of the Authorization header, with or without a `Bearer ` prefix. Empty if the header is missing. */
export function tokenOf(request: IncomingMessage): string {
  return (request.headers.authorization ?? '').replace(/^Bearer +/i, '').trim()
}

/**
 * The principal of the token, else of the cookie; the guest if there is neither; with the network of the client.
 * Rejects with `unauthenticated`.
 */
export async function principalOf(
  api: HttpApi,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<Principal> {
  const principal = await authenticated(api, request, response)
  return principal.from(networkOf(api.clientOf(request).address))
}

function authenticated(api: HttpApi, request: IncomingMessage, response: ServerResponse): Awaitable<Principal> {
  const { gateway, protocol } = api
  const { accounts } = gateway
  const token = tokenOf(request)
  if (token !== '') return accounts.byToken(token, protocol)
  const secret = consoleSecretOf(api, request)
  return secret === undefined
    ? accounts.guest(protocol, api.clientOf(request).address)
    : byCookie(api, response, secret)
}

/** Whether the request is authenticated by a session of the console. */
export async function isOfConsole(api: HttpApi, request: IncomingMessage): Promise<boolean> {
  const secret = consoleSecretOf(api, request)
  if (secret === undefined) return false
  try {
    await api.gateway.accounts.byConsoleSession(secret, api.protocol)
    return true
  } catch (error) {
    if (isGatewayError(error, 'unauthenticated')) return false
    throw error
  }
}

async function byCookie(api: HttpApi, response: ServerResponse, secret: string): Promise<Principal> {
  // Caches may store responses to requests without Authorization (RFC 9111 §3.5).
  response.setHeader('Cache-Control', 'no-store')
  try {
    return await api.gateway.accounts.byConsoleSession(secret, api.protocol)
  } catch (error) {
    // Scripts cannot remove it, and the guest could not be used as long as the browser sends it.
    if (isGatewayError(error, 'unauthenticated')) clearSessionCookie(api, response)
    throw error
  }
}
