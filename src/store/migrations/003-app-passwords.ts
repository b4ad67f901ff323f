import type { Knex } from 'knex'

/** Passwords for single programs. */
export async function createAppPasswords(query: Knex): Promise<void> {
  await query.schema.createTable('app_passwords', (table) => {
    table.increments('id')
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE')
    table.text('name').notNullable()
    table.text('prefix').notNullable().unique()
    table.text('digest').notNullable()
    table.text('doors').notNullable()
    table.boolean('read_only').notNullable()
    table.bigInteger('added').notNullable()
    table.bigInteger('last_used')
    table.unique(['user_id', 'name'])
  })
}
