/**
 * The file of the search index: SQLite with FTS5, beside the database and apart from it, so that neither waits for the other.
 * One connection writes; a few read what is committed. Whatever is wrong with the file, it can be made anew.
 */
import { rm } from 'node:fs/promises'
import knex, { type Knex } from 'knex'
import { GatewayError } from '../../errors.js'
import { Database } from '../database.js'
import { keepPrivate } from '../private-file.js'

/** A file of another version is thrown away: what it holds is read from the storages again. */
const schemaVersion = 1

/** Searches that are answered at once; more wait. They share the few threads that all files are read with. */
const readers = 2

/** Milliseconds for which a search waits for its turn. */
const readerPatience = 10_000
/** Whoever writes may have to wait for one who takes a large tree away. */
const writerPatience = 3_600_000

export interface IndexFile {
  readonly writing: Database
  readonly reading: Database
  close(): Promise<void>
}

/** Opens the file, and makes it where it is missing, of another version, or broken. Rejects with `unavailable`. */
export async function openIndexFile(file: string): Promise<IndexFile> {
  try {
    return await opened(file)
  } catch (error) {
    if (!isBroken(error)) throw unusable(file, error)
  }
  try {
    for (const name of [file, `${file}-wal`, `${file}-shm`]) await rm(name, { force: true })
    return await opened(file)
  } catch (error) {
    throw unusable(file, error)
  }
}

async function opened(file: string): Promise<IndexFile> {
  await keepPrivate(file)
  // What a power cut takes from this file is found again by an update: a commit need not wait for the disk.
  const writer = connect(file, 1, 'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384;')
  const reader = connect(
    file,
    readers,
    'PRAGMA query_only = ON; PRAGMA cache_size = -8192; PRAGMA mmap_size = 1073741824;',
  )
  const close = async () => {
    await reader.destroy()
    await writer.destroy()
  }
  try {
    const rows: readonly { user_version: number }[] = await writer.raw('PRAGMA user_version')
    if (rows[0]?.user_version !== schemaVersion) await createTables(writer)
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
    acquireConnectionTimeout: connections === 1 ? writerPatience : readerPatience,
    pool: {
      min: 0,
      max: connections,
      // Temporary tables live as long as their connection.
      ...(connections === 1 && { min: 1 }),
      afterCreate: (sqlite: { exec(sql: string, done: (error: Error | null) => void): void }, done: () => void) => {
        sqlite.exec(`PRAGMA busy_timeout = 10000; ${pragmas}`, done)
      },
    },
    log: { warn: () => undefined },
  })
}

/**
 * `names` is what is found; `grams` finds it. A gram is every run of three characters of a folded name; two marks behind the
 * name make its last characters begin such runs too. So the words of one and two characters, which a trigram index does not
 * answer, are the beginnings of its terms: `gram_terms` tells in which names those stand.
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
