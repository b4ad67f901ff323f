import type { Knex } from 'knex'

/** Data for resuming a task after a restart, and its items. */
export async function createTaskJournal(query: Knex): Promise<void> {
  await query.schema.alterTable('tasks', (table) => {
    table.text('username').notNullable().defaultTo('')
    table.text('role').notNullable().defaultTo('general')
    table.text('plan').notNullable().defaultTo('{}')
    table.integer('tries').notNullable().defaultTo(0)
    table.bigInteger('created').notNullable().defaultTo(0)
  })

  await query.schema.createTable('task_items', (table) => {
    table.text('task_id').notNullable().references('id').inTable('tasks').onDelete('CASCADE')
    // The path of the source in two columns, so that the members of a folder can be selected.
    table.text('parent').notNullable()
    table.text('name').notNullable()
    table.text('state').notNullable()
    table.text('source').notNullable()
    table.bigInteger('size').notNullable()
    table.text('error').notNullable()
    table.primary(['task_id', 'parent', 'name'])
  })
}
