/** Databases with rows in every table, and what they have. */
import type { Knex } from 'knex'
import { copiedTables, type CopiedTable } from '../../src/database/copied-tables.js'
import { isPostgres } from '../../src/database/dialect.js'
import { migrate } from '../../src/database/migrations.js'
import { openEngine } from '../../src/database/open-engine.js'

export const tables = await copiedTables()

/** Opens the database with the newest schema, and closes it after `work`. */
export async function within<T>(location: string, work: (query: Knex) => Promise<T>): Promise<T> {
  const engine = await openEngine(location, 'a test', (connection) => migrate(connection))
  try {
    return await engine.durable.run(work)
  } finally {
    await engine.close()
  }
}

/** A row of every kind of value, with references to the rows of the same number. */
function rowOf({ columns }: CopiedTable, number: number): Record<string, unknown> {
  const value = (name: string, kind: string) => {
    if (kind === 'integer') return name === 'role' ? 0 : number
    if (kind === 'boolean') return number % 2 === 0
    if (kind === 'bytes') return Buffer.from([0, number % 256, 255])
    return `${name === 'task_id' || name === 'share_id' ? 'id' : name} ${number} é😀 '"\\ \n`
  }
  return Object.fromEntries(columns.map(({ name, kind }) => [name, value(name, kind)]))
}

/** Inserts `count` rows into each table, and then deletes those with the highest ids. */
export async function fill(location: string, count: number): Promise<void> {
  await within(location, async (query) => {
    for (const table of tables) {
      for (let number = 1; number <= count; number += 100) {
        const numbers = Array.from({ length: Math.min(100, count - number + 1) }, (_, index) => number + index)
        await query(table.name).insert(numbers.map((each) => rowOf(table, each)))
      }
      if (isPostgres(query) && table.hasGeneratedId) {
        await query.raw("select setval(pg_get_serial_sequence(?, 'id'), ?)", [table.name, count])
      }
    }
    // Above what JavaScript's numbers can tell apart.
    await query('tasks')
      .where({ name: `name 1 é😀 '"\\ \n` })
      .update({ total_bytes: '9007199254740993', started: null, status: '' })
    for (const { name, hasGeneratedId } of tables) {
      if (hasGeneratedId && name !== 'users' && name !== 'storages') await query(name).where({ id: count }).delete()
    }
  })
}

/** All rows, with integers as text. */
export async function dump(location: string): Promise<unknown> {
  return within(location, async (query) => {
    const content: Record<string, unknown> = {}
    for (const { name, key, columns } of tables) {
      const texts = columns.map((column) =>
        column.kind === 'integer' ? query.raw('cast(?? as text) as ??', [column.name, column.name]) : column.name,
      )
      const rows = await query(name)
        .select<readonly Record<string, unknown>[]>(texts)
        .orderBy(key.map((column) => `${name}.${column}`))
      const plain = (value: unknown) => (typeof value === 'boolean' ? Number(value) : value)
      content[name] = rows.map((row) => Object.entries(row).map(([column, value]) => [column, plain(value)]))
    }
    return content
  })
}
