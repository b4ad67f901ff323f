/** The SQLite database of AList and OpenList. */
import { GatewayError } from '../base/errors.js'
import { readForeignTables, type ForeignRow } from './foreign-sqlite.js'

/** The tables that are read, with their columns. */
const tables = {
  users: [
    'id',
    'username',
    'pwd_hash',
    'salt',
    'base_path',
    'role',
    'disabled',
    'permission',
    'otp_secret',
    'sso_id',
    'authn',
  ],
  roles: ['id', 'name', 'description', 'raw_permission', 'permission_scopes', 'base_paths', 'base_path', 'permission'],
  storages: [
    ...[
      'id',
      'mount_path',
      'order',
      'driver',
      'cache_expiration',
      'custom_cache_policies',
      'addition',
      'remark',
      'disabled',
    ],
    ...['disable_index', 'enable_sign', 'order_by', 'order_direction', 'extract_folder', 'web_proxy', 'webdav_policy'],
    ...['proxy_range', 'down_proxy_url', 'disable_proxy_sign'],
  ],
  meta: [
    ...[
      'id',
      'path',
      'password',
      'p_sub',
      'write',
      'w_sub',
      'hide',
      'h_sub',
      'readme',
      'r_sub',
      'header',
      'header_sub',
    ],
    ...['read_users', 'read_users_sub', 'write_users', 'write_users_sub'],
  ],
  ssh_public_keys: ['id', 'user_id', 'title', 'key_str'],
  setting_items: ['key', 'value'],
  sharing_dbs: [
    ...['id', 'files_raw', 'expires', 'pwd', 'accessed', 'max_accessed', 'creator_id', 'disabled', 'remark', 'readme'],
    ...['header', 'order_by', 'order_direction', 'extract_folder'],
  ],
} as const
type AlistTable = keyof typeof tables

/** Rows by table; empty for a table that does not exist. */
export interface AlistDatabase {
  readonly rows: Readonly<Record<AlistTable, readonly ForeignRow[]>>
  /** Whether users have roles instead of permissions. */
  readonly hasRoles: boolean
}

/**
 * Reads the tables whose names begin with `prefix`. Rejects as `readForeignTables`, and with `invalid` if it is another
 * database. `file`: if it has a write-ahead log, a copy.
 */
export async function readAlistDatabase(file: string, prefix: string): Promise<AlistDatabase> {
  // Raw keys begin with NUL.
  const found = await readForeignTables(file, tables, { prefix, asBytes: 'key_str' })
  if (found.users === undefined || found.storages === undefined) {
    const reason = `${file} has no tables ${prefix}users and ${prefix}storages: it is no database of AList or OpenList`
    throw new GatewayError('invalid', { reason })
  }
  const names = Object.keys(tables) as AlistTable[]
  const rows = Object.fromEntries(names.map((name) => [name, found[name] ?? []])) as AlistDatabase['rows']
  return { rows, hasRoles: found.roles !== undefined }
}
