/** Answers one search: the asked page of what the principal may find, in the order of names, and how much there is. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Ask } from '../change.js'
import { GatewayError } from '../errors.js'
import type { Path } from '../path.js'
import { searchWords } from '../store/search/folding.js'
import type { IndexedName } from '../store/search/names.js'
import { beginning, type NameQuery, type NamesReader, type Stretch } from '../store/search/names-reader.js'
import type { VisibleNames } from './visible-names.js'

export interface SearchAsk extends Ask {
  /** Words, each of which stands in the name, in any order. */
  readonly keywords: string
  readonly kind: NameQuery['kind']
  readonly offset: number
  readonly limit: number
}

export interface Found {
  /** By name; the asked part, 10,000 of them at the most. */
  readonly names: readonly IndexedName[]
  /** Of all parts. Of more than 10,000 names it may be less than there are, but never less than was looked through. */
  readonly total: number
}

/** In milliseconds. */
export interface SearchLimits {
  /** For so long names are counted that nobody asked to see. */
  readonly counting: number
  /** After that a page far behind is given up. */
  readonly page: number
}

const usualLimits: SearchLimits = { counting: 250, page: 3000 }

/** Milliseconds after which others get their turn. */
const turn = 10
/** Names of one page, whatever is asked for. */
const mostNames = 10_000
/** Words of one search, and the characters of all of them. */
const mostWords = 64
const mostCharacters = 1000
/** Names that are looked through at once: counted by the database, or judged here. */
const countedAtOnce = 20_000
const judgedAtOnce = 2000

/** Searches below `top`. Rejects with `invalid` for too many words or characters. */
export async function find(
  reader: NamesReader,
  visible: VisibleNames,
  top: Path,
  asked: SearchAsk,
  limits = usualLimits,
): Promise<Found> {
  const ask = { ...asked, limit: Math.min(asked.limit, mostNames) }
  if (ask.keywords.length > mostCharacters) {
    throw new GatewayError('invalid', { reason: `more than ${mostCharacters} characters` })
  }
  const words = searchWords(ask.keywords)
  if (words.length > mostWords) throw new GatewayError('invalid', { reason: `more than ${mostWords} words` })
  // A word that no name can hold is found in none, and no word is no question.
  if (words.length === 0 || words.some((word) => /[/\0]/.test(word)) || !visible.knows(top)) return nothing
  const { closed, exact } = visible.inQuery(top)
  const query: NameQuery = { words, kind: ask.kind, below: top, closed }
  const few = await reader.few(query)
  if (few === undefined) return findAmongMany(reader, visible, { query, exact, ask, limits })
  const found = await judged(visible, few, ask)
  return { names: found.slice(ask.offset, ask.offset + ask.limit), total: found.length }
}

const nothing: Found = { names: [], total: 0 }

interface ManyAsk {
  readonly query: NameQuery
  /** What the query finds may be found. */
  readonly exact: boolean
  readonly ask: SearchAsk
  readonly limits: SearchLimits
}

/** Stretch by stretch in the order of names, so that the page is full long before all of them are counted. */
async function findAmongMany(
  reader: NamesReader,
  visible: VisibleNames,
  { query, exact, ask, limits }: ManyAsk,
): Promise<Found> {
  const begun = performance.now()
  const end = ask.offset + ask.limit
  const names: IndexedName[] = []
  let total = 0
  let from = beginning
  for (;;) {
    if (ask.signal?.aborted) throw new GatewayError('aborted')
    const to = await reader.stretchEnd(from, exact ? countedAtOnce : judgedAtOnce)
    const stretch: Stretch = { from, to }
    const counted = exact ? await reader.countIn(query, stretch) : undefined
    if (counted !== undefined && (total >= end || total + counted <= ask.offset)) {
      // Nobody asked to see these.
      total += counted
    } else {
      const found = await judged(visible, await reader.namesIn(query, stretch), ask)
      names.push(...found.slice(Math.max(0, ask.offset - total), Math.max(0, end - total)))
      total += found.length
    }
    const taken = performance.now() - begun
    if (to === undefined || taken > limits.page || (total >= end && taken > limits.counting)) return { names, total }
    from = to
  }
}

/** Those that may be found. Others get their turn between. */
async function judged(
  visible: VisibleNames,
  names: readonly IndexedName[],
  { signal }: Ask,
): Promise<readonly IndexedName[]> {
  const found: IndexedName[] = []
  // With the longest patterns a name takes milliseconds.
  const atOnce = 8
  let since = performance.now()
  for (let at = 0; at < names.length; at += atOnce) {
    if (signal?.aborted) throw new GatewayError('aborted')
    found.push(...visible.of(names.slice(at, at + atOnce)))
    if (performance.now() - since < turn) continue
    await nextTurn()
    since = performance.now()
  }
  return found
}
