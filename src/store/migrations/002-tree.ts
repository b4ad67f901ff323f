import type { Knex } from 'knex'

/**
 * Records about paths of the tree. Ranges over `path` rely on byte order, which is SQLite's default; a database with a
 * language-dependent collation needs byte order for these columns (PostgreSQL: collation "C").
 */
export async function createTree(query: Knex): Promise<void> {
  await query.schema.createTable('folder_rules', (table) => {
    table.increments('id')
    table.text('path').notNullable().unique()
    table.text('password').notNullable()
    table.boolean('password_sub').notNullable()
    table.boolean('write').notNullable()
    table.boolean('write_sub').notNullable()
    table.text('hide').notNullable()
    table.boolean('hide_sub').notNullable()
    table.text('readme').notNullable()
    table.boolean('readme_sub').notNullable()
    table.text('header').notNullable()
    table.boolean('header_sub').notNullable()
    // Lists of user ids, as JSON.
    table.text('read_users').notNullable()
    table.boolean('read_users_sub').notNullable()
    table.text('write_users').notNullable()
    table.boolean('write_users_sub').notNullable()
  })

  await query.schema.createTable('locks', (table) => {
    table.text('token').primary()
    table.text('path').notNullable().index()
    table.integer('user_id').notNullable()
    table.text('username').notNullable()
    table.text('scope').notNullable()
    table.boolean('deep').notNullable()
    table.text('owner').notNullable()
    table.bigInteger('expires').notNullable()
  })

  await query.schema.createTable('properties', (table) => {
    table.text('path').notNullable()
    table.text('parent').notNullable().index()
    table.text('namespace').notNullable()
    table.text('name').notNullable()
    table.text('value').notNullable()
    table.text('language').notNullable()
    table.primary(['path', 'namespace', 'name'])
  })

  await query.schema.createTable('attributes', (table) => {
    table.text('path').primary()
    table.text('parent').notNullable().index()
    table.bigInteger('modified')
    table.integer('mode')
  })

  await query.schema.createTable('tasks', (table) => {
    table.text('id').primary()
    table.text('kind').notNullable()
    table.text('name').notNullable()
    table.integer('user_id').notNullable()
    table.text('state').notNullable()
    table.text('status').notNullable()
    table.text('error').notNullable()
    table.bigInteger('total_bytes').notNullable()
    table.bigInteger('done_bytes').notNullable()
    table.bigInteger('started')
    table.bigInteger('ended')
  })

  await query.schema.createTable('driver_state', (table) => {
    table.integer('storage_id').notNullable().references('id').inTable('storages').onDelete('CASCADE')
    table.text('key').notNullable()
    table.text('value').notNullable()
    table.primary(['storage_id', 'key'])
  })

  await query.schema.createTable('intents', (table) => {
    table.increments('id')
    table.text('kind').notNullable()
    table.text('from_path').notNullable()
    table.text('to_path').notNullable()
  })
}
