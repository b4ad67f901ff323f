/**
 * The file of the search index: SQLite with FTS5, separate from the database, so that neither blocks the other. One
 * connection writes; several read committed data. A broken file is recreated.
 */
import { rm } from 'node:fs/promises'
import knex, { type Knex } from 'knex'
import { GatewayError } from '../../base/errors.js'
import { Database } from '../database.js'
import { ensurePrivate } from '../sqlite.js'

/** The tables of a file of another version are recreated: the storages are read again. */
const schemaVersion = 1

/** Maximum concurrent searches; further ones wait. They use the same thread pool as file operations. */
const readerConnections = 2

/** Milliseconds that a search waits for a connection. */
const readerTimeout = 10_000
/** Milliseconds that a write waits for the connection: removing a large tree takes long. */
const writerTimeout = 3_600_000

interface SqliteFile {
  readonly writing: Database
  readonly reading: Database
  close(): Promise<void>
}

/** Opens the file. Creates it if it is missing, of another version, or corrupt. Rejects with `unavailable`. */
export async function openSqliteFile(file: string): Promise<SqliteFile> {
  try {
    return await openFile(file)
  } catch (error) {
    if (!isBroken(error)) throw unusable(file, error)
  }
  try {
    for (const name of [file, `${file}-wal`, `${file}-shm`]) await rm(name, { force: true })
    return await openFile(file)
  } catch (error) {
    throw unusable(file, error)
  }
}

async function isCurrent(query: Knex): Promise<boolean> {
  const rows: readonly { user_version: number }[] = await query.raw('PRAGMA user_version')
  return rows[0]?.user_version === schemaVersion
}

async function openFile(file: string): Promise<SqliteFile> {
  await ensurePrivate(file)
  // An update restores what a power failure loses, so commits need not be synced.
  const writer = connect(file, 1, 'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384;')
  const reader = connect(
    file,
    readerConnections,
    'PRAGMA query_only = ON; PRAGMA cache_size = -8192; PRAGMA mmap_size = 1073741824;',
  )
  const close = async () => {
    await reader.destroy()
    await writer.destroy()
  }
  try {
    // Another process may open a new file at the same time.
    if (!(await isCurrent(writer))) {
      await writer.raw('begin immediate')
      if (!(await isCurrent(writer))) await createTables(writer)
      await writer.raw('commit')
    }
    await writer.raw('create temp table listed_folders (path text not null primary key) without rowid')
    await writer.raw(
      'create temp table listed (parent text not null, name text not null, folded text, kind integer not null, ' +
        'size integer not null, primary key (parent, name)) without rowid',
    )
    return { writing: new Database(writer), reading: new Database(reader), close }
  } catch (error) {
    await close()
    throw error
  }
}

function connect(file: string, connections: number, pragmas: string): Knex {
  return knex({
    client: 'sqlite3',
    connection: { filename: file },
    useNullAsDefault: true,
    acquireConnectionTimeout: connections === 1 ? writerTimeout : readerTimeout,
    pool: {
      min: 0,
      max: connections,
      // The writer's connection stays open, because it has temporary tables.
      ...(connections === 1 && { min: 1 }),
      afterCreate: (sqlite: { exec(sql: string, done: (error: Error | null) => void): void }, done: () => void) => {
        sqlite.exec(`PRAGMA busy_timeout = 10000; ${pragmas}`, done)
      },
    },
    log: { warn: () => undefined },
  })
}

/**
 * `names` holds the indexed names, `grams` a trigram index of the folded names. Two marker characters are appended to
 * each name, so that its last characters start trigrams too. Words of one or two characters, which a trigram index
 * cannot match, are thus prefixes of its terms: `gram_terms` maps those to names.
 */
export async function createTables(query: Knex): Promise<void> {
  for (const table of ['gram_terms', 'grams', 'names', 'state']) await query.raw(`drop table if exists ${table}`)
  const statements = [
    `create table names (
      id integer not null primary key,
      parent text not null,
      name text not null,
      folded text,
      kind integer not null,
      size integer not null
    )`,
    'create unique index names_place on names (parent, name)',
    'create index names_order on names (name, id, folded)',
    `create virtual table grams using fts5 (
      name, content = '', contentless_delete = 1, tokenize = 'trigram case_sensitive 1'
    )`,
    `create virtual table gram_terms using fts5vocab ('grams', 'instance')`,
    `create trigger names_come after insert on names begin
      insert into grams (rowid, name) values (new.id, ifnull(new.folded, new.name) || char(1, 1));
    end`,
    `create trigger names_change after update of name on names begin
      delete from grams where rowid = old.id;
      insert into grams (rowid, name) values (new.id, ifnull(new.folded, new.name) || char(1, 1));
    end`,
    'create trigger names_go after delete on names begin delete from grams where rowid = old.id; end',
    'create table state (key text not null primary key, value text not null) without rowid',
    `PRAGMA user_version = ${schemaVersion}`,
  ]
  for (const statement of statements) await query.raw(statement)
}

function isBroken(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === 'SQLITE_CORRUPT' || code === 'SQLITE_NOTADB'
}

function unusable(file: string, error: unknown): GatewayError {
  const why = error instanceof Error ? error.message : String(error)
  return new GatewayError('unavailable', { reason: `the search index ${file} cannot be used: ${why}`, cause: error })
}
