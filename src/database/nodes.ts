/** The processes that share the database, and what each of them owns. */
import type { Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import { integer, optional, readRow, text, time, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import { databaseTime, isPostgres, lockSchema } from './dialect.js'
import type { NodeRow } from './tables/nodes.js'

/** Milliseconds since its last heartbeat, after which a node is dead. */
export const deadAfter = 25_000

/** Days for which the row of an ended node is kept, so that what it has staged is known to be abandoned. */
const keptDays = 30

/** The tables whose rows have an owner. */
const ownedTables = ['intents', 'tasks', 'uploads'] as const

const columns: Columns<Omit<NodeRow, 'age'>> = {
  id: text('id'),
  name: text('name'),
  version: text('version'),
  addresses: text('addresses'),
  started: time('started'),
  heartbeat: integer('heartbeat'),
  ended: optional(time('ended')),
  working: text('working'),
}

export class NodesTable {
  /** `version`: the newest version of the schema that this program knows, for `join`. */
  constructor(
    private readonly database: Database,
    private readonly version = Infinity,
  ) {}

  async all(): Promise<NodeRow[]> {
    const rows: readonly StoredRow[] = await this.database.read((query) =>
      query('nodes')
        .select('*', { now: databaseTime(query) })
        .orderBy('started'),
    )
    return rows.map((row) => ({ ...readRow(columns, row), age: Number(row.now) - Number(row.heartbeat) }))
  }

  async join(node: Pick<NodeRow, 'id' | 'name' | 'version' | 'addresses'>): Promise<void> {
    await this.database.transaction(async (query) => {
      await lockSchema(query)
      const now = databaseTime(query)
      await query('nodes').insert({ ...writeRow(columns, node), started: now, heartbeat: now })
      // A newer program may have changed it since this one has opened it.
      const schema = await query<{ oldest: number }>('schema_version').first()
      if (schema !== undefined && schema.oldest > this.version) {
        throw new GatewayError('unsupported', { reason: 'a newer Tidegate has just changed the database' })
      }
    })
    const days = keptDays * 86_400_000
    await this.database.run((query) =>
      query('nodes')
        .where('ended', '<', query.raw('? - ?', [databaseTime(query), days]))
        .delete(),
    )
  }

  async renew(id: string, working: string): Promise<number | undefined> {
    const rows = await this.database.run((query) =>
      query('nodes')
        .where({ id, ended: null })
        .update({ heartbeat: databaseTime(query), working })
        .returning<StoredRow[]>('heartbeat'),
    )
    return rows[0] && Number(rows[0].heartbeat)
  }

  async setAddresses(id: string, addresses: string): Promise<void> {
    await this.database.run((query) => query('nodes').where({ id }).update({ addresses }))
  }

  async end(id: string, heartbeat?: number): Promise<boolean> {
    const ended = await this.database.run((query) => {
      const row = query('nodes').where({ id, ended: null })
      if (heartbeat !== undefined) void row.andWhere({ heartbeat })
      return row.update({ ended: databaseTime(query) })
    })
    if (ended > 0) {
      await this.database.run((query) => endSessions(query, id))
    }
    return ended > 0
  }

  async claim(id: string): Promise<number> {
    // One transaction: the uploads of a task belong to the node that claims the task.
    return this.database.transaction(async (query) => {
      let claimed = 0
      const living = query('nodes').whereNull('ended').select('id')
      await query('moves').whereNotIn('owner', living).delete()
      for (const table of ownedTables) {
        const rows = query(table).where((owned) => void owned.whereNull('owner').orWhereNotIn('owner', living))
        claimed += await rows.update({ owner: id })
      }
      return claimed
    })
  }
}

/** Terminates the sessions of another node: what it has begun is rolled back, and its locks are released. */
async function endSessions(query: Knex, id: string): Promise<void> {
  if (!isPostgres(query)) return
  await query.raw(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = ? and application_name <> current_setting('application_name')`,
    [id],
  )
}

/** The leases of duties, each of which one node at a time does for all: the name of the duty, and its node. */
export class LeasesTable {
  /** `owner`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly owner: string,
  ) {}

  async obtain(name: string): Promise<boolean> {
    const { owner } = this
    const taken = await this.database.run((query) => {
      const living = query('nodes').whereNull('ended').select('id')
      return query('leases')
        .where({ name })
        .andWhere((lease) => void lease.where({ owner }).orWhereNotIn('owner', living))
        .update({ owner })
    })
    if (taken > 0) return true
    const inserted: readonly unknown[] = await this.database.run((query) =>
      query('leases').insert({ name, owner }).onConflict('name').ignore().returning('name'),
    )
    return inserted.length > 0
  }

  async release(name: string): Promise<void> {
    await this.database.run((query) => query('leases').where({ name, owner: this.owner }).delete())
  }
}
