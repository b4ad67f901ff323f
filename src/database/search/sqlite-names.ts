/** The names of the search index in SQLite, with FTS5. */
import type { Knex } from 'knex'
import { nameOf, parentOf, type Path } from '../../base/path.js'
import type { Database } from '../database.js'
import { replacePrefix } from '../ranges.js'
import { characters, longestFirst, maxGramWords, type GramQuery, type ReaderDialect } from './names-reader.js'
import { deleteBatchSize, folderPaths, NamesWriter } from './names-writer.js'
import { atOrBelow, below, foldedOf, kindNumbers, nameColumns, type Condition, type IndexedName } from './names.js'
import { createTables } from './sqlite-file.js'

export const sqliteDialect: ReaderDialect = {
  names: 'names',
  inOrder: 'names indexed by names_order',
  positions: 'names indexed by names_order',
  place: 'name',
  contains: 'instr(ifnull(folded, name), ?) > 0',
  byGrams,
  maxCandidates: 10_000,
}

function byGrams(words: readonly string[]): GramQuery {
  const sorted = longestFirst(words)
  const long = sorted.filter((word) => characters(word) >= 3).slice(0, maxGramWords)
  if (long.length > 0) {
    const expression = long.map((word) => `"${word.replaceAll('"', '""')}"`).join(' AND ')
    const ids = { sql: 'select rowid as id from grams where grams match ?', values: [expression] }
    return amongIds(
      ids,
      sorted.filter((word) => !long.includes(word)),
    )
  }
  const [word = ''] = sorted
  const values = [word, `${word}\u{10ffff}`]
  return amongIds({ sql: 'select distinct doc as id from gram_terms where term >= ? and term < ?', values }, words)
}

function amongIds(rows: Condition, rest: readonly string[]): GramQuery {
  return { rows, candidates: { sql: `names not indexed where id in (${rows.sql})`, values: rows.values }, rest }
}

export class SqliteNamesWriter extends NamesWriter {
  constructor(database: Database) {
    super(database, { names: 'names', state: 'state' })
  }

  async clear(): Promise<void> {
    await this.database.run(async (query) => {
      await createTables(query)
      await query.raw('vacuum')
    })
  }

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

  protected async removeSome(names: Condition): Promise<number> {
    return this.database.run(async (query) => {
      const rows: readonly { id: number }[] = await query.raw(
        `select id from names where ${names.sql} limit ${deleteBatchSize}`,
        [...names.values],
      )
      await query.raw('delete from names where id in (select value from json_each(?))', [
        JSON.stringify(rows.map(({ id }) => id)),
      ])
      return rows.length
    })
  }

  protected async moveTree(query: Knex, from: Path, to: Path): Promise<boolean> {
    const name = nameOf(to)
    const replaced = atOrBelow(to)
    await query.raw(`delete from names where ${replaced.sql}`, [...replaced.values])
    const moved = await query('names')
      .where({ parent: parentOf(from), name: nameOf(from) })
      .update({ parent: parentOf(to), name, folded: foldedOf(name) })
    if (moved === 0) return false
    const inner = below(from)
    await query('names')
      .whereRaw(inner.sql, [...inner.values])
      .update({ parent: replacePrefix(query, 'parent', from, to) })
    return true
  }

  async subfolders(folder: Path, after: string, limit: number): Promise<Path[]> {
    const rows: readonly { name: string }[] = await this.database.run((query) =>
      query('names')
        .where({ parent: folder, kind: kindNumbers.folder })
        .andWhere('name', '>', after)
        .orderBy('name')
        .limit(limit)
        .select('name'),
    )
    return folderPaths(rows.map(({ name }) => ({ parent: folder, name })))
  }

  async beginListing(): Promise<void> {
    await this.database.run(async (query) => {
      await query.raw('delete from listed')
      await query.raw('delete from listed_folders')
    })
  }

  async stage(names: readonly IndexedName[]): Promise<void> {
    await this.database.run((query) =>
      query.raw(
        `insert or ignore into listed (parent, name, folded, kind, size)
          select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(?)`,
        [JSON.stringify(names.map(stored))],
      ),
    )
  }

  async markComplete(folders: readonly Path[]): Promise<void> {
    await this.database.run((query) =>
      query.raw('insert or ignore into listed_folders (path) select value from json_each(?)', [
        JSON.stringify(folders),
      ]),
    )
  }

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
  return folderPaths(await query.raw(sql))
}

function stored(name: IndexedName) {
  const { parent, name: own, folded, kind, size } = nameColumns(name)
  return [parent, own, folded, kind, size]
}
