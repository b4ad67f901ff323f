/** Administration of accounts. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/errors.js'
import { userData, userObject } from '../account-objects.js'
import { onRow, rowThere } from '../admin-rows.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import {
  flag,
  flagValue,
  given,
  integer,
  integerValue,
  paging,
  queryText,
  requiredText,
  rowId,
  text,
} from '../fields.js'
import { pageOf } from '../paging.js'
import { pageData } from '../schemas.js'

const roleValue = integerValue.pipe(z.literal([0, 1, 2], { error: 'must be 0, 1 or 2' }))

const newUser = z.object({
  username: requiredText.meta({ example: 'ann' }),
  password: text.meta({ example: 'secret' }),
  base_path: text.describe('The folder of the tree that the user sees as `/`.'),
  role: roleValue
    .nullish()
    .transform((role) => role ?? 0)
    .describe('0: user. There is one guest and one admin from the start.'),
  permission: integer(0).describe('A sum of the bits of permissions.'),
  disabled: flag,
  sso_id: text,
})
/** What is left out stays as it is: not every client knows every field. */
const changedUser = z.object({
  id: integerValue.meta({ example: 3 }),
  username: requiredText.meta({ example: 'ann' }),
  password: text.describe('Empty: it stays.'),
  base_path: given(z.string()),
  role: given(roleValue),
  permission: given(integerValue),
  disabled: given(flagValue),
  sso_id: given(z.string()),
})

const missing = 'failed get old user: record not found'
const unknown: Refusal = { code: 500, text: missing }
const accountRefusals: readonly Refusal[] = [
  { code: 400, text: '…', when: 'a field holds what an account cannot have; the text says which' },
  { code: 403, text: 'using relative path is not allowed', when: '`base_path` holds `..`' },
  { code: 500, text: 'a user of this name exists already' },
]

export const adminUserEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/user/list',
    tag: 'Users',
    summary: 'The accounts',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(userData),
    answer({ door, fields }) {
      const all = door.gateway.accounts.users.list()
      return { content: pageOf(all, fields).map(userObject), total: all.length }
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/user/get',
    tag: 'Users',
    summary: 'One account',
    access: 'admin',
    query: rowId,
    data: userData,
    refusals: [unknown],
    answer: ({ door, query }) => userObject(rowThere(door.gateway.accounts.users.get(query.id), missing)),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/create',
    tag: 'Users',
    summary: 'Make an account',
    access: 'admin',
    fields: newUser,
    refusals: accountRefusals,
    async answer({ door, fields: { base_path: basePath, sso_id: ssoId, ...user } }) {
      await onRow(missing, () => door.gateway.accounts.users.create({ ...user, basePath, ssoId }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/update',
    tag: 'Users',
    summary: 'Change an account; what is left out stays',
    description: 'A new name, a new password or being disabled ends all sessions of the user.',
    access: 'admin',
    fields: changedUser,
    refusals: [...accountRefusals, unknown],
    async answer({ door, fields: { id, password, base_path: basePath, sso_id: ssoId, ...user } }) {
      const changes = { ...user, basePath, ssoId, password: password === '' ? undefined : password }
      await onRow(missing, () => door.gateway.accounts.users.update(id, changes))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/delete',
    tag: 'Users',
    summary: 'Delete an account with its keys and app passwords',
    access: 'admin',
    query: rowId,
    refusals: [unknown, { code: 500, text: 'cannot delete admin or guest' }],
    async answer({ door, query }) {
      try {
        await onRow(missing, () => door.gateway.accounts.users.delete(query.id))
      } catch (error) {
        if (isGatewayError(error, 'invalid')) throw new WireError(500, error.reason)
        throw error
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/cancel_2fa',
    tag: 'Users',
    summary: 'Turn off the two-step verification of an account',
    access: 'admin',
    query: rowId,
    refusals: [unknown],
    async answer({ door, query }) {
      await onRow(missing, () => door.gateway.accounts.users.update(query.id, { otpSecret: '' }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/del_cache',
    tag: 'Users',
    summary: 'Read the accounts again, after one was changed behind the back of the server',
    access: 'admin',
    query: z.object({ username: queryText.meta({ example: 'ann' }) }),
    refusals: [unknown],
    async answer({ door, query }) {
      const { accounts } = door.gateway
      await accounts.reload()
      rowThere(accounts.users.byName(query.username), missing)
    },
  }),
]
