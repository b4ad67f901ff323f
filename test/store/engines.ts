/** The database engines, for tests that run on each of them. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { lacks } from '../programs.js'
import { startPostgres, type PostgresServer } from '../services/postgres.js'

interface TestEngine {
  readonly name: string
  readonly skip: string | false
  /** Resolves to the location of a new database, for `openStore`. */
  newDatabase(t: Test): Promise<string>
}

let databases = 0

const sqlite: TestEngine = {
  name: 'SQLite',
  skip: false,
  newDatabase: async (t) => join(t.testdir(), `tidegate-${++databases}.db`),
}

let server: Promise<PostgresServer> | undefined

const postgres: TestEngine = {
  name: 'PostgreSQL',
  skip: lacks('postgres', 'initdb'),
  newDatabase: async () => (await thisServer()).createDatabase(),
}

export const engines: readonly TestEngine[] = [sqlite, postgres]

/** The server of this test file. It is started when it is first needed. */
export function thisServer(): Promise<PostgresServer> {
  server ??= startPostgres()
  return server
}

t.teardown(async () => (await server)?.stop())
