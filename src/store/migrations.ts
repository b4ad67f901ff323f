import type { Knex } from 'knex'
import { GatewayError } from '../contract/errors.js'
import { createAccounts } from './migrations/001-accounts.js'
import { createTree } from './migrations/002-tree.js'
import { createAppPasswords } from './migrations/003-app-passwords.js'
import { createFolders } from './migrations/004-folders.js'
import { createTaskJournal } from './migrations/005-task-journal.js'
import { nameStoragesOfIntents } from './migrations/006-intents.js'
import { addCopyStates } from './migrations/007-copy-states.js'
import { createUploads } from './migrations/008-uploads.js'
import { countChanges } from './migrations/009-change-counts.js'

/** One step of the schema. A released step is never changed; later changes are new steps. */
export type Migration = (query: Knex) => Promise<void>

/** In order: the first one creates version 1, the next one version 2, and so on. */
export const migrations: readonly Migration[] = [
  createAccounts,
  createTree,
  createAppPasswords,
  createFolders,
  createTaskJournal,
  nameStoragesOfIntents,
  addCopyStates,
  createUploads,
  countChanges,
]

/**
 * Migrates the schema to the newest version. Each step runs in its own transaction; a failed step leaves the previous
 * version. Safe for concurrent processes. Rejects with `unsupported` if a newer program has written the database.
 */
export async function migrate(knex: Knex, steps: readonly Migration[] = migrations): Promise<void> {
  await knex.raw(
    'create table if not exists schema_version (id integer not null primary key, version integer not null)',
  )
  await knex('schema_version').insert({ id: 1, version: 0 }).onConflict('id').ignore()
  let more = true
  while (more) more = await knex.transaction((query) => runNextStep(query, steps))
}

/** Runs the next step, if any. Returns whether another one may follow. */
async function runNextStep(query: Knex, steps: readonly Migration[]): Promise<boolean> {
  // Locks the row first: other processes wait here, then read the version that this one leaves.
  await query('schema_version').where({ id: 1 }).update({ id: 1 })
  const row = await query<{ id: number; version: number }>('schema_version').where({ id: 1 }).first()
  const version = row?.version ?? 0
  if (version > steps.length) {
    throw new GatewayError('unsupported', {
      reason:
        `the database was written by a newer Tidegate (its schema is version ${version}, ` +
        `this program supports up to ${steps.length}): run the newer program, or restore an older backup`,
    })
  }
  const step = steps[version]
  if (step === undefined) return false
  await step(query)
  await query('schema_version')
    .where({ id: 1 })
    .update({ version: version + 1 })
  return true
}
