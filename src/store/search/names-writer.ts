/** Changes of the index. Every method that writes resolves when the change is visible to searches. */
import type { Knex } from 'knex'
import { childOf, isWithin, nameOf, parentOf, segmentsOf, type Path } from '../../contract/path.js'
import type { Database } from '../database.js'
import { assertDisjoint } from '../ranges.js'
import { foldName } from './folding.js'
import { createTables } from './index-file.js'
import { below, allOf, kindNumbers, type Condition, type IndexedKind, type IndexedName } from './names.js'

/** Rows deleted by one statement; other work can run between statements. */
const deleteBatchSize = 5000

/** How much of the tree was indexed since the index was last cleared. */
export type IndexExtent = 'nothing' | 'part' | 'whole'

export class NamesWriter {
  constructor(private readonly database: Database) {}

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
      query('state').where({ key }).select('value'),
    )
    return rows[0]?.value
  }

  async #setState(key: string, value: string): Promise<void> {
    await this.database.run((query) => query('state').insert({ key, value }).onConflict('key').merge())
  }

  async count(): Promise<number> {
    const rows: readonly { count: number }[] = await this.database.run((query) =>
      query.raw('select count(*) as count from names'),
    )
    return rows[0]?.count ?? 0
  }

  /** Deletes all data and frees the disk space. */
  async clear(): Promise<void> {
    await this.database.run(async (query) => {
      await createTables(query)
      await query.raw('vacuum')
    })
  }

  /** Adds names, or updates them. */
  async put(names: readonly IndexedName[]): Promise<void> {
    if (names.length === 0) return
    await this.database.run((query) =>
      query.raw(
        `insert into names (parent, name, folded, kind, size)
          select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(?) where true
          ${orUpdate}`,
        [JSON.stringify(names.map(stored))],
      ),
    )
  }

  async kindOf(path: Path): Promise<IndexedKind | undefined> {
    const rows: readonly { kind: number }[] = await this.database.run((query) =>
      query('names')
        .where({ parent: parentOf(path), name: nameOf(path) })
        .select('kind'),
    )
    const number = rows[0]?.kind
    const kinds = Object.entries(kindNumbers) as [IndexedKind, number][]
    return kinds.find(([, each]) => each === number)?.[0]
  }

  /** Removes the entry and its descendants, except those at or below the paths in `keep`. */
  async remove(path: Path, keep: readonly Path[] = []): Promise<void> {
    const exceptions = keep.filter((each) => isWithin(path, each))
    if (!exceptions.includes(path) && path !== '/') {
      const own = { parent: parentOf(path), name: nameOf(path) }
      await this.database.run((query) => query('names').where(own).delete())
    }
    await this.#removeAll(allOf(below(path), ...exceptions.map((each) => not(atOrBelow(each)))))
  }

  async #removeAll(condition: Condition): Promise<void> {
    for (let deleted = deleteBatchSize; deleted === deleteBatchSize;) {
      deleted = await this.database.run(async (query) => {
        const rows: readonly { id: number }[] = await query.raw(
          `select id from names where ${condition.sql} limit ${deleteBatchSize}`,
          [...condition.values],
        )
        await query.raw('delete from names where id in (select value from json_each(?))', [
          JSON.stringify(rows.map(({ id }) => id)),
        ])
        return rows.length
      })
    }
  }

  /**
   * Moves the entry at `from` and its descendants to `to` in one transaction, replacing what is there. False if `from`
   * is not indexed; the entry at `to` is removed in any case.
   */
  async move(from: Path, to: Path): Promise<boolean> {
    if (from === to) return true
    assertDisjoint(from, to)
    return this.database.transaction(async (query) => {
      const name = nameOf(to)
      const replaced = atOrBelow(to)
      await query.raw(`delete from names where ${replaced.sql}`, [...replaced.values])
      const moved = await query('names')
        .where({ parent: parentOf(from), name: nameOf(from) })
        .update({ parent: parentOf(to), name, folded: foldedOf(name) })
      if (moved === 0) return false
      const inner = below(from)
      await query.raw(
        `update names set parent = cast(? as text) || substr(parent, length(cast(? as text)) + 1) where ${inner.sql}`,
        [to, from, ...inner.values],
      )
      return true
    })
  }

  /** Number of segments of the deepest indexed path below `path`; that of `path` itself if there is none. */
  async deepest(path: Path): Promise<number> {
    const inner = below(path)
    const rows: readonly { slashes: number | null }[] = await this.database.run((query) =>
      query.raw(
        `select max(length(parent) - length(replace(parent, '/', '')) + (parent <> '/')) as slashes from names where ${inner.sql}`,
        [...inner.values],
      ),
    )
    return rows[0]?.slashes ?? segmentsOf(path).length
  }

  /** Up to `limit` child folders of `folder` with names after `after`, ordered by name. Linked folders are omitted. */
  async subfolders(folder: Path, after: string, limit: number): Promise<Path[]> {
    const rows: readonly { name: string }[] = await this.database.run((query) =>
      query('names')
        .where({ parent: folder, kind: kindNumbers.folder })
        .andWhere('name', '>', after)
        .orderBy('name')
        .limit(limit)
        .select('name'),
    )
    return rows.map(({ name }) => childOf(folder, name))
  }

  // Whole folders: their current entries are staged in temporary tables, then applied in one transaction

  /** Clears the staged entries. */
  async beginListing(): Promise<void> {
    await this.database.run(async (query) => {
      await query.raw('delete from listed')
      await query.raw('delete from listed_folders')
    })
  }

  /** Stages entries. */
  async stage(names: readonly IndexedName[]): Promise<void> {
    await this.database.run((query) =>
      query.raw(
        `insert or ignore into listed (parent, name, folded, kind, size)
          select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(?)`,
        [JSON.stringify(names.map(stored))],
      ),
    )
  }

  /** Marks these folders as completely staged: `applyStaged` removes all other entries from them. */
  async markComplete(folders: readonly Path[]): Promise<void> {
    await this.database.run((query) =>
      query.raw('insert or ignore into listed_folders (path) select value from json_each(?)', [
        JSON.stringify(folders),
      ]),
    )
  }

  /** Applies the staged entries. Resolves to the folders that were not indexed before; to none without `tellNew`. */
  async applyStaged(options: { readonly tellNew: boolean }): Promise<Path[]> {
    return this.database.transaction(async (query) => {
      const added = options.tellNew ? await foldersFrom(query, newFolders) : []
      for (const folder of await foldersFrom(query, deletedFolders)) {
        const inner = below(folder)
        await query.raw(`delete from names where ${inner.sql}`, [...inner.values])
      }
      await query.raw(`delete from names where parent in (select path from listed_folders) and not exists (${listed})`)
      await query.raw(
        `insert into names (parent, name, folded, kind, size)
          select parent, name, folded, kind, size from listed where true ${orUpdate}`,
      )
      return added
    })
  }
}

