/** Changes of the index, and what both engines do alike. */
import type { Knex } from 'knex'
import { childOf, isWithin, segmentsOf, type Path } from '../../base/path.js'
import type { Database } from '../database.js'
import { assertDisjoint } from '../ranges.js'
import {
  allOf,
  at,
  atOrBelow,
  below,
  kindOfNumber,
  not,
  rowsOf,
  type Condition,
  type IndexedKind,
  type IndexedName,
} from './names.js'

/** Rows deleted by one statement; other work can run between statements. */
export const deleteBatchSize = 5000

/** The part of the tree that was indexed since the index was last cleared. */
export type IndexExtent = 'nothing' | 'part' | 'whole'

/** The SQL in which the engines differ. */
interface WriterDialect {
  /** The tables of the names, with the columns of `NameColumns` and `id`. */
  readonly names: string
  /** The table of the state. */
  readonly state: string
}

/** Every method that writes resolves when the change is visible to searches. Only one process may write. */
export abstract class NamesWriter {
  constructor(
    protected readonly database: Database,
    private readonly dialect: WriterDialect,
  ) {}

  async extent(): Promise<IndexExtent> {
    const value = await this.#state('extent')
    return value === 'part' || value === 'whole' ? value : 'nothing'
  }

  async setExtent(value: IndexExtent): Promise<void> {
    await this.#setState('extent', value)
  }

  /** Stored paths of trees that must be read again after a restart. */
  async pendingScans(): Promise<readonly Path[]> {
    return JSON.parse((await this.#state('due')) ?? '[]') as Path[]
  }

  async setPendingScans(trees: readonly Path[]): Promise<void> {
    await this.#setState('due', JSON.stringify(trees))
  }

  async #state(key: string): Promise<string | undefined> {
    const rows: readonly { value: string }[] = await this.database.run((query) =>
      query(this.dialect.state).where({ key }).select('value'),
    )
    return rows[0]?.value
  }

  async #setState(key: string, value: string): Promise<void> {
    await this.database.run((query) => query(this.dialect.state).insert({ key, value }).onConflict('key').merge())
  }

  async count(): Promise<number> {
    const [row] = await this.rows<{ count: number }>(`select count(*) as count from ${this.dialect.names}`)
    return row?.count ?? 0
  }

  /** Deletes all data and frees the disk space. */
  abstract clear(): Promise<void>

  /** Adds names, or updates them. */
  abstract put(names: readonly IndexedName[]): Promise<void>

  async kindOf(path: Path): Promise<IndexedKind | undefined> {
    const own = this.entry(path)
    const [row] = await this.rows<{ kind: number }>(
      `select kind from ${this.dialect.names} where ${own.sql}`,
      own.values,
    )
    return row && kindOfNumber(row.kind)
  }

  /** Selects the entry at `path` from `names`. */
  protected entry(path: Path): Condition {
    return at(path)
  }

  /** Removes the entry and its descendants, except those at or below the paths in `keep`. */
  async remove(path: Path, keep: readonly Path[] = []): Promise<void> {
    const exceptions = keep.filter((each) => isWithin(path, each))
    if (!exceptions.includes(path) && path !== '/') await this.removeSome(this.entry(path))
    const inner = allOf(below(path), ...exceptions.map((each) => not(atOrBelow(each))))
    while ((await this.removeSome(inner)) === deleteBatchSize);
  }

  /** Removes up to `deleteBatchSize` of these names. Resolves to their number. */
  protected abstract removeSome(names: Condition): Promise<number>

  /**
   * Moves the entry at `from` and its descendants to `to` in one transaction, replacing what is there. False if `from`
   * is not indexed; the entry at `to` is removed in any case.
   */
  async move(from: Path, to: Path): Promise<boolean> {
    if (from === to) return true
    assertDisjoint(from, to)
    return this.database.transaction((query) => this.moveTree(query, from, to))
  }

  protected abstract moveTree(query: Knex, from: Path, to: Path): Promise<boolean>

  /** Number of segments of the deepest indexed path below `path`; that of `path` itself if there is none. */
  async deepest(path: Path): Promise<number> {
    const inner = below(path)
    const [row] = await this.rows<{ slashes: number | null }>(
      `select max(length(parent) - length(replace(parent, '/', '')) + case parent when '/' then 0 else 1 end) as slashes
        from ${this.dialect.names} where ${inner.sql}`,
      inner.values,
    )
    return row?.slashes ?? segmentsOf(path).length
  }

  /** Up to `limit` child folders of `folder` with names after `after`, ordered by name. Linked folders are omitted. */
  abstract subfolders(folder: Path, after: string, limit: number): Promise<Path[]>

  // Whole folders: their current entries are staged in temporary tables, then applied in one transaction.

  /** Starts with no staged entries: what an earlier listing has staged and not applied is dropped. */
  abstract beginListing(): Promise<void>

  abstract stage(names: readonly IndexedName[]): Promise<void>

  /** Marks these folders as completely staged: `applyStaged` removes all other entries from them. */
  abstract markComplete(folders: readonly Path[]): Promise<void>

  /** Applies the staged entries. Resolves to the folders that were not indexed before; to none without `tellNew`. */
  abstract applyStaged(options: { readonly tellNew: boolean }): Promise<Path[]>

  protected async rows<Row>(sql: string, values: readonly (string | number)[] = []): Promise<readonly Row[]> {
    return rowsOf<Row>(await this.database.run((query) => query.raw(sql, [...values])))
  }
}

/** The columns of a name that is a folder. */
interface FolderColumns {
  readonly parent: Path
  readonly name: string
}

export function folderPaths(rows: readonly FolderColumns[]): Path[] {
  return rows.map(({ parent, name }) => childOf(parent, name))
}
