/** Reads tables of the SQLite database of another program, without changing it. */
import { stat } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import knex, { type Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import { decodeUtf8 } from '../base/utf8.js'

/** A row of a table, by the names of its columns. Absent for columns that the table lacks. */
export type ForeignRow = Readonly<Record<string, string | number | Buffer | null | undefined>>

/** The columns to read of each table. */
type Tables = Readonly<Record<string, readonly string[]>>

/** The largest number of rows of a table, and of bytes of a value and of all values of a table. */
const limits = { rows: 10_000, value: 1024 * 1024, table: 64 * 1024 * 1024 }

/**
 * Reads the columns of these tables; undefined for a table that does not exist. `prefix`: what their names begin with
 * in the database. `asBytes`: a column whose texts may hold NUL, and are read as bytes. `file`: if it has a write-ahead
 * log, a copy, because SQLite writes beside it. Rejects with `invalid` if it is no database, is damaged, or exceeds a
 * limit; the reason is a sentence for the admin.
 */
export async function readForeignTables<Own extends Tables>(
  file: string,
  tables: Own,
  { prefix = '', asBytes = '' } = {},
): Promise<Readonly<Record<keyof Own, readonly ForeignRow[] | undefined>>> {
  const connection = await connect(file)
  try {
    const found: (readonly [string, readonly ForeignRow[] | undefined])[] = []
    for (const [name, columns] of Object.entries(tables)) {
      found.push([name, await rowsOf(connection, `${prefix}${name}`, columns, asBytes)])
    }
    return Object.fromEntries(found) as Record<keyof Own, readonly ForeignRow[] | undefined>
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
async function rowsOf(
  query: Knex,
  table: string,
  known: readonly string[],
  asBytes: string,
): Promise<readonly ForeignRow[] | undefined> {
  const stored = await query<{ type: string; name: string; rootpage: number }>('sqlite_master')
    .where({ type: 'table', name: table })
    .andWhere('rootpage', '>', 0)
    .first('name')
  if (stored === undefined) return undefined
  const present: readonly { name: string }[] = await query.raw('select name from pragma_table_info(?)', [table])
  const columns = known.filter((column) => present.some((each) => each.name === column))
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
  // A text would end at its first NUL.
  const selected = columns.map((column) => (column === asBytes ? `cast(?? as blob) as ${column}` : '??'))
  const rows: readonly ForeignRow[] = await query.raw(`select ${selected.join(', ')} from ?? order by 1`, [
    ...columns,
    table,
  ])
  return rows
}

/** The text of a value; empty for none. Throws `invalid` for bytes that are not UTF-8. */
export function textOf(value: ForeignRow[string]): string {
  if (value === null || value === undefined) return ''
  const text = Buffer.isBuffer(value) ? decodeUtf8(value) : String(value)
  if (text === undefined) throw invalid('a value is not text in UTF-8')
  return text
}

function invalid(reason: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid', { reason, cause })
}
