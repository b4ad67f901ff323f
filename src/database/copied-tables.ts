/** The tables whose rows a copy of the database gets, read from what the migrations create. */
import type { Knex } from 'knex'
import { migrate, type Migration } from './migrations.js'
import { connectSqlite } from './sqlite.js'

export interface CopiedTable {
  readonly name: string
  readonly columns: readonly CopiedColumn[]
  /** The columns of its primary key, in order. */
  readonly key: readonly string[]
  /** Whether its `id` is generated, and never again given to another row. */
  readonly hasGeneratedId: boolean
}

interface CopiedColumn {
  readonly name: string
  readonly kind: 'text' | 'integer' | 'boolean' | 'bytes'
}

/** Tables that each database fills by itself: the migrations do, or triggers. */
export const ownTables: readonly string[] = ['schema_version', 'guards', 'change_counts']

/** The kinds of the types that the schema declares. */
const kinds: Readonly<Record<string, CopiedColumn['kind']>> = {
  text: 'text',
  integer: 'integer',
  bigint: 'integer',
  boolean: 'boolean',
  blob: 'bytes',
}

/** The tables after these steps, by default of the newest schema. A table that others reference is before them. */
export async function copiedTables(steps?: readonly Migration[]): Promise<readonly CopiedTable[]> {
  const connection = connectSqlite(':memory:')
  try {
    await migrate(connection, steps)
    const found = await rowsOf<{ name: string; sql: string }>(
      connection,
      "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite!_%' escape '!' order by name",
    )
    const tables = new Map<string, { readonly table: CopiedTable; readonly parents: readonly string[] }>()
    for (const { name, sql } of found) {
      if (!ownTables.includes(name)) tables.set(name, await describe(connection, name, sql))
    }
    const ordered = new Set<CopiedTable>()
    const add = (name: string): void => {
      const described = tables.get(name)
      if (described === undefined || ordered.has(described.table)) return
      described.parents.forEach(add)
      ordered.add(described.table)
    }
    for (const name of tables.keys()) add(name)
    return [...ordered]
  } finally {
    await connection.destroy()
  }
}

async function describe(connection: Knex, name: string, sql: string) {
  const columns = await rowsOf<{ name: string; type: string; pk: number }>(
    connection,
    'select name, type, pk from pragma_table_info(?) order by cid',
    name,
  )
  const references = await rowsOf<{ parent: string }>(
    connection,
    'select distinct "table" as parent from pragma_foreign_key_list(?)',
    name,
  )
  const key = columns.filter(({ pk }) => pk > 0).sort((one, other) => one.pk - other.pk)
  const table: CopiedTable = {
    name,
    columns: columns.map((column) => ({ name: column.name, kind: kindOf(name, column) })),
    key: key.map((column) => column.name),
    hasGeneratedId: /\bautoincrement\b/i.test(sql),
  }
  return { table, parents: references.map(({ parent }) => parent).filter((parent) => parent !== name) }
}

function kindOf(table: string, { name, type }: { readonly name: string; readonly type: string }): CopiedColumn['kind'] {
  const kind = kinds[type.toLowerCase()]
  if (kind === undefined) throw new Error(`${table}.${name} has the type ${type}, which copies do not support`)
  return kind
}

function rowsOf<Row>(connection: Knex, statement: string, ...values: readonly string[]): Promise<readonly Row[]> {
  return connection.raw<readonly Row[]>(statement, values)
}
