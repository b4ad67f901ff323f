import type { Knex } from 'knex'

/** Empty folders of backends that cannot store them. */
export async function createFolders(query: Knex): Promise<void> {
  await query.schema.createTable('folders', (table) => {
    table.text('path').primary()
    table.text('parent').notNullable().index()
    table.bigInteger('modified').notNullable()
  })
}
