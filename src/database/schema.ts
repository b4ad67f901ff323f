/** The steps of the schema: the tables of the first version, and what each later step adds. */
import type { Knex } from 'knex'
import { changeChannel } from './change-notices.js'
import { isPostgres } from './dialect.js'
import type { Topic } from './topics.js'

/**
 * Creates the tables of version 17. Ranges over `path` rely on byte order, which is SQLite's default; a database with a
 * language-dependent collation needs byte order for these columns (PostgreSQL: collation "C").
 */
export async function createSchema(query: Knex): Promise<void> {
  await createAccounts(query)
  await createTree(query)
  await createTasks(query)
  await createNodes(query)
  await countChanges(query)
}

/** Users, how they sign in, storages, settings, secrets and guards. */
async function createAccounts(query: Knex): Promise<void> {
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

  // Passwords for single programs.
  await query.schema.createTable('app_passwords', (table) => {
    table.increments('id')
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE')
    table.text('name').notNullable()
    table.text('prefix').notNullable().unique()
    table.text('digest').notNullable()
    table.text('protocols').notNullable()
    table.boolean('read_only').notNullable()
    table.bigInteger('added').notNullable()
    table.bigInteger('last_used')
    table.unique(['user_id', 'name'])
  })

  await query.schema.createTable('console_sessions', (table) => {
    table.increments('id')
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE').index()
    table.text('prefix').notNullable().unique()
    table.text('digest').notNullable()
    table.bigInteger('password_time').notNullable()
    table.text('address').notNullable()
    table.text('user_agent').notNullable()
    table.bigInteger('created').notNullable()
    table.bigInteger('last_used').notNullable()
    table.bigInteger('expires').notNullable()
  })

  await query.schema.createTable('revoked_tokens', (table) => {
    table.text('id').primary()
    table.bigInteger('expires').notNullable()
  })

  // Attempts to sign in.
  await query.schema.createTable('sign_ins', (table) => {
    table.bigIncrements('id')
    table.text('kind').notNullable()
    table.text('network').notNullable()
    table.text('account').notNullable()
    table.bigInteger('time').notNullable()
    table.boolean('pending').notNullable()
    table.index(['network', 'time'])
    table.index(['account', 'time'])
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

  await query.schema.createTable('guards', (table) => {
    table.text('name').primary()
  })
  await query('guards').insert([{ name: 'users' }, { name: 'locks' }, { name: 'sign_ins' }])
}

/** Records about paths of the tree, and about storages. */
async function createTree(query: Knex): Promise<void> {
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

  await query.schema.createTable('driver_state', (table) => {
    table.integer('storage_id').notNullable().references('id').inTable('storages').onDelete('CASCADE')
    table.text('key').notNullable()
    table.text('value').notNullable()
    table.primary(['storage_id', 'key'])
  })

  // Empty folders of backends that cannot store them.
  await query.schema.createTable('folders', (table) => {
    table.text('path').primary()
    table.text('parent').notNullable().index()
    table.bigInteger('modified').notNullable()
  })

  await query.schema.createTable('intents', (table) => {
    table.increments('id')
    table.integer('storage_id').notNullable().references('id').inTable('storages').onDelete('CASCADE').index()
    table.text('kind').notNullable()
    table.text('from_path').notNullable()
    table.text('to_path').notNullable()
    table.boolean('spare').notNullable()
    table.text('owner')
  })
}

/**
 * Tasks, their items, requests to their owners, and the resumable uploads of large files. Uploads without a task are
 * orphans.
 */
async function createTasks(query: Knex): Promise<void> {
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
    // Data for resuming the task after a restart.
    table.text('username').notNullable().defaultTo('')
    table.text('role').notNullable().defaultTo('general')
    table.text('plan').notNullable().defaultTo('{}')
    table.integer('tries').notNullable().defaultTo(0)
    table.bigInteger('created').notNullable().defaultTo(0)
    table.text('owner')
    table.text('phase')
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
    // The state of the copy when it was verified; empty if it was not recorded.
    table.text('copy').notNullable().defaultTo('')
    table.primary(['task_id', 'parent', 'name'])
  })

  await query.schema.createTable('task_requests', (table) => {
    table.increments('id')
    table.text('task_id').notNullable().references('id').inTable('tasks').onDelete('CASCADE').index()
    table.text('action').notNullable()
  })

  await query.schema.createTable('uploads', (table) => {
    table.increments('id')
    table.text('task_id').references('id').inTable('tasks').onDelete('SET NULL')
    table.text('path').notNullable()
    table.text('source').notNullable()
    table.integer('storage_id').notNullable().references('id').inTable('storages').onDelete('CASCADE').index()
    table.text('token').notNullable()
    table.unique(['task_id', 'path'])
    table.text('owner')
  })
}

