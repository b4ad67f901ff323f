/** Accounts and what belongs to them as the API shows them. */
import { z } from 'zod'
import { appPasswordDoors } from '../../src/accounts/app-passwords.js'
import type { AppPasswordRow, KeyRow, UserRow } from '../../src/store/rows.js'
import { wireTime } from './object.js'
import { moment } from './schemas.js'

export const userData = z
  .object({
    id: z.int(),
    username: z.string(),
    password: z.literal('').describe('Never shown; clients expect the field.'),
    base_path: z.string().describe('The folder of the tree that the user sees as `/`.'),
    role: z.literal([0, 1, 2]).describe('0: user, 1: guest, 2: admin.'),
    disabled: z.boolean(),
    permission: z.int().describe('A sum of the bits of permissions.'),
    sso_id: z.string(),
    allow_ldap: z.literal(true).describe('Clients expect the field.'),
  })
  .meta({ id: 'User' })

/** The account without its secrets. */
export function userObject(user: UserRow): z.input<typeof userData> {
  return {
    id: user.id,
    username: user.username,
    password: '',
    base_path: user.basePath,
    role: user.role,
    disabled: user.disabled,
    permission: user.permission,
    sso_id: user.ssoId,
    allow_ldap: true,
  }
}

export const keyData = z
  .object({
    id: z.int(),
    title: z.string(),
    fingerprint: z.string().describe('As OpenSSH shows it: `SHA256:` and base64.'),
    added_time: moment,
    last_used_time: moment.describe('The time of adding while it is not used.'),
  })
  .meta({ id: 'SshKey' })

export function keyObject(key: KeyRow): z.input<typeof keyData> {
  return {
    id: key.id,
    title: key.title,
    fingerprint: key.fingerprint,
    added_time: wireTime(key.added),
    last_used_time: wireTime(key.lastUsed),
  }
}

export const appPasswordData = z
  .object({
    id: z.int(),
    name: z.string(),
    prefix: z.string().describe('How the password begins.'),
    doors: z.array(z.enum(appPasswordDoors)).describe('Where it opens.'),
    read_only: z.boolean(),
    added_time: moment,
    last_used_time: moment.nullable().describe('To the minute; null while it is not used.'),
  })
  .meta({ id: 'AppPassword' })

export function appPasswordObject(row: AppPasswordRow): z.input<typeof appPasswordData> {
  return {
    id: row.id,
    name: row.name,
    prefix: `tg-${row.prefix}`,
    doors: [...row.doors],
    read_only: row.readOnly,
    added_time: wireTime(row.added),
    last_used_time: row.lastUsed === undefined ? null : wireTime(row.lastUsed),
  }
}
