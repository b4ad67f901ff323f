import type { Knex } from 'knex'

/** State of each copy when it was verified; empty if it was not recorded. */
export async function addCopyStates(query: Knex): Promise<void> {
  await query.schema.alterTable('task_items', (table) => {
    table.text('copy').notNullable().defaultTo('')
  })
}
