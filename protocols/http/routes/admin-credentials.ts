/** Administration of SSH keys, app passwords, passkeys, and identities at providers and directories. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/base/errors.js'
import { credentialIdOf, passkeyData, passkeyId, passkeyName, passkeyObject } from '../compat/passkey-objects.js'
import {
  appPasswordData,
  appPasswordObject,
  identityData,
  identityObject,
  keyData,
  keyObject,
} from '../compat/account-objects.js'
import type { HttpApi } from '../api/http-api.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused } from '../api/errors.js'
import { integerValue, paging, rowId, rowNumber } from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { coreRefusal } from '../api/refusals.js'
import { pageData } from '../api/schemas.js'

/** The query of endpoints for the credentials of one account. */
const ownerQuery = {
  query: z.object({ uid: rowNumber.describe('The id of the user.') }),
  faultyQuery: 'user id format invalid',
}
const rowQuery = { query: rowId, faultyQuery: 'id format invalid' }
export const unknownUser: Refusal = {
  code: 404,
  text: 'user invalid',
  error: 'record_missing',
  when: 'the user does not exist',
}

export const adminCredentialEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/user/sshkey/list',
    tag: 'Users',
    summary: 'List the SSH keys of a user',
    access: 'admin',
    ...ownerQuery,
    fields: z.object(paging),
    data: pageData(keyData),
    refusals: [unknownUser],
    answer({ api, fields, query }) {
      const all = api.gateway.accounts.keys.list(ownerOf(api, query.uid))
      return { content: pageOf(all, fields).map(keyObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/sshkey/delete',
    tag: 'Users',
    summary: 'Delete an SSH key of any user; succeeds if it does not exist',
    access: 'admin',
    event: 'admin.key',
    recentSignIn: true,
    ...rowQuery,
    async answer({ api, query }) {
      const { keys } = api.gateway.accounts
      const key = keys.get(query.id)
      if (key !== undefined) await keys.delete(key.userId, key.id)
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/user/app_password/list',
    tag: 'Users',
    summary: 'List the app passwords of a user',
    access: 'admin',
    ...ownerQuery,
    fields: z.object(paging),
    data: pageData(appPasswordData),
    refusals: [unknownUser],
    answer({ api, fields, query }) {
      const all = api.gateway.accounts.appPasswords.list(ownerOf(api, query.uid))
      return { content: pageOf(all, fields).map(appPasswordObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/app_password/delete',
    tag: 'Users',
    summary: 'Delete an app password of any user; succeeds if it does not exist',
    access: 'admin',
    event: 'admin.app-password',
    recentSignIn: true,
    ...rowQuery,
    async answer({ api, query }) {
      const { appPasswords } = api.gateway.accounts
      const appPassword = appPasswords.get(query.id)
      if (appPassword !== undefined) await appPasswords.delete(appPassword.userId, appPassword.id)
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/user/passkey/list',
    tag: 'Users',
    summary: 'List the passkeys of a user',
    access: 'admin',
    ...ownerQuery,
    data: z.array(passkeyData),
    refusals: [unknownUser],
    async answer({ api, query }) {
      return (await api.gateway.passkeys.list(ownerOf(api, query.uid))).map(passkeyObject)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/passkey/delete',
    tag: 'Users',
    summary: 'Remove a passkey of a user; succeeds if it does not exist',
    access: 'admin',
    event: 'admin.key',
    async about({ api, query, fields }) {
      const name = await passkeyName(api, query.uid, fields.id)
      return name && `${api.gateway.accounts.users.get(query.uid)?.username}: ${name}`
    },
    recentSignIn: true,
    ...ownerQuery,
    fields: z.object({ id: passkeyId }),
    refusals: [unknownUser],
    async answer({ api, query, fields }) {
      await api.gateway.passkeys.delete(ownerOf(api, query.uid), credentialIdOf(fields.id))
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/user/identity/list',
    tag: 'Users',
    summary: 'List the identities at providers and directories that are linked to a user',
    access: 'admin',
    ...ownerQuery,
    data: z.array(identityData),
    refusals: [unknownUser],
    answer: ({ api, query }) => api.gateway.accounts.identities.of(ownerOf(api, query.uid)).map(identityObject),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/identity/delete',
    tag: 'Users',
    summary: 'Unlink an identity of a user, and end the sessions that began by it at the provider',
    description: 'Succeeds if it does not exist. That with which the account was created is not unlinked.',
    access: 'admin',
    event: 'admin.user',
    about: ({ api, query }) => api.gateway.accounts.users.get(query.uid)?.username,
    recentSignIn: true,
    ...ownerQuery,
    fields: z.object({ id: integerValue }),
    refusals: [unknownUser, coreRefusal('denied', { detail: 'identity_refused', reason: '…' })],
    async answer({ api, query, fields }) {
      try {
        await api.gateway.singleSignOn.unlink(ownerOf(api, query.uid), fields.id)
      } catch (error) {
        if (!isGatewayError(error, 'not_found')) throw error
      }
    },
  }),
]

function ownerOf({ gateway }: HttpApi, id: number): number {
  if (gateway.accounts.users.get(id) === undefined) throw refused(unknownUser)
  return id
}
