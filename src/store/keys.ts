import { bytes, integer, text, time, type Columns } from './columns.js'
import type { Database } from './database.js'
import { RowTable } from './row-table.js'
import type { KeyRow } from './rows.js'

const columns: Columns<KeyRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  title: text('title'),
  type: text('type'),
  blob: bytes('blob'),
  fingerprint: text('fingerprint'),
  added: time('added'),
  lastUsed: time('last_used'),
}

export class KeysTable extends RowTable<KeyRow> {
  constructor(database: Database) {
    super(database, 'ssh_keys', columns)
  }

  async touch(id: number, lastUsed: Date): Promise<void> {
    await this.database.run((query) => query(this.table).where({ id }).update({ last_used: lastUsed.getTime() }))
  }
}
