import type { Knex } from 'knex'

/** Of what was copied, which state the copy was in when it was verified. Empty where nobody noted it. */
export async function addCopyStates(query: Knex): Promise<void> {
  await query.schema.alterTable('task_items', (table) => {
    table.text('copy').notNullable().defaultTo('')
  })
}
