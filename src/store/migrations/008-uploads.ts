import type { Knex } from 'knex'

/** Resumable uploads of large files. Those without a task are orphans, which are discarded. */
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
