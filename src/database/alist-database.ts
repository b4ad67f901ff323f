/** Reads the SQLite database of AList and OpenList, without changing it. */
import { stat } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import knex, { type Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import { decodeUtf8 } from '../base/utf8.js'

/** A row of a table, as its column names have it. Absent for columns that the table lacks. */
export type AlistRow = Readonly<Record<string, string | number | Buffer | null | undefined>>

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
  roles: ['id', 'name', 'raw_permission'],
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
  sharing_dbs: ['id'],
} as const
type AlistTable = keyof typeof tables

/** Rows by table; empty for a table that does not exist. */
export interface AlistDatabase {
  readonly rows: Readonly<Record<AlistTable, readonly AlistRow[]>>
  /** Whether users have roles instead of permissions. */
  readonly hasRoles: boolean
}

/** The largest number of rows of a table, and of bytes of a value and of all values of a table. */
const limits = { rows: 10_000, value: 1024 * 1024, table: 64 * 1024 * 1024 }

/**
 * Reads the tables whose names begin with `prefix`. `file`: if it has a write-ahead log, a copy, because SQLite writes
 * beside it. Rejects with `invalid` if it is not such a database, is damaged, or exceeds a limit; the reason is a
 * sentence for the admin.
 */
export async function readAlistDatabase(file: string, prefix: string): Promise<AlistDatabase> {
  const connection = await connect(file)
  try {
    const found: Partial<Record<AlistTable, readonly AlistRow[] | undefined>> = {}
    for (const name of Object.keys(tables) as AlistTable[]) found[name] = await rowsOf(connection, prefix, name)
    if (found.users === undefined || found.storages === undefined) {
      throw invalid(
        `${file} has no tables ${prefix}users and ${prefix}storages: it is no database of AList or OpenList`,
      )
    }
    const names = Object.keys(tables) as AlistTable[]
    const rows = Object.fromEntries(names.map((name) => [name, found[name] ?? []])) as AlistDatabase['rows']
    return { rows, hasRoles: found.roles !== undefined }
  } catch (error) {
    if (error instanceof GatewayError) throw error
    throw invalid(
      `${file} cannot be read as an SQLite database: ${(error as Error).message.replace(/^.* - /s, '')}`,
      error,
    )
  } finally {
    await connection.destroy()
  }
}

async function connect(file: string): Promise<Knex> {
  let hasLog: boolean
  try {
    if (!(await stat(file)).isFile()) throw invalid(`${file} is not a file`)
    hasLog = await stat(`${file}-wal`).then(
      ({ size }) => size > 0,
      () => false,
    )
  } catch (error) {
    if (error instanceof GatewayError) throw error
    throw invalid(`the database ${file} cannot be read: ${(error as Error).message}`, error)
  }
  // Without a log the file is complete: `immutable` keeps SQLite from creating files beside it.
  const url = `${pathToFileURL(file).href}?mode=ro${hasLog ? '' : '&immutable=1'}`
  return knex({
    client: 'sqlite3',
    connection: { filename: url, flags: ['OPEN_URI'] },
    useNullAsDefault: true,
    pool: {
      min: 0,
      max: 1,
      afterCreate: (sqlite: { exec(sql: string, done: (error: Error | null) => void): void }, done: () => void) => {
        sqlite.exec('PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA busy_timeout = 10000;', done)
      },
    },
    log: { warn: () => undefined },
  })
}

/** Undefined if there is no such table. A view or a virtual table is none: reading it could run anything. */
async function rowsOf(query: Knex, prefix: string, name: AlistTable): Promise<readonly AlistRow[] | undefined> {
  const table = `${prefix}${name}`
  const stored = await query<{ type: string; name: string; rootpage: number }>('sqlite_master')
    .where({ type: 'table', name: table })
    .andWhere('rootpage', '>', 0)
    .first('name')
  if (stored === undefined) return undefined
  const present: readonly { name: string }[] = await query.raw('select name from pragma_table_info(?)', [table])
  const columns = tables[name].filter((column) => present.some((each) => each.name === column))
  if (columns.length === 0) throw invalid(`the table ${table} has no known column`)
  // The sizes are in the headers of the rows: the values are not read.
  const sizes = columns.map(() => 'coalesce(octet_length(??), 0)')
  const found: readonly { readonly count: number; readonly longest: number | null; readonly total: number | null }[] =
    await query.raw(
      `select count(*) as count, max(${sizes.join(' + ')}) as longest, sum(${sizes.join(' + ')}) as total from ` +
        '(select * from ?? limit ?)',
      [...columns, ...columns, table, limits.rows + 1],
    )
  const [size] = found
  if (size === undefined || size.count > limits.rows) {
    throw invalid(`the table ${table} has more than ${limits.rows} rows: this is more than can be imported`)
  }
  if ((size.longest ?? 0) > limits.value || (size.total ?? 0) > limits.table) {
    throw invalid(`the table ${table} has values of more than ${limits.value} bytes: this is more than can be imported`)
  }
  // Raw keys begin with NUL, at which the text would end.
  const selected = columns.map((column) => (column === 'key_str' ? 'cast(?? as blob) as key_str' : '??'))
  const rows: readonly AlistRow[] = await query.raw(`select ${selected.join(', ')} from ?? order by 1`, [
    ...columns,
    table,
  ])
  return rows
}

/** The text of a value; empty for none. Throws `invalid` for bytes that are not UTF-8. */
export function textOf(value: AlistRow[string]): string {
  if (value === null || value === undefined) return ''
  const text = Buffer.isBuffer(value) ? decodeUtf8(value) : String(value)
  if (text === undefined) throw invalid('a value is not text in UTF-8')
  return text
}

function invalid(reason: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid', { reason, cause })
}
