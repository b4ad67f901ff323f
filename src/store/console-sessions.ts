/** Sessions of the console. */
import type { Knex } from 'knex'
import { integer, text, time, type Columns } from './columns.js'
import type { Database } from './database.js'
import { RowTable } from './row-table.js'
import type { ConsoleSessionRow } from './rows.js'
import type { Store } from './tables.js'

const columns: Columns<ConsoleSessionRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  prefix: text('prefix'),
  digest: text('digest'),
  passwordTime: integer('password_time'),
  address: text('address'),
  userAgent: text('user_agent'),
  created: time('created'),
  lastUsed: time('last_used'),
  expires: time('expires'),
}

export class ConsoleSessionsTable extends RowTable<ConsoleSessionRow> {
  constructor(database: Database) {
    super(database, 'console_sessions', columns)
  }

  async add(row: Omit<ConsoleSessionRow, 'id'>, max: number): ReturnType<Store['consoleSessions']['add']> {
    return this.database.guarded('users', async (query) => {
      const others: readonly { id: number }[] = await query(this.table)
        .where({ user_id: row.userId })
        .orderBy([
          { column: 'last_used', order: 'desc' },
          { column: 'id', order: 'desc' },
        ])
        .select('id')
      const ended = others.slice(max - 1).map(({ id }) => id)
      await query(this.table).whereIn('id', ended).delete()
      return { row: await this.insertWith(query, row), ended }
    })
  }

  async touch(id: number, lastUsed: Date): Promise<void> {
    await this.database.run((query) => query(this.table).where({ id }).update({ last_used: lastUsed.getTime() }))
  }

  async sweep(now: Date): Promise<void> {
    await this.database.run((query) => query(this.table).where('expires', '<=', now.getTime()).delete())
  }
}

/** Deletes the sessions of a user that were opened before `passwordTime`, for a transaction that changes it. */
export async function deleteEndedSessions(query: Knex, userId: number, passwordTime: number): Promise<void> {
  await query('console_sessions').where({ user_id: userId }).whereNot({ password_time: passwordTime }).delete()
}
