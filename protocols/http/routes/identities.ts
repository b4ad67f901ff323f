/** The identities at providers and directories by which the current user signs in. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { linkPrefix } from '../../../src/sign-in/single-sign-on.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { rowId } from '../api/fields.js'
import type { Exchange, HttpApi } from '../api/http-api.js'
import { coreRefusal } from '../api/refusals.js'
import { assertSecondStep } from '../api/second-step.js'
import { identityData, identityObject } from '../compat/account-objects.js'
import { browserOf } from './sso-browser.js'

const identityMissing: Refusal = { code: 404, text: 'identity not found', error: 'record_missing' }

export const identityEndpoints = [
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
    refusals: [identityMissing, coreRefusal('denied', { detail: 'identity_refused', reason: '…' })],
    async answer({ api, query, principal }) {
      const { singleSignOn } = api.gateway
      await withResponses({ not_found: identityMissing }, () => singleSignOn.unlink(principal.userId, query.id))
    },
  }),
]

export const linkedAlone: Refusal = {
  code: 400,
  text: 'link or unlink an identity first, and then change the name or the password',
  error: 'invalid',
  when: '`sso_id` is changed together with the name or the password',
}
export const foreignId: Refusal = {
  code: 403,
  text: 'sso_id can be changed only to an id that the provider has just confirmed',
  error: 'denied',
}

/**
 * Follows the field `sso_id` of the current user: links the identity of an id that this browser has just got, and
 * unlinks all for an empty one. Resolves to false if it is as it was. `isOther`: whether another field has changed.
 */
export async function linkIdentity(
  api: HttpApi,
  context: Exchange,
  principal: Principal,
  { ssoId, code, isOther }: { readonly ssoId: string | undefined; readonly code: string; readonly isOther: boolean },
): Promise<boolean> {
  const { accounts, singleSignOn } = api.gateway
  const { userId } = principal
  if (ssoId === undefined || ssoId === accounts.users.get(userId)?.ssoId) return false
  if (ssoId !== '' && !ssoId.startsWith(linkPrefix)) throw refused(foreignId)
  // Either could fail after the other.
  if (isOther) throw refused(linkedAlone)
  if (ssoId === '') await singleSignOn.unlink(userId)
  else {
    await assertSecondStep(api, context, principal, code)
    await singleSignOn.link(userId, ssoId, browserOf(api, context))
  }
  return true
}
