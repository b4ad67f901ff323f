/** The account of the current user and its SSH keys. */
import { z } from 'zod'
import { GatewayError } from '../../../src/base/errors.js'
import { nameTries } from '../../../src/accounts/users.js'
import {
  keyData,
  keyObject,
  ownUserData,
  ownUserObject,
  requesterOf,
  tooManyPasswords,
  unknownUser,
} from '../compat/account-objects.js'
import { withRowErrors } from '../compat/admin-rows.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { oneTimeCode, optionalField, paging, requiredText, rowId, text } from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { coreRefusal } from '../api/refusals.js'
import { secondStepRefusals } from '../api/second-step.js'
import { pageData } from '../api/schemas.js'
import { foreignId, linkIdentity, linkedAlone } from './identities.js'

const keyEmpty: Refusal = { code: 400, text: 'request invalid', error: 'invalid', when: '`title` or `key` is empty' }
const keyInvalid: Refusal = { code: 400, text: 'provided key invalid', error: 'invalid' }
const tooManyKeys: Refusal = { code: 400, text: 'an account can have at most 100 keys', error: 'too_large' }
const titleTaken: Refusal = { code: 500, text: 'key with the same title already exists', error: 'exists' }
const keyMissing: Refusal = {
  code: 404,
  text: 'failed to get public key',
  error: 'record_missing',
  when: 'the user has no such key',
}

export const meEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/me',
    tag: 'Own account',
    summary: 'Get the account of the current user',
    description: 'With the role and the permissions that the user has by its groups.',
    access: 'guest',
    setsUpTwoStep: true,
    data: ownUserData,
    answer({ api, principal }) {
      const user = api.gateway.accounts.users.get(principal.userId)
      if (user === undefined) throw new GatewayError('unauthenticated')
      return ownUserObject(api.gateway, user, principal)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/update',
    tag: 'Own account',
    summary: 'Change the name or password of the current user',
    description: 'Changing the name or the password ends all sessions of the user.',
    access: 'user',
    event: 'admin.user',
    recentSignIn: true,
    guestRefusal: { code: 403, text: 'Guest user can not update profile', error: 'denied' },
    fields: z.object({
      username: requiredText.meta({ example: 'ann' }),
      password: text.describe('Empty: unchanged.'),
      sso_id: optionalField(z.string().max(1000)).describe(
        'Empty: unlinks the identities at the provider. An id that the browser has just got from the provider: links that. ' +
          'Absent, or as it is: unchanged. It cannot be changed together with the name or the password.',
      ),
      otp_code: oneTimeCode.describe(
        'Required to link an identity if the account has two-step verification: its code.',
      ),
    }),
    refusals: [
      {
        code: 400,
        text: 'this user name cannot be used: …',
        error: 'invalid',
        when: 'the name is not allowed, or taken',
      },
      { code: 400, text: '…', error: 'invalid', when: 'the password is not allowed' },
      {
        code: 429,
        text: 'too many user names have been tried, try again later',
        error: 'throttled',
        when: `the user has asked for ${nameTries.count} other names within an hour`,
      },
      unknownUser,
      tooManyPasswords,
      foreignId,
      linkedAlone,
      ...secondStepRefusals,
      coreRefusal('denied', { detail: 'provider_sign_in_expired' }),
      coreRefusal('denied', { detail: 'identity_refused', reason: '…' }, 'another account has this identity'),
    ],
    async answer({ api, context, fields: { username, password, sso_id: ssoId, otp_code: code }, principal }) {
      const update = { username, password: password === '' ? undefined : password }
      const isOther = username !== principal.username || update.password !== undefined
      if (await linkIdentity(api, context, principal, { ssoId, code, isOther })) return
      const requester = requesterOf(principal, context)
      await withRowErrors(unknownUser, () => api.gateway.accounts.users.updateOwn(principal.userId, update, requester))
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/me/sshkey/list',
    tag: 'Own account',
    summary: 'List the SSH keys of the current user',
    access: 'user',
    fields: z.object(paging),
    data: pageData(keyData),
    answer({ api, fields, principal }) {
      const keys = api.gateway.accounts.keys.list(principal.userId)
      return { content: pageOf(keys, fields).map(keyObject), total: keys.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/sshkey/add',
    tag: 'Own account',
    summary: 'Add an SSH key',
    access: 'user',
    event: 'admin.key',
    recentSignIn: true,
    fields: z.object({
      title: text.meta({ example: 'laptop' }).describe('Unique for the user.'),
      key: text.meta({ example: 'ssh-ed25519 AAAA… ann@laptop' }).describe('A line as in `authorized_keys`.'),
    }),
    refusals: [...[keyEmpty, keyInvalid, tooManyKeys, titleTaken]],
    async answer({ api, fields: { title, key }, principal }) {
      if (title === '' || key === '') throw refused(keyEmpty)
      await withResponses({ invalid: keyInvalid, too_large: tooManyKeys, exists: titleTaken }, () =>
        api.gateway.accounts.keys.add(principal.userId, title, key),
      )
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/sshkey/delete',
    tag: 'Own account',
    summary: 'Delete an SSH key of the current user and end its sessions',
    access: 'user',
    event: 'admin.key',
    recentSignIn: true,
    query: rowId,
    faultyQuery: 'id format invalid',
    refusals: [keyMissing],
    async answer({ api, principal, query }) {
      await withResponses({ not_found: keyMissing }, () => api.gateway.accounts.keys.delete(principal.userId, query.id))
    },
  }),
]
