/**
 * Passkeys: sign-in by them, and those of the current user. The requests below `/api/authn` and their JSON are those of
 * the family; the others are extensions of this gateway, described in docs/passkeys.md.
 */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { flag, oneTimeCode, queryText, requiredText, signInBodyLimit } from '../api/fields.js'
import type { Exchange, HttpApi } from '../api/http-api.js'
import { coreRefusal } from '../api/refusals.js'
import { assertSecondStep, secondStepRefusals } from '../api/second-step.js'
import { consoleSecretOf } from '../api/session-cookie.js'
import {
  answerFields,
  assertion,
  attestation,
  begunObject,
  creationData,
  credentialIdOf,
  inHeader,
  noSite,
  passkeyData,
  passkeyId,
  passkeyName,
  passkeyObject,
  passkeyRefused,
  passkeysOff,
  requestData,
  siteOf,
  wrongSession,
} from '../compat/passkey-objects.js'
import { admissionRefusals, noConsoleSession, openSession, otherOrigin, signInResponses, tokenData } from './auth.js'

const flooded = coreRefusal(
  'throttled',
  { detail: 'sign_in_throttled' },
  'the network of the client has begun too many within a minute',
)
const beginRefusals: readonly Refusal[] = [passkeysOff, noSite, flooded]
const finishRefusals: readonly Refusal[] = [passkeyRefused, ...admissionRefusals]
const noPasskeys: Refusal = { code: 400, text: 'the user has no passkeys', error: 'record_missing' }
const unknownPasskey: Refusal = { code: 404, text: 'passkey not found', error: 'record_missing' }
const known: Refusal = { code: 400, text: 'this passkey is registered already', error: 'exists' }
const tooMany: Refusal = { code: 400, text: 'an account can have at most 100 passkeys', error: 'too_large' }
const wrongName: Refusal = { code: 400, text: 'a passkey needs a name of at most 255 bytes', error: 'invalid' }

const body = { bodyLimit: signInBodyLimit, faultyFields: 'the answer of the authenticator is malformed' }

