/** Single sign-on: sign-ins at a provider, and links of identities to accounts. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/base/errors.js'
import { linkPrefix, type SsoBrowser, type SsoMethod, type SsoOutcome } from '../../../src/sign-in/single-sign-on.js'
import { cookieOf, hostCookieName, setCookie } from '../api/cookies.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { logUnexpected, refused, toErrorResponse, withResponses } from '../api/errors.js'
import { oneTimeCode, queryText, requiredText, rowId, signInBodyLimit } from '../api/fields.js'
import type { Exchange, HttpApi } from '../api/http-api.js'
import { accountChanged, coreRefusal, recentSignInRefusal } from '../api/refusals.js'
import { consoleSecretOf, setSessionCookie } from '../api/session-cookie.js'
import { codePage, openerPage, secretHeaders } from '../site/sso-pages.js'
import { sendErrorPage } from '../site/pages.js'
import { identityData, identityObject } from '../compat/account-objects.js'
import { admissionDetails } from './auth.js'

const cookieName = 'tidegate_sso'
/** Characters of what a provider sends back. */
const maxQuery = 16_384
/** The page that ends on errors. */
const signInPage = '/@login'

const methods: Readonly<Record<string, SsoMethod>> = {
  sso_get_token: 'sso_get_token',
  get_sso_id: 'get_sso_id',
  console: 'console',
  link: 'link',
}

const noMethod: Refusal = { code: 400, text: 'no method provided', error: 'invalid' }
const unknownMethod: Refusal = { code: 400, text: 'invalid request', error: 'invalid', when: 'there is no such method' }
const noSession: Refusal = {
  code: 403,
  text: 'sign in to the console first',
  error: 'denied',
  when: 'the method is `link`, and the request has no cookie of a session',
}
const noCode: Refusal = { code: 400, text: 'No code provided', error: 'invalid' }

const anyReason = { reason: '…' }
const providerRefusals: readonly Refusal[] = [
  coreRefusal('denied', { detail: 'provider_off' }),
  coreRefusal('invalid', { detail: 'provider_failed', ...anyReason }, 'the provider cannot be used, or has refused'),
  coreRefusal(
    'throttled',
    { detail: 'sign_in_throttled' },
    'the network of the client has begun too many within a minute, or too many of it wait',
  ),
]
const callbackRefusals: readonly Refusal[] = [
  ...providerRefusals,
  noCode,
  coreRefusal('denied', { detail: 'provider_sign_in_expired' }),
  coreRefusal('denied', { detail: 'identity_unknown' }),
  coreRefusal('denied', { detail: 'identity_refused', ...anyReason }, 'the identity may not sign in here'),
  ...admissionDetails.map((detail) => coreRefusal('denied', { detail }, 'the identity is correct')),
  coreRefusal('throttled', { detail: 'sign_in_throttled' }, 'too many wrong codes were sent'),
  accountChanged,
]

const types = ['text/html']
const pages = [
  {
    status: 200,
    description: 'A page that posts `{"token": …}` or `{"sso_id": …}` to its opener, or asks for a code.',
    types,
  },
  {
    status: 302,
    description: 'In compatibility mode, to `/@login?token=…` or `/@manage?sso_id=…`; for the console, to its page.',
  },
  { status: 400, description: 'A page with the message, if `Accept` has `text/html`.', types },
]

function callback(path: `/${string}`) {
  return endpoint({
    method: 'get',
    path,
    tag: 'Signing in',
    summary: 'Complete a sign-in at the provider, which leads the browser here',
    access: 'anybody',
    refusals: callbackRefusals,
    plain: pages,
    answer: ({ api, context }) =>
      asPage(context, api, async () => {
        const { querystring } = context
        const query = new URLSearchParams(querystring)
        if (querystring.length > maxQuery || (!query.has('code') && !query.has('error'))) throw refused(noCode)
        await send(api, context, await api.gateway.singleSignOn.complete(query, browserOf(api, context)))
      }),
  })
}

const identityMissing: Refusal = { code: 404, text: 'identity not found', error: 'record_missing' }

