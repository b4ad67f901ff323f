/** The step of the schema that adds the oldest version whose programs can use the database. */
import type { Knex } from 'knex'

export async function addOldestVersion(query: Knex): Promise<void> {
  await query.schema.alterTable('schema_version', (table) => void table.integer('oldest').notNullable().defaultTo(0))
}