export const passkeyEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/authn/webauthn_begin_login',
    tag: 'Signing in',
    summary: 'Begin a sign-in by a passkey',
    description: 'The response is the same for every name: the authenticator knows its accounts.',
    access: 'anybody',
    query: z.object({ username: queryText.describe('Ignored.') }),
    data: requestData,
    refusals: beginRefusals,
    async answer({ api, context }) {
      noStore(context)
      const site = siteOf(api, context.req)
      return begunObject(await api.gateway.passkeys.beginSignIn(site, api.clientOf(context.req).address))
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/authn/webauthn_finish_login',
    tag: 'Signing in',
    summary: 'Sign in by a passkey',
    description: 'Also for accounts with two-step verification: the authenticator has verified its user.',
    access: 'anybody',
    query: z.object({ username: queryText.describe("Whose passkey it must be. Empty: anybody's.") }),
    ...inHeader,
    ...body,
    fields: assertion,
    data: tokenData,
    refusals: [wrongSession, passkeysOff, noSite, ...finishRefusals],
    async answer({ api, context, headers: { session }, fields: credential, query: { username } }) {
      noStore(context)
      siteOf(api, context.req)
      const { address } = api.clientOf(context.req)
      const proof = await api.gateway.passkeys.proof({ session, credential }, { address, username })
      return { token: await withResponses(signInResponses, () => api.gateway.accounts.signIn.issueToken(proof)) }
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/session/passkey',
    tag: 'Signing in',
    summary: 'Sign in to the console by a passkey',
    description: 'As `/api/auth/session`, with the answer to `webauthn_begin_login`.',
    access: 'anybody',
    ...body,
    fields: answerFields.extend({
      remember: flag.describe('Whether the browser stores the cookie when it is closed.'),
    }),
    refusals: [passkeysOff, noSite, otherOrigin, ...finishRefusals],
    async answer({ api, context, fields: { remember, ...answer } }) {
      noStore(context)
      siteOf(api, context.req)
      const { address } = api.clientOf(context.req)
      await openSession(api, context, remember, await api.gateway.passkeys.proof(answer, { address }))
    },
  }),
  endpoint({
    method: 'get',
    path: '/api/auth/session/confirm/passkey/begin',
    tag: 'Signing in',
    summary: 'Begin the confirmation of a session by a passkey of the current user',
    access: 'user',
    setsUpTwoStep: true,
    data: requestData,
    refusals: [...beginRefusals, noPasskeys],
    async answer({ api, context, principal }) {
      noStore(context)
      const site = siteOf(api, context.req)
      const begun = await api.gateway.passkeys.beginOf(site, principal.userId, api.clientOf(context.req).address)
      if (begun === undefined) throw refused(noPasskeys)
      return begunObject(begun)
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/session/confirm/passkey',
    tag: 'Signing in',
    summary: 'Confirm a session by a passkey, for requests that need a sign-in within the last ten minutes',
    description: 'As `/api/auth/session/confirm`.',
    access: 'user',
    setsUpTwoStep: true,
    ...body,
    fields: answerFields,
    refusals: [passkeysOff, noSite, noConsoleSession, ...finishRefusals],
    async answer({ api, context, fields: answer, principal: { userId } }) {
      noStore(context)
      siteOf(api, context.req)
      const secret = consoleSecretOf(api, context.req)
      if (secret === undefined) throw refused(noConsoleSession)
      const { address } = api.clientOf(context.req)
      const proof = await api.gateway.passkeys.proof(answer, { address, userId })
      await withResponses(signInResponses, () => api.gateway.accounts.signIn.confirmConsoleSession(secret, proof))
    },
  }),
  endpoint({
    method: 'get',
    path: '/api/authn/webauthn_begin_registration',
    tag: 'Own account',
    summary: 'Begin the registration of a passkey of the current user',
    access: 'user',
    recentSignIn: true,
    headers: z.object({
      'otp-code': oneTimeCode.describe('Required if the account has two-step verification: its code.'),
    }),
    query: z.object({ name: queryText.describe('By which the user tells it from others, at most 255 bytes.') }),
    data: creationData,
    refusals: [...beginRefusals, ...secondStepRefusals, wrongName],
    async answer({ api, context, principal, query: { name }, headers: { 'otp-code': code } }) {
      noStore(context)
      const site = siteOf(api, context.req)
      await assertSecondStep(api, context, principal, code)
      const { userId: id, username } = principal
      const { passkeys, settings } = api.gateway
      const { address } = api.clientOf(context.req)
      const facts = { address, name, siteName: settings.get('site_title') }
      return begunObject(await passkeys.beginRegistration(site, { id, username }, facts))
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/authn/webauthn_finish_registration',
    tag: 'Own account',
    summary: 'Register a passkey of the current user',
    access: 'user',
    event: 'admin.key',
    about: ownName,
    recentSignIn: true,
    ...inHeader,
    ...body,
    fields: attestation,
    data: z.string(),
    refusals: [wrongSession, passkeysOff, noSite, passkeyRefused, known, tooMany],
    async answer({ api, context, headers: { session }, fields: credential, principal }) {
      noStore(context)
      siteOf(api, context.req)
      await withResponses({ unauthenticated: { code: 400 }, exists: known, too_large: tooMany }, () =>
        api.gateway.passkeys.register(principal.userId, { session, credential }),
      )
      return 'Registered Successfully'
    },
  }),
  endpoint({
    method: 'get',
    path: '/api/authn/getcredentials',
    tag: 'Own account',
    summary: 'List the passkeys of the current user',
    access: 'user',
    data: z.array(passkeyData),
    async answer({ api, principal }) {
      return (await api.gateway.passkeys.list(principal.userId)).map(passkeyObject)
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/authn/delete_authn',
    tag: 'Own account',
    summary: 'Remove a passkey of the current user; succeeds if it does not exist',
    access: 'user',
    event: 'admin.key',
    about: ownName,
    recentSignIn: true,
    fields: z.object({ id: passkeyId }),
    data: z.string(),
    async answer({ api, fields, principal }) {
      await api.gateway.passkeys.delete(principal.userId, credentialIdOf(fields.id))
      return 'Deleted Successfully'
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/authn/rename_authn',
    tag: 'Own account',
    summary: 'Change the name of a passkey of the current user',
    access: 'user',
    event: 'admin.key',
    about: ownName,
    fields: z.object({ id: passkeyId, name: requiredText.meta({ example: 'phone' }).describe('At most 255 bytes.') }),
    refusals: [unknownPasskey, wrongName],
    async answer({ api, fields, principal }) {
      await withResponses({ not_found: unknownPasskey }, () =>
        api.gateway.passkeys.rename(principal.userId, credentialIdOf(fields.id), fields.name),
      )
    },
  }),
]

/** The name of the passkey of the current user. */
function ownName(request: { readonly api: HttpApi; readonly principal: Principal; readonly fields: { id: string } }) {
  return passkeyName(request.api, request.principal.userId, request.fields.id)
}

function noStore(context: Exchange): void {
  context.set('Cache-Control', 'no-store')
}
