/** The search index: its writer and its reader, in a file of SQLite or in PostgreSQL. */
import type { Knex } from 'knex'
import { NamesReader } from './names-reader.js'
import type { NamesWriter } from './names-writer.js'
import { openSqliteFile } from './sqlite-file.js'
import { sqliteDialect, SqliteNamesWriter } from './sqlite-names.js'

export interface SearchIndex {
  readonly writer: NamesWriter
  readonly reader: NamesReader
  close(): Promise<void>
}

/** Opens the index file; recreates it if it is corrupt or of another version. Rejects with `unavailable`. */
export async function openSearchIndex(file: string): Promise<SearchIndex> {
  const opened = await openSqliteFile(file)
  return {
    writer: new SqliteNamesWriter(opened.writing),
    reader: new NamesReader(opened.reading, sqliteDialect),
    close: () => opened.close(),
  }
}

/**
 * Opens the index in a PostgreSQL database; recreates its tables if they are of another version. Several processes may
 * open it, and one of them may write. Uses at most three connections of its own. Rejects with `unavailable`.
 */
export async function openPostgresSearchIndex(connection: Readonly<Knex.PgConnectionConfig>): Promise<SearchIndex> {
  // Imported lazily, as in `open-engine.ts`.
  const [{ postgresDialect, PostgresNamesWriter }, { openPostgresTables }] = await Promise.all([
    import('./postgres-names.js'),
    import('./postgres-tables.js'),
  ])
  const opened = await openPostgresTables(connection)
  return {
    writer: new PostgresNamesWriter(opened.writing),
    reader: new NamesReader(opened.reading, postgresDialect),
    close: () => opened.close(),
  }
}
