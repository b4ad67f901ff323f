/** Single sign-on: sign-ins at a provider, and links of identities to accounts. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/base/errors.js'
import type { SsoMethod } from '../../../src/sign-in/browser-sign-ins.js'
import type { SsoOutcome } from '../../../src/sign-in/single-sign-on.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { ApiError, refused } from '../api/errors.js'
import { oneTimeCode, queryText, requiredText, signInBodyLimit, text } from '../api/fields.js'
import { signalOf, type Exchange, type HttpApi } from '../api/http-api.js'
import { accountChanged, coreRefusal, recentSignInRefusal } from '../api/refusals.js'
import { assertSecondStep, secondStepRefusals } from '../api/second-step.js'
import { consoleSecretOf, setSessionCookie } from '../api/session-cookie.js'
import { codePage, confirmPage, leadingPage, openerPage, secretHeaders, type Page } from '../site/sso-pages.js'
import { admissionDetails } from './auth.js'
import {
  asPage,
  begin,
  browserOf,
  isLedByOtherSite,
  noSession,
  ownSession,
  redirect,
  show,
  signInPage,
} from './sso-browser.js'

/** Maximum characters of the query with which a provider sends the browser back. */
const maxQuery = 16_384
const codeWrong = 'The code is wrong, or was used before.'

const methods: readonly SsoMethod[] = ['sso_get_token', 'get_sso_id', 'console', 'link', 'confirm']

const noMethod: Refusal = { code: 400, text: 'no method provided', error: 'invalid' }
const unknownMethod: Refusal = { code: 400, text: 'invalid request', error: 'invalid', when: 'there is no such method' }
const otherSite: Refusal = {
  code: 403,
  text: 'begin to link an identity on the page of this site',
  error: 'denied',
  when: 'the method is `get_sso_id`, and another site has led the browser here',
}
const noCode: Refusal = { code: 400, text: 'No code provided', error: 'invalid' }

const anyReason = { reason: '…' }
const providerRefusals: readonly Refusal[] = [
  coreRefusal('denied', { detail: 'provider_off' }),
  coreRefusal(
    'invalid',
    { detail: 'provider_settings', ...anyReason },
    'the settings name no provider that can be used',
  ),
  coreRefusal('invalid', { detail: 'provider_failed' }, 'the provider cannot be used, or has refused'),
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
        await send(
          api,
          context,
          await api.gateway.singleSignOn.complete(query, browserOf(api, context), signalOf(context.res)),
        )
      }),
  })
}

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
          '`link`: link an identity to the account of the console session. `confirm`: prove the user of that session ' +
          'once more, as `/api/auth/session/confirm`; the provider asks the user to sign in if that is not recent.',
      ),
      redirect: queryText.describe('The page of the console where the user goes on: a path of this site.'),
      fresh: queryText.describe('`true`: the provider asks the user to sign in if that is not recent.'),
    }),
    refusals: [...providerRefusals, noMethod, unknownMethod, noSession, otherSite, recentSignInRefusal],
    plain: [
      {
        status: 200,
        description: 'A page that asks whether to sign in, if another site has led the browser here.',
        types,
      },
      { status: 302, description: 'To the page of the provider.' },
      { status: 400, description: 'A page with the message, if `Accept` has `text/html`.', types },
    ],
    answer: ({ api, context, query }) =>
      asPage(context, api, async () => {
        if (query.method === '') throw refused(noMethod)
        const method = methods.find((each) => each === query.method)
        if (method === undefined) throw refused(unknownMethod)
        const { baseUrl } = api.clientOf(context.req)
        const { accounts } = api.gateway
        const ofSession = method === 'link' || method === 'confirm'
        // The cookie of the session is not sent then.
        if (!ofSession && isLedByOtherSite(context)) {
          if (method === 'get_sso_id') throw refused(otherSite)
          show(context, confirmPage(`${baseUrl}/api/auth/sso?${new URLSearchParams(query).toString()}`))
          return
        }
        const after = ownPath(query.redirect)
        if (!ofSession) {
          const secret = method === 'console' ? consoleSecretOf(api, context.req) : undefined
          const session = secret === undefined ? undefined : accounts.consoleSessions.find(secret)?.id
          redirect(context, await begin(api, context, { method, after, session, isFresh: query.fresh === 'true' }))
          return
        }
        const { principal, session } = await ownSession(api, context, method === 'link')
        if (method === 'link' && accounts.twoStep.needsSecondStep(principal)) {
          show(context, linkCodePage(baseUrl, after))
        } else redirect(context, await begin(api, context, { method, after, session }))
      }),
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/sso_link',
    tag: 'Signing in',
    summary: 'Begin to link an identity to an account with two-step verification',
    description: 'The form of the page that `/api/auth/sso` shows for the method `link`.',
    access: 'anybody',
    readsToken: true,
    fields: z.object({ redirect: text, otp_code: oneTimeCode }),
    bodyLimit: signInBodyLimit,
    refusals: [...providerRefusals, noSession, recentSignInRefusal, ...secondStepRefusals],
    plain: [
      { status: 200, description: 'A page that leads to that of the provider, or asks for the code again.', types },
    ],
    answer: ({ api, context, fields }) =>
      asPage(context, api, async () => {
        const { baseUrl } = api.clientOf(context.req)
        const after = ownPath(fields.redirect)
        const { principal, session } = await ownSession(api, context)
        try {
          await assertSecondStep(api, context, principal, fields.otp_code)
        } catch (error) {
          if (!(error instanceof ApiError) || error.error !== 'code_required') throw error
          show(context, linkCodePage(baseUrl, after, codeWrong))
          return
        }
        show(context, leadingPage(await begin(api, context, { method: 'link', after, session })))
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
        await send(api, context, outcome, codeWrong)
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
]

/** Asks for the code of an account to which an identity is linked. */
function linkCodePage(baseUrl: string, after: string, error?: string): Page {
  const { headers, body } = codePage(`${baseUrl}/api/auth/sso_link`, { redirect: after }, error)
  // The cookie of the session counts only with the origin of the page, which `no-referrer` would hide.
  return { headers: { ...headers, 'Referrer-Policy': 'same-origin' }, body }
}

/** A path of this site; its root for anything that a browser could take for another site. */
function ownPath(text: string): string {
  return /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}$/.test(text) ? text : '/'
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
    case 'confirmed':
      redirect(context, baseUrl + outcome.after)
      return
    case 'code':
      show(context, codePage(`${baseUrl}/api/auth/sso_code`, { secret: outcome.secret }, codeError))
      return
    case 'session':
      setSessionCookie(api, context.res, outcome.session.secret)
      redirect(context, baseUrl + outcome.after)
  }
}
