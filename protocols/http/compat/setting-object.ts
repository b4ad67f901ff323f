/** API representation of settings, and the numbers of their groups and flags. */
import { z } from 'zod'
import type { SettingRow } from '../../../src/settings/settings.js'
import { namedNumber } from '../api/schemas.js'
import { settingTypes, type SettingFlag, type SettingGroup } from '../../../src/settings/settings-table.js'

export const groupNumbers = {
  single: 0,
  site: 1,
  style: 2,
  preview: 3,
  global: 4,
  offlineDownload: 5,
  index: 6,
  singleSignOn: 7,
  ldap: 8,
  s3: 9,
  ftp: 10,
  traffic: 11,
  audit: 12,
} as const satisfies Record<SettingGroup, number>

export const flagNumbers = { public: 0, private: 1, readonly: 2, deprecated: 3 } as const satisfies Record<
  SettingFlag,
  number
>

export const settingData = z
  .object({
    key: z.string(),
    value: z.string().describe('A string, whatever the `type`.'),
    help: z.string(),
    type: z.enum(settingTypes),
    options: z.string().describe('Comma-separated choices of a `select`.'),
    group: namedNumber('SettingGroup', groupNumbers),
    flag: namedNumber('SettingFlag', flagNumbers),
    index: z.int().describe('Display position.'),
    in_force: z
      .boolean()
      .describe(
        'Whether this server or its console uses the value. Others are only stored, for clients that read them.',
      ),
  })
  .meta({ id: 'Setting' })

type SettingObject = z.infer<typeof settingData>

/** The objects of all rows, or of those in the groups. `rows`: in display order. */
export function settingObjects(rows: readonly SettingRow[], groups?: readonly number[]): readonly SettingObject[] {
  return rows.map(settingObject).filter(({ group }) => groups?.includes(group) ?? true)
}

function settingObject(row: SettingRow, index: number): SettingObject {
  const { key, value, help, type, options, group, flag, inForce } = row
  return {
    ...{ key, value, help, type, options: options.join(',') },
    ...{ group: groupNumbers[group], flag: flagNumbers[flag], index, in_force: inForce },
  }
}
