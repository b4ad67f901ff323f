import type { Knex } from 'knex'
import type { Path } from '../path.js'
import { subtree } from './ranges.js'

/**
 * Whether a table has rows for some paths. That a table is empty is known in memory, so that most renames need not ask the
 * database. Only the daemon inserts rows about files, and a data folder has one daemon at a time.
 */
export class Presence {
  #isEmpty: boolean | undefined

  constructor(private readonly table: 'properties' | 'attributes') {}

  /** To be called before a row is inserted. */
  inserting(): void {
    this.#isEmpty = false
  }

  /** Whether there is a row for one of these paths, or below it. */
  async within(query: Knex, ...paths: readonly Path[]): Promise<boolean> {
    if (this.#isEmpty === undefined) {
      const isEmpty = !(await isAny(query(this.table)))
      // Unless a row was inserted meanwhile.
      this.#isEmpty ??= isEmpty
    }
    if (this.#isEmpty) return false
    const rows = query(this.table)
    for (const path of paths) void rows.orWhere(subtree(path))
    return isAny(rows)
  }
}

async function isAny(rows: Knex.QueryBuilder): Promise<boolean> {
  const found = (await rows.select('path').limit(1)) as readonly unknown[]
  return found.length > 0
}
