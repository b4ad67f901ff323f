/** Tables whose rows are about a path, and follow a folder that is moved or gets another spelling. */
import type { Knex } from 'knex'
import type { Path } from '../base/path.js'
import type { Columns } from './columns.js'
import type { Database } from './database.js'
import { assertDisjoint, replacePrefix, subtree } from './ranges.js'
import { RowTable } from './row-table.js'

/**
 * What a move of a folder does to the rows of a table: they get the new path, and replace the rows there of which only
 * one may exist. Other rows at or below the new path are unchanged, because they were set for that path. A removal
 * leaves the rows, so that a folder that is made again is as closed as before, or marks them, so that what is made
 * again is not shown to those for whom it was not meant.
 */
interface Following {
  readonly table: string
  /** The column of the path. */
  readonly column: string
  /** The columns that differ between two rows of one path; of rows with equal ones, the moved one stays. */
  readonly subject: readonly string[]
  /** The column that is set when what is at the path is removed. Absent: nothing is changed. */
  readonly removed?: string
}

const followingRules: Following = { table: 'folder_rules', column: 'path', subject: [] }
const followingGrants: Following = { table: 'grants', column: 'path', subject: ['user_id', 'group_id'] }

const followingShares: Following = {
  table: 'share_roots',
  column: 'path',
  subject: ['share_id'],
  removed: 'removed',
}

/** All tables whose rows follow. */
export const following = { rules: followingRules, grants: followingGrants, shares: followingShares } as const

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

  async markRemoved(path: Path): Promise<void> {
    const { table, column, removed } = this.following
    if (removed === undefined) return
    await this.database.run((query) =>
      query(table)
        .where(subtree(path, column))
        .update({ [removed]: true }),
    )
  }
}

/** Moves the rows of all tables that are at or below `from` to `to`. */
export async function moveFollowing(query: Knex, from: Path, to: Path): Promise<void> {
  for (const each of Object.values(following)) await moveRows(query, each, from, to)
}

async function moveRows(query: Knex, { table, column, subject }: Following, from: Path, to: Path): Promise<void> {
  if (from === to) return
  assertDisjoint(from, to)
  const moved = query(`${table} as moved`)
    .where(subtree(from, `moved.${column}`))
    .andWhere(`${table}.${column}`, replacePrefix(query, `moved.${column}`, from, to))
  for (const each of subject) {
    const [one, other] = [`${table}.${each}`, `moved.${each}`]
    void moved.andWhereRaw('(?? = ?? or (?? is null and ?? is null))', [one, other, one, other])
  }
  await query(table)
    .whereExists(moved.select(query.raw('1')))
    .delete()
  await query(table)
    .where(subtree(from, column))
    .update({ [column]: replacePrefix(query, column, from, to) })
}