/** Nodes, which own intents, tasks and uploads, and leases. */
async function createNodes(query: Knex): Promise<void> {
  await query.schema.createTable('nodes', (table) => {
    table.text('id').primary()
    table.text('name').notNullable()
    table.text('version').notNullable()
    table.text('addresses').notNullable()
    table.bigInteger('started').notNullable()
    table.bigInteger('heartbeat').notNullable()
    table.bigInteger('ended')
    table.text('working').notNullable().defaultTo('{}')
  })

  await query.schema.createTable('leases', (table) => {
    table.text('name').primary()
    table.text('owner').notNullable()
  })
}

/** The topic of each table whose changes other processes are notified of. */
const topics = {
  users: 'accounts',
  ssh_keys: 'accounts',
  app_passwords: 'accounts',
  console_sessions: 'accounts',
  revoked_tokens: 'accounts',
  locks: 'locks',
  folder_rules: 'rules',
  settings: 'settings',
  storages: 'storages',
  task_requests: 'tasks',
} satisfies Record<string, Topic>

/**
 * Counts the changes of each topic. PostgreSQL also notifies the processes that listen. Triggers do it, so that no
 * writer of a table can omit it.
 */
async function countChanges(query: Knex): Promise<void> {
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
  await countChangesOf(query, topics)
}

