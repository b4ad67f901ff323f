import type { Lock } from '../locks.js'
import { upwardFrom, type Path } from '../path.js'
import { integer, path, readRow, text, time, truth, writeRow, type Columns, type Stored } from './columns.js'
import type { Database } from './database.js'
import { subtree } from './ranges.js'

const columns: Columns<Lock> = {
  token: text('token'),
  path: path('path'),
  userId: integer('user_id'),
  username: text('username'),
  scope: text<Lock['scope']>('scope'),
  deep: truth('deep'),
  owner: text('owner'),
  expires: time('expires'),
}

export class LocksTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<Lock[]> {
    const stored = await this.database.read((query) => query<Stored>('locks').select().orderBy('path'))
    return stored.map((row) => readRow(columns, row))
  }

  async grant(lock: Lock, conflict: (standing: readonly Lock[]) => Lock | undefined): Promise<Lock | undefined> {
    return this.database.guarded('locks', async (query) => {
      // Of the others none can be in the way: these are above, at, or below.
      const near = await query<Stored>('locks')
        .where((rows) => void rows.whereIn('path', [...upwardFrom(lock.path)]).orWhere(subtree(lock.path)))
        .select()
      const standing = near.filter((row) => Number(row.expires) > Date.now())
      const refused = conflict(standing.map((row) => readRow(columns, row)))
      if (refused === undefined) await query('locks').insert(writeRow(columns, lock))
      return refused
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

  async deleteWithin(path: Path): Promise<void> {
    await this.database.run((query) => query('locks').where(subtree(path)).delete())
  }

  async sweep(now: Date): Promise<void> {
    await this.database.run((query) => query('locks').where('expires', '<=', now.getTime()).delete())
  }
}