const orUpdate = `on conflict (parent, name) do update set kind = excluded.kind, size = excluded.size
  where kind <> excluded.kind or size <> excluded.size`

const listed = 'select 1 from listed where listed.parent = names.parent and listed.name = names.name'
const deletedFolders = `select parent, name from names where parent in (select path from listed_folders)
  and kind = ${kindNumbers.folder} and not exists (${listed} and listed.kind = ${kindNumbers.folder})`
const newFolders = `select parent, name from listed where kind = ${kindNumbers.folder} and not exists (
  select 1 from names where names.parent = listed.parent and names.name = listed.name)`

async function foldersFrom(query: Knex, sql: string): Promise<Path[]> {
  const rows: readonly { parent: Path; name: string }[] = await query.raw(sql)
  return rows.map(({ parent, name }) => childOf(parent, name))
}

function stored({ parent, name, kind, size }: IndexedName) {
  const bytes = kind === 'file' && Number.isSafeInteger(size) && size >= 0 ? size : 0
  return [parent, name, foldedOf(name), kindNumbers[kind], bytes]
}

/** The folded name; null if it equals the name, as for most names. */
function foldedOf(name: string): string | null {
  const folded = foldName(name)
  return folded === name ? null : folded
}

function not({ sql, values }: Condition): Condition {
  return { sql: `not (${sql})`, values }
}

function atOrBelow(path: Path): Condition {
  const inner = below(path)
  return {
    sql: `(parent = ? and name = ?) or ${inner.sql}`,
    values: [parentOf(path), nameOf(path), ...inner.values],
  }
}
