import type { Knex } from 'knex'

/** What it takes to go on with a task after a restart, and which of its items are done. */
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
    // The path of the source, in two parts: members of a folder are asked for together.
    table.text('parent').notNullable()
    table.text('name').notNullable()
    table.text('state').notNullable()
    table.text('source').notNullable()
    table.bigInteger('size').notNullable()
    table.text('error').notNullable()
    table.primary(['task_id', 'parent', 'name'])
  })
}
