/** Cookies (RFC 6265bis) that scripts cannot read. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { sitePath } from '../../lib/client.js'
import type { HttpApi } from './http-api.js'

const hostPrefix = '__Host-'

/**
 * The name with the prefix that binds a cookie to the host over TLS, where browsers accept it: they reach the site by
 * TLS, whatever a proxy that is not trusted says of that.
 */
export function hostCookieName(api: HttpApi, request: IncomingMessage, name: string): string {
  const { secure, origin } = api.clientOf(request)
  return secure || origin.startsWith('https:') ? hostPrefix + name : name
}

/** The value of the cookie; undefined if the request has none of this name. */
export function cookieOf({ headers: { cookie = '' } }: IncomingMessage, name: string): string | undefined {
  return new RegExp(`(?:^|;\\s*)${name}=([^;]+)`).exec(cookie)?.[1]
}

interface Cookie {
  readonly name: string
  readonly value: string
  readonly sameSite: 'Strict' | 'Lax'
  /** Seconds for which the browser stores it. Undefined: until the browser is closed. */
  readonly maxAge?: number | undefined
}

/** Sets a cookie that the browser sends with every request for this server. */
export function setCookie(api: HttpApi, response: ServerResponse, { name, value, sameSite, maxAge }: Cookie): void {
  const attributes = [
    `${name}=${value}`,
    `Path=${name.startsWith(hostPrefix) ? '/' : sitePath(api.gateway.config.site_url) || '/'}`,
    ...(maxAge === undefined ? [] : [`Max-Age=${maxAge}`]),
    'HttpOnly',
    `SameSite=${sameSite}`,
    ...(api.clientOf(response.req).secure || name.startsWith(hostPrefix) ? ['Secure'] : []),
  ]
  response.appendHeader('Set-Cookie', attributes.join('; '))
}
