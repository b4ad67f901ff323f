/** Which steps of the schema (schema.ts) a database needs, and how they run beside other processes. */
import type { Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import { databaseTime, isPostgres, lockSchema, useByteOrder } from './dialect.js'
import { deadAfter } from './nodes.js'
import {
  addAdmission,
  addAudit,
  addConfirmations,
  addFailureNames,
  addGrants,
  addMoves,
  addPropertyOwners,
  addRecoveryCodes,
  addShares,
  addShareUploads,
  addSignInsByOthers,
  createSchema,
  shortenAuditIndexes,
} from './schema.js'

type Step = (query: Knex) => Promise<void>

/**
 * One step of the schema. A released step is never changed; later changes are new steps. A step is breaking if programs
 * without it cannot use the database afterwards: older ones start on a database that only has more other steps.
 */
export type Migration = Step | { readonly breaking: Step }

interface VersionRow {
  readonly id: number
  readonly version: number
  /** The oldest version whose programs can use the database. */
  readonly oldest: number
}

/** The version that the first step creates. Databases of earlier versions were written by unreleased programs. */
const firstVersion = 17

/** In order: each step after the first brings the schema to the next version. */
export const migrations: readonly Migration[] = [
  createSchema,
  addPropertyOwners,
  addRecoveryCodes,
  addConfirmations,
  addGrants,
  addAdmission,
  addShares,
  addShareUploads,
  addMoves,
  addAudit,
  shortenAuditIndexes,
  addSignInsByOthers,
  addFailureNames,
]

/** The version after these steps. */
export function newestVersion(steps: readonly Migration[] = migrations): number {
  return firstVersion + steps.length - 1
}

/**
 * The steps that bring a new database to this version. Throws `unsupported` if the version is newer than the last of
 * the steps, or only unreleased programs have used it.
 */
export function stepsTo(version: number, steps: readonly Migration[] = migrations): readonly Migration[] {
  if (version > newestVersion(steps)) throw newerSchema(version, newestVersion(steps))
  assertReleased(version)
  return steps.slice(0, version - firstVersion + 1)
}

/** The version of the schema of a database; 0 if it has none. */
export async function storedVersion(query: Knex): Promise<number> {
  if (!(await query.schema.hasTable('schema_version'))) return 0
  return (await query<VersionRow>('schema_version').where({ id: 1 }).first())?.version ?? 0
}

/**
 * Migrates the schema to the newest version. All steps of a new database run in one transaction, and each step of an
 * older one in its own. A failed step leaves the version that was reached before; a new database has none then. Safe
 * for concurrent processes. Rejects with `unsupported` if a newer program has written the database and this one cannot
 * use it, if an unreleased one has, or if a step is breaking and a node is alive. `runs`: whether the process of a node
 * runs on this machine; undefined if that is unknown.
 */
export async function migrate(
  knex: Knex,
  steps: readonly Migration[] = migrations,
  runs: (id: string) => boolean | undefined = () => undefined,
): Promise<void> {
  await createVersionTable(knex)
  await knex('schema_version').insert({ id: 1, version: 0 }).onConflict('id').ignore()
  let more = true
  while (more) more = await knex.transaction((query) => runNext(query, steps, runs))
}

async function createVersionTable(knex: Knex): Promise<void> {
  const statement =
    'create table if not exists schema_version ' +
    `(id integer not null primary key, version integer not null, "oldest" integer not null default '0')`
  if (!isPostgres(knex)) {
    await knex.raw(statement)
    return
  }
  // One of two processes that create the same table at once would fail.
  await knex.transaction(async (query) => {
    await lockSchema(query)
    await query.raw(statement)
  })
}

/**
 * Runs the next step, if any; of a new database all steps, so that no other process takes it for one to upgrade.
 * Returns whether another step may follow.
 */
async function runNext(
  query: Knex,
  steps: readonly Migration[],
  runs: (id: string) => boolean | undefined,
): Promise<boolean> {
  await lockSchema(query)
  // Other processes of SQLite wait here, then read the version that this one leaves.
  await query('schema_version').where({ id: 1 }).update({ id: 1 })
  const row = await query<VersionRow>('schema_version').where({ id: 1 }).first()
  const version = row?.version ?? 0
  const newest = newestVersion(steps)
  if (version > newest && (row?.oldest ?? version) <= newest) return false
  if (version > newest) throw newerSchema(version, newest)
  assertReleased(version)
  const isNew = version === 0
  const first = isNew ? firstVersion : version + 1
  const next = isNew ? steps : steps.slice(first - firstVersion, first - firstVersion + 1)
  for (const [index, step] of next.entries()) {
    const isBreaking = typeof step !== 'function'
    if (isBreaking) await endNodes(query, runs)
    await (isBreaking ? step.breaking : step)(query)
    if (isPostgres(query)) await useByteOrder(query)
    const reached = first + index
    await query('schema_version')
      .where({ id: 1 })
      .update({ version: reached, ...(isBreaking && { oldest: reached }) })
  }
  return !isNew && next.length > 0
}

function newerSchema(version: number, newest: number): GatewayError {
  return new GatewayError('unsupported', {
    reason:
      `the database was written by a newer Tidegate (its schema is version ${version}, ` +
      `this program supports up to ${newest}): run the newer program, or restore an older backup`,
  })
}

/** Throws `unsupported` for a version that only unreleased programs have used. */
function assertReleased(version: number): void {
  if (version === 0 || version >= firstVersion) return
  throw new GatewayError('unsupported', {
    reason:
      `the database was written by an unreleased Tidegate (its schema is version ${version}, this program ` +
      `supports ${firstVersion} and later): rename data.db, so that the next start creates a new one; files are kept`,
  })
}

/** Ends the nodes that are dead. Rejects with `unsupported` if others are alive. */
async function endNodes(query: Knex, runs: (id: string) => boolean | undefined): Promise<void> {
  const now = databaseTime(query)
  const nodes: readonly { id: string; name: string; age: number | string }[] = await query('nodes')
    .whereNull('ended')
    .select('id', 'name', { age: query.raw('? - heartbeat', [now]) })
  // With SQLite, nodes send no heartbeats, and all are on this machine.
  const isAlive = ({ id, age }: (typeof nodes)[number]) =>
    isPostgres(query) ? runs(id) !== false && Number(age) < deadAfter : runs(id) === true
  const living = nodes.filter(isAlive).map(({ name }) => name)
  if (living.length > 0) {
    const reason = `the database must be changed in a way that running nodes cannot use: stop them first (${living.join(', ')})`
    throw new GatewayError('unsupported', { reason })
  }
  await query('nodes').whereNull('ended').update({ ended: now })
}
