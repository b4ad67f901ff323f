/** Administration of what belongs to accounts: SSH keys and app passwords. */
import { z } from 'zod'
import { appPasswordData, appPasswordObject, keyData, keyObject } from '../account-objects.js'
import type { Door } from '../context.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { paging, rowId, rowNumber } from '../fields.js'
import { pageOf } from '../paging.js'
import { pageData } from '../schemas.js'

/** The account that the query names. */
const owner = {
  query: z.object({ uid: rowNumber.describe('The id of the user.') }),
  faultyQuery: 'user id format invalid',
}
const row = { query: rowId, faultyQuery: 'id format invalid' }
const unknownOwner: Refusal = { code: 404, text: 'user invalid', when: 'there is no such user' }

export const adminCredentialEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/user/sshkey/list',
    tag: 'Users',
    summary: 'The SSH keys of a user',
    access: 'admin',
    ...owner,
    fields: z.object(paging),
    data: pageData(keyData),
    refusals: [unknownOwner],
    answer({ door, fields, query }) {
      const all = door.gateway.accounts.keys.list(ownerOf(door, query.uid))
      return { content: pageOf(all, fields).map(keyObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/sshkey/delete',
    tag: 'Users',
    summary: 'Delete an SSH key of any user; succeeds for an unknown one, too',
    access: 'admin',
    ...row,
    async answer({ door, query }) {
      const { keys } = door.gateway.accounts
      const key = keys.get(query.id)
      if (key !== undefined) await keys.delete(key.userId, key.id)
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/user/app_password/list',
    tag: 'Users',
    summary: 'The app passwords of a user',
    access: 'admin',
    ...owner,
    fields: z.object(paging),
    data: pageData(appPasswordData),
    refusals: [unknownOwner],
    answer({ door, fields, query }) {
      const all = door.gateway.accounts.appPasswords.list(ownerOf(door, query.uid))
      return { content: pageOf(all, fields).map(appPasswordObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/user/app_password/delete',
    tag: 'Users',
    summary: 'Delete an app password of any user; succeeds for an unknown one, too',
    access: 'admin',
    ...row,
    async answer({ door, query }) {
      const { appPasswords } = door.gateway.accounts
      const found = appPasswords.get(query.id)
      if (found !== undefined) await appPasswords.delete(found.userId, found.id)
    },
  }),
]

function ownerOf({ gateway }: Door, id: number): number {
  if (gateway.accounts.users.get(id) === undefined) throw new WireError(404, unknownOwner.text)
  return id
}
