/** The step of the schema that counts changes, for `ForeignChanges`. */
import type { Knex } from 'knex'
import type { Topic } from './rows.js'

/** The topic of each table of the first schema whose changes other processes are notified of. */
const topics = {
  users: 'accounts',
  ssh_keys: 'accounts',
  app_passwords: 'accounts',
  revoked_tokens: 'accounts',
  locks: 'locks',
  folder_rules: 'rules',
  settings: 'settings',
  storages: 'storages',
} satisfies Record<string, Topic>

/** Counts the changes of each topic. Triggers do, so that no writer of a table can omit it. */
export async function countChanges(query: Knex): Promise<void> {
  await query.schema.createTable('change_counts', (table) => {
    table.text('topic').primary()
    table.bigInteger('count').notNullable()
  })
  await query('change_counts').insert([...new Set(Object.values(topics))].map((topic) => ({ topic, count: 0 })))
  for (const [table, topic] of Object.entries(topics)) await countChangesOf(query, table, topic)
}

/** The same for a table of a later step. */
export async function countChangesOf(query: Knex, table: string, topic: Topic): Promise<void> {
  for (const change of ['insert', 'update', 'delete']) {
    await query.raw(
      `create trigger ${table}_${change}_count after ${change} on ${table} begin ` +
        `update change_counts set count = count + 1 where topic = '${topic}'; end`,
    )
  }
}