export const ssoEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/auth/sso',
    tag: 'Signing in',
    summary: 'Begin a sign-in at the provider',
    access: 'anybody',
    readsToken: true,
    query: z.object({
      method: queryText.describe(
        '`sso_get_token`: sign in. `get_sso_id`: prove an identity, to link it. `console`: sign in to the console. ' +
          '`link`: link an identity to the account of the console session.',
      ),
      redirect: queryText.describe('The page of the console where the user goes on: a path of this site.'),
      fresh: queryText.describe('`true`: the provider asks the user to sign in if that is not recent.'),
    }),
    refusals: [...providerRefusals, noMethod, unknownMethod, noSession, recentSignInRefusal],
    plain: [
      { status: 302, description: 'To the page of the provider.' },
      { status: 400, description: 'A page with the message, if `Accept` has `text/html`.', types },
    ],
    answer: ({ api, context, query }) =>
      asPage(context, api, async () => {
        if (query.method === '') throw refused(noMethod)
        const method = Object.hasOwn(methods, query.method) ? methods[query.method] : undefined
        if (method === undefined) throw refused(unknownMethod)
        const { baseUrl } = api.clientOf(context.req)
        const isLink = method === 'link' || method === 'get_sso_id'
        const path = api.gateway.settings.bool('sso_compatibility_mode')
          ? `/api/auth/${isLink ? 'get_sso_id' : 'sso_get_token'}`
          : '/api/auth/sso_callback'
        const session = method === 'link' ? await ownSession(api, context) : undefined
        const after = ownPath(query.redirect)
        const begin = { method, redirectUri: baseUrl + path, session, after }
        const isFresh = query.fresh === 'true'
        const { page, secret } = await api.gateway.singleSignOn.begin(begin, browserOf(api, context), isFresh)
        const name = hostCookieName(api, context.req, cookieName)
        setCookie(api, context.res, { name, value: secret, sameSite: 'Lax' })
        redirect(context, page.href)
      }),
  }),
  callback('/api/auth/sso_callback'),
  callback('/api/auth/sso_get_token'),
  callback('/api/auth/get_sso_id'),
  endpoint({
    method: 'post',
    path: '/api/auth/sso_code',
    tag: 'Signing in',
    summary: 'Complete a sign-in at the provider with the code of two-step verification of the account',
    description: 'The form of the page that asks for the code.',
    access: 'anybody',
    fields: z.object({ secret: requiredText.max(100), otp_code: oneTimeCode }),
    bodyLimit: signInBodyLimit,
    refusals: callbackRefusals,
    plain: pages,
    answer: ({ api, context, fields }) =>
      asPage(context, api, async () => {
        const browser = browserOf(api, context)
        const outcome = await api.gateway.singleSignOn.completeWithCode(fields.secret, fields.otp_code, browser)
        await send(api, context, outcome, 'The code is wrong, or was used before.')
      }),
  }),
  endpoint({
    method: 'get',
    path: '/api/auth/sso_logout',
    tag: 'Signing in',
    summary: 'Sign out of the console, and at the provider if `sso_logout_provider` is set',
    access: 'anybody',
    readsToken: true,
    plain: [{ status: 302, description: 'To the page of the provider that ends its session, or to the sign-in page.' }],
    async answer({ api, context }) {
      const { accounts, singleSignOn } = api.gateway
      const { address, baseUrl } = api.clientOf(context.req)
      const secret = consoleSecretOf(api, context.req)
      const row = secret === undefined ? undefined : accounts.consoleSessions.find(secret)
      let page: URL | undefined
      if (secret !== undefined && row !== undefined) {
        page = await singleSignOn.signOutPage(`console:${row.id}`, baseUrl + signInPage)
        await accounts.consoleSessions.signOut(secret, address)
        setSessionCookie(api, context.res, '', 0)
      }
      redirect(context, page?.href ?? baseUrl + signInPage)
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/sso_backchannel_logout',
    tag: 'Signing in',
    summary: 'End sessions that began at the provider, which calls this (OpenID Connect Back-Channel Logout 1.0)',
    access: 'anybody',
    fields: z.object({ logout_token: requiredText }),
    bodyLimit: signInBodyLimit,
    refusals: providerRefusals,
    plain: [
      { status: 200, description: 'The sessions have ended.' },
      { status: 400, description: 'The token is not accepted.' },
    ],
    async answer({ api, context, fields }) {
      context.set(secretHeaders)
      try {
        await api.gateway.singleSignOn.endByProvider(fields.logout_token)
        context.status = 200
        context.body = ''
      } catch (error) {
        if (!isGatewayError(error)) throw error
        api.gateway.log.warn({ err: error }, 'a logout token of the provider was refused')
        context.status = 400
        context.body = ''
      }
    },
  }),
  endpoint({
    method: 'get',
    path: '/api/me/identities',
    tag: 'Own account',
    summary: 'List the identities at providers and directories that are linked to the current user',
    access: 'user',
    data: z.array(identityData),
    answer: ({ api, principal }) => api.gateway.accounts.identities.of(principal.userId).map(identityObject),
  }),
  endpoint({
    method: 'post',
    path: '/api/me/identities/delete',
    tag: 'Own account',
    summary: 'Unlink an identity, and end the sessions that began by it at the provider',
    access: 'user',
    event: 'admin.user',
    about: ({ principal }) => principal.username,
    recentSignIn: true,
    query: rowId,
    faultyQuery: 'id format invalid',
    refusals: [identityMissing, coreRefusal('denied', { detail: 'identity_refused', ...anyReason })],
    async answer({ api, query, principal }) {
      const { singleSignOn } = api.gateway
      await withResponses({ not_found: identityMissing }, () => singleSignOn.unlink(principal.userId, query.id))
    },
  }),
]

