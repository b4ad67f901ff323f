import type { Knex } from 'knex'

/** Folders that a backend cannot keep while nothing is in them. */
export async function createFolders(query: Knex): Promise<void> {
  await query.schema.createTable('folders', (table) => {
    table.text('path').primary()
    table.text('parent').notNullable().index()
    table.bigInteger('modified').notNullable()
  })
}
