/** Moves of folders that processes make item by item, for the others. */
import { integer, path, readRow, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import type { RunningMove } from './tables/moves.js'

const columns: Columns<RunningMove> = {
  id: integer('id'),
  from: path('from_path'),
  to: path('to_path'),
}

export class MovesTable {
  /** `owner`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly owner: string,
  ) {}

  async ofOthers(): Promise<RunningMove[]> {
    const rows = await this.database.read((query) =>
      query<StoredRow>('moves').whereNot({ owner: this.owner }).select().orderBy('id'),
    )
    return rows.map((row) => readRow(columns, row))
  }

  async begin(move: Omit<RunningMove, 'id'>): Promise<number> {
    const row = { ...writeRow(columns, move), owner: this.owner }
    const rows = await this.database.run((query) => query('moves').insert(row).returning<StoredRow[]>('id'))
    return Number(rows[0]?.id)
  }

  async end(id: number): Promise<void> {
    await this.database.run((query) => query('moves').where({ id }).delete())
  }
}
