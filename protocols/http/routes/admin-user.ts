/** Administration of accounts. */
import { z } from 'zod'
import { maxMembers } from '../../../src/accounts/groups.js'
import type { RightsOfUser } from '../../../src/accounts/users.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import type { NewGrant } from '../../../src/tree/grants.js'
import { requesterOf, tooManyPasswords, unknownUser, userData, userObject } from '../compat/account-objects.js'
import { roleValue } from '../compat/roles.js'
import { withRowErrors, requireRow } from '../compat/admin-rows.js'
import { tokenOf } from '../api/authenticate.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { grantList, grantRefusals } from '../api/grant-fields.js'
import { accountChanged, coreRefusal, guestAdmin, relativePath } from '../api/refusals.js'
import {
  flag,
  flagValue,
  optionalField,
  optionalTime,
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

const groupIds = z.array(integerValue, { error: 'must be a list of ids' })
const groups = 'The ids of the groups of the user.'
const grants = 'All grants of the user, besides those of its groups.'
const grantedOnly = 'Whether the user sees only what a grant allows.'
const networks = z
  .array(z.string(), { error: 'must be a list of networks' })
  .meta({ example: ['10.0.0.0/8', '2001:db8::/32'] })
const allowFrom = 'The addresses and networks from which the account can be used. Empty: from everywhere.'
const expires = optionalTime.describe('When the account ends. null: never.')

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
  granted_only: flag.describe(grantedOnly),
  allow_from: networks
    .nullish()
    .transform((list) => list ?? [])
    .describe(allowFrom),
  expires,
  groups: groupIds
    .nullish()
    .transform((ids) => ids ?? [])
    .describe(groups),
  grants: grantList
    .nullish()
    .transform((list) => list ?? [])
    .describe(grants),
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
  granted_only: optionalField(flagValue).describe(grantedOnly),
  allow_from: optionalField(networks).describe(allowFrom),
  expires,
  groups: optionalField(groupIds).describe(groups),
  grants: optionalField(grantList).describe(grants),
})

const accountRefusals: readonly Refusal[] = [
  { code: 400, text: '…', error: 'invalid', when: 'a field is invalid; the message is the reason' },
  coreRefusal('invalid', { detail: 'built_in_role' }),
  coreRefusal('invalid', { detail: 'role_changed' }),
  coreRefusal('invalid', { detail: 'admin_disabled' }),
  { ...relativePath, when: '`base_path` contains `..`' },
  { code: 400, text: 'there is no group …', error: 'invalid' },
  { code: 400, text: `a group can have at most ${maxMembers} members`, error: 'invalid' },
  guestAdmin,
  ...grantRefusals,
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
      return { content: pageOf(all, fields).map((user) => userObject(api.gateway, user)), total: all.length }
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
    answer: ({ api: { gateway }, query }) =>
      userObject(gateway, requireRow(gateway.accounts.users.get(query.id), unknownUser)),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/create',
    tag: 'Users',
    summary: 'Create an account',
    access: 'admin',
    event: 'admin.user',
    recentSignIn: true,
    fields: newUser,
    refusals: accountRefusals,
    async answer({ api: { gateway }, context, fields, principal }) {
      const {
        base_path: basePath,
        sso_id: ssoId,
        granted_only: onlyGranted,
        allow_from: allowedFrom,
        groups: ids,
        grants: list,
        ...user
      } = fields
      const account = { ...user, basePath, ssoId, grantedOnly: onlyGranted, allowFrom: allowedFrom }
      const rights = rightsOf(gateway, undefined, ids, list)
      await withRowErrors(unknownUser, async () => {
        await gateway.accounts.users.create(account, requesterOf(principal, context), rights)
      })
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/update',
    tag: 'Users',
    summary: 'Change an account; absent fields are unchanged',
    description:
      'Changing the name or the password, or disabling the account, ends all sessions of the user. Changes of its groups ' +
      'and grants end none: they are in force at once. Nobody can lock out the own account by `allow_from` or `expires`. ' +
      'Another `sso_id`, or none, unlinks all identities at providers.',
    access: 'admin',
    event: 'admin.user',
    recentSignIn: true,
    fields: changedUser,
    refusals: [
      ...accountRefusals,
      unknownUser,
      coreRefusal('denied', { detail: 'identity_refused', reason: '…' }, '`sso_id` is that of the identity that stays'),
    ],
    async answer({ api, context, fields, principal }) {
      const { gateway } = api
      const { id, password, base_path: basePath, sso_id: ssoId, granted_only: onlyGranted, ...others } = fields
      const { groups: ids, grants: list, allow_from: allowedFrom, ...user } = others
      const { accounts } = gateway
      const limits = { grantedOnly: onlyGranted, allowFrom: allowedFrom }
      const changes = { ...user, ...limits, basePath, ssoId, password: password || undefined }
      if (id === principal.userId && !accounts.tokens.isPermanent(tokenOf(context.req))) {
        accounts.admission.assertStaysIn(id, changes, api.clientOf(context.req).address)
      }
      const rights = rightsOf(gateway, id, ids, list)
      const former = accounts.users.get(id)?.ssoId
      await withRowErrors(unknownUser, async () => {
        // First: it empties `sso_id`.
        if (former !== undefined && (ssoId ?? former) !== former) await gateway.singleSignOn.unlink(id)
        await accounts.users.update(id, changes, requesterOf(principal, context), rights)
      })
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/delete',
    tag: 'Users',
    summary: 'Delete an account with its keys, app passwords, grants and shares',
    access: 'admin',
    event: 'admin.user',
    recentSignIn: true,
    query: rowId,
    refusals: [unknownUser, coreRefusal('invalid', { detail: 'built_in_deleted' })],
    async answer({ api: { gateway }, query }) {
      await withRowErrors(unknownUser, () => gateway.accounts.users.delete(query.id))
      await gateway.grants.reload()
      await gateway.shares.reload()
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/cancel_2fa',
    tag: 'Users',
    summary: 'Turn off the two-step verification of an account',
    access: 'admin',
    event: 'admin.user',
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
      if (id === principal.userId && !accounts.tokens.isPermanent(tokenOf(context.req))) {
        const { address } = api.clientOf(context.req)
        await withResponses({ unauthenticated: { code: 400 } }, () => accounts.twoStep.disable(id, { code, address }))
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
    event: 'admin.user',
    query: z.object({ username: queryText.meta({ example: 'ann' }) }),
    refusals: [unknownUser],
    async answer({ api, query }) {
      const { accounts } = api.gateway
      await accounts.reload()
      requireRow(accounts.users.byName(query.username), unknownUser)
    },
  }),
]

/** What is stored with a user. Throws `invalid` for grants that it cannot have. `id`: undefined for a new user. */
function rightsOf(
  { grants: stored }: ProtocolGateway,
  id: number | undefined,
  ids: readonly number[] | undefined,
  list: readonly NewGrant[] | undefined,
): RightsOfUser {
  const checked = list && stored.check(list, id === undefined ? undefined : { userId: id })
  return { groups: ids, grants: checked && { checked, reload: () => stored.reload() } }
}
