/** Locks of files and folders. Whether a lock is granted is decided in a transaction. */
import type { Knex } from 'knex'
import { selfAndAncestors } from '../base/path.js'
import { integer, path, readRow, text, time, bool, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import { subtree } from './ranges.js'
import type { Lock } from './tables/locks.js'

const columns: Columns<Lock> = {
  token: text('token'),
  path: path('path'),
  userId: integer('user_id'),
  username: text('username'),
  scope: text<Lock['scope']>('scope'),
  deep: bool('deep'),
  owner: text('owner'),
  expires: time('expires'),
}

/** All columns. An owner of more characters, which an earlier version has stored, is read as empty. */
function selectLocks(query: Knex, maxOwner: number): Knex.QueryBuilder<StoredRow, StoredRow[]> {
  const owner = query.raw("case when length(owner) > ? then '' else owner end as owner", [maxOwner])
  return query<StoredRow>('locks').select(...withoutOwner, owner)
}

const withoutOwner = ['token', 'path', 'user_id', 'username', 'scope', 'deep', 'expires'] as const

/** The largest `integer` of PostgreSQL. */
const maxInteger = 2 ** 31 - 1

export class LocksTable {
  constructor(private readonly database: Database) {}

  async all(maxOwner = maxInteger): Promise<Lock[]> {
    const stored = await this.database.read((query) => selectLocks(query, maxOwner).orderBy('path'))
    return stored.map((row) => readRow(columns, row))
  }

  async get(token: string, maxOwner = maxInteger): Promise<Lock | undefined> {
    const row = await this.database.read((query) => selectLocks(query, maxOwner).where({ token }).first())
    return row && readRow(columns, row)
  }

  async grant(
    lock: Lock,
    conflict: (active: readonly Lock[]) => Lock | undefined,
    now = Date.now(),
  ): Promise<Lock | undefined> {
    return this.database.guarded('locks', async (query) => {
      // Only locks above, at or below the path can conflict.
      const candidates = await query<StoredRow>('locks')
        .where((rows) => void rows.whereIn('path', [...selfAndAncestors(lock.path)]).orWhere(subtree(lock.path)))
        .select(...withoutOwner, query.raw("'' as owner"))
      const active = candidates.filter((row) => Number(row.expires) > now)
      const conflicting = conflict(active.map((row) => readRow(columns, row)))
      if (conflicting === undefined) await query('locks').insert(writeRow(columns, lock))
      return conflicting
    })
  }

  async refresh(token: string, expires: Date): Promise<boolean> {
    const changed = await this.database.run((query) =>
      query('locks').where({ token }).update({ expires: expires.getTime() }),
    )
    return changed > 0
  }

  async delete(token: string): Promise<boolean> {
    return (await this.database.run((query) => query('locks').where({ token }).delete())) > 0
  }

  async sweep(now: Date): Promise<void> {
    await this.database.run((query) => query('locks').where('expires', '<=', now.getTime()).delete())
  }
}