/** Counts the changes of these tables. */
async function countChangesOf(query: Knex, tables: Readonly<Record<string, Topic>>): Promise<void> {
  for (const [table, topic] of Object.entries(tables)) {
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
}

/** Version 18: who has stored a property, and its size. Properties of earlier versions have neither. */
export async function addPropertyOwners(query: Knex): Promise<void> {
  await query.schema.alterTable('properties', (table) => {
    table.integer('user_id')
    table.integer('size')
    table.index(['user_id', 'size'])
  })
}

/**
 * Version 19: recovery codes of two-step verification. A trigger deletes the codes of a secret that is replaced or
 * removed, so that programs without this step do so too.
 */
export async function addRecoveryCodes(query: Knex): Promise<void> {
  await query.schema.createTable('recovery_codes', (table) => {
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE')
    table.text('digest').notNullable()
    table.primary(['user_id', 'digest'])
  })
  const deletion = 'delete from recovery_codes where user_id = new.id;'
  if (isPostgres(query)) {
    await query.raw(
      `create function tidegate_delete_recovery_codes() returns trigger language plpgsql as $$
      begin ${deletion} return null; end $$`,
    )
  }
  await query.raw(
    'create trigger users_otp_secret_change after update of otp_secret on users ' +
      `for each row when (old.otp_secret <> new.otp_secret) ` +
      (isPostgres(query) ? 'execute function tidegate_delete_recovery_codes()' : `begin ${deletion} end`),
  )
}

/** Version 20: when the user of a console session has proved who it is after the sign-in. */
export async function addConfirmations(query: Knex): Promise<void> {
  await query.schema.alterTable('console_sessions', (table) => {
    table.bigInteger('confirmed')
  })
}

/** Version 21: groups of users, and grants of rights to users and groups. */
export async function addGrants(query: Knex): Promise<void> {
  await query.schema.alterTable('users', (table) => {
    table.boolean('granted_only').notNullable().defaultTo(false)
  })
  await query.schema.createTable('user_groups', (table) => {
    table.increments('id')
    table.text('name').notNullable().unique()
    table.text('description').notNullable()
    table.integer('permission').notNullable()
    table.boolean('admin').notNullable()
  })
  await query.schema.createTable('group_members', (table) => {
    table.integer('group_id').notNullable().references('id').inTable('user_groups').onDelete('CASCADE')
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE').index()
    table.primary(['group_id', 'user_id'])
  })
  // Each grant is of a user or of a group.
  await query.schema.createTable('grants', (table) => {
    table.increments('id')
    table.integer('user_id').references('id').inTable('users').onDelete('CASCADE')
    table.integer('group_id').references('id').inTable('user_groups').onDelete('CASCADE')
    table.text('path').notNullable().index()
    table.text('allow').notNullable()
    table.text('deny').notNullable()
    table.unique(['user_id', 'path'])
    table.unique(['group_id', 'path'])
  })
  const tables = { user_groups: 'groups', group_members: 'groups', grants: 'grants' } as const
  await query('change_counts').insert([...new Set(Object.values(tables))].map((topic) => ({ topic, count: 0 })))
  await countChangesOf(query, tables)
}

/** Version 22: from where and until when accounts and app passwords can be used, and what groups require of members. */
export async function addAdmission(query: Knex): Promise<void> {
  await query.schema.alterTable('users', (table) => {
    table.text('allow_from').notNullable().defaultTo('')
    table.bigInteger('expires')
  })
  await query.schema.alterTable('user_groups', (table) => {
    table.boolean('require_two_step').notNullable().defaultTo(false)
  })
  await query.schema.alterTable('app_passwords', (table) => {
    table.text('folder').notNullable().defaultTo('/')
    table.bigInteger('expires')
  })
}

/** The column of rows of a share: they are deleted with it, and follow its id. */
function ofShare(table: Knex.CreateTableBuilder): Knex.ReferencingColumnBuilder {
  const column = table.text('share_id').notNullable()
  return column.references('id').inTable('shares').onDelete('CASCADE').onUpdate('CASCADE')
}

/** Version 23: shares, their files and folders, how often they were used, and by whom now. */
export async function addShares(query: Knex): Promise<void> {
  await query.schema.createTable('shares', (table) => {
    table.text('id').primary()
    table.integer('creator_id').notNullable().references('id').inTable('users').onDelete('CASCADE').index()
    table.text('mode').notNullable()
    table.text('password').notNullable()
    table.bigInteger('expires')
    table.bigInteger('max_accessed').notNullable()
    table.boolean('disabled').notNullable()
    table.text('remark').notNullable()
    table.text('readme').notNullable()
    table.text('header').notNullable()
    table.text('order_by').notNullable()
    table.text('order_direction').notNullable()
    table.text('extract_folder').notNullable()
    table.text('allow_from').notNullable()
    table.boolean('webdav').notNullable()
    table.bigInteger('upload_max_bytes').notNullable()
    table.bigInteger('upload_max_files').notNullable()
    table.bigInteger('created').notNullable()
  })
  await query.schema.createTable('share_roots', (table) => {
    table.increments('id')
    ofShare(table)
    table.integer('position').notNullable()
    table.text('path').notNullable().index()
    table.boolean('removed').notNullable()
    table.unique(['share_id', 'path'])
  })
  // Apart from the shares, which every process has in memory: a visit must not make all of them read these again.
  await query.schema.createTable('share_use', (table) => {
    ofShare(table).primary()
    table.bigInteger('accessed').notNullable()
    table.bigInteger('uploaded_bytes').notNullable()
    table.bigInteger('uploaded_files').notNullable()
  })
  await query.schema.createTable('share_visits', (table) => {
    table.increments('id')
    ofShare(table)
    // The digest of the cookie, and whether a request has had it.
    table.text('cookie').notNullable()
    table.text('client').notNullable()
    table.boolean('shown').notNullable()
    table.bigInteger('started').notNullable()
    table.index(['share_id', 'cookie'])
    table.index(['share_id', 'client'])
  })
  await query('change_counts').insert({ topic: 'shares', count: 0 })
  await countChangesOf(query, { shares: 'shares', share_roots: 'shares' })
}

/** Version 24: what uploads of visitors that are running have reserved of the limits of their shares. */
export async function addShareUploads(query: Knex): Promise<void> {
  await query.schema.createTable('share_uploads', (table) => {
    table.increments('id')
    ofShare(table).index()
    table.text('owner').notNullable()
    table.bigInteger('bytes').notNullable()
    table.bigInteger('files').notNullable()
    // Folded; null for an upload that may replace what is there.
    table.text('path').unique()
  })
}

/** Version 25: the moves item by item that are running, of what has rules, grants or shares. */
export async function addMoves(query: Knex): Promise<void> {
  await query.schema.createTable('moves', (table) => {
    table.increments('id')
    table.text('from_path').notNullable()
    table.text('to_path').notNullable()
    table.text('owner').notNullable()
  })
  await query('change_counts').insert({ topic: 'moves', count: 0 })
  await countChangesOf(query, { moves: 'moves' })
}

/** Characters of a path that an index of the audit has. PostgreSQL's entries have at most 2,704 bytes. */
export const indexedPathLength = 600

/** Version 26: events of the audit, webhooks, and what has to be delivered to these. */
export async function addAudit(query: Knex): Promise<void> {
  await query.schema.createTable('audit', (table) => {
    table.bigIncrements('id')
    table.text('event_id').notNullable().unique()
    table.bigInteger('time').notNullable()
    table.text('node').notNullable()
    table.text('kind').notNullable()
    table.text('result').notNullable()
    // No reference: events outlive their users.
    table.integer('user_id')
    table.text('name').notNullable()
    table.text('protocol')
    table.text('address')
    table.text('credential')
    table.text('path')
    table.text('target')
    table.bigInteger('size')
    table.text('entry')
    table.text('storage')
    table.text('error')
    table.text('decided_by')
    table.text('subject')
    // The names of changed fields, as a list in JSON.
    table.text('fields')
    table.bigInteger('duration')
    table.bigInteger('count')
    table.index(['time', 'event_id'])
    table.index(['name', 'time', 'event_id'])
  })
  for (const column of ['path', 'target']) {
    await query.raw(
      `create index audit_${column}_time_index on audit ` +
        `(substr(${column}, 1, ${indexedPathLength}), time, event_id) where ${column} is not null`,
    )
  }
  await query.schema.createTable('traffic', (table) => {
    // 'minute' or 'day'.
    table.text('period').notNullable()
    table.bigInteger('start').notNullable()
    for (const sum of ['bytes_in', 'bytes_out', 'changes', 'refusals']) table.bigInteger(sum).notNullable()
    table.primary(['period', 'start'])
  })
  await query.schema.createTable('webhooks', (table) => {
    table.increments('id')
    table.text('name').notNullable().unique()
    table.text('url').notNullable()
    table.text('secret').notNullable()
    // The one before, which is used too for a while after it was replaced, and until when.
    table.text('old_secret')
    table.bigInteger('old_secret_ends')
    // Lists as JSON. Empty: all.
    table.text('kinds').notNullable()
    table.text('paths').notNullable()
    table.boolean('enabled').notNullable()
    table.text('disabled_reason')
    table.bigInteger('created').notNullable()
  })
  await query.schema.createTable('webhook_outbox', (table) => {
    table.bigIncrements('id')
    table.integer('hook_id').notNullable().references('id').inTable('webhooks').onDelete('CASCADE')
    table.text('event_id').notNullable()
    table.text('body').notNullable()
    table.integer('attempts').notNullable().defaultTo(0)
    table.bigInteger('next_at').notNullable().defaultTo(0)
    table.integer('last_status')
    table.text('last_error')
    table.bigInteger('failed_at')
    table.unique(['hook_id', 'event_id'])
    table.index(['hook_id', 'next_at'])
  })
  await query('change_counts').insert({ topic: 'webhooks', count: 0 })
  await countChangesOf(query, { webhooks: 'webhooks' })
}

/**
 * Version 27: indexes of the audit without the ids of the events, which halve the time that an insertion takes.
 * Events of the same time are sorted when they are read.
 */
export async function shortenAuditIndexes(query: Knex): Promise<void> {
  await query.schema.alterTable('audit', (table) => {
    table.dropIndex(['time', 'event_id'])
    table.dropIndex(['name', 'time', 'event_id'])
    table.index(['time'])
    table.index(['name', 'time'])
  })
  for (const column of ['path', 'target']) {
    await query.raw(`drop index audit_${column}_time_index`)
    await query.raw(
      `create index audit_${column}_time_index on audit ` +
        `(substr(${column}, 1, ${indexedPathLength}), time) where ${column} is not null`,
    )
  }
}

/**
 * Version 28: identities of users at providers and directories, what is known of sessions that began there, passkeys,
 * and sign-ins that are not completed yet.
 */
export async function addSignInsByOthers(query: Knex): Promise<void> {
  const ofUser = (table: Knex.CreateTableBuilder) =>
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE').index()
  await query.schema.createTable('identities', (table) => {
    table.increments('id')
    ofUser(table)
    table.text('kind').notNullable()
    table.text('issuer').notNullable()
    table.text('subject').notNullable()
    table.text('name').notNullable()
    table.boolean('provisioned').notNullable()
    table.bigInteger('linked').notNullable()
    table.bigInteger('last_used').notNullable()
    table.bigInteger('checked').notNullable()
    table.unique(['issuer', 'subject'])
  })
  await query.schema.createTable('provider_sessions', (table) => {
    table.increments('id')
    table.integer('identity_id').notNullable().references('id').inTable('identities').onDelete('CASCADE').index()
    table.text('credential').notNullable().unique()
    table.text('sid')
    table.text('id_token')
    table.bigInteger('expires').notNullable().index()
  })
  await query.schema.createTable('passkeys', (table) => {
    table.increments('id')
    ofUser(table)
    table.text('credential_id').notNullable().unique()
    table.binary('public_key').notNullable()
    table.bigInteger('counter').notNullable()
    table.boolean('backup_eligible').notNullable()
    table.text('transports').notNullable()
    table.text('aaguid').notNullable()
    table.text('name').notNullable()
    table.bigInteger('created').notNullable()
    table.bigInteger('last_used')
  })
  await query.schema.createTable('pending_sign_ins', (table) => {
    // SHA-256 of the secret that the client has.
    table.text('id').primary()
    table.text('purpose').notNullable()
    table.text('network').notNullable()
    // The /48 of an IPv6 network.
    table.text('site').notNullable()
    table.text('data').notNullable()
    table.bigInteger('expires').notNullable().index()
    table.index(['purpose', 'site', 'network', 'expires'])
  })
  await query('guards').insert({ name: 'pending_sign_ins' })
  await query.schema.alterTable('console_sessions', (table) => {
    table.boolean('two_step').notNullable().defaultTo(false)
  })
  await query.schema.alterTable('user_groups', (table) => {
    table.boolean('require_provider').notNullable().defaultTo(false)
    table.boolean('provided_admins').notNullable().defaultTo(false)
  })
  await countChangesOf(query, { identities: 'accounts' })
}

/** Version 29: the names of failures, beside their texts. Null: it has not failed, or in an earlier version. */
export async function addFailureNames(query: Knex): Promise<void> {
  for (const name of ['tasks', 'task_items']) {
    await query.schema.alterTable(name, (table) => void table.text('error_name'))
  }
}
