import type { Knex } from 'knex'

/** Large files on their way to a storage, for another run to go on with. Without a task: what is to be let go of. */
export async function createUploads(query: Knex): Promise<void> {
  await query.schema.createTable('uploads', (table) => {
    table.increments('id')
    table.text('task_id').references('id').inTable('tasks').onDelete('SET NULL')
    table.text('path').notNullable()
    table.text('source').notNullable()
    table.integer('storage_id').notNullable().references('id').inTable('storages').onDelete('CASCADE').index()
    table.text('token').notNullable()
    table.unique(['task_id', 'path'])
  })
}
