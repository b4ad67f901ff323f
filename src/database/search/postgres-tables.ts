/**
 * The search index in PostgreSQL: tables of the database that every node reads and one node at a time writes, with
 * connections of their own. A search reads committed data and delays no write.
 */
import knex, { type Knex } from 'knex'
import { types, TypeOverrides } from 'pg'
import { GatewayError } from '../../base/errors.js'
import { Database } from '../database.js'
import { rowsOf } from './names.js'

/** Tables of another version are recreated: the storages are read again. */
const schemaVersion = 1

/** The key of the advisory lock for creating the tables, in PostgreSQL's key space of two integers. */
const schemaLock = [0x54676174, 1]

/** Maximum concurrent searches of this process; further ones wait. */
const readerConnections = 2
/** Milliseconds that a search waits for a connection. */
const readerTimeout = 10_000
/** Milliseconds that a write waits for the connection: removing a large tree takes long. */
const writerTimeout = 3_600_000

/** The columns of a name, in `search_names` and in temporary tables. */
export const columnsOfName = `name text collate "C" not null, rest text collate "C", folded text collate "C",
  kind smallint not null, size bigint not null`

/**
 * `random_page_cost`: the tables are mostly in memory, so looking up thousands of rows is faster than reading a
 * million. `jit`: compiling a query takes longer than running it. `enable_seqscan`: without statistics, as during the
 * first build, the planner would read whole tables instead of using the indexes.
 */
const readerSettings = `set client_min_messages = warning; set default_transaction_read_only = on; set jit = off;
  set random_page_cost = 1.1;
  set enable_seqscan = off; set max_parallel_workers_per_gather = 0; set work_mem = '32MB';
  set statement_timeout = '60s'`

/**
 * An update restores what a crash of the database loses, so commits need not be synced. Transactions stage names in
 * `staged`.
 */
const writerSettings = `set client_min_messages = warning; set jit = off; set random_page_cost = 1.1; set synchronous_commit = off;
  create temporary table staged (
    place bigint generated always as identity,
    folder bigint not null,
    ${columnsOfName}
  ) on commit delete rows`

interface PostgresTables {
  readonly writing: Database
  readonly reading: Database
  close(): Promise<void>
}

/**
 * Opens the tables. Creates them if they are missing or of another version. Rejects with `unavailable`. Uses up to
 * three connections, and keeps the writing one.
 */
export async function openPostgresTables(connection: Readonly<Knex.PgConnectionConfig>): Promise<PostgresTables> {
  const writer = connect(connection, 1, writerSettings)
  const reader = connect(connection, readerConnections, readerSettings)
  const close = async () => {
    await reader.destroy()
    await writer.destroy()
  }
  try {
    await writer.transaction(createTables)
    return { writing: new Database(writer), reading: new Database(reader), close }
  } catch (error) {
    await close()
    const why = error instanceof Error ? error.message : String(error)
    throw new GatewayError('unavailable', {
      reason: `the search index on PostgreSQL cannot be used: ${why}`,
      cause: error,
    })
  }
}

/** Integers of 8 bytes are read as numbers: ids and sizes are less than 2^53. */
const numbers = new TypeOverrides()
numbers.setTypeParser(types.builtins.INT8, Number)

function connect(connection: Readonly<Knex.PgConnectionConfig>, connections: number, settings: string): Knex {
  return knex({
    client: 'pg',
    connection: {
      keepAlive: true,
      connectionTimeoutMillis: 10_000,
      ...connection,
      types: { getTypeParser: (type: number) => numbers.getTypeParser(type) },
    },
    acquireConnectionTimeout: connections === 1 ? writerTimeout : readerTimeout,
    pool: {
      // The writer's connection stays open, because it has temporary tables.
      min: connections === 1 ? 1 : 0,
      max: connections,
      afterCreate: (
        client: { query(sql: string, done: (error: Error | null) => void): void },
        done: (error: Error | null, client: unknown) => void,
      ) => {
        client.query(settings, (error) => {
          done(error, client)
        })
      },
    },
    log: { warn: () => undefined },
  })
}

/**
 * `search_folders` holds the paths of folders, `search_names` the names in them, so that the move of a tree changes no
 * names. An entry of a B-tree has at most 2,704 bytes, less than a path or a name may have. Paths are therefore indexed
 * by hash and by SP-GiST, which splits long values. Of a name, `name` has the first 600 characters, which are
 * ordered, and `rest` the others, normally none.
 *
 * `search_grams` returns the trigrams of a folded name. Two marker characters are appended, so that its last characters
 * start trigrams too. Words of one or two characters are thus prefixes of trigrams. They are a `tsvector`, because its
 * index finds prefixes, unlike that of an array. Texts are compared by their bytes, whatever the locale of the
 * database.
 */
const statements = [
  `create table search_folders (
    id bigint generated always as identity primary key,
    parent text collate "C" not null,
    exclude using hash (parent with =)
  )`,
  'create index search_folders_tree on search_folders using spgist (parent)',
  `create table search_names (
    id bigint generated always as identity primary key,
    folder bigint not null,
    ${columnsOfName}
  )`,
  `create unique index search_names_place on search_names (folder, name, hashtextextended(coalesce(rest, ''), 0))`,
  'create index search_names_order on search_names (name, id)',
  `create function search_grams(text) returns tsvector language sql immutable strict parallel safe cost 1000 as $$
    select array_to_tsvector(array_agg(substr($1 || chr(1) || chr(1), start, 3))) from generate_series(1, length($1)) start
  $$`,
  `create index search_names_grams on search_names using gin (search_grams(coalesce(folded, name || coalesce(rest, ''))))`,
]

async function createTables(query: Knex): Promise<void> {
  await query.raw('select pg_advisory_xact_lock(?, ?)', schemaLock)
  await query.raw(
    'create table if not exists search_state (key text collate "C" primary key, value text collate "C" not null)',
  )
  const [row] = rowsOf<{ value: string }>(await query.raw(`select value from search_state where key = 'version'`))
  if (row?.value === String(schemaVersion)) return
  await query.raw('drop table if exists search_names, search_folders')
  await query.raw('drop function if exists search_grams(text)')
  await query.raw('delete from search_state')
  for (const statement of statements) await query.raw(statement)
  await query.raw(`insert into search_state (key, value) values ('version', ?)`, [String(schemaVersion)])
}

/** Deletes all data and frees the disk space. */
export async function clearTables(query: Knex): Promise<void> {
  // Searches wait for this lock meanwhile.
  await query.raw(`set local lock_timeout = '10s'`)
  await query.raw('truncate search_names, search_folders')
  await query.raw(`delete from search_state where key <> 'version'`)
}
