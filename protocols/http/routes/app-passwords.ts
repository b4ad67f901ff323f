/** The app passwords of the user who asks: an extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import { appPasswordDoors } from '../../../src/accounts/app-passwords.js'
import { isGatewayError } from '../../../src/errors.js'
import { appPasswordData, appPasswordObject } from '../account-objects.js'
import { onRow } from '../admin-rows.js'
import { endpoint } from '../endpoint.js'
import { WireError } from '../errors.js'
import { flag, paging, requiredText, rowId } from '../fields.js'
import { pageOf } from '../paging.js'
import { pageData } from '../schemas.js'

const newAppPassword = z.object({
  name: requiredText.meta({ example: 'phone' }).describe('Unique for the user, at most 255 bytes.'),
  doors: z
    .array(z.enum(appPasswordDoors, { error: `must be one of ${appPasswordDoors.join(', ')}` }), {
      error: 'must be a list of doors',
    })
    .nullish()
    .transform((doors) => doors ?? appPasswordDoors)
    .describe('Where it opens; left out: everywhere.'),
  read_only: flag.describe('It reads and lists, and changes nothing.'),
})

const missing = 'app password not found'

export const appPasswordEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/me/app_password/list',
    tag: 'Own account',
    summary: 'The app passwords of the user',
    access: 'user',
    fields: z.object(paging),
    data: pageData(appPasswordData),
    answer({ door, fields, principal }) {
      const all = door.gateway.accounts.appPasswords.list(principal.userId)
      return { content: pageOf(all, fields).map(appPasswordObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/app_password/add',
    tag: 'Own account',
    summary: 'Make an app password, which is shown only here',
    access: 'user',
    fields: newAppPassword,
    data: appPasswordData.extend({ password: z.string() }),
    refusals: [
      { code: 400, text: 'an app password needs …', when: 'the name is too long, or `doors` is empty' },
      { code: 400, text: 'an account has … app passwords at most' },
      { code: 500, text: 'app password with the same name already exists' },
    ],
    async answer({ door, fields: { name, doors, read_only: readOnly }, principal }) {
      const { appPasswords } = door.gateway.accounts
      const made = await onRow(missing, () => appPasswords.add(principal.userId, { name, doors, readOnly }))
      return { ...appPasswordObject(made.row), password: made.password }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/app_password/delete',
    tag: 'Own account',
    summary: 'Delete an app password of the user; what came in with it ends at once',
    access: 'user',
    query: rowId,
    faultyQuery: 'id format invalid',
    refusals: [{ code: 404, text: missing, when: 'the user has no such app password' }],
    async answer({ door, principal, query }) {
      try {
        await door.gateway.accounts.appPasswords.delete(principal.userId, query.id)
      } catch (error) {
        if (isGatewayError(error, 'not_found')) throw new WireError(404, missing)
        throw error
      }
    },
  }),
]
