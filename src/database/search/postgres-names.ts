/** The names of the search index in PostgreSQL. */
import type { Knex } from 'knex'
import { childOf, nameOf, parentOf, type Path } from '../../base/path.js'
import type { Database } from '../database.js'
import { replacePrefix } from '../ranges.js'
import { containing, longestFirst, maxGramWords, type GramQuery, type ReaderDialect } from './names-reader.js'
import { deleteBatchSize, folderPaths, NamesWriter } from './names-writer.js'
import {
  allOf,
  at,
  below,
  foldedOf,
  kindNumbers,
  nameColumns,
  rowsOf,
  type Condition,
  type IndexedName,
} from './names.js'
import { clearTables, columnsOfName } from './postgres-tables.js'

/** Maximum characters of a name that are indexed for its order: at most 2,400 bytes. */
const maxPlace = 600

/** The folded name of a row of `search_names`. The index of grams is of this expression. */
const text = `coalesce(n.folded, n.name || coalesce(n.rest, ''))`

/**
 * The columns of `Condition`, for rows of `search_names`. A query that uses no column of folders does not read them.
 */
const columnsOf = (rows: string) => `(
  select n.id, n.name as place, n.name || coalesce(n.rest, '') as name, n.kind, n.size, f.parent, ${text} as text
  from ${rows} n left join search_folders f on f.id = n.folder
) as names`

const names = columnsOf('search_names')

const contains = 'strpos(text, ?) > 0'

export const postgresDialect: ReaderDialect = {
  names,
  inOrder: names,
  positions: '(select name as place, id from search_names) as names',
  place: 'place',
  contains,
  byGrams,
  // More than in SQLite, because reading a range of names takes longer.
  maxCandidates: 30_000,
}

function byGrams(words: readonly string[]): GramQuery {
  const grams = new Set(longestFirst(words).slice(0, maxGramWords).flatMap(gramsOf))
  const found = allOf(
    { sql: `search_grams(${text}) @@ ?::tsquery`, values: [[...grams].join(' & ')] },
    containing(words, `strpos(${text}, ?) > 0`),
  )
  // Materialized, because the planner may otherwise read the index of grams once for each folder.
  const rows = { ...found, sql: `select * from search_names n where ${found.sql}` }
  const materialized = `(with found as materialized (${rows.sql}) select * from ${columnsOf('found')}) as names`
  return { rows, candidates: { sql: `${materialized} where true`, values: found.values }, rest: [] }
}

/** The trigrams of a word, as operands of a `tsquery`; a shorter word is the prefix of a trigram. */
function gramsOf(word: string): string[] {
  const all = Array.from(word)
  const quoted = (text: string) => `'${text.replace(/['\\]/g, '$&$&')}'`
  if (all.length < 3) return [`${quoted(word)}:*`]
  return all.slice(2).map((_, start) => quoted(all.slice(start, start + 3).join('')))
}

export class PostgresNamesWriter extends NamesWriter {
  constructor(database: Database) {
    super(database, { names, state: 'search_state' })
  }

  async clear(): Promise<void> {
    await this.database.transaction(clearTables)
  }

  async put(entries: readonly IndexedName[]): Promise<void> {
    if (entries.length === 0) return
    await this.database.transaction(async (query) => {
      await addFolders(query, [...new Set(entries.map(({ parent }) => parent))])
      await query.raw(
        `insert into staged (folder, name, rest, folded, kind, size)
          select folder, name, rest, folded, kind, size from (
            select distinct on (f.id, e.name, e.rest) f.id as folder, e.* from ${unnested}
            join search_folders f on f.parent = e.parent order by f.id, e.name, e.rest, e.number desc
          ) as last order by number`,
        arrays(entries),
      )
      await applyStagedNames(query)
    })
  }

  protected override entry(path: Path): Condition {
    const [place] = split(nameOf(path))
    return allOf(at(path), { sql: 'place = ?', values: [place] })
  }

  protected async removeSome(condition: Condition): Promise<number> {
    return this.database.transaction(async (query) => {
      const selected = `select id from ${names} where ${condition.sql} limit ${deleteBatchSize}`
      const result: { readonly rows: readonly { folder: number }[] } = await query.raw(
        `delete from search_names where id = any(array(${selected})) returning folder`,
        [...condition.values],
      )
      const emptied = [...new Set(result.rows.map(({ folder }) => folder))]
      await removeEmptyFolders(query, 'id = any(?::bigint[])', [emptied])
      return result.rows.length
    })
  }

  protected async moveTree(query: Knex, from: Path, to: Path): Promise<boolean> {
    const replaced = this.entry(to)
    await query.raw(`delete from search_names where id in (select id from ${names} where ${replaced.sql})`, [
      ...replaced.values,
    ])
    await removeBelow(query, to)
    await addFolders(query, [parentOf(to)])
    const moved = this.entry(from)
    const name = nameOf(to)
    const result: { readonly rowCount: number } = await query.raw(
      `update search_names set folder = (select id from search_folders where parent = ?), name = ?, rest = ?, folded = ?
        where id = (select id from ${names} where ${moved.sql})`,
      [parentOf(to), ...split(name), foldedOf(name), ...moved.values],
    )
    await removeEmptyFolders(query, 'parent in (?, ?)', [parentOf(from), parentOf(to)])
    if (result.rowCount === 0) return false
    const inner = below(from)
    await query('search_folders')
      .whereRaw(inner.sql, [...inner.values])
      .update({ parent: replacePrefix(query, 'parent', from, to) })
    return true
  }

