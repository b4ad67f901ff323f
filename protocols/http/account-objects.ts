/** Accounts and what belongs to them as the API shows them. */
import type { AppPasswordRow, KeyRow, UserRow } from '../../src/store/rows.js'
import { wireTime } from './object.js'

/** The account without its secrets; clients expect the fields to be there. */
export function userObject(user: UserRow): object {
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

export function keyObject(key: KeyRow): object {
  return {
    id: key.id,
    title: key.title,
    fingerprint: key.fingerprint,
    added_time: wireTime(key.added),
    last_used_time: wireTime(key.lastUsed),
  }
}

export function appPasswordObject(row: AppPasswordRow): object {
  return {
    id: row.id,
    name: row.name,
    prefix: `tg-${row.prefix}`,
    doors: row.doors,
    read_only: row.readOnly,
    added_time: wireTime(row.added),
    last_used_time: row.lastUsed === undefined ? null : wireTime(row.lastUsed),
  }
}
