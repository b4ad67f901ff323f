/** The app passwords of the current user. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import { appPasswordData, appPasswordObject } from '../compat/account-objects.js'
import { withRowErrors } from '../compat/admin-rows.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { flag, optionalField, paging, requiredText, rowId, text, timeValue } from '../api/fields.js'
import type { HttpApi } from '../api/http-api.js'
import { malformedPath, relativePath } from '../api/refusals.js'
import { pageOf } from '../api/paging.js'
import { pageData } from '../api/schemas.js'

/** An unknown field is refused: it may be a limit that is misspelled. */
const newAppPassword = z.strictObject({
  name: requiredText.meta({ example: 'phone' }).describe('Unique for the user, at most 255 bytes.'),
  protocols: z
    .array(z.string(), { error: 'must be a list of protocols' })
    .nullish()
    .meta({ example: ['webdav', 'sftp'] })
    .describe('The protocols that accept the password. Default: all that accept app passwords.'),
  read_only: flag.describe('Whether the password allows only reading and listing.'),
  folder: text
    .meta({ example: '/photos' })
    .describe('What the password opens, as a path of the user. It need not exist. Default: all that the user sees.'),
  expires: optionalField(timeValue).describe('When the password ends. Default: never.'),
})

/** The selected protocols that accept app passwords; all if none are selected. Throws a 400 for an unknown name. */
function protocolsOf(api: HttpApi, selected: readonly string[] | null | undefined): readonly string[] {
  const all = api.gateway.protocols.flatMap(({ name, appPasswords }) => (appPasswords ? [name] : []))
  if (!selected) return all
  if (!selected.every((name) => all.includes(name))) {
    throw refused(wrongProtocols(all.join(', ')))
  }
  return all.filter((name) => selected.includes(name))
}

const wrongProtocols = (all: string): Refusal => ({
  code: 400,
  text: `protocols: must be some of ${all}`,
  error: 'invalid',
})
const unknownPassword: Refusal = {
  code: 404,
  text: 'app password not found',
  error: 'record_missing',
  when: 'the user has no such app password',
}

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
    event: 'admin.app-password',
    recentSignIn: true,
    fields: newAppPassword,
    data: appPasswordData.extend({ password: z.string() }),
    refusals: [
      wrongProtocols('…'),
      {
        code: 400,
        text: 'an app password needs …',
        error: 'invalid',
        when: 'the name is too long, or `protocols` is empty',
      },
      { code: 400, text: 'an account can have at most … app passwords', error: 'invalid' },
      { code: 400, text: 'the end of an app password must be in the future', error: 'invalid' },
      ...malformedPath,
      { ...relativePath, when: '`folder` contains `..`' },
      { code: 500, text: 'app password with the same name already exists', error: 'exists' },
    ],
    async answer({ api, fields, principal }) {
      const { appPasswords } = api.gateway.accounts
      const { name, read_only: readOnly, folder, expires } = fields
      const protocols = protocolsOf(api, fields.protocols)
      const created = await withRowErrors(unknownPassword, () =>
        appPasswords.add(principal.userId, { name, protocols, readOnly, folder, expires }),
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
    event: 'admin.app-password',
    recentSignIn: true,
    query: rowId,
    faultyQuery: 'id format invalid',
    refusals: [unknownPassword],
    async answer({ api, principal, query }) {
      await withResponses({ not_found: unknownPassword }, () =>
        api.gateway.accounts.appPasswords.delete(principal.userId, query.id),
      )
    },
  }),
]
