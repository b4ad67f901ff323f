/** Copies a database into an empty one, of the same engine or the other. */
import { isDeepStrictEqual } from 'node:util'
import type { Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import type { StoredRow } from './columns.js'
import { copiedTables, type CopiedTable } from './copied-tables.js'
import { Database } from './database.js'
import { isPostgres } from './dialect.js'
import { isConnectionError } from './errors.js'
import { migrate, newestVersion, storedVersion } from './migrations.js'
import { deadAfter, NodesTable } from './nodes.js'
import { newNode, openEngine } from './open-engine.js'
import { withoutPassword } from './store-url.js'

/** Rows that are read and written at once. A row has at most about 1 MB. */
const pageSize = 100

/**
 * A row in the form that both engines accept: integers as decimal text, because some have 64 bits; booleans, texts and
 * buffers.
 */
type Row = Readonly<Record<string, string | boolean | Buffer | null>>

export interface CopyResult {
  readonly table: string
  readonly rows: number
}

/**
 * Copies every row of `from` to `to` in one transaction, and compares them before its end. The locations are those of
 * `openStore`. Both get the newest schema, `from` only if `mayUpgrade` is true. Changes of `from` by others wait for
 * the end of the copy. `to` does not give an id to a new row that `from` has given to one. Rejects, and copies nothing,
 * with
 *
 * - `not_found` if `from` has no schema,
 * - `unsupported` if `from` has an older schema and must keep it, or a newer one than this program,
 * - `exists` if `to` has rows,
 * - `busy` if a daemon uses one of them in PostgreSQL; the data folders of files must be locked by the caller,
 * - `invalid` if `to` cannot store a row; the reason names it.
 */
export async function copyDatabase(
  from: string,
  to: string,
  { mayUpgrade = true } = {},
): Promise<readonly CopyResult[]> {
  const tables = await copiedTables()
  const node = newNode()
  // Checked before the schemas are changed.
  const target = await openEngine(to, node, async (connection) => {
    await assertNobodyUses(connection, to)
    await assertEmpty(connection, tables, to)
    await migrate(connection)
  })
  try {
    const source = await openEngine(from, node, async (connection) => {
      await assertNobodyUses(connection, from)
      if (!(await connection.schema.hasTable('schema_version'))) {
        throw new GatewayError('not_found', { reason: `there is no database of Tidegate in ${withoutPassword(from)}` })
      }
      if (!mayUpgrade && (await storedVersion(connection)) < newestVersion()) {
        throw new GatewayError('unsupported', {
          reason: `the database ${withoutPassword(from)} is of an older version: start the daemon of this version there once, which keeps a backup`,
        })
      }
      await migrate(connection)
    })
    try {
      return await source.durable.run(async (connection) => {
        const reading = await connection.transaction()
        try {
          await lock(reading, tables, 'share')
          return await target.durable.transaction(async (writing) => {
            await lock(writing, tables, 'access exclusive')
            await assertEmpty(writing, tables, to)
            return copyTables(reading, writing, tables)
          })
        } finally {
          await reading.rollback()
        }
      })
    } finally {
      await source.close()
    }
  } finally {
    await target.close()
  }
}

/** Rejects with `busy` if a node that may be alive uses the database. SQLite: the lock of the data folder tells. */
async function assertNobodyUses(connection: Knex, location: string): Promise<void> {
  if (!isPostgres(connection) || !(await connection.schema.hasTable('nodes'))) return
  const nodes = await new NodesTable(new Database(connection)).all()
  const living = nodes.filter(({ ended, age }) => ended === undefined && age < deadAfter).map(({ name }) => name)
  if (living.length === 0) return
  const reason =
    `the database ${withoutPassword(location)} is used by the node ${living.join(', ')}: stop it; ` +
    `if it was killed, wait ${deadAfter / 1000} seconds`
  throw new GatewayError('busy', { reason })
}

/** Rejects with `exists` if one of the tables has a row. Tables may be missing. */
async function assertEmpty(query: Knex, tables: readonly CopiedTable[], location: string): Promise<void> {
  const filled: string[] = []
  for (const { name } of tables) {
    if ((await query.schema.hasTable(name)) && (await query(name).first(query.raw('1'))) !== undefined)
      filled.push(name)
  }
  if (filled.length === 0) return
  throw new GatewayError('exists', {
    reason: `the database ${withoutPassword(location)} is not empty, it has rows in ${filled.join(', ')}: name a new one`,
  })
}

/** The first statements of a transaction. `share`: it sees one state of the database, which nobody else can change. */
async function lock(query: Knex, tables: readonly CopiedTable[], mode: 'share' | 'access exclusive'): Promise<void> {
  if (!isPostgres(query)) {
    // Any statement that writes keeps others from writing.
    await query('guards').where({ name: 'users' }).update({ name: 'users' })
    return
  }
  if (mode === 'share') await query.raw('set transaction isolation level repeatable read')
  await query.raw("set local lock_timeout = '10s'")
  await query.raw(`lock table ${tables.map(() => '??').join(', ')} in ${mode} mode`, names(tables))
}

function names(named: readonly { readonly name: string }[]): string[] {
  return named.map(({ name }) => name)
}

async function copyTables(
  reading: Knex,
  writing: Knex,
  tables: readonly CopiedTable[],
): Promise<readonly CopyResult[]> {
  await copyRows(reading, writing, tables)
  const results: CopyResult[] = []
  for (const table of tables) results.push({ table: table.name, rows: await compare(reading, writing, table) })
  return results
}

/**
 * Copies the rows of these tables, page by page, and the highest ids that were given. Both are transactions; `reading`
 * must see one state of the database. Rejects with `invalid` if a row cannot be stored; the reason names it.
 */
export async function copyRows(reading: Knex, writing: Knex, tables: readonly CopiedTable[]): Promise<void> {
  for (const table of tables) {
    for await (const page of pagesOf(reading, table)) await insert(writing, table, page)
    if (table.hasGeneratedId) await setLastId(writing, table.name, await lastId(reading, table.name))
  }
}

/** All rows in the order of the primary key. */
async function* pagesOf(query: Knex, table: CopiedTable): AsyncGenerator<readonly Row[], undefined> {
  // The column is named with its table: an alias that is selected as text has the same name, and would be taken
  // instead.
  const key = table.key.map((column) => `${table.name}.${column}`)
  const marks = (mark: string) => key.map(() => mark).join(', ')
  const fields = table.columns.map(({ name, kind }) =>
    kind === 'integer' ? query.raw('cast(?? as text) as ??', [`${table.name}.${name}`, name]) : `${table.name}.${name}`,
  )
  let last: Row | undefined
  do {
    const page = query(table.name).select<readonly StoredRow[]>(fields).orderBy(key).limit(pageSize)
    if (last) {
      const values = table.key.map((column) => last?.[column] ?? null)
      void page.whereRaw(`(${marks('??')}) > (${marks('?')})`, [...key, ...values])
    }
    const rows = (await page).map((stored) => rowOf(table, stored))
    if (rows.length > 0) yield rows
    last = rows.length < pageSize ? undefined : rows.at(-1)
  } while (last)
}

function rowOf({ columns }: CopiedTable, stored: StoredRow): Row {
  return Object.fromEntries(
    columns.map(({ name, kind }) => {
      const value = stored[name] as Row[string]
      return [name, kind === 'boolean' && value !== null ? Boolean(value) : value]
    }),
  )
}

/** Inserts rows. Rejects with `invalid` and the name of the first row that cannot be stored. */
async function insert(query: Knex, table: CopiedTable, rows: readonly Row[]): Promise<void> {
  try {
    await query.transaction((inner) => inner(table.name).insert(rows))
  } catch (error) {
    if (!(error instanceof Error) || isConnectionError(error)) throw error
    const [row] = rows
    if (rows.length === 1 && row) throw notStorable(table, row, error)
    const middle = Math.ceil(rows.length / 2)
    await insert(query, table, rows.slice(0, middle))
    await insert(query, table, rows.slice(middle))
  }
}

function notStorable(table: CopiedTable, row: Row, error: Error): GatewayError {
  const hasNul = Object.values(row).some((value) => typeof value === 'string' && value.includes('\0'))
  // Knex writes the statement before the message of the database.
  const why = hasNul ? 'its text contains the character NUL' : error.message.split(' - ').at(-1)
  return new GatewayError('invalid', { reason: `${nameOf(table, row)} cannot be stored: ${why}`, cause: error })
}

/** Rejects with `internal` if the rows differ. Resolves to their number. */
async function compare(reading: Knex, writing: Knex, table: CopiedTable): Promise<number> {
  const copies = pagesOf(writing, table)
  let count = 0
  for await (const page of pagesOf(reading, table)) {
    const copy = (await copies.next()).value ?? []
    const different = page.findIndex((row, index) => !isDeepStrictEqual(row, copy[index]))
    const row = page[different] ?? copy[page.length]
    if (row) throw new GatewayError('internal', { reason: `${nameOf(table, row)} differs from its copy` })
    count += page.length
  }
  if (!(await copies.next()).done) {
    throw new GatewayError('internal', { reason: `the copy of ${table.name} has more rows` })
  }
  return count
}

/** The row for the admin: its table and primary key. */
function nameOf({ name, key }: CopiedTable, row: Row): string {
  return `the row of ${name} with ${key.map((column) => `${column} ${JSON.stringify(row[column])}`).join(', ')}`
}

/** The highest id that was given to a row of the table, which may be deleted; 0 for none. */
async function lastId(query: Knex, table: string): Promise<bigint> {
  const rows = isPostgres(query)
    ? (
        await query.raw<{ rows: readonly { last: string | null }[] }>(
          `select cast(pg_sequence_last_value(cast(pg_get_serial_sequence(?, 'id') as regclass)) as text) as last`,
          [table],
        )
      ).rows
    : await query.raw<readonly { last: string | null }[]>(
        'select cast(seq as text) as last from sqlite_sequence where name = ?',
        [table],
      )
  return BigInt(rows[0]?.last ?? 0)
}

async function setLastId(query: Knex, table: string, id: bigint): Promise<void> {
  if (id === 0n) return
  if (isPostgres(query)) {
    await query.raw("select setval(pg_get_serial_sequence(?, 'id'), ?)", [table, String(id)])
    return
  }
  await query('sqlite_sequence').where({ name: table }).delete()
  await query('sqlite_sequence').insert({ name: table, seq: query.raw('cast(? as integer)', [String(id)]) })
}
