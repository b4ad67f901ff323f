/** Queries of the index. They see committed data and do not wait for writes. */
import { nameOf, parentOf, type Path } from '../../contract/path.js'
import type { Database } from '../database.js'
import {
  always,
  below,
  allOf,
  belowChildren,
  indexedName,
  kindNumbers,
  type Condition,
  type IndexedName,
  type NameColumns,
} from './names.js'

/** A subtree, or a part of it, that is excluded from the results. */
export interface ExcludedPart {
  readonly path: Path
  /** Excludes the folder itself. */
  readonly itself: boolean
  /** Excludes its children. */
  readonly members: boolean
  /** Excludes its other descendants. */
  readonly deeper: boolean
  /** Folders below `path` whose descendants `deeper` does not exclude. */
  readonly except: readonly Path[]
}

export interface NameQuery {
  /** From `searchWords`; at least one. A name must contain all of them. */
  readonly words: readonly string[]
  readonly kind: 'any' | 'folders' | 'files'
  /** Results are descendants of this folder. */
  readonly below: Path
  readonly excluded: readonly ExcludedPart[]
}

/** A position in the order of names. */
interface Position {
  readonly name: string
  readonly id: number
}

export const firstPosition: Position = { name: '', id: 0 }

/** A range of the order of names, excluding `from` and including `to`; to the end if `to` is undefined. */
export interface NameRange {
  readonly from: Position
  readonly to: Position | undefined
}

/** Maximum candidates from the trigram index that `few` examines. */
const maxCandidates = 10_000
/** Maximum names below the folder of a query that `few` examines; adjacent rows are cheaper to read. */
const maxScannedNames = 20_000

export class NamesReader {
  constructor(private readonly database: Database) {}

  /** All results of the query, ordered by name; undefined if there are too many candidates to examine. */
  async allIfFew(query: NameQuery): Promise<IndexedName[] | undefined> {
    const words = byGrams(query.words)
    const matching = allOf(words.rest, scope(query))
    if ((await this.#count(words.candidates, maxCandidates)) <= maxCandidates) {
      return this.#names(
        `names not indexed where id in (${words.candidates.sql}) and ${matching.sql} order by name, id`,
        [...words.candidates.values, ...matching.values],
      )
    }
    const inFolder = below(query.below)
    const all = { sql: `select 1 from names where ${inFolder.sql}`, values: inFolder.values }
    if ((await this.#count(all, maxScannedNames)) > maxScannedNames) return undefined
    const found = allOf(containing(query.words), scope(query))
    return this.#names(`names where ${found.sql} order by name, id`, found.values)
  }

  /** The position `names` names after `from`, whether they match a query or not; undefined if fewer remain. */
  async rangeEnd(from: Position, names: number): Promise<Position | undefined> {
    const rows: readonly Position[] = await this.database.run((query) =>
      query.raw(
        `select name, id from names indexed by names_order where (name, id) > (?, ?) order by name, id limit 1 offset ?`,
        [from.name, from.id, names - 1],
      ),
    )
    return rows[0]
  }

  /** Number of results of the query in the range. */
  async countIn(query: NameQuery, stretch: NameRange): Promise<number> {
    const found = allOf(within(stretch), containing(query.words), scope(query))
    const rows: readonly { count: number }[] = await this.database.run((knex) =>
      knex.raw(`select count(*) as count from names indexed by names_order where ${found.sql}`, [...found.values]),
    )
    return rows[0]?.count ?? 0
  }

  /** Results of the query in the range, ordered by name. */
  async namesIn(query: NameQuery, stretch: NameRange): Promise<IndexedName[]> {
    const found = allOf(within(stretch), containing(query.words), scope(query))
    return this.#names(`names indexed by names_order where ${found.sql} order by name, id`, found.values)
  }

  /** Number of rows, counted up to `limit` + 1. */
  async #count({ sql, values }: Condition, limit: number): Promise<number> {
    const rows: readonly { count: number }[] = await this.database.run((query) =>
      query.raw(`select count(*) as count from (${sql} limit ?)`, [...values, limit + 1]),
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

/** Maximum words in a trigram query; further ones hardly reduce the candidates. */
const maxGramWords = 8

/**
 * Splits the words into a query for the ids of candidates by the trigram index, and a condition to check for each
 * candidate.
 */
function byGrams(words: readonly string[]): { readonly candidates: Condition; readonly rest: Condition } {
  const sorted = [...words].sort((one, other) => characters(other) - characters(one))
  const long = sorted.filter((word) => characters(word) >= 3).slice(0, maxGramWords)
  if (long.length > 0) {
    const expression = long.map((word) => `"${word.replaceAll('"', '""')}"`).join(' AND ')
    return {
      candidates: { sql: 'select rowid from grams where grams match ?', values: [expression] },
      rest: containing(sorted.filter((word) => !long.includes(word))),
    }
  }
  const [word = ''] = sorted
  return {
    candidates: {
      sql: 'select distinct doc from gram_terms where term >= ? and term < ?',
      values: [word, `${word}\u{10ffff}`],
    },
    rest: containing(words),
  }
}

/** Length in code points, as the trigram tokenizer counts. */
function characters(word: string): number {
  return Array.from(word).length
}

function containing(words: readonly string[]): Condition {
  if (words.length === 0) return always
  return { sql: words.map(() => 'instr(ifnull(folded, name), ?) > 0').join(' and '), values: words }
}

function within({ from, to }: NameRange): Condition {
  const afterStart: Condition = { sql: '(name, id) > (?, ?)', values: [from.name, from.id] }
  return to === undefined ? afterStart : allOf(afterStart, { sql: '(name, id) <= (?, ?)', values: [to.name, to.id] })
}

function scope({ kind, below: folder, excluded: closed }: NameQuery): Condition {
  const kinds: Record<NameQuery['kind'], Condition> = {
    any: always,
    folders: { sql: 'kind <> ?', values: [kindNumbers.file] },
    files: { sql: 'kind = ?', values: [kindNumbers.file] },
  }
  return allOf(kinds[kind], below(folder), ...closed.map(notExcluded))
}

/** Selects the names outside of the excluded part. */
function notExcluded({ path, itself, members, deeper, except }: ExcludedPart): Condition {
  const parts: Condition[] = []
  if (itself) parts.push({ sql: 'parent = ? and name = ?', values: [parentOf(path), nameOf(path)] })
  if (members) parts.push({ sql: 'parent = ?', values: [path] })
  if (deeper) parts.push(allOf(belowChildren(path), ...except.map(outside)))
  return {
    sql: `not (${parts.map(({ sql }) => `(${sql})`).join(' or ')})`,
    values: parts.flatMap(({ values }) => values),
  }
}

function outside(path: Path): Condition {
  const { sql, values } = below(path)
  return { sql: `not (${sql})`, values }
}
