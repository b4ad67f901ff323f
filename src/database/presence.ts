/** Knowledge that a table is empty, by which most renames and listings need no query: a rename takes half the time. */
import type { Knex } from 'knex'
import type { Path } from '../base/path.js'
import { subtree } from './ranges.js'

/**
 * Whether a table has rows, and has rows for some paths. That a table is empty is cached in memory, so that most
 * renames and listings need no query: with SQLite only this daemon inserts rows about files.
 */
export class Presence {
  #isEmpty: boolean | undefined

  /** `isExclusive`: no other process inserts rows. */
  constructor(
    private readonly table: 'properties' | 'attributes',
    private readonly isExclusive: boolean,
  ) {}

  /** Must be called before a row is inserted. */
  beforeInsert(): void {
    this.#isEmpty = false
  }

  /** True if the table has no rows. False if it may have some. */
  async isEmpty(query: Knex): Promise<boolean> {
    if (this.#isEmpty === undefined) {
      const isEmpty = !(await isAny(query(this.table)))
      if (isEmpty && !this.isExclusive) return true
      // `beforeInsert` may have been called during the query.
      this.#isEmpty ??= isEmpty
    }
    return this.#isEmpty
  }

  /** Whether a row exists at or below one of these paths. */
  async hasWithin(query: Knex, ...paths: readonly Path[]): Promise<boolean> {
    if (await this.isEmpty(query)) return false
    const rows = query(this.table)
    for (const path of paths) void rows.orWhere(subtree(path))
    return isAny(rows)
  }
}

async function isAny(rows: Knex.QueryBuilder): Promise<boolean> {
  const found = (await rows.select('path').limit(1)) as readonly unknown[]
  return found.length > 0
}
