/** Sign-in and sign-out. */
import { z } from 'zod'
import type { Credentials } from '../../../src/accounts/password-check.js'
import type { SignInProof } from '../../../src/accounts/proof.js'
import { tokenOf } from '../api/authenticate.js'
import { endpoint, type Call, type Refusal } from '../api/endpoint.js'
import { ApiError, refused, withResponses } from '../api/errors.js'
import { signalOf, type Exchange, type HttpApi } from '../api/http-api.js'
import { accountChanged, coreRefusal } from '../api/refusals.js'
import { flag, oneTimeCode, optionalField, requiredText, signInBodyLimit, text } from '../api/fields.js'
import { clearSessionCookie, consoleSecretOf, isSameOrigin, setSessionCookie } from '../api/session-cookie.js'
import {
  answer,
  begunObject,
  passkeyRefused,
  requestData,
  siteIfOn,
  siteOf,
  passkeysOff,
  noSite,
} from '../compat/passkey-objects.js'

const nameField = { username: requiredText.meta({ example: 'ann' }) }
const codeField = { otp_code: oneTimeCode.describe('Six digits of the authenticator app, or a recovery code.') }
export const plainFields = z.object({ ...nameField, password: text.meta({ example: 'secret' }), ...codeField })
const hashFields = z.object({
  ...nameField,
  password: text
    .meta({ example: '8a119a191d7f34278647d21217ff550a9f6748d48a6952379405487747a840c3' })
    .describe(
      'The SHA-256 of the password with the suffix `-https://github.com/alist-org/alist`, in lower-case hexadecimal.',
    ),
  ...codeField,
})
const consoleFields = plainFields.extend({
  remember: flag.describe('Whether the browser stores the cookie when it is closed.'),
  passkey: optionalField(answer).describe('Proves the second step in place of a code.'),
})
const confirmationFields = plainFields.omit({ username: true })
export const tokenData = z.object({
  token: z.string().describe('The value of the header `Authorization` in later requests.'),
})

export const admissionDetails = [
  'account_disabled',
  'account_expired',
  'network_refused',
  'provider_required',
  'provider_sign_in_due',
] as const

/** An account that has proved who it is cannot be used, or has changed meanwhile. */
export const admissionRefusals: readonly Refusal[] = [
  ...admissionDetails.map((detail) => ({
    ...coreRefusal('denied', { detail }, 'what the user has proved is correct'),
    code: 400,
  })),
  accountChanged,
]

export const signInRefusals: readonly Refusal[] = [
  { ...coreRefusal('unauthenticated', { detail: 'wrong_credentials' }), code: 400 },
  ...admissionRefusals,
  {
    ...coreRefusal('unauthenticated', { detail: 'code_required' }),
    code: 402,
    when: 'the password is correct, and the code is missing, wrong or used',
  },
  coreRefusal(
    'throttled',
    { detail: 'sign_in_throttled' },
    'the limit of failed sign-ins or of concurrent sign-ins of the address, or of wrong codes of the account, is reached',
  ),
  coreRefusal('denied', { detail: 'identity_refused' }, 'the password is correct in the LDAP directory'),
  coreRefusal('unavailable', { detail: 'directory_silent' }, 'the password is none of this server'),
]

export const otherOrigin: Refusal = {
  code: 403,
  text: 'the request comes from a page of another site',
  error: 'denied',
}

export const noConsoleSession: Refusal = {
  code: 400,
  text: 'only a session of the console can be confirmed: sign in again',
  error: 'invalid',
  when: 'the request has no cookie of a session',
}

// Clients treat 401 as an expired session and would show no message on the sign-in page.
export const signInResponses = { code_required: { code: 402 }, unauthenticated: { code: 400 }, denied: { code: 400 } }

