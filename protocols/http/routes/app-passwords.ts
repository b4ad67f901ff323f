/** The app passwords of the current user. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import { appPasswordProtocols } from '../../../src/accounts/protocols.js'
import { isGatewayError } from '../../../src/contract/errors.js'
import { appPasswordData, appPasswordObject } from '../account-objects.js'
import { withRowErrors } from '../admin-rows.js'
import { endpoint } from '../endpoint.js'
import { ApiError } from '../errors.js'
import { flag, paging, requiredText, rowId } from '../fields.js'
import { pageOf } from '../paging.js'
import { pageData } from '../schemas.js'

const newAppPassword = z.object({
  name: requiredText.meta({ example: 'phone' }).describe('Unique for the user, at most 255 bytes.'),
  protocols: z
    .array(z.enum(appPasswordProtocols, { error: `must be one of ${appPasswordProtocols.join(', ')}` }), {
      error: 'must be a list of protocols',
    })
    .nullish()
    .transform((names) => names ?? appPasswordProtocols)
    .describe('The protocols that accept the password. Default: all.'),
  read_only: flag.describe('Whether the password allows only reading and listing.'),
})

const notFoundMessage = 'app password not found'

export const appPasswordEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/me/app_password/list',
    tag: 'Own account',
    summary: 'List the app passwords of the current user',
    access: 'user',
    fields: z.object(paging),
    data: pageData(appPasswordData),
    answer({ api, fields, principal }) {
      const all = api.gateway.accounts.appPasswords.list(principal.userId)
      return { content: pageOf(all, fields).map(appPasswordObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/app_password/add',
    tag: 'Own account',
    summary: 'Create an app password; only this response contains it',
    access: 'user',
    fields: newAppPassword,
    data: appPasswordData.extend({ password: z.string() }),
    refusals: [
      { code: 400, text: 'an app password needs …', when: 'the name is too long, or `protocols` is empty' },
      { code: 400, text: 'an account can have at most … app passwords' },
      { code: 500, text: 'app password with the same name already exists' },
    ],
    async answer({ api, fields: { name, protocols, read_only: readOnly }, principal }) {
      const { appPasswords } = api.gateway.accounts
      const created = await withRowErrors(notFoundMessage, () =>
        appPasswords.add(principal.userId, { name, protocols, readOnly }),
      )
      return { ...appPasswordObject(created.row), password: created.password }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/app_password/delete',
    tag: 'Own account',
    summary: 'Delete an app password of the current user and end its sessions',
    access: 'user',
    query: rowId,
    faultyQuery: 'id format invalid',
    refusals: [{ code: 404, text: notFoundMessage, when: 'the user has no such app password' }],
    async answer({ api, principal, query }) {
      try {
        await api.gateway.accounts.appPasswords.delete(principal.userId, query.id)
      } catch (error) {
        if (isGatewayError(error, 'not_found')) throw new ApiError(404, notFoundMessage)
        throw error
      }
    },
  }),
]
