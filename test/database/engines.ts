/** The database engines, for tests that run on each of them. */
import { join } from 'node:path'
import knex from 'knex'
import t, { type Test } from 'tap'
import { lacks } from '../programs.js'
import { startPostgres, type PostgresServer } from '../servers/postgres.js'

interface TestEngine {
  readonly name: string
  readonly skip: string | false
  /** Resolves to the location of a new database, for `openStore`. */
  newDatabase(t: Test): Promise<string>
  /** Runs one statement in a database, on a connection of its own. Resolves to the rows. */
  query(location: string, statement: string): Promise<readonly Record<string, unknown>[]>
}

let databases = 0

const sqlite: TestEngine = {
  name: 'SQLite',
  skip: false,
  newDatabase: async (t) => join(t.testdir(), `tidegate-${++databases}.db`),
  query: async (filename, statement) => {
    const database = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true })
    try {
      return await database.raw<readonly Record<string, unknown>[]>(statement)
    } finally {
      await database.destroy()
    }
  },
}

let server: Promise<PostgresServer> | undefined

const postgres: TestEngine = {
  name: 'PostgreSQL',
  skip: lacks('postgres', 'initdb'),
  newDatabase: async () => (await thisServer()).createDatabase(),
  query: async (location, statement) => (await thisServer()).query(statement, location),
}

export const engines: readonly TestEngine[] = [sqlite, postgres]

/** The server of this test file. It is started when it is first needed. */
export function thisServer(): Promise<PostgresServer> {
  server ??= startPostgres()
  return server
}

t.teardown(async () => (await server)?.stop())
