/** The parts of the schema in which the engines differ. */
import type { Knex } from 'knex'

export function isPostgres(query: Knex): boolean {
  const { config } = query.client as { readonly config: { readonly client?: unknown } }
  return config.client === 'pg'
}

/**
 * Gives all columns of text the order of bytes, on which ranges of paths rely (ranges.ts). The collation of the
 * database may be that of a language.
 */
export async function useByteOrder(query: Knex): Promise<void> {
  const { rows } = await query.raw<{ rows: readonly { name: string; columns: string }[] }>(
    `select table_name as name, string_agg(format('alter column %I type text collate "C"', column_name), ', ') as columns
     from information_schema.columns
     where table_schema = current_schema() and data_type = 'text' and collation_name is distinct from 'C'
       and table_name in (select tablename from pg_tables where schemaname = current_schema())
     group by table_name`,
  )
  for (const { name, columns } of rows) await query.raw(`alter table ?? ${columns}`, [name])
}

/** The clock of the database: milliseconds since 1970. */
export function databaseTime(query: Knex): Knex.Raw<number> {
  return isPostgres(query)
    ? query.raw('floor(extract(epoch from clock_timestamp()) * 1000)::bigint')
    : query.raw("cast((julianday('now') - 2440587.5) * 86400000 as integer)")
}

/**
 * On PostgreSQL, waits until no other transaction has locked the schema, and locks it until the end of this one. Unlike
 * a lock of a row, it lets a step alter `schema_version`. SQLite has one writer at a time.
 */
export async function lockSchema(query: Knex): Promise<void> {
  if (isPostgres(query)) await query.raw("select pg_advisory_xact_lock(hashtext('tidegate schema_version'))")
}
