/** Questions to the index. They see what is committed, and never wait for a change. */
import { nameOf, parentOf, type Path } from '../../path.js'
import type { Database } from '../database.js'
import {
  always,
  below,
  both,
  deeperThan,
  indexedName,
  kindNumbers,
  type Condition,
  type IndexedName,
  type NameColumns,
} from './names.js'

/** A part of the tree that is not to be found. */
export interface ClosedPart {
  readonly path: Path
  /** The folder itself, in the folder that holds it. */
  readonly itself: boolean
  /** What is directly in it. */
  readonly members: boolean
  /** What is further down. */
  readonly deeper: boolean
  /** Folders below it for which something else holds. */
  readonly except: readonly Path[]
}

export interface NameQuery {
  /** From `searchWords`; at least one. Each stands in the name. */
  readonly words: readonly string[]
  readonly kind: 'any' | 'folders' | 'files'
  /** Names are found below this folder, not itself. */
  readonly below: Path
  readonly closed: readonly ClosedPart[]
}

/** Where in the order of names something stands. */
export interface Position {
  readonly name: string
  readonly id: number
}

export const beginning: Position = { name: '', id: 0 }

/** A stretch of the order of names; `to`: to the end where it is absent. */
export interface Stretch {
  readonly from: Position
  readonly to: Position | undefined
}

/** With so many candidates at the most, all of them are looked at. */
export const fewCandidates = 10_000
/** The same for all names below one folder: they lie together. */
const fewNames = 20_000

export class NamesReader {
  constructor(private readonly database: Database) {}

  /** All names that the query finds, by name; undefined where there are too many candidates to look at each. */
  async few(query: NameQuery): Promise<IndexedName[] | undefined> {
    const words = byGrams(query.words)
    const wanted = both(words.rest, scope(query))
    if ((await this.#count(words.candidates, fewCandidates)) <= fewCandidates) {
      return this.#names(
        `names not indexed where id in (${words.candidates.sql}) and ${wanted.sql} order by name, id`,
        [...words.candidates.values, ...wanted.values],
      )
    }
    const lying = below(query.below)
    const all = { sql: `select 1 from names where ${lying.sql}`, values: lying.values }
    if ((await this.#count(all, fewNames)) > fewNames) return undefined
    const found = both(holding(query.words), scope(query))
    return this.#names(`names where ${found.sql} order by name, id`, found.values)
  }

  /** The end of a stretch of so many names from `from` on, found or not; undefined where fewer are left. */
  async stretchEnd(from: Position, names: number): Promise<Position | undefined> {
    const rows: readonly Position[] = await this.database.run((query) =>
      query.raw(
        `select name, id from names indexed by names_order where (name, id) > (?, ?) order by name, id limit 1 offset ?`,
        [from.name, from.id, names - 1],
      ),
    )
    return rows[0]
  }

  /** How many names of the stretch the query finds. */
  async countIn(query: NameQuery, stretch: Stretch): Promise<number> {
    const found = both(within(stretch), holding(query.words), scope(query))
    const rows: readonly { count: number }[] = await this.database.run((knex) =>
      knex.raw(`select count(*) as count from names indexed by names_order where ${found.sql}`, [...found.values]),
    )
    return rows[0]?.count ?? 0
  }

  /** Those names themselves, by name. */
  async namesIn(query: NameQuery, stretch: Stretch): Promise<IndexedName[]> {
    const found = both(within(stretch), holding(query.words), scope(query))
    return this.#names(`names indexed by names_order where ${found.sql} order by name, id`, found.values)
  }

  /** Counts one more than `enough` at the most. */
  async #count({ sql, values }: Condition, enough: number): Promise<number> {
    const rows: readonly { count: number }[] = await this.database.run((query) =>
      query.raw(`select count(*) as count from (${sql} limit ?)`, [...values, enough + 1]),
    )
    return rows[0]?.count ?? 0
  }

  async #names(sql: string, values: readonly (string | number)[]): Promise<IndexedName[]> {
    const rows: readonly NameColumns[] = await this.database.run((query) =>
      query.raw(`select parent, name, kind, size from ${sql}`, [...values]),
    )
    return rows.map(indexedName)
  }
}

/** More words than this narrow nothing down any more. */
const gramWords = 8

/** A query for the ids of names that hold the words, as far as grams can tell, and what is left to be asked of each. */
function byGrams(words: readonly string[]): { readonly candidates: Condition; readonly rest: Condition } {
  const sorted = [...words].sort((one, other) => characters(other) - characters(one))
  const long = sorted.filter((word) => characters(word) >= 3).slice(0, gramWords)
  if (long.length > 0) {
    const expression = long.map((word) => `"${word.replaceAll('"', '""')}"`).join(' AND ')
    return {
      candidates: { sql: 'select rowid from grams where grams match ?', values: [expression] },
      rest: holding(sorted.filter((word) => !long.includes(word))),
    }
  }
  const [word = ''] = sorted
  return {
    candidates: {
      sql: 'select distinct doc from gram_terms where term >= ? and term < ?',
      values: [word, `${word}\u{10ffff}`],
    },
    rest: holding(words),
  }
}

/** As the index counts them: code points. */
function characters(word: string): number {
  return Array.from(word).length
}

function holding(words: readonly string[]): Condition {
  if (words.length === 0) return always
  return { sql: words.map(() => 'instr(ifnull(folded, name), ?) > 0').join(' and '), values: words }
}

function within({ from, to }: Stretch): Condition {
  const behind: Condition = { sql: '(name, id) > (?, ?)', values: [from.name, from.id] }
  return to === undefined ? behind : both(behind, { sql: '(name, id) <= (?, ?)', values: [to.name, to.id] })
}

function scope({ kind, below: folder, closed }: NameQuery): Condition {
  const kinds: Record<NameQuery['kind'], Condition> = {
    any: always,
    folders: { sql: 'kind <> ?', values: [kindNumbers.file] },
    files: { sql: 'kind = ?', values: [kindNumbers.file] },
  }
  return both(kinds[kind], below(folder), ...closed.map(open))
}

/** That a name does not lie in the closed part. */
function open({ path, itself, members, deeper, except }: ClosedPart): Condition {
  const parts: Condition[] = []
  if (itself) parts.push({ sql: 'parent = ? and name = ?', values: [parentOf(path), nameOf(path)] })
  if (members) parts.push({ sql: 'parent = ?', values: [path] })
  if (deeper) parts.push(both(deeperThan(path), ...except.map(outside)))
  return {
    sql: `not (${parts.map(({ sql }) => `(${sql})`).join(' or ')})`,
    values: parts.flatMap(({ values }) => values),
  }
}

function outside(path: Path): Condition {
  const { sql, values } = below(path)
  return { sql: `not (${sql})`, values }
}
