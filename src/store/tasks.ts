import { integer, optional, readRow, text, time, writeRow, type Columns, type Stored } from './columns.js'
import type { Database } from './database.js'
import type { TaskRow } from './rows.js'

const columns: Columns<TaskRow> = {
  id: text('id'),
  kind: text('kind'),
  name: text('name'),
  userId: integer('user_id'),
  state: text('state'),
  status: text('status'),
  error: text('error'),
  totalBytes: integer('total_bytes'),
  doneBytes: integer('done_bytes'),
  started: optional(time('started')),
  ended: optional(time('ended')),
}

export class TasksTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<TaskRow[]> {
    const stored = await this.database.run((query) => query<Stored>('tasks').select().orderBy('id'))
    return stored.map((row) => readRow(columns, row))
  }

  async put(row: TaskRow): Promise<void> {
    await this.database.run((query) => query('tasks').insert(writeRow(columns, row)).onConflict('id').merge())
  }

  async delete(id: string): Promise<boolean> {
    return (await this.database.run((query) => query('tasks').where({ id }).delete())) > 0
  }
}
