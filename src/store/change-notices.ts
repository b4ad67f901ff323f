/**
 * The step of the schema by which other processes learn of changes. Triggers do it, so that no writer of a table can omit
 * it.
 */
import type { Knex } from 'knex'
import { isPostgres } from './dialect.js'
import { isTopic, type Topic } from './rows.js'

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

/** The channel of PostgreSQL's NOTIFY. A payload is "TOPIC SESSION", with the `application_name` of the session. */
export const changeChannel = 'tidegate_changes'

/** The channel of notices about files. A payload is "SESSION TEXT". */
export const fileChannel = 'tidegate_files'

/** The numbers of changes in rows of `change_counts`. Topics of newer programs are omitted. */
export function countsOf(rows: readonly ChangeCount[]): ReadonlyMap<Topic, number> {
  return new Map(rows.flatMap(({ topic, count }) => (isTopic(topic) ? [[topic, Number(count)] as const] : [])))
}

export interface ChangeCount {
  readonly topic: string
  /** Text if the database driver does not support 64-bit integers. */
  readonly count: number | string
}

/** Counts the changes of each topic. PostgreSQL also notifies the processes that listen. */
export async function reportChanges(query: Knex): Promise<void> {
  await query.schema.createTable('change_counts', (table) => {
    table.text('topic').primary()
    table.bigInteger('count').notNullable()
  })
  await query('change_counts').insert([...new Set(Object.values(topics))].map((topic) => ({ topic, count: 0 })))
  if (isPostgres(query)) {
    await query.raw(`
      create function tidegate_report_change() returns trigger language plpgsql as $$
      begin
        if not exists (select from changed) then return null; end if;
        update change_counts set count = count + 1 where topic = tg_argv[0];
        perform pg_notify('${changeChannel}', tg_argv[0] || ' ' || current_setting('application_name'));
        return null;
      end $$`)
  }
  for (const [table, topic] of Object.entries(topics)) await reportChangesOf(query, table, topic)
}

/** The same for a table of a later step. */
export async function reportChangesOf(query: Knex, table: string, topic: Topic): Promise<void> {
  for (const change of ['insert', 'update', 'delete']) {
    const trigger = `create trigger ${table}_${change}_count after ${change} on ${table}`
    const rows = change === 'delete' ? 'old' : 'new'
    await query.raw(
      isPostgres(query)
        ? `${trigger} referencing ${rows} table as changed for each statement ` +
            `execute function tidegate_report_change('${topic}')`
        : `${trigger} begin update change_counts set count = count + 1 where topic = '${topic}'; end`,
    )
  }
}