  async subfolders(folder: Path, after: string, limit: number): Promise<Path[]> {
    const [place] = split(after)
    const rows = await this.rows<{ name: string }>(
      `select name || coalesce(rest, '') as name from search_names
        where folder = (select id from search_folders where parent = ?) and kind = ? and name >= ?
        and name || coalesce(rest, '') > ? order by search_names.name, rest nulls first limit ?`,
      [folder, kindNumbers.folder, place, after, limit],
    )
    return rows.map(({ name }) => childOf(folder, name))
  }

  // A listing is lost with the connection: the statements that follow fail, because the temporary tables are missing.

  async beginListing(): Promise<void> {
    await this.database.run(async (query) => {
      await query.raw(
        `create temporary table if not exists listed (
          number bigint generated always as identity,
          parent text collate "C" not null,
          ${columnsOfName}
        )`,
      )
      await query.raw('create temporary table if not exists listed_folders (parent text collate "C" not null)')
      await query.raw('truncate listed, listed_folders')
    })
  }

  async stage(entries: readonly IndexedName[]): Promise<void> {
    await this.database.run((query) =>
      query.raw(
        `insert into listed (parent, name, rest, folded, kind, size)
          select parent, name, rest, folded, kind, size from ${unnested} order by number`,
        arrays(entries),
      ),
    )
  }

  async markComplete(folders: readonly Path[]): Promise<void> {
    await this.database.run((query) =>
      query.raw('insert into listed_folders (parent) select unnest(?::text[])', [[...folders]]),
    )
  }

  async applyStaged(options: { readonly tellNew: boolean }): Promise<Path[]> {
    return this.database.transaction(async (query) => {
      await query.raw(
        'insert into search_folders (parent) select distinct parent from listed order by parent on conflict do nothing',
      )
      await query.raw(
        `insert into staged (folder, name, rest, folded, kind, size)
          select folder, name, rest, folded, kind, size from (
            select distinct on (f.id, l.name, l.rest) f.id as folder, l.* from listed l
            join search_folders f on f.parent = l.parent order by f.id, l.name, l.rest, l.number
          ) as first order by parent, name, rest nulls first`,
      )
      const added = options.tellNew ? await foldersFrom(query, newFolders) : []
      for (const folder of await foldersFrom(query, deletedFolders)) await removeBelow(query, folder)
      await query.raw(
        `delete from search_names n where folder in (${listedFolders}) and not exists (select 1 from staged s where ${same})`,
      )
      await applyStagedNames(query)
      await removeEmptyFolders(query, 'parent in (select parent from listed_folders)', [])
      return added
    })
  }
}

/** The first characters of a name, and the others or null. */
function split(name: string): [place: string, rest: string | null] {
  if (name.length <= maxPlace) return [name, null]
  const all = Array.from(name)
  return [all.slice(0, maxPlace).join(''), all.slice(maxPlace).join('') || null]
}

const unnested = `unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::smallint[], ?::bigint[])
  with ordinality as e (parent, name, rest, folded, kind, size, number)`

/** The values of `unnested`. */
function arrays(entries: readonly IndexedName[]): Knex.Value[] {
  const rows = entries.map((entry) => {
    const { parent, name, folded, kind, size } = nameColumns(entry)
    return [parent, ...split(name), folded, kind, size]
  })
  // The type of values has no arrays with nulls.
  return [0, 1, 2, 3, 4, 5].map((column) => rows.map((row) => row[column] ?? null)) as string[][]
}

async function addFolders(query: Knex, paths: readonly Path[]): Promise<void> {
  await query.raw('insert into search_folders (parent) select unnest(?::text[]) on conflict do nothing', [[...paths]])
}

/** Whether the names `n` and `s` are the same entry. */
const same = 's.folder = n.folder and s.name = n.name and s.rest is not distinct from n.rest'

/** Adds the names in `staged`, or updates them. An upsert would write unchanged rows too, to lock them. */
async function applyStagedNames(query: Knex): Promise<void> {
  await query.raw(
    `update search_names n set kind = s.kind, size = s.size from staged s
      where ${same} and (n.kind <> s.kind or n.size <> s.size)`,
  )
  await query.raw(
    `insert into search_names (folder, name, rest, folded, kind, size)
      select folder, name, rest, folded, kind, size from staged s
      where not exists (select 1 from search_names n where ${same}) order by place`,
  )
}

async function removeEmptyFolders(query: Knex, condition: string, values: Knex.Value[]): Promise<void> {
  await query.raw(
    `delete from search_folders f where ${condition} and not exists (select 1 from search_names n where n.folder = f.id)`,
    values,
  )
}

/** Removes the descendants of the path. */
async function removeBelow(query: Knex, path: Path): Promise<void> {
  const inner = below(path)
  await query.raw(`delete from search_names where folder in (select id from search_folders where ${inner.sql})`, [
    ...inner.values,
  ])
  await query.raw(`delete from search_folders where ${inner.sql}`, [...inner.values])
}

const listedFolders = 'select f.id from search_folders f join listed_folders l on l.parent = f.parent'
const deletedFolders = `select f.parent, n.name || coalesce(n.rest, '') as name
  from search_names n join search_folders f on f.id = n.folder
  where n.folder in (${listedFolders}) and n.kind = ${kindNumbers.folder}
  and not exists (select 1 from staged s where ${same} and s.kind = ${kindNumbers.folder})`
const newFolders = `select f.parent, s.name || coalesce(s.rest, '') as name
  from staged s join search_folders f on f.id = s.folder
  where s.kind = ${kindNumbers.folder} and not exists (select 1 from search_names n where ${same})`

async function foldersFrom(query: Knex, sql: string): Promise<Path[]> {
  return folderPaths(rowsOf(await query.raw(sql)))
}
