import { integer, optional, text, time, bool, wordList, type Columns } from './columns.js'
import type { Database } from './database.js'
import { RowTable } from './row-table.js'
import type { AppPasswordProtocol, AppPasswordRow } from './rows.js'

const columns: Columns<AppPasswordRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  name: text('name'),
  prefix: text('prefix'),
  digest: text('digest'),
  protocols: wordList<AppPasswordProtocol>('doors'),
  readOnly: bool('read_only'),
  added: time('added'),
  lastUsed: optional(time('last_used')),
}

export class AppPasswordsTable extends RowTable<AppPasswordRow> {
  constructor(database: Database) {
    super(database, 'app_passwords', columns)
  }

  async touch(id: number, lastUsed: Date): Promise<void> {
    await this.database.run((query) => query(this.table).where({ id }).update({ last_used: lastUsed.getTime() }))
  }
}
