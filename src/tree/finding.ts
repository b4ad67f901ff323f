/**
 * Runs one search: returns a page of the results that the principal may see, ordered by name, and their total number.
 */
import { GatewayError } from '../contract/errors.js'
import type { Path } from '../contract/path.js'
import { Pauses } from '../contract/pauses.js'
import { searchWords } from '../store/search/folding.js'
import { firstPosition, type NameQuery, type NamesReader, type NameRange } from '../store/search/names-reader.js'
import type { IndexedName } from '../store/search/names.js'
import type { AccessOptions } from './operation-options.js'
import type { VisibleNames } from './visible-names.js'

export interface SearchOptions extends AccessOptions {
  /** Words. A name matches if it contains all of them, in any order. */
  readonly keywords: string
  readonly kind: NameQuery['kind']
  readonly offset: number
  readonly limit: number
}

export interface SearchResult {
  /** The requested page, ordered by name: at most 10,000 names. */
  readonly names: readonly IndexedName[]
  /** The number of all results. A lower bound if counting exceeded the time limits. */
  readonly total: number
}

/** Time limits in milliseconds, from the start of the search. */
export interface SearchLimits {
  /** Once the page is complete: the limit for counting the remaining results. */
  readonly counting: number
  /** The limit for the search as a whole, after which the page may be incomplete. */
  readonly page: number
}

const defaultLimits: SearchLimits = { counting: 250, page: 3000 }

/** Maximum names of one page. */
const maxNames = 10_000
/** Maximum words of one search, and maximum characters of all of them. */
const maxWords = 64
const maxCharacters = 1000
/** Names of the index in one step: counted by the database, or authorized one by one. */
const countBatch = 20_000
const authorizeBatch = 2000

/** Searches below `top`. Rejects with `invalid` for too many words or characters, and with `aborted`. */
export async function findNames(
  reader: NamesReader,
  visible: VisibleNames,
  top: Path,
  request: SearchOptions,
  limits = defaultLimits,
): Promise<SearchResult> {
  const options = { ...request, limit: Math.min(request.limit, maxNames) }
  if (options.keywords.length > maxCharacters) {
    throw new GatewayError('invalid', { reason: `more than ${maxCharacters} characters` })
  }
  const words = searchWords(options.keywords)
  if (words.length > maxWords) throw new GatewayError('invalid', { reason: `more than ${maxWords} words` })
  // No name contains `/` or NUL.
  if (words.length === 0 || words.some((word) => /[/\0]/.test(word)) || !visible.isReachable(top)) return noResults
  const { closed, exact } = visible.queryRules(top)
  const query: NameQuery = { words, kind: options.kind, below: top, excluded: closed }
  const few = await reader.allIfFew(query)
  if (few === undefined) return findAmongMany(reader, visible, { query, exact, options, limits })
  const found = await authorizedNames(visible, few, options)
  return { names: found.slice(options.offset, options.offset + options.limit), total: found.length }
}

const noResults: SearchResult = { names: [], total: 0 }

interface RangeSearch {
  readonly query: NameQuery
  /** The principal may see every result of the query. */
  readonly exact: boolean
  readonly options: SearchOptions
  readonly limits: SearchLimits
}

/** Searches range by range in the order of names, so that the page is complete before all results are counted. */
async function findAmongMany(
  reader: NamesReader,
  visible: VisibleNames,
  { query, exact, options, limits }: RangeSearch,
): Promise<SearchResult> {
  const startedAt = performance.now()
  const end = options.offset + options.limit
  const names: IndexedName[] = []
  let total = 0
  let from = firstPosition
  for (;;) {
    if (options.signal?.aborted) throw new GatewayError('aborted')
    const to = await reader.rangeEnd(from, exact ? countBatch : authorizeBatch)
    const range: NameRange = { from, to }
    const counted = exact ? await reader.countIn(query, range) : undefined
    if (counted !== undefined && (total >= end || total + counted <= options.offset)) {
      // Not on the requested page.
      total += counted
    } else {
      const found = await authorizedNames(visible, await reader.namesIn(query, range), options)
      names.push(...found.slice(Math.max(0, options.offset - total), Math.max(0, end - total)))
      total += found.length
    }
    const elapsed = performance.now() - startedAt
    if (to === undefined || elapsed > limits.page || (total >= end && elapsed > limits.counting)) {
      return { names, total }
    }
    from = to
  }
}

/** The names that the principal may see. Yields to the event loop. */
async function authorizedNames(
  visible: VisibleNames,
  names: readonly IndexedName[],
  { signal }: AccessOptions,
): Promise<readonly IndexedName[]> {
  const found: IndexedName[] = []
  // Matching one name against the longest patterns takes milliseconds.
  const batchSize = 8
  const pauses = new Pauses(signal)
  for (let at = 0; at < names.length; at += batchSize) {
    if (signal?.aborted) throw new GatewayError('aborted')
    found.push(...visible.filter(names.slice(at, at + batchSize)))
    if (pauses.areDue) await pauses.take()
  }
  return found
}
