/** Queries of the index. They see committed data and do not wait for writes. */
import type { Path } from '../../base/path.js'
import type { Database } from '../database.js'
import {
  allOf,
  always,
  at,
  atOrBelow,
  below,
  belowChildren,
  indexedName,
  kindNumbers,
  not,
  rowsOf,
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

/** An entry, and with `deep` everything below it. */
export interface NamePart {
  readonly path: Path
  readonly deep: boolean
}

export interface NameQuery {
  /** At least one word from `searchWords`. A name must contain all of them. */
  readonly words: readonly string[]
  readonly kind: 'any' | 'folders' | 'files'
  /** Results are descendants of this folder. */
  readonly below: Path
  readonly excluded: readonly ExcludedPart[]
  /** Results are in one of these parts; undefined: anywhere. */
  readonly parts?: readonly NamePart[] | undefined
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

/** Maximum names below the folder of a query that `allIfFew` examines; adjacent rows are cheaper to read. */
const maxScannedNames = 20_000

/** The SQL in which the engines differ. */
export interface ReaderDialect {
  /** The tables of the names, with the columns of `NameColumns`, `id`, and `place`. */
  readonly names: string
  /** The tables of `names`, for a query that reads them in the order of `place` and `id`. */
  readonly inOrder: string
  /** The tables of `inOrder`, with the columns `place` and `id` alone. */
  readonly positions: string
  /** The column that names are ordered by, in byte order of UTF-8. */
  readonly place: string
  /** Selects the names whose folded form contains the bound value. */
  readonly contains: string
  byGrams(words: readonly string[]): GramQuery
  /** Maximum candidates from the trigram index that `allIfFew` examines. */
  readonly maxCandidates: number
}

/** A query for names by the trigrams of words. */
export interface GramQuery {
  /** A `select` with one row for each candidate. */
  readonly rows: Condition
  /** The candidates, with the columns of `names`: tables and a `where`, to which conditions can be added. */
  readonly candidates: Condition
  /** The words to look for in each candidate. */
  readonly rest: readonly string[]
}

export class NamesReader {
  constructor(
    private readonly database: Database,
    private readonly dialect: ReaderDialect,
  ) {}

  /** All results of the query, ordered by name; undefined if there are too many candidates to examine. */
  async allIfFew(query: NameQuery): Promise<IndexedName[] | undefined> {
    const { names, maxCandidates } = this.dialect
    const grams = this.dialect.byGrams(query.words)
    if ((await this.#count(grams.rows, maxCandidates)) <= maxCandidates) {
      const { sql, values } = grams.candidates
      const found = allOf(this.#containing(grams.rest), scope(query))
      return this.#names(`${sql} and ${found.sql} order by name, id`, [...values, ...found.values])
    }
    const inFolder = below(query.below)
    const all = { sql: `select 1 from ${names} where ${inFolder.sql}`, values: inFolder.values }
    if ((await this.#count(all, maxScannedNames)) > maxScannedNames) return undefined
    const found = this.#found(query)
    return this.#names(`${names} where ${found.sql} order by name, id`, found.values)
  }

  /** The position `names` names after `from`, whether they match a query or not; undefined if fewer remain. */
  async rangeEnd(from: Position, names: number): Promise<Position | undefined> {
    const { positions, place } = this.dialect
    const after = within({ from, to: undefined }, place)
    const [end] = await this.#rows<Position>(
      `select ${place} as name, id from ${positions} where ${after.sql} order by ${place}, id limit 1 offset ?`,
      [...after.values, names - 1],
    )
    return end
  }

  /** Number of results of the query in the range. */
  async countIn(query: NameQuery, range: NameRange): Promise<number> {
    const { inOrder, place } = this.dialect
    const found = allOf(within(range, place), this.#found(query))
    const [row] = await this.#rows<{ count: number }>(
      `select count(*) as count from ${inOrder} where ${found.sql}`,
      found.values,
    )
    return row?.count ?? 0
  }

  /** Results of the query in the range, ordered by name. */
  async namesIn(query: NameQuery, range: NameRange): Promise<IndexedName[]> {
    const { inOrder, place } = this.dialect
    const found = allOf(within(range, place), this.#found(query))
    return this.#names(`${inOrder} where ${found.sql} order by ${place}, id`, found.values)
  }

  #found(query: NameQuery): Condition {
    return allOf(this.#containing(query.words), scope(query))
  }

  #containing(words: readonly string[]): Condition {
    return containing(words, this.dialect.contains)
  }

  /** Number of rows, counted up to `limit` + 1. */
  async #count({ sql, values }: Condition, limit: number): Promise<number> {
    const [row] = await this.#rows<{ count: number }>(`select count(*) as count from (${sql} limit ?) as counted`, [
      ...values,
      limit + 1,
    ])
    return row?.count ?? 0
  }

  async #names(sql: string, values: readonly (string | number)[]): Promise<IndexedName[]> {
    const rows = await this.#rows<NameColumns>(`select parent, name, kind, size from ${sql}`, values)
    return rows.map(indexedName)
  }

  async #rows<Row>(sql: string, values: readonly (string | number)[]): Promise<readonly Row[]> {
    return rowsOf<Row>(await this.database.read(async (query) => query.raw(sql, [...values])))
  }
}

/** Maximum words in a trigram query; further ones hardly reduce the candidates. */
export const maxGramWords = 8

/** The words, the longest first. */
export function longestFirst(words: readonly string[]): readonly string[] {
  return [...words].sort((one, other) => characters(other) - characters(one))
}

/** Length in code points, of which trigrams consist. */
export function characters(word: string): number {
  return Array.from(word).length
}

export function containing(words: readonly string[], contains: string): Condition {
  if (words.length === 0) return always
  return { sql: words.map(() => contains).join(' and '), values: words }
}

function within({ from, to }: NameRange, place: string): Condition {
  const afterStart: Condition = { sql: `(${place}, id) > (?, ?)`, values: [from.name, from.id] }
  if (to === undefined) return afterStart
  return allOf(afterStart, { sql: `(${place}, id) <= (?, ?)`, values: [to.name, to.id] })
}

function scope({ kind, below: folder, excluded: closed, parts }: NameQuery): Condition {
  const kinds: Record<NameQuery['kind'], Condition> = {
    any: always,
    folders: { sql: 'kind <> ?', values: [kindNumbers.file] },
    files: { sql: 'kind = ?', values: [kindNumbers.file] },
  }
  return allOf(kinds[kind], below(folder), inParts(parts), ...closed.map(notExcluded))
}

function inParts(parts: NameQuery['parts']): Condition {
  if (parts === undefined) return always
  const each = parts.map(({ path, deep }) => (deep ? atOrBelow(path) : at(path)))
  const sql = each.length === 0 ? 'false' : each.map((part) => `(${part.sql})`).join(' or ')
  return { sql, values: each.flatMap(({ values }) => values) }
}

/** Selects the names outside of the excluded part. */
function notExcluded({ path, itself, members, deeper, except }: ExcludedPart): Condition {
  const parts: Condition[] = []
  if (itself) parts.push(at(path))
  if (members) parts.push({ sql: 'parent = ?', values: [path] })
  if (deeper) parts.push(allOf(belowChildren(path), ...except.map((each) => not(below(each)))))
  return not({
    sql: parts.map(({ sql }) => `(${sql})`).join(' or '),
    values: parts.flatMap(({ values }) => values),
  })
}