export const foreignId: Refusal = {
  code: 403,
  text: 'sso_id can be changed only to an id that the provider has just confirmed',
  error: 'denied',
}

/**
 * Follows the field `sso_id` of the current user: links the identity of an id that this browser has just got, and
 * unlinks all for an empty one.
 */
export async function linkIdentity(
  api: HttpApi,
  context: Exchange,
  userId: number,
  ssoId: string | undefined,
): Promise<void> {
  const { accounts, singleSignOn } = api.gateway
  if (ssoId === undefined || ssoId === accounts.users.get(userId)?.ssoId) return
  if (ssoId === '') await singleSignOn.unlink(userId)
  else if (ssoId.startsWith(linkPrefix)) await singleSignOn.link(userId, ssoId, browserOf(api, context))
  else throw refused(foreignId)
}

/** The browser of the request. */
function browserOf(api: HttpApi, { req }: Pick<Exchange, 'req'>): SsoBrowser {
  const secret = cookieOf(req, hostCookieName(api, req, cookieName))
  const { address } = api.clientOf(req)
  const isOurs = secret !== undefined && /^[\w-]{43}$/.test(secret)
  return { secret: isOurs ? secret : undefined, address, userAgent: req.headers['user-agent'] ?? '' }
}

/** The id of the console session of the request, whose user has signed in just now. */
async function ownSession(api: HttpApi, { req }: Exchange): Promise<number> {
  const { accounts } = api.gateway
  const secret = consoleSecretOf(api, req)
  if (secret === undefined) throw refused(noSession)
  const { address } = api.clientOf(req)
  const principal = await accounts.consoleSessions.principalOf(secret, api.protocol, { address })
  if (!(await accounts.signIn.isRecent(principal))) throw refused(recentSignInRefusal)
  const session = accounts.consoleSessions.find(secret)
  if (session === undefined) throw refused(noSession)
  return session.id
}

/** A path of this site; its root for anything that a browser could take for another site. */
function ownPath(text: string): string {
  return /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}$/.test(text) ? text : '/'
}

function redirect(context: Exchange, address: string): void {
  context.set(secretHeaders)
  context.status = 302
  context.set('Location', address)
  context.body = ''
}

async function send(api: HttpApi, context: Exchange, outcome: SsoOutcome, codeError?: string): Promise<void> {
  const { baseUrl } = api.clientOf(context.req)
  const isCompatible = api.gateway.settings.bool('sso_compatibility_mode')
  const give = (field: 'token' | 'sso_id', value: string, page: string) => {
    if (isCompatible) redirect(context, `${baseUrl}${page}?${field}=${encodeURIComponent(value)}`)
    else show(context, openerPage({ [field]: value }))
  }
  switch (outcome.kind) {
    case 'token':
      give('token', outcome.token, '/@login')
      return
    case 'linkable':
      give('sso_id', outcome.id, '/@manage')
      return
    case 'linked':
      redirect(context, baseUrl + outcome.after)
      return
    case 'code':
      show(context, codePage(`${baseUrl}/api/auth/sso_code`, outcome.secret, codeError))
      return
    case 'session': {
      const replaced = consoleSecretOf(api, context.req)
      if (replaced !== undefined) await api.gateway.accounts.consoleSessions.close(replaced)
      setSessionCookie(api, context.res, outcome.session.secret)
      redirect(context, baseUrl + outcome.after)
    }
  }
}

function show(context: Exchange, { headers, body }: ReturnType<typeof codePage>): void {
  context.set(headers)
  context.body = body
}

/** Sends an error as a page to a browser that shows it, and as an envelope to other clients. */
async function asPage(context: Exchange, api: HttpApi, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(context.req.headers.accept ?? '').includes('text/html')) throw error
    logUnexpected(api.gateway.log, error, { path: context.path })
    const { message, status } = toErrorResponse(error)
    const { baseUrl } = api.clientOf(context.req)
    context.respond = false
    for (const [name, value] of Object.entries(secretHeaders)) context.res.setHeader(name, value)
    const meaning = 'You have not been signed in. Accounts of this site can sign in with their password.'
    sendErrorPage(context.res, status, message, {
      ...{ title: 'Sign-in failed', meaning },
      link: { address: `${baseUrl}${signInPage}?local`, text: 'Sign in with a password' },
    })
  }
}
