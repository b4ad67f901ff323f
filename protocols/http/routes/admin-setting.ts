/** Administration of settings. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { trialOutcomes } from '../../../src/sign-in/sign-in-trials.js'
import { withRowErrors } from '../compat/admin-rows.js'
import {
  changesSignIn,
  isSignInSecret,
  settingData,
  settingObjects,
  type SettingRow,
} from '../compat/setting-object.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { signalOf, type HttpApi } from '../api/http-api.js'
import { badRequest, refused } from '../api/errors.js'
import { coreRefusal } from '../api/refusals.js'
import { callbackPath } from './sso-browser.js'
import { integerValue, optionalField, queryText, requiredText } from '../api/fields.js'

/** The requested groups. `groups` takes precedence over `group`. Undefined if both are missing. */
const groupQuery = z
  .object({
    group: queryText.describe('Only this group.'),
    groups: queryText.describe('Only these groups, comma-separated. Takes precedence over `group`.'),
  })
  .transform(({ group, groups }, context): readonly number[] | undefined => {
    if (group === '' && groups === '') return undefined
    const names = groups === '' ? [group] : groups.split(',').map((name) => name.trim())
    const numbers = z.array(integerValue).safeParse(names)
    if (numbers.success) return numbers.data
    const field = groups === '' ? 'group' : 'groups'
    context.addIssue({ code: 'custom', message: 'must be an integer', path: [field] })
    return z.NEVER
  })

/** Clients send whole rows back. Only key and value are used. */
export const settingValues = z.object({
  settings: z
    .array(
      z
        .object({
          key: z.string().min(1, 'must not be empty'),
          value: z
            .union([z.string(), z.number().transform(String), z.boolean().transform(String)], {
              error: 'must be a text',
            })
            .meta({ wire: { type: 'string' } }),
        })
        .meta({ id: 'SettingValue' }),
      { error: 'must be a list of settings' },
    )
    .meta({ example: [{ key: 'site_title', value: 'Files' }] }),
})

/** The setting that is a credential itself: the permanent token. */
const tokenKey = 'token'

const unknownSetting: Refusal = {
  code: 500,
  text: 'failed to get settingItem: record not found',
  error: 'record_missing',
}
const nothingToSave: Refusal = { code: 500, text: 'there is nothing to save', error: 'invalid' }
const unknownKey: Refusal = {
  code: 400,
  text: 'record not found',
  error: 'record_missing',
  when: 'a key is unknown',
}

/** Maximum characters of the name of a person who is looked for. */
const nameLimit = 255
const triedValues =
  'Settings that are not given have their stored values, also secrets that are empty. The switch that turns such ' +
  'sign-ins on need not be set.'
const trialData = z
  .object({
    outcome: z
      .enum(trialOutcomes)
      .describe(
        '`unconfirmed`: the provider does not tell whether it has the client. `account_refused`: it refuses the ' +
          'client, or the directory the account that searches.',
      ),
    reason: z.string().describe('Why, for admins; empty if there is no more to say.'),
    person: z
      .object({
        name: z.string().describe('Of the account that a sign-in would make.'),
        groups: z.array(z.string()).readonly().describe('Their DNs.'),
      })
      .meta({ id: 'FoundPerson' })
      .optional()
      .describe('In the directory, if one was looked for and found.'),
  })
  .meta({ id: 'SignInTrial' })
const trialRefusals: readonly Refusal[] = [
  coreRefusal(
    'invalid',
    { detail: 'setting_refused', reason: '…' },
    'a setting cannot have the value, or there is no such setting',
  ),
  coreRefusal('busy', { reason: '…' }, 'other settings are being tested'),
]

