/** Administration of settings. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/errors.js'
import { settingTypes } from '../../../src/settings-table.js'
import { RefusedSettingError } from '../../../src/settings.js'
import { onRow } from '../admin-rows.js'
import { endpoint } from '../endpoint.js'
import { WireError } from '../errors.js'
import { integerValue, queryText } from '../fields.js'

const settingData = z
  .object({
    key: z.string(),
    value: z.string().describe('A text, whatever the type.'),
    help: z.string(),
    type: z.enum(settingTypes),
    options: z.string().describe('Comma-separated, of a `select`.'),
    group: z.int(),
    flag: z.literal([0, 1, 2, 3]).describe('0: public, 1: private, 2: read-only, 3: deprecated.'),
    index: z.int().describe('Position in the display.'),
  })
  .meta({ id: 'Setting' })

/** `groups` wins over `group`; undefined without both. */
const groupQuery = z
  .object({
    group: queryText.describe('Only this group.'),
    groups: queryText.describe('Only these groups, comma-separated; wins over `group`.'),
  })
  .transform(({ group, groups }, context): readonly number[] | undefined => {
    if (group === '' && groups === '') return undefined
    const names = groups === '' ? [group] : groups.split(',').map((name) => name.trim())
    const numbers = z.array(integerValue).safeParse(names)
    if (numbers.success) return numbers.data
    context.addIssue({ code: 'custom', message: 'must be an integer', path: ['group'] })
    return z.NEVER
  })

/** Clients send whole rows back: what a setting is, is not theirs to say. */
const savedRows = z.object({
  settings: z
    .array(
      z.object({
        key: z.string().min(1, 'must not be empty'),
        value: z
          .union([z.string(), z.number().transform(String), z.boolean().transform(String)], {
            error: 'must be a text',
          })
          .meta({ wire: { type: 'string' } }),
      }),
      { error: 'must be a list of settings' },
    )
    .meta({ example: [{ key: 'site_title', value: 'Files' }] }),
})

const missing = 'failed to get settingItem: record not found'

export const adminSettingEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/setting/list',
    tag: 'Settings',
    summary: 'The settings with their values, private ones too',
    access: 'admin',
    query: groupQuery,
    data: z.array(settingData).readonly(),
    answer: ({ door, query }) => door.gateway.settings.rows(query),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/default',
    tag: 'Settings',
    summary: 'The settings with the values of a new installation; nothing changes',
    access: 'admin',
    query: groupQuery,
    data: z.array(settingData).readonly(),
    answer: ({ door, query }) => door.gateway.settings.defaults(query),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/setting/get',
    tag: 'Settings',
    summary: 'One setting, or several',
    access: 'admin',
    query: z.object({
      key: queryText.meta({ example: 'site_title' }).describe('One setting is the answer; wins over `keys`.'),
      keys: queryText.describe('Comma-separated; a list in this order is the answer.'),
    }),
    data: z.union([settingData, z.array(settingData)]),
    refusals: [{ code: 400, text: 'record not found', when: 'one of them is unknown, or none is named' }],
    answer({ door, query: { key, keys } }) {
      const rows = new Map(door.gateway.settings.rows().map((row) => [row.key, row]))
      const named = (name: string) => {
        const row = rows.get(name)
        if (row === undefined) throw new WireError(400, 'record not found')
        return row
      }
      return key === '' ? keys.split(',').map(named) : named(key)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/save',
    tag: 'Settings',
    summary: 'Change the values of settings, all of them or none',
    description:
      'The body may be the list itself. Whatever else a row holds is passed over, and so are read-only settings. ' +
      'Unknown keys are kept as deprecated ones.',
    access: 'admin',
    fields: savedRows,
    listField: 'settings',
    refusals: [
      { code: 400, text: 'setting […] must be …', when: 'a value does not fit the type or the options of its setting' },
      { code: 500, text: 'there is nothing to save' },
      { code: 500, text: 'failed to execute hook on …: …', when: 'the server cannot do what a value says' },
    ],
    async answer({ door, fields: { settings: rows } }) {
      if (rows.length === 0) throw new WireError(500, 'there is nothing to save')
      try {
        await door.gateway.settings.set(new Map(rows.map(({ key, value }) => [key, value])))
      } catch (error) {
        if (error instanceof RefusedSettingError) throw new WireError(500, error.reason)
        throw error
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/delete',
    tag: 'Settings',
    summary: 'Forget a value that this version has no setting for',
    access: 'admin',
    query: z.object({ key: queryText.meta({ example: 'old_key' }) }),
    refusals: [
      { code: 500, text: 'setting […] is not deprecated' },
      { code: 500, text: missing },
    ],
    async answer({ door, query }) {
      try {
        await onRow(missing, () => door.gateway.settings.delete(query.key))
      } catch (error) {
        if (isGatewayError(error, 'invalid')) throw new WireError(500, error.reason)
        throw error
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/reset_token',
    tag: 'Settings',
    summary: 'A new permanent token; with the old one all signed links die',
    access: 'admin',
    data: z.string().describe('The new token.'),
    answer: ({ door }) => door.gateway.settings.resetToken(),
  }),
]
