/** A snapshot: one state of the whole database in an SQLite file of its own, whatever the engine. */
import { isDeepStrictEqual } from 'node:util'
import type { Knex } from 'knex'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { copiedTables } from './copied-tables.js'
import { copyRows } from './copy.js'
import { databaseTime, isPostgres } from './dialect.js'
import { migrate, migrations, stepsTo, storedVersion, type Migration } from './migrations.js'
import { withConnection } from './open-engine.js'
import { connectSqlite, ensurePrivate } from './sqlite.js'

/**
 * Writes a snapshot of a database to a new file, which only its owner can read. Other processes go on writing to the
 * database meanwhile. The search index is not in it. `location`: as for `openStore`. Resolves to the version of the
 * schema. Rejects with `not_found` if the database has none, and as `writeSnapshot` and `withConnection`.
 */
export function snapshotDatabase(location: string, file: string): Promise<number> {
  return withConnection(location, (connection) => writeSnapshot(connection, file))
}

/**
 * Like `snapshotDatabase`, for an open connection. Rejects with `unsupported` for a schema that these steps do not lead
 * to, and with `busy` if another process changes the schema meanwhile.
 */
export async function writeSnapshot(
  connection: Knex,
  file: string,
  steps: readonly Migration[] = migrations,
): Promise<number> {
  const version = await storedVersion(connection)
  if (version === 0) throw new GatewayError('not_found', { reason: 'there is no database of Tidegate' })
  const known = stepsTo(version, steps)
  await ensurePrivate(file)
  if (isPostgres(connection)) await copyOut(connection, file, version, known)
  // One read transaction, beside which others write (sqlite.org/lang_vacuum.html).
  else await connection.raw('vacuum into ?', [file])
  return version
}

/** Copies all rows of PostgreSQL that one transaction sees. */
async function copyOut(connection: Knex, file: string, version: number, steps: readonly Migration[]): Promise<void> {
  const tables = await copiedTables(steps)
  const target = connectSqlite(file)
  try {
    await migrate(target, steps)
    await connection.transaction(async (reading) => {
      await reading.raw('set transaction isolation level repeatable read, read only')
      // Excludes changes of the schema only. It precedes the first query, whose state all others see.
      const marks = tables.map(() => '??').join(', ')
      await reading.raw(
        `lock table ${marks} in access share mode`,
        tables.map(({ name }) => name),
      )
      if ((await storedVersion(reading)) !== version) {
        throw new GatewayError('busy', { reason: 'another process has just changed the database: try again' })
      }
      await target.transaction((writing) => copyRows(reading, writing, tables))
    })
  } finally {
    await target.destroy()
  }
}

/**
 * Checks a snapshot that may come from anywhere, and ends the nodes in it: no process works with a copy. Resolves to
 * the version of its schema. Rejects with `invalid` if it is damaged or no snapshot, and with `unsupported` if this
 * program cannot use its schema.
 */
export async function checkSnapshot(file: string): Promise<number> {
  const connection = connectSqlite(file)
  try {
    await assertWhole(connection)
    const version = await storedVersion(connection)
    if (version === 0) throw new GatewayError('invalid', { reason: 'it has no database of Tidegate' })
    const [found, expected] = [await partsOf(connection), await partsAfter(stepsTo(version))]
    if (!isDeepStrictEqual(found.triggers, expected.triggers)) throw foreignObjects()
    const lacking = expected.columns.find((column) => !found.columns.includes(column))
    if (lacking !== undefined) throw new GatewayError('invalid', { reason: `its database has no ${lacking}` })
    if (await connection.schema.hasTable('nodes')) {
      await connection('nodes')
        .whereNull('ended')
        .update({ ended: databaseTime(connection) })
    }
    return version
  } catch (error) {
    if (isGatewayError(error)) throw error
    throw new GatewayError('invalid', { reason: `its database is damaged: ${(error as Error).message}`, cause: error })
  } finally {
    await connection.destroy()
  }
}

/** Rejects if the file is damaged, or a query of one of its tables could run something else, such as a view. */
async function assertWhole(connection: Knex): Promise<void> {
  await connection.raw('pragma trusted_schema = off')
  const others = await connection.raw<readonly unknown[]>(
    "select 1 from pragma_table_list where schema = 'main' and type <> 'table'",
  )
  if (others.length > 0) throw foreignObjects()
  const [found] = await connection.raw<readonly { integrity_check: string }[]>('pragma integrity_check(1)')
  if (found?.integrity_check !== 'ok') throw new Error(found?.integrity_check)
  const orphans = await connection.raw<readonly unknown[]>('select 1 from pragma_foreign_key_check limit 1')
  if (orphans.length > 0) throw new Error('a row belongs to one that is missing')
}

function foreignObjects(): GatewayError {
  return new GatewayError('invalid', { reason: 'its database has views or triggers that Tidegate did not make' })
}

/** Returns the parts that the steps of the schema make: triggers, and columns as `TABLE.COLUMN`. */
async function partsOf(
  connection: Knex,
): Promise<{ readonly triggers: readonly unknown[]; readonly columns: readonly string[] }> {
  const columns = await connection.raw<readonly { name: string }[]>(
    `select tables.name || '.' || columns.name as name
     from sqlite_master as tables, pragma_table_info(tables.name) as columns
     where tables.type = 'table' and tables.name not like 'sqlite!_%' escape '!'`,
  )
  return {
    triggers: await connection.raw(
      "select name, tbl_name, sql from sqlite_master where type = 'trigger' order by name",
    ),
    columns: columns.map(({ name }) => name),
  }
}

async function partsAfter(steps: readonly Migration[]): ReturnType<typeof partsOf> {
  const connection = connectSqlite(':memory:')
  try {
    await migrate(connection, steps)
    return await partsOf(connection)
  } finally {
    await connection.destroy()
  }
}
