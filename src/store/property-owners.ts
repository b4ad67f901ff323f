/** The step of the schema that adds who has stored a property, and its size. Properties of earlier versions have neither. */
import type { Knex } from 'knex'

export async function addPropertyOwners(query: Knex): Promise<void> {
  await query.schema.alterTable('properties', (table) => {
    table.integer('user_id')
    table.integer('size')
    table.index(['user_id', 'size'])
  })
}
