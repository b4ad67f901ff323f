/** Tables whose rows are about a path, and follow a folder that is moved or gets another spelling. */
import type { Knex } from 'knex'
import type { Path } from '../base/path.js'
import type { Columns } from './columns.js'
import type { Database } from './database.js'
import { assertDisjoint, replacePrefix, subtree } from './ranges.js'
import { RowTable } from './row-table.js'

/**
 * What a move of a folder does to the rows of a table: they get the new path, and replace those that have it. Other rows
 * at or below the new path are unchanged, because they were set for that path. A removal leaves all rows, so that a
 * folder that is made again is as closed as before.
 */
interface Following {
  readonly table: string
  /** The column of the path. */
  readonly column: string
}

const followingRules: Following = { table: 'folder_rules', column: 'path' }

/** All tables whose rows follow. */
export const following = { rules: followingRules } as const

/** A table whose rows follow their path. */
export class PathTable<Row extends { readonly id: number; readonly path: Path }> extends RowTable<Row> {
  constructor(
    database: Database,
    private readonly following: Following,
    columns: Columns<Row>,
  ) {
    super(database, following.table, columns)
  }

  async move(from: Path, to: Path): Promise<void> {
    await this.database.transaction((query) => moveRows(query, this.following, from, to))
  }
}

/** Moves the rows of all tables that are at or below `from` to `to`. */
export async function moveFollowing(query: Knex, from: Path, to: Path): Promise<void> {
  for (const each of Object.values(following)) await moveRows(query, each, from, to)
}

async function moveRows(query: Knex, { table, column }: Following, from: Path, to: Path): Promise<void> {
  if (from === to) return
  assertDisjoint(from, to)
  const targetPaths = query(table)
    .where(subtree(from, column))
    .select(replacePrefix(query, column, from, to))
  await query(table).whereIn(column, targetPaths).delete()
  await query(table)
    .where(subtree(from, column))
    .update({ [column]: replacePrefix(query, column, from, to) })
}
