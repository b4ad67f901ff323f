/** The step of the schema that adds what nodes work on. */
import type { Knex } from 'knex'

export async function addWorking(query: Knex): Promise<void> {
  await query.schema.alterTable('nodes', (table) => void table.text('working').notNullable().defaultTo('{}'))
}
