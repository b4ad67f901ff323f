/** Who asks: the Authorization header of the API. */
import type { IncomingMessage } from 'node:http'
import type { Principal } from '../../src/principal.js'
import type { VirtualFs } from '../../src/virtual-fs.js'
import type { Door } from './context.js'

/** The raw token is the whole header; some clients put `Bearer ` before it. Empty without one. */
export function tokenOf(request: IncomingMessage): string {
  return (request.headers.authorization ?? '').replace(/^Bearer +/i, '').trim()
}

/** The user of the token; without one the guest. Rejects with `unauthenticated`. */
export async function principalOf(door: Door, request: IncomingMessage): Promise<Principal> {
  const { accounts } = door.gateway
  const token = tokenOf(request)
  return token === '' ? accounts.guest('http') : accounts.byToken(token, 'http')
}

export async function treeOf(door: Door, request: IncomingMessage): Promise<VirtualFs> {
  return door.gateway.as(await principalOf(door, request))
}
