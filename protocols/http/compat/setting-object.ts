/** API representation of settings, the numbers of their groups and flags, and which decide who can sign in. */
import { z } from 'zod'
import type { SettingRow } from '../../../src/settings/settings.js'
import { namedNumber } from '../api/schemas.js'
import { settingTypes, type SettingFlag, type SettingGroup } from '../../../src/settings/settings-table.js'

export type { SettingRow } from '../../../src/settings/settings.js'

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

/** Whether it decides who can sign in without a password of this server. */
function isOfSignIn({ key, group }: SettingRow): boolean {
  return group === 'singleSignOn' || group === 'ldap' || key === 'webauthn_login_enabled'
}

/** Whether it is a secret at a provider or directory. */
export function isSignInSecret(row: SettingRow): boolean {
  return row.secret === true && isOfSignIn(row)
}

/**
 * Whether storing the value changes who can sign in without a password of this server. An empty secret changes nothing.
 * Others are not compared: whether that needs a recent sign-in would tell whether a guess is right.
 */
export function changesSignIn(row: SettingRow | undefined, value: string): boolean {
  if (row === undefined || !isOfSignIn(row)) return false
  return isSignInSecret(row) ? value !== '' : value !== row.value
}