export const authEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/auth/login',
    tag: 'Signing in',
    summary: 'Sign in with user name and password',
    access: 'anybody',
    fields: plainFields,
    bodyLimit: signInBodyLimit,
    data: tokenData,
    refusals: signInRefusals,
    answer: async (call) => ({ token: await issueToken(call, { plain: call.fields.password }) }),
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/login/hash',
    tag: 'Signing in',
    summary: 'Sign in with user name and hashed password',
    access: 'anybody',
    fields: hashFields,
    bodyLimit: signInBodyLimit,
    data: tokenData,
    refusals: signInRefusals,
    answer: async (call) => ({ token: await issueToken(call, { hash: call.fields.password }) }),
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/session',
    tag: 'Signing in',
    summary: 'Sign in to the console',
    description:
      'Sets the cookie `tidegate_session`, or `tidegate_session_PORT` at a port that is not the default one. It ' +
      'authenticates requests without the header `Authorization` that do not come from a page of another origin. ' +
      'Ends the session of the cookie in this request.',
    access: 'anybody',
    fields: consoleFields,
    bodyLimit: signInBodyLimit,
    refusals: [...signInRefusals, passkeysOff, noSite, passkeyRefused, otherOrigin],
    refusalData: { schema: z.object({ passkey: requestData }).meta({ id: 'PasskeyOffer' }) },
    async answer({ api, context, fields: { username, password, otp_code: code, passkey, remember } }) {
      if (passkey !== undefined) siteOf(api, context.req)
      const secondStep = passkey && api.gateway.passkeys.secondStep(passkey)
      const proof = { username, ...proofOf(api, context, { plain: password }, code), secondStep }
      try {
        await openSession(api, context, remember, proof)
      } catch (error) {
        if (error instanceof ApiError && error.error === 'code_required' && code === '') {
          await offerPasskey(api, context, username)
        }
        throw error
      }
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/session/confirm',
    tag: 'Signing in',
    summary: 'Send the password again, for requests that need a sign-in within the last ten minutes',
    description: 'For sessions of the console. Other clients sign in again, and use the new token.',
    access: 'user',
    setsUpTwoStep: true,
    fields: confirmationFields,
    bodyLimit: signInBodyLimit,
    refusals: [...signInRefusals, noConsoleSession],
    async answer({ api, context, fields: { password, otp_code: code } }) {
      const secret = consoleSecretOf(api, context.req)
      if (secret === undefined) throw refused(noConsoleSession)
      const proof = proofOf(api, context, { plain: password }, code)
      await withResponses(signInResponses, () => api.gateway.accounts.signIn.confirmConsoleSession(secret, proof))
    },
  }),
  endpoint({
    method: 'get',
    path: '/api/auth/logout',
    tag: 'Signing in',
    summary: 'Sign out: revoke the token, or end the console session of the cookie',
    description: 'Also succeeds if the token is missing, expired or revoked.',
    access: 'anybody',
    readsToken: true,
    async answer({ context, api }) {
      const { accounts } = api.gateway
      const token = tokenOf(context.req)
      const { address } = api.clientOf(context.req)
      if (token !== '') await accounts.tokens.revoke(token, address)
      const secret = consoleSecretOf(api, context.req)
      if (secret === undefined) return
      await accounts.consoleSessions.signOut(secret, address)
      clearSessionCookie(api, context.res)
    },
  }),
]

/** Opens a session of the console, in place of that of the request, and sets its cookie. */
export async function openSession(
  api: HttpApi,
  { req, res }: Exchange,
  remember: boolean,
  by: Credentials | SignInProof,
): Promise<void> {
  // Otherwise another site could sign a visitor in to an account of its own.
  if (!isSameOrigin(api, req)) throw refused(otherOrigin)
  const { consoleSessions, signIn } = api.gateway.accounts
  const userAgent = req.headers['user-agent'] ?? ''
  const { row, secret } = await withResponses(signInResponses, () => signIn.openConsoleSession(by, { userAgent }))
  const replaced = consoleSecretOf(api, req)
  if (replaced !== undefined) await consoleSessions.close(replaced)
  const lifetime = Math.round((row.expires.getTime() - row.created.getTime()) / 1000)
  setSessionCookie(api, res, secret, remember ? lifetime : undefined)
}

/** Has the refusal of a sign-in, whose password was right, begin its second step by a passkey, if the user has one. */
async function offerPasskey(api: HttpApi, { req, state }: Exchange, username: string): Promise<void> {
  const site = siteIfOn(api, req)
  const user = api.gateway.accounts.users.byName(username)
  if (site === undefined || user === undefined) return
  const begun = await api.gateway.passkeys.beginOf(site, user.id, api.clientOf(req).address)
  if (begun !== undefined) state.refusalData = { passkey: begunObject(begun) }
}

/** Signs in and resolves to a token. */
export async function issueToken(
  { context, api, fields: { username, otp_code: code } }: Call<z.output<typeof plainFields>>,
  password: Credentials['password'],
): Promise<string> {
  const credentials = { username, ...proofOf(api, context, password, code) }
  return withResponses(signInResponses, () => api.gateway.accounts.signIn.issueToken(credentials))
}

/** What the request proves, and the address that it comes from. */
function proofOf(
  api: HttpApi,
  { req, res }: Exchange,
  password: Credentials['password'],
  code: string,
): Omit<Credentials, 'username'> {
  return { password, code: code === '' ? undefined : code, address: api.clientOf(req).address, signal: signalOf(res) }
}
