/** The Authorization header (RFC 7617, RFC 6750), and whom it stands for. */
import type { Ask } from '../../src/change.js'
import { GatewayError } from '../../src/errors.js'
import type { Gateway } from '../../src/gateway.js'
import type { Principal } from '../../src/principal.js'

export type Authorization =
  | { readonly scheme: 'basic'; readonly username: string; readonly password: string }
  | { readonly scheme: 'bearer'; readonly token: string }

/** Rejects with `unauthenticated` for a scheme we do not speak or credentials that cannot be read. */
export function parseAuthorization(header: string): Authorization {
  const [, scheme = '', value = ''] = /^(\S+)[ \t]+(\S+)\s*$/.exec(header) ?? []
  if (scheme.toLowerCase() === 'bearer') return { scheme: 'bearer', token: value }
  // Buffer reads both alphabets, with and without padding.
  if (scheme.toLowerCase() !== 'basic' || !/^[\w+/-]+={0,2}$/.test(value)) throw unreadable()
  const text = credentialText(Buffer.from(value, 'base64'))
  const colon = text.indexOf(':') // a password may hold more of them, a name none
  if (colon < 0) throw unreadable()
  return { scheme: 'basic', username: text.slice(0, colon), password: text.slice(colon + 1) }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** UTF-8 as we ask for; what is none comes from clients that still send Latin-1. */
function credentialText(bytes: Buffer): string {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return bytes.toString('latin1')
  }
}

function unreadable(): GatewayError {
  return new GatewayError('unauthenticated', { reason: 'unreadable Authorization header' })
}

export interface Caller {
  readonly principal: Principal
  /** No credentials were shown: a refusal asks for some. */
  readonly anonymous: boolean
  /** The guest's password answers folder rules. */
  readonly folderPassword?: Ask['password']
}

/** Rejects with `unauthenticated`, `throttled` or `denied`. */
export async function identify(
  accounts: Gateway['accounts'],
  header: string | undefined,
  address: string,
): Promise<Caller> {
  if (header === undefined) return { principal: accounts.guest('webdav'), anonymous: true }
  const authorization = parseAuthorization(header)
  if (authorization.scheme === 'bearer') {
    return { principal: await accounts.byToken(authorization.token, 'webdav'), anonymous: false }
  }
  const { username, password } = authorization
  // Whoever sends nothing is the guest too, so its password guards nothing and can say something else.
  const user = accounts.users.byName(username)
  if (user?.role === guestRole && !user.disabled) {
    return { principal: accounts.guest('webdav'), anonymous: true, folderPassword: password }
  }
  const principal = await accounts.byPassword({ username, password: { plain: password }, address }, 'webdav')
  return { principal, anonymous: false }
}

/** As accounts are stored. */
const guestRole = 1
