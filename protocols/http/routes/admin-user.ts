/** Administration of accounts. */
import { z } from 'zod'
import { requesterOf, tooManyPasswords, unknownUser, userData, userObject } from '../compat/account-objects.js'
import { roleValue } from '../compat/roles.js'
import { withRowErrors, requireRow } from '../compat/admin-rows.js'
import { tokenOf } from '../api/authenticate.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { accountChanged, coreRefusal, relativePath } from '../api/refusals.js'
import {
  flag,
  flagValue,
  optionalField,
  integer,
  integerValue,
  paging,
  queryText,
  requiredText,
  rowId,
  text,
} from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { pageData } from '../api/schemas.js'

const newUser = z.object({
  username: requiredText.meta({ example: 'ann' }),
  password: text.meta({ example: 'secret' }),
  base_path: text.describe('The folder of the tree that the user sees as `/`.'),
  role: roleValue
    .nullish()
    .transform((role) => role ?? 'general')
    .describe('0: user. Guest and admin are built in and cannot be created.'),
  permission: integer(0).describe('A bit mask of permissions.'),
  disabled: flag,
  sso_id: text,
})
/** Absent fields are unchanged, because not every client sends every field. */
const changedUser = z.object({
  id: integerValue.meta({ example: 3 }),
  username: requiredText.meta({ example: 'ann' }),
  password: text.describe('Empty: unchanged.'),
  base_path: optionalField(z.string()),
  role: optionalField(roleValue),
  permission: optionalField(integerValue),
  disabled: optionalField(flagValue),
  sso_id: optionalField(z.string()),
})

const accountRefusals: readonly Refusal[] = [
  { code: 400, text: '…', error: 'invalid', when: 'a field is invalid; the message is the reason' },
  coreRefusal('invalid', { detail: 'built_in_role' }),
  coreRefusal('invalid', { detail: 'role_changed' }),
  coreRefusal('invalid', { detail: 'admin_disabled' }),
  { ...relativePath, when: '`base_path` contains `..`' },
  { code: 500, text: 'a user of this name exists already', error: 'exists' },
  tooManyPasswords,
]

export const adminUserEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/user/list',
    tag: 'Users',
    summary: 'List the accounts',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(userData),
    answer({ api, fields }) {
      const all = api.gateway.accounts.users.list()
      return { content: pageOf(all, fields).map(userObject), total: all.length }
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/user/get',
    tag: 'Users',
    summary: 'Get an account',
    access: 'admin',
    query: rowId,
    data: userData,
    refusals: [unknownUser],
    answer: ({ api, query }) => userObject(requireRow(api.gateway.accounts.users.get(query.id), unknownUser)),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/create',
    tag: 'Users',
    summary: 'Create an account',
    access: 'admin',
    recentSignIn: true,
    fields: newUser,
    refusals: accountRefusals,
    async answer({ api, context, fields: { base_path: basePath, sso_id: ssoId, ...user }, principal }) {
      const requester = requesterOf(principal, context)
      await withRowErrors(unknownUser, () => api.gateway.accounts.users.create({ ...user, basePath, ssoId }, requester))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/update',
    tag: 'Users',
    summary: 'Change an account; absent fields are unchanged',
    description: 'Changing the name or the password, or disabling the account, ends all sessions of the user.',
    access: 'admin',
    recentSignIn: true,
    fields: changedUser,
    refusals: [...accountRefusals, unknownUser],
    async answer({ api, context, fields: { id, password, base_path: basePath, sso_id: ssoId, ...user }, principal }) {
      const changes = { ...user, basePath, ssoId, password: password === '' ? undefined : password }
      const requester = requesterOf(principal, context)
      await withRowErrors(unknownUser, () => api.gateway.accounts.users.update(id, changes, requester))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/delete',
    tag: 'Users',
    summary: 'Delete an account with its keys and app passwords',
    access: 'admin',
    recentSignIn: true,
    query: rowId,
    refusals: [unknownUser, coreRefusal('invalid', { detail: 'built_in_deleted' })],
    async answer({ api, query }) {
      await withRowErrors(unknownUser, () => api.gateway.accounts.users.delete(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/cancel_2fa',
    tag: 'Users',
    summary: 'Turn off the two-step verification of an account',
    access: 'admin',
    recentSignIn: true,
    query: rowId.extend({
      otp_code: queryText.describe(
        'Required for the own account, unless the permanent token is used: a one-time code, or a recovery code.',
      ),
    }),
    refusals: [
      unknownUser,
      { code: 400, text: 'Invalid 2FA code', error: 'code_required', when: 'the code is missing, wrong or used' },
      accountChanged,
      {
        code: 429,
        text: 'Too many …',
        error: 'sign_in_throttled',
        when: 'the limit of wrong codes of the account is reached',
      },
    ],
    async answer({ api, context, query: { id, otp_code: code }, principal }) {
      const { accounts } = api.gateway
      if (id === principal.userId && !accounts.isPermanentToken(tokenOf(context.req))) {
        const { address } = api.clientOf(context.req)
        await withResponses({ unauthenticated: { code: 400 } }, () => accounts.disableTwoStep(id, { code, address }))
      } else {
        await withRowErrors(unknownUser, () => accounts.users.update(id, { otpSecret: '' }))
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/del_cache',
    tag: 'Users',
    summary: 'Reload the accounts after a change in the database by another program',
    access: 'admin',
    query: z.object({ username: queryText.meta({ example: 'ann' }) }),
    refusals: [unknownUser],
    async answer({ api, query }) {
      const { accounts } = api.gateway
      await accounts.reload()
      requireRow(accounts.users.byName(query.username), unknownUser)
    },
  }),
]
