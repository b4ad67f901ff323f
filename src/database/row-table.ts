/** The base of the tables of rows with an id. */
import type { Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import { readRow, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'

/** Base class of tables whose rows have a numeric id. */
export class RowTable<Row extends { readonly id: number }> {
  constructor(
    protected readonly database: Database,
    protected readonly table: string,
    protected readonly columns: Columns<Row>,
  ) {}

  /** All rows, ordered by id. */
  async all(): Promise<Row[]> {
    const stored = await this.database.read((query) => query<StoredRow>(this.table).select().orderBy('id'))
    return stored.map((row) => readRow(this.columns, row))
  }

  async insert(row: Omit<Row, 'id'>): Promise<Row> {
    return this.database.run((query) => this.insertWith(query, row))
  }

  async update(id: number, changes: Partial<Omit<Row, 'id'>>): Promise<Row> {
    return this.database.run((query) => this.updateWith(query, id, changes))
  }

  /** Returns whether the row existed. */
  async delete(id: number): Promise<boolean> {
    return (await this.database.run((query) => query(this.table).where({ id }).delete())) > 0
  }

  protected async insertWith(query: Knex, row: Omit<Row, 'id'>): Promise<Row> {
    const inserted: readonly StoredRow[] = await query<StoredRow>(this.table)
      .insert(writeRow(this.columns, row as Partial<Row>))
      .returning('*')
    return readRow(this.columns, inserted[0] ?? {})
  }

  protected async updateWith(query: Knex, id: number, changes: Partial<Omit<Row, 'id'>>): Promise<Row> {
    const stored = writeRow(this.columns, changes as Partial<Row>)
    const rows: readonly StoredRow[] =
      Object.keys(stored).length === 0
        ? await query<StoredRow>(this.table).where({ id }).select()
        : await query<StoredRow>(this.table).where({ id }).update(stored).returning('*')
    const [row] = rows
    if (row === undefined) throw new GatewayError('not_found', { reason: 'there is no such row' })
    return readRow(this.columns, row)
  }
}

/** Credentials of which a user has a limited number. */
export abstract class CredentialsTable<
  Row extends { readonly id: number; readonly userId: number },
> extends RowTable<Row> {
  /** Inserts the row, unless the user has `max` of them; then resolves to undefined. */
  async add(row: Omit<Row, 'id'>, max: number): Promise<Row | undefined> {
    return this.database.guarded('users', async (query) => {
      const others = await query(this.table).where({ user_id: row.userId }).select('id')
      return others.length < max ? this.insertWith(query, row) : undefined
    })
  }

  /** Stores the time of last use. A missing row is no error. */
  async touch(id: number, lastUsed: Date): Promise<void> {
    await this.database.run((query) => query(this.table).where({ id }).update({ last_used: lastUsed.getTime() }))
  }
}
