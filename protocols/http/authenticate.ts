/** Authentication of API requests by their Authorization header. */
import type { IncomingMessage } from 'node:http'
import type { Principal } from '../../src/accounts/principal.js'
import type { Awaitable } from '../../src/contract/awaitable.js'
import type { HttpApi } from './http-api.js'
import { http } from './index.js'

/** The token of the Authorization header, with or without a `Bearer ` prefix. Empty if the header is missing. */
export function tokenOf(request: IncomingMessage): string {
  return (request.headers.authorization ?? '').replace(/^Bearer +/i, '').trim()
}

/** The principal of the token, or the guest if there is no token. Throws or rejects with `unauthenticated`. */
export function principalOf(api: HttpApi, request: IncomingMessage): Awaitable<Principal> {
  const { accounts } = api.gateway
  const token = tokenOf(request)
  return token === '' ? accounts.guest(http) : accounts.byToken(token, http)
}
