/** The parts of requests of single sign-on: the browser, its session, and the pages that it gets. */
import type { Principal } from '../../../src/accounts/principal.js'
import type { SsoBrowser, SsoMethod } from '../../../src/sign-in/browser-sign-ins.js'
import { cookieOf, hostCookieName, setCookie } from '../api/cookies.js'
import type { Refusal } from '../api/endpoint.js'
import { logUnexpected, refused, toErrorResponse } from '../api/errors.js'
import { signalOf, type Exchange, type HttpApi } from '../api/http-api.js'
import { recentSignInRefusal } from '../api/refusals.js'
import { consoleSecretOf } from '../api/session-cookie.js'
import { sendErrorPage } from '../site/pages.js'
import { secretHeaders, type Page } from '../site/sso-pages.js'

const cookieName = 'tidegate_sso'
/** The page that ends on errors. */
export const signInPage = '/@login'

export const noSession: Refusal = {
  code: 403,
  text: 'sign in to the console first',
  error: 'denied',
  when: 'the method is `link` or `confirm`, and the request has no cookie of a session',
}

/** Begins a sign-in of the browser. Resolves to the page of the provider. */
export async function begin(
  api: HttpApi,
  context: Exchange,
  { method, after, session, isFresh = false }: BeginFacts,
): Promise<string> {
  const { baseUrl } = api.clientOf(context.req)
  const isLink = method === 'link' || method === 'get_sso_id'
  const begun = { method, redirectUri: baseUrl + callbackPath(api.gateway.settings, { isLink }), session, after }
  const { page, secret } = await api.gateway.singleSignOn.begin(
    begun,
    browserOf(api, context),
    isFresh,
    signalOf(context.res),
  )
  const name = hostCookieName(api, context.req, cookieName)
  setCookie(api, context.res, { name, value: secret, sameSite: 'Lax' })
  return page.href
}

/** The path to which the provider leads the browser. `isLink`: of a sign-in that proves an identity to link. */
export function callbackPath(
  settings: Pick<HttpApi['gateway']['settings'], 'bool'>,
  { isLink }: { readonly isLink: boolean },
): string {
  if (!settings.bool('sso_compatibility_mode')) return '/api/auth/sso_callback'
  return `/api/auth/${isLink ? 'get_sso_id' : 'sso_get_token'}`
}

interface BeginFacts {
  readonly method: SsoMethod
  readonly after: string
  /** The id of the session whose user links an identity, or confirms it, or of that which a new one replaces. */
  readonly session?: number | undefined
  readonly isFresh?: boolean
}

/** The browser of the request. */
export function browserOf(api: HttpApi, { req }: Pick<Exchange, 'req'>): SsoBrowser {
  const secret = cookieOf(req, hostCookieName(api, req, cookieName))
  const { address } = api.clientOf(req)
  const isOurs = secret !== undefined && /^[\w-]{43}$/.test(secret)
  return { secret: isOurs ? secret : undefined, address, userAgent: req.headers['user-agent'] ?? '' }
}

/**
 * Whether another site has led the browser to this address. It could otherwise sign somebody in without a click, as
 * whoever has a session at the provider, or link that identity: a site can bring about both. Browsers send the header
 * over TLS, and to their own machine.
 */
export function isLedByOtherSite({ req }: Pick<Exchange, 'req'>): boolean {
  const { 'sec-fetch-site': site = 'none' } = req.headers
  return site !== 'none' && site !== 'same-origin'
}

/** The console session of the request. `isRecent`: its user must have signed in just now. */
export async function ownSession(
  api: HttpApi,
  { req }: Exchange,
  isRecent = true,
): Promise<{ readonly principal: Principal; readonly session: number }> {
  const { accounts } = api.gateway
  const secret = consoleSecretOf(api, req)
  if (secret === undefined) throw refused(noSession)
  const { address } = api.clientOf(req)
  const principal = await accounts.consoleSessions.principalOf(secret, api.protocol, { address })
  if (isRecent && !(await accounts.signIn.isRecent(principal))) throw refused(recentSignInRefusal)
  const session = accounts.consoleSessions.find(secret)
  if (session === undefined) throw refused(noSession)
  return { principal, session: session.id }
}

export function redirect(context: Exchange, address: string): void {
  context.set(secretHeaders)
  context.status = 302
  context.set('Location', address)
  context.body = ''
}

export function show(context: Exchange, { headers, body }: Page): void {
  context.set(headers)
  context.body = body
}

/** Sends an error as a page to a browser that shows it, and as an envelope to other clients. */
export async function asPage(context: Exchange, api: HttpApi, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(context.req.headers.accept ?? '').includes('text/html')) throw error
    logUnexpected(api.gateway.log, error, { path: context.path })
    const { message, status, retryAfter } = toErrorResponse(error)
    const { baseUrl } = api.clientOf(context.req)
    context.respond = false
    if (retryAfter !== undefined) context.res.setHeader('Retry-After', Math.ceil(retryAfter))
    for (const [name, value] of Object.entries(secretHeaders)) context.res.setHeader(name, value)
    const meaning = 'You have not been signed in. Accounts of this site can sign in with their password.'
    sendErrorPage(context.res, status, api.masks.apply(message), {
      ...{ title: 'Sign-in failed', meaning },
      link: { address: `${baseUrl}${signInPage}?local`, text: 'Sign in with a password' },
    })
  }
}
