/** Signing in with LDAP, and which account is whose in the directory. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/base/errors.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused } from '../api/errors.js'
import { integerValue, requiredText, signInBodyLimit } from '../api/fields.js'
import { coreRefusal } from '../api/refusals.js'
import { unknownUser } from './admin-credentials.js'
import { issueToken, plainFields, signInRefusals, tokenData } from './auth.js'

const notEnabled: Refusal = { code: 403, text: 'ldap is not enabled', error: 'denied' }

const nobody: Refusal = {
  code: 404,
  text: 'the directory has nobody of this name, or several people',
  error: 'record_missing',
}
const linked: Refusal = { code: 400, text: 'this person is linked to a user already', error: 'exists' }

const notLinked: Refusal = {
  code: 400,
  text: 'the guest and the built-in admin are not linked: they have to stay as they are whatever the directory says',
  error: 'invalid',
}

export const ldapEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/auth/login/ldap',
    tag: 'Signing in',
    summary: 'Sign in with user name and password, while sign-ins by LDAP are enabled',
    description:
      'The same as `/api/auth/login`, which asks the directory too: the password of an account of this server signs in ' +
      'here as well.',
    access: 'anybody',
    fields: plainFields,
    bodyLimit: signInBodyLimit,
    data: tokenData,
    refusals: [...signInRefusals, notEnabled],
    async answer(call) {
      if (!call.api.gateway.ldap.isOn) throw refused(notEnabled)
      return { token: await issueToken(call, { plain: call.fields.password }) }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/link_ldap',
    tag: 'Users',
    summary: 'Link a user to a person of the LDAP directory',
    description: 'The password of the person there is then valid for the account, besides one that it has here.',
    access: 'admin',
    event: 'admin.user',
    recentSignIn: true,
    fields: z.object({
      id: integerValue.describe('The id of the user.'),
      name: requiredText.describe('The name of the person in the directory.'),
    }),
    refusals: [
      notEnabled,
      unknownUser,
      notLinked,
      nobody,
      linked,
      coreRefusal('unavailable', { detail: 'directory_silent' }),
    ],
    async answer({ api, fields: { id, name } }) {
      const { ldap, accounts } = api.gateway
      const { users } = accounts
      if (!ldap.isOn) throw refused(notEnabled)
      const user = users.get(id)
      if (user === undefined) throw refused(unknownUser)
      if (user === users.byUniqueRole('admin') || user === users.byUniqueRole('guest')) throw refused(notLinked)
      try {
        if ((await ldap.link(id, name)) === undefined) throw refused(nobody)
      } catch (error) {
        throw isGatewayError(error, 'exists') ? refused(linked) : error
      }
    },
  }),
]
