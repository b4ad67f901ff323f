/** The Authorization header (RFC 7617, RFC 6750) and its principal. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Credentials } from '../../src/accounts/password-check.js'
import type { Principal } from '../../src/accounts/principal.js'
import { GatewayError } from '../../src/base/errors.js'
import { decodeUtf8 } from '../../src/base/utf8.js'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import type { AccessOptions } from '../../src/tree/operation-options.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import type { User } from './engine.js'
import { webdav } from './index.js'

type Authorization =
  | { readonly scheme: 'basic'; readonly username: string; readonly password: string }
  | { readonly scheme: 'bearer'; readonly token: string }

/**
 * Throws `unauthenticated` for an unsupported scheme or malformed credentials, and `invalid` for Basic credentials that
 * are not UTF-8, which the challenge requests (RFC 7617 §2.1).
 */
export function parseAuthorization(header: string): Authorization {
  const [, scheme = '', value = ''] = /^(\S+)[ \t]+(\S+)\s*$/.exec(header) ?? []
  if (scheme.toLowerCase() === 'bearer') return { scheme: 'bearer', token: value }
  // Buffer decodes base64 and base64url, with and without padding.
  if (scheme.toLowerCase() !== 'basic' || !/^[\w+/-]+={0,2}$/.test(value)) throw unreadableHeader()
  const text = decodeUtf8(Buffer.from(value, 'base64'))
  if (text === undefined) throw new GatewayError('invalid', { reason: 'the credentials are not UTF-8' })
  const colon = text.indexOf(':') // only the password may contain further colons
  if (colon < 0) throw unreadableHeader()
  return { scheme: 'basic', username: text.slice(0, colon), password: text.slice(colon + 1) }
}

function unreadableHeader(): GatewayError {
  return new GatewayError('unauthenticated', { reason: 'unreadable Authorization header' })
}

/** The user of a request. */
export interface Caller extends User {
  /** Whether the request has no user credentials: a 403 then becomes a 401 with a challenge. */
  readonly isDefaultUser: boolean
  readonly principal: Principal
  /** The tree as the principal sees it. */
  readonly fs: VirtualFs
  /** The password of the guest's credentials, used for folder passwords. */
  readonly folderPassword: AccessOptions['password']
}

/** The caller and the credentials of the latest authenticated request of a connection. */
interface KnownCaller {
  readonly header: string
  readonly address: string
  readonly caller: Caller
  /** When the password was verified, in milliseconds since 1970. */
  readonly verified: number
}

/** Maximum milliseconds for which the credentials of a connection are not verified again. */
const maxKnownAge = 60_000

/**
 * The callers of connections. Clients send their credentials with every request; a connection that repeats the same
 * header from the same address is the same caller, until the credential or its account changes, and for a minute.
 * Otherwise a small GET would take 1.6 times the processor time.
 */
export class KnownCallers {
  readonly #bySocket = new WeakMap<Socket, KnownCaller>()

  get({ socket, headers }: IncomingMessage, address: string): Caller | undefined {
    const known = this.#bySocket.get(socket)
    if (known === undefined || known.header !== headers.authorization || known.address !== address) return undefined
    const isCurrent = !known.caller.principal.signal.aborted && Date.now() - known.verified < maxKnownAge
    return isCurrent ? known.caller : undefined
  }

  add({ socket, headers }: IncomingMessage, address: string, caller: Caller): void {
    const header = headers.authorization
    // The guest needs no proof; an expired session token is noticed only by checking it.
    if (header === undefined || caller.isDefaultUser || !/^basic /i.test(header)) return
    this.#bySocket.set(socket, { header, address, caller, verified: Date.now() })
  }
}

/** The parts of the gateway that authentication uses. */
type AuthenticatingGateway = Pick<ProtocolGateway, 'accounts' | 'as'>

/**
 * Authenticates a request by its Authorization header. Rejects with `unauthenticated`, `throttled` or `denied`, or with
 * `aborted` when the client has disconnected.
 */
export async function authenticate(
  gateway: AuthenticatingGateway,
  header: string | undefined,
  client: Pick<Credentials, 'address' | 'signal'>,
): Promise<Caller> {
  const { principals, signIn, tokens } = gateway.accounts
  const callerOf = (principal: Principal, isDefaultUser: boolean, folderPassword?: string): Caller => {
    const { userId, username } = principal
    const fs = gateway.as(principal.from(client.address))
    return { uid: String(userId), username, isDefaultUser, principal, fs, folderPassword }
  }
  if (header === undefined) return callerOf(principals.guest(webdav, client.address), true)
  const authorization = parseAuthorization(header)
  if (authorization.scheme === 'bearer') {
    return callerOf(await tokens.principalOf(authorization.token, webdav, { address: client.address }), false)
  }
  const { username, password } = authorization
  // Requests without credentials are the guest's too. Its password protects nothing and is used for folder passwords.
  if (principals.isGuestName(username)) return callerOf(principals.guest(webdav, client.address), true, password)
  return callerOf(await signIn.byPassword({ username, password: { plain: password }, ...client }, webdav), false)
}
