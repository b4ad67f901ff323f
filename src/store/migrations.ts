/** The steps that bring the schema of an older database to the newest version. */
import type { Knex } from 'knex'
import { GatewayError } from '../contract/errors.js'
import { renameAppPasswordProtocols } from './app-password-protocols.js'
import { reportChanges } from './change-notices.js'
import { addConsoleSessions } from './console-sessions.js'
import { isPostgres, useByteOrder } from './dialect.js'
import { addNodes } from './nodes.js'
import { createSchema } from './schema.js'
import { addTaskRequests } from './tasks.js'

/** One step of the schema. A released step is never changed; later changes are new steps. */
export type Migration = (query: Knex) => Promise<void>

/** The version that the first step creates. Databases of earlier versions were written by unreleased programs. */
const firstVersion = 8

/** In order: each step after the first brings the schema to the next version. */
export const migrations: readonly Migration[] = [
  createSchema,
  reportChanges,
  renameAppPasswordProtocols,
  addConsoleSessions,
  addNodes,
  addTaskRequests,
]

/**
 * Migrates the schema to the newest version. Each step runs in its own transaction; a failed step leaves the previous
 * version. Safe for concurrent processes. Rejects with `unsupported` if a newer or an unreleased program has written
 * the database.
 */
export async function migrate(knex: Knex, steps: readonly Migration[] = migrations): Promise<void> {
  await createVersionTable(knex)
  await knex('schema_version').insert({ id: 1, version: 0 }).onConflict('id').ignore()
  let more = true
  while (more) more = await knex.transaction((query) => runNextStep(query, steps))
}

async function createVersionTable(knex: Knex): Promise<void> {
  const statement =
    'create table if not exists schema_version (id integer not null primary key, version integer not null)'
  if (!isPostgres(knex)) {
    await knex.raw(statement)
    return
  }
  // One of two processes that create the same table at once would fail.
  await knex.transaction(async (query) => {
    await query.raw("select pg_advisory_xact_lock(hashtext('tidegate schema_version'))")
    await query.raw(statement)
  })
}

/** Runs the next step, if any. Returns whether another one may follow. */
async function runNextStep(query: Knex, steps: readonly Migration[]): Promise<boolean> {
  // Locks the row first: other processes wait here, then read the version that this one leaves.
  await query('schema_version').where({ id: 1 }).update({ id: 1 })
  const row = await query<{ id: number; version: number }>('schema_version').where({ id: 1 }).first()
  const version = row?.version ?? 0
  const newest = firstVersion + steps.length - 1
  if (version > newest) {
    throw new GatewayError('unsupported', {
      reason:
        `the database was written by a newer Tidegate (its schema is version ${version}, ` +
        `this program supports up to ${newest}): run the newer program, or restore an older backup`,
    })
  }
  if (version > 0 && version < firstVersion) {
    throw new GatewayError('unsupported', {
      reason:
        `the database was written by an unreleased Tidegate (its schema is version ${version}, this program ` +
        `supports ${firstVersion} and later): rename data.db, so that the next start creates a new one; files are kept`,
    })
  }
  const next = version === 0 ? firstVersion : version + 1
  const step = steps[next - firstVersion]
  if (step === undefined) return false
  await step(query)
  if (isPostgres(query)) await useByteOrder(query)
  await query('schema_version').where({ id: 1 }).update({ version: next })
  return true
}
