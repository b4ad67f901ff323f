import type { Knex } from 'knex'

/** Users, SSH keys, storages, settings, secrets, revoked tokens and guards. */
export async function createAccounts(query: Knex): Promise<void> {
  await query.schema.createTable('users', (table) => {
    table.increments('id')
    table.text('username').notNullable().unique()
    table.text('password_hash').notNullable()
    table.bigInteger('password_time').notNullable()
    table.text('base_path').notNullable()
    table.integer('role').notNullable()
    table.integer('permission').notNullable()
    table.boolean('disabled').notNullable()
    table.text('sso_id').notNullable()
    table.text('otp_secret').notNullable()
    // The newest time step (RFC 6238) whose code was used: a code works once.
    table.bigInteger('otp_step').notNullable().defaultTo(0)
  })
  // At most one guest and one admin, even if two processes insert concurrently.
  await query.raw('create unique index users_single_roles on users (role) where role in (1, 2)')

  await query.schema.createTable('ssh_keys', (table) => {
    table.increments('id')
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE')
    table.text('title').notNullable()
    table.text('type').notNullable()
    table.binary('blob').notNullable()
    table.text('fingerprint').notNullable()
    table.bigInteger('added').notNullable()
    table.bigInteger('last_used').notNullable()
    table.unique(['user_id', 'title'])
  })

  await query.schema.createTable('storages', (table) => {
    table.increments('id')
    table.text('mount_path').notNullable().unique()
    table.integer('order').notNullable()
    table.text('driver').notNullable()
    table.integer('cache_expiration').notNullable()
    table.text('custom_cache_policies').notNullable()
    table.text('status').notNullable()
    table.text('addition').notNullable()
    table.text('remark').notNullable()
    table.bigInteger('modified').notNullable()
    table.boolean('disabled').notNullable()
    table.boolean('disable_index').notNullable()
    table.boolean('enable_sign').notNullable()
    table.text('order_by').notNullable()
    table.text('order_direction').notNullable()
    table.text('extract_folder').notNullable()
    table.boolean('web_proxy').notNullable()
    table.text('webdav_policy').notNullable()
    table.boolean('proxy_range').notNullable()
    table.text('down_proxy_url').notNullable()
    table.boolean('disable_proxy_sign').notNullable()
  })

  await query.schema.createTable('settings', (table) => {
    table.text('key').primary()
    table.text('value').notNullable()
  })

  await query.schema.createTable('secrets', (table) => {
    table.text('name').primary()
    table.text('value').notNullable()
  })

  await query.schema.createTable('revoked_tokens', (table) => {
    table.text('id').primary()
    table.bigInteger('expires').notNullable()
  })

  await query.schema.createTable('guards', (table) => {
    table.text('name').primary()
  })
  await query('guards').insert([{ name: 'users' }, { name: 'locks' }])
}
