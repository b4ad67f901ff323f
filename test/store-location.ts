/** Where the tests keep the database of a data folder: SQLite in the folder, or a PostgreSQL server for all tests. */
import { createHash } from 'node:crypto'
import { join, resolve } from 'node:path'
import knex, { type Knex } from 'knex'
import pg from 'pg'
import type { Test } from 'tap'

/** The database that new ones are copied from: empty, with the newest schema. */
export const templateDatabase = 'tidegate_template'

/** The `skip` option of a test that is about SQLite itself. */
export const withoutSqlite = process.env.TIDEGATE_TEST_POSTGRES !== undefined && 'the database is PostgreSQL'

/** The URL of a server, without a database. Set by test/run.ts; absent: the tests use SQLite. */
const server = process.env.TIDEGATE_TEST_POSTGRES

/**
 * Resolves to the location of the database of this data folder, for `openStore`. On PostgreSQL the database is created
 * if it does not exist, and dropped at the end of the test that created it.
 */
export async function storeOf(dataFolder: string, t?: Test): Promise<string> {
  if (server === undefined) return join(dataFolder, 'data.db')
  const name = `data_${createHash('sha256').update(resolve(dataFolder)).digest('hex').slice(0, 24)}`
  try {
    await inServer(`create database ${name} template ${templateDatabase}`)
    t?.teardown(() => inServer(`drop database if exists ${name} with (force)`))
  } catch (error) {
    // 42P04: it exists.
    if ((error as { code?: unknown }).code !== '42P04') throw error
  }
  return `${server}/${name}`
}

/** Variables by which a program finds the database of this data folder. */
export async function storeVariables(dataFolder: string, t?: Test): Promise<Readonly<Record<string, string>>> {
  return server === undefined ? {} : { TIDEGATE_STORE: await storeOf(dataFolder, t) }
}

/** A connection to the database of this data folder, for statements of a test. The caller must destroy it. */
export async function connectTo(dataFolder: string): Promise<Knex> {
  const location = await storeOf(dataFolder)
  return server === undefined
    ? knex({ client: 'sqlite3', connection: { filename: location }, useNullAsDefault: true })
    : knex({ client: 'pg', connection: location, pool: { min: 0, max: 2 } })
}

async function inServer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${server}/postgres` })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
