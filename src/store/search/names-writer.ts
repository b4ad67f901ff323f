/** Changes of the index. Every change resolves when searches see it. */
import type { Knex } from 'knex'
import { childOf, isWithin, nameOf, parentOf, segmentsOf, type Path } from '../../path.js'
import type { Database } from '../database.js'
import { checkApart } from '../ranges.js'
import { foldName } from './folding.js'
import { createTables } from './index-file.js'
import { below, both, kindNumbers, type Condition, type IndexedKind, type IndexedName } from './names.js'

/** Rows that one statement takes away: others get their turn between. */
const removedAtOnce = 5000

/** Since the index was last cleared: nothing was read, some of the tree, or all of it. */
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

  /** Trees that have still to be read again; they outlive a restart. */
  async due(): Promise<readonly Path[]> {
    return JSON.parse((await this.#state('due')) ?? '[]') as Path[]
  }

  async setDue(trees: readonly Path[]): Promise<void> {
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

  /** Forgets everything, and gives the room on the disk back. */
  async clear(): Promise<void> {
    await this.database.run(async (query) => {
      await createTables(query)
      await query.raw('vacuum')
    })
  }

  /** Adds names, or takes up what is new about them. */
  async put(names: readonly IndexedName[]): Promise<void> {
    if (names.length === 0) return
    await this.database.run((query) =>
      query.raw(
        `insert into names (parent, name, folded, kind, size)
          select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(?) where true
          ${orTakeUp}`,
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

  /** The name itself and everything below it, but for what is at or below the paths to keep. */
  async remove(path: Path, keep: readonly Path[] = []): Promise<void> {
    const kept = keep.filter((each) => isWithin(path, each))
    if (!kept.includes(path) && path !== '/') {
      const own = { parent: parentOf(path), name: nameOf(path) }
      await this.database.run((query) => query('names').where(own).delete())
    }
    const gone = both(below(path), ...kept.map((each) => not(atOrBelow(each))))
    await this.#removeAll(gone)
  }

  async #removeAll(gone: Condition): Promise<void> {
    for (let left = removedAtOnce; left === removedAtOnce;) {
      left = await this.database.run(async (query) => {
        const rows: readonly { id: number }[] = await query.raw(
          `select id from names where ${gone.sql} limit ${removedAtOnce}`,
          [...gone.values],
        )
        await query.raw('delete from names where id in (select value from json_each(?))', [
          JSON.stringify(rows.map(({ id }) => id)),
        ])
        return rows.length
      })
    }
  }

  /**
   * What stands at `from` takes the place of what stands at `to`, with everything below. False, and nothing is done to
   * `from`, where the index does not know it.
   */
  async move(from: Path, to: Path): Promise<boolean> {
    if (from === to) return true
    checkApart(from, to)
    await this.remove(to)
    return this.database.transaction(async (query) => {
      const name = nameOf(to)
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

  /** How many segments the deepest path at or below `path` has; 0 where the index knows none. */
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

  /** Folders directly in `folder` whose names sort behind `after`, in order. No linked ones. */
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

  // Whole folders: what they hold now is gathered aside, and then taken up in one go

  /** Forgets what was gathered. */
  async beginListing(): Promise<void> {
    await this.database.run(async (query) => {
      await query.raw('delete from listed')
      await query.raw('delete from listed_folders')
    })
  }

  async gather(names: readonly IndexedName[]): Promise<void> {
    await this.database.run((query) =>
      query.raw(
        `insert or ignore into listed (parent, name, folded, kind, size)
          select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(?)`,
        [JSON.stringify(names.map(stored))],
      ),
    )
  }

  /** What was gathered of these folders is all that they hold: other names in them are to go. */
  async gatheredAll(folders: readonly Path[]): Promise<void> {
    await this.database.run((query) =>
      query.raw('insert or ignore into listed_folders (path) select value from json_each(?)', [
        JSON.stringify(folders),
      ]),
    )
  }

  /** Takes up what was gathered. Resolves to the folders that are new, as far as they are asked for. */
  async takeUp(options: { readonly tellNew: boolean }): Promise<Path[]> {
    return this.database.transaction(async (query) => {
      const fresh = options.tellNew ? await foldersFrom(query, newFolders) : []
      for (const folder of await foldersFrom(query, goneFolders)) {
        const inner = below(folder)
        await query.raw(`delete from names where ${inner.sql}`, [...inner.values])
      }
      await query.raw(`delete from names where parent in (select path from listed_folders) and not exists (${listed})`)
      await query.raw(
        `insert into names (parent, name, folded, kind, size)
          select parent, name, folded, kind, size from listed where true ${orTakeUp}`,
      )
      return fresh
    })
  }
}

const orTakeUp = `on conflict (parent, name) do update set kind = excluded.kind, size = excluded.size
  where kind <> excluded.kind or size <> excluded.size`

const listed = 'select 1 from listed where listed.parent = names.parent and listed.name = names.name'
const goneFolders = `select parent, name from names where parent in (select path from listed_folders)
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

/** Null where it is the name as it stands, which it is for most. */
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