export const adminSettingEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/setting/list',
    tag: 'Settings',
    summary: 'List the settings with their values, including private ones',
    description:
      'The permanent token and the secrets of the groups `singleSignOn` and `ldap` are empty unless the user has signed ' +
      'in within the last ten minutes, or uses the permanent token.',
    access: 'admin',
    query: groupQuery,
    data: z.array(settingData).readonly(),
    answer: async ({ api, principal, query }) => settingObjects(await rowsFor(api, principal), query),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/default',
    tag: 'Settings',
    summary: 'List the settings with their default values; changes nothing',
    access: 'admin',
    query: groupQuery,
    data: z.array(settingData).readonly(),
    answer: ({ api, query }) => settingObjects(api.gateway.settings.defaults(), query),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/setting/get',
    tag: 'Settings',
    summary: 'Get one or more settings',
    description: 'Secrets are empty as in the list; for the permanent token, the request is refused.',
    access: 'admin',
    recentSignIn: ({ query }) => keysOf(query).includes(tokenKey),
    query: z.object({
      key: queryText.meta({ example: 'site_title' }).describe('Returns this setting. Takes precedence over `keys`.'),
      keys: queryText.describe('Comma-separated. Returns a list in the same order.'),
    }),
    data: z.union([settingData, z.array(settingData)]),
    refusals: [unknownKey],
    async answer({ api, principal, query }) {
      const rows = new Map(settingObjects(await rowsFor(api, principal)).map((row) => [row.key, row]))
      const settingNamed = (name: string) => {
        const row = rows.get(name)
        if (row === undefined) throw refused(unknownKey)
        return row
      }
      if (query.key === '' && query.keys === '') throw badRequest('key: is missing')
      return query.key === '' ? keysOf(query).map(settingNamed) : settingNamed(query.key)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/save',
    tag: 'Settings',
    summary: 'Change the values of settings, atomically',
    description:
      'The body may also be the list itself. Other fields of a row and read-only settings are ignored. ' +
      'Unknown keys are stored as deprecated settings. An empty secret of the groups `singleSignOn` and `ldap` leaves the ' +
      'stored one. A recent sign-in is needed for `token`, and to change `webauthn_login_enabled` or a setting of these ' +
      'groups.',
    access: 'admin',
    event: 'admin.setting',
    recentSignIn({ api, fields }) {
      const stored = new Map(api.gateway.settings.rows().map((row) => [row.key, row]))
      return fields.settings.some(({ key, value }) => key === tokenKey || changesSignIn(stored.get(key), value))
    },
    fields: settingValues,
    listField: 'settings',
    refusals: [
      {
        code: 400,
        text: 'setting […] must be …',
        error: 'invalid',
        when: 'a value does not match the type or the options of its setting',
      },
      nothingToSave,
      coreRefusal('invalid', { detail: 'setting_refused', reason: '…' }, 'the server cannot apply a value'),
    ],
    async answer({ api, fields: { settings: rows } }) {
      if (rows.length === 0) throw refused(nothingToSave)
      const { settings } = api.gateway
      await settings.set(valuesOf(settings.rows(), rows))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/try_sso',
    tag: 'Settings',
    summary: 'Ask the provider of single sign-on with these settings, and store nothing',
    description: `Asks for its metadata, and whether it has this client. ${triedValues}`,
    access: 'admin',
    recentSignIn: true,
    fields: settingValues,
    data: trialData,
    refusals: trialRefusals,
    async answer({ api, context, fields }) {
      const settings = triedSettings(api, fields)
      const redirectUri = api.clientOf(context.req).baseUrl + callbackPath(settings, { isLink: false })
      return api.gateway.signInTrials.ofProvider(settings, redirectUri, signalOf(context.res))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/try_ldap',
    tag: 'Settings',
    summary: 'Ask the LDAP directory with these settings, and store nothing',
    description: `Searches for a person as a sign-in does, without a password. ${triedValues}`,
    access: 'admin',
    recentSignIn: true,
    fields: z.object({
      ...settingValues.shape,
      name: optionalField(z.string().max(nameLimit, `must have at most ${nameLimit} characters`)).describe(
        'The name of the person. Absent: anybody.',
      ),
    }),
    data: trialData,
    refusals: trialRefusals,
    answer: ({ api, context, fields }) =>
      api.gateway.signInTrials.ofDirectory(triedSettings(api, fields), fields.name ?? '', signalOf(context.res)),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/delete',
    tag: 'Settings',
    summary: 'Delete a deprecated setting',
    access: 'admin',
    event: 'admin.setting',
    query: z.object({ key: requiredText.meta({ example: 'old_key' }) }),
    refusals: [coreRefusal('invalid', { detail: 'setting_in_use' }), unknownSetting],
    async answer({ api, query }) {
      await withRowErrors(unknownSetting, () => api.gateway.settings.delete(query.key))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/reset_token',
    tag: 'Settings',
    summary: 'Replace the permanent token; this invalidates all signed URLs',
    access: 'admin',
    event: 'admin.setting',
    recentSignIn: true,
    data: z.string().describe('The new token.'),
    answer: ({ api }) => api.gateway.settings.resetToken(),
  }),
]

/** The settings as they would be. */
function triedSettings({ gateway }: HttpApi, { settings: rows }: z.infer<typeof settingValues>) {
  return gateway.settings.with(valuesOf(gateway.settings.rows(), rows))
}

/** The values by key. Clients that send a whole page send back the secrets that were not shown: these stay. */
function valuesOf(
  stored: readonly SettingRow[],
  rows: z.infer<typeof settingValues>['settings'],
): ReadonlyMap<string, string> {
  const values = new Map(rows.map(({ key, value }) => [key, value]))
  for (const row of stored) if (isSignInSecret(row) && values.get(row.key) === '') values.delete(row.key)
  return values
}

/** The keys of a query for one or more settings. */
function keysOf({ key, keys }: { readonly key: string; readonly keys: string }): readonly string[] {
  return key === '' ? keys.split(',') : [key]
}

/** The settings as this admin may see them. */
async function rowsFor({ gateway }: HttpApi, principal: Principal): Promise<readonly SettingRow[]> {
  const rows = gateway.settings.rows()
  if (await gateway.accounts.signIn.isRecent(principal)) return rows
  return rows.map((row) => (row.key === tokenKey || isSignInSecret(row) ? { ...row, value: '' } : row))
}
