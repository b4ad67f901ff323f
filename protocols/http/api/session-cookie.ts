/**
 * The cookie with which browsers authenticate requests of the console. Scripts cannot read it, and other sites cannot
 * use it: see docs/decisions/0035.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { cookieOf, setCookie } from './cookies.js'
import type { HttpApi } from './http-api.js'

/** The name of the cookie at the default port of the scheme. At others it is followed by `_` and the port. */
export const sessionCookieName = 'tidegate_session'

/** Browsers send a cookie to every port of its host: without the port, gateways at one host would share it. */
function cookieNameFor(api: HttpApi, request: IncomingMessage): string {
  const { port } = new URL(api.clientOf(request).origin)
  return port === '' ? sessionCookieName : `${sessionCookieName}_${port}`
}

/**
 * Whether the page that caused the request is of this server, or the request was not caused by a page. Pages on other
 * ports of the same host are other origins, although browsers send them cookies with SameSite=Strict. Browsers send
 * Sec-Fetch-Site over TLS and to their own machine only, and Origin with every POST.
 */
export function isSameOrigin(api: HttpApi, request: IncomingMessage): boolean {
  const { host = '', origin, 'sec-fetch-site': site } = request.headers
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false
  const client = api.clientOf(request)
  if (origin === undefined || origin === client.origin || origin === `${schemeOf(client.secure)}://${host}`) return true
  // A proxy that ends TLS may not be a trusted one.
  return site === 'same-origin' && origin === `https://${host}`
}

function schemeOf(secure: boolean): string {
  return secure ? 'https' : 'http'
}

/**
 * The secret of the session in the cookie. Undefined if there is none, if the request has an Authorization header, or
 * if it comes from another origin.
 */
export function consoleSecretOf(api: HttpApi, request: IncomingMessage): string | undefined {
  const { authorization = '' } = request.headers
  if (authorization.trim() !== '') return undefined
  const secret = cookieOf(request, cookieNameFor(api, request))
  return secret !== undefined && isSameOrigin(api, request) ? secret : undefined
}

/** `maxAge`: seconds for which the browser stores it. Absent: until the browser is closed. */
export function setSessionCookie(api: HttpApi, response: ServerResponse, secret: string, maxAge?: number): void {
  setCookie(api, response, { name: cookieNameFor(api, response.req), value: secret, sameSite: 'Strict', maxAge })
}

export function clearSessionCookie(api: HttpApi, response: ServerResponse): void {
  setSessionCookie(api, response, '', 0)
}
