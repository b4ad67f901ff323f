import type { Knex } from 'knex'
import { GatewayError } from '../errors.js'
import { createAccounts } from './migrations/001-accounts.js'
import { createTree } from './migrations/002-tree.js'
import { createAppPasswords } from './migrations/003-app-passwords.js'
import { createFolders } from './migrations/004-folders.js'
import { createTaskJournal } from './migrations/005-task-journal.js'
import { nameStoragesOfIntents } from './migrations/006-intents.js'
import { addCopyStates } from './migrations/007-copy-states.js'
import { createUploads } from './migrations/008-uploads.js'

/** One step of the schema. Once released, a step is never changed again: the next one changes what it made. */
export type Migration = (query: Knex) => Promise<void>

/** In order: the first one leads from nothing to version 1, the next to version 2, and so on. */
export const migrations: readonly Migration[] = [
  createAccounts,
  createTree,
  createAppPasswords,
  createFolders,
  createTaskJournal,
  nameStoragesOfIntents,
  addCopyStates,
  createUploads,
]

/**
 * Brings the schema to the newest version, each step in a transaction of its own: what fails leaves the version before it.
 * Several processes may do this at once. Rejects with `unsupported` where a newer program has been here.
 */
export async function migrate(knex: Knex, steps: readonly Migration[] = migrations): Promise<void> {
  await knex.raw(
    'create table if not exists schema_version (id integer not null primary key, version integer not null)',
  )
  await knex('schema_version').insert({ id: 1, version: 0 }).onConflict('id').ignore()
  let more = true
  while (more) more = await knex.transaction((query) => takeStep(query, steps))
}

/** Whether there may be another step to take. */
async function takeStep(query: Knex, steps: readonly Migration[]): Promise<boolean> {
  // Taking the row first makes other processes wait here, and then read the version that we leave.
  await query('schema_version').where({ id: 1 }).update({ id: 1 })
  const row = await query<{ id: number; version: number }>('schema_version').where({ id: 1 }).first()
  const version = row?.version ?? 0
  if (version > steps.length) {
    throw new GatewayError('unsupported', {
      reason:
        `the database was written by a newer Tidegate (its schema is version ${version}, ` +
        `this program knows up to ${steps.length}): run that one, or restore an older copy`,
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
