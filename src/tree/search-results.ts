/**
 * Runs one search: returns a page of the results that the principal may see, ordered by name, and their total number.
 * Which names those are is decided here, as a listing of their folder would.
 */
import { GatewayError } from '../base/errors.js'
import { nameOf, parentOf, reservedPrefix, root, type Path } from '../base/path.js'
import { Pauses } from '../base/pauses.js'
import { searchWords } from '../base/folding.js'
import {
  firstPosition,
  type NameQuery,
  type NamesReader,
  type NameRange,
  type ExcludedPart,
  type NamePart,
} from '../database/search/names-reader.js'
import type { IndexedName } from '../database/search/names.js'
import type { AccessOptions } from './operation-options.js'
import type { Access } from './access.js'
import type { Decisions } from './decisions.js'
import type { Rule, Rules } from './folder-rules.js'
import type { MemberFilter } from './policy/names.js'

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

/** See `VirtualFs.search`. */
export async function search(access: Access, path: Path, options: SearchOptions): Promise<SearchResult> {
  access.decisions.authorizeSearch()
  const { rules, search: index, searches } = access.dependencies
  const { at, principal } = await access.resolve(path, options)
  const visible = new VisibleNames(rules, access.decisions, principal.base, options.password)
  const find = async () => findNames(await index.reader(), visible, at, options)
  const { names, total } = await searches.run(principal.holder, find, options.signal)
  return { names: names.map((found) => ({ ...found, parent: access.ownPath(found.parent) })), total }
}

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
  const { closed, parts, isExact } = visible.queryRules(top)
  const query: NameQuery = { words, kind: options.kind, below: top, excluded: closed, parts }
  // To authorize few names one by one takes less time than to exclude many parts.
  const few = await reader.allIfFew({ ...query, excluded: [] })
  if (few === undefined) return findAmongMany(reader, visible, { query, isExact, options, limits })
  const found = await authorizedNames(visible, few, options)
  return { names: found.slice(options.offset, options.offset + options.limit), total: found.length }
}

const noResults: SearchResult = { names: [], total: 0 }

interface RangeSearch {
  readonly query: NameQuery
  /** The principal may see every result of the query. */
  readonly isExact: boolean
  readonly options: SearchOptions
  readonly limits: SearchLimits
}

/** Searches range by range in the order of names, so that the page is complete before all results are counted. */
async function findAmongMany(
  reader: NamesReader,
  visible: VisibleNames,
  { query, isExact, options, limits }: RangeSearch,
): Promise<SearchResult> {
  const startedAt = performance.now()
  const end = options.offset + options.limit
  const names: IndexedName[] = []
  let total = 0
  let from = firstPosition
  for (;;) {
    if (options.signal?.aborted) throw new GatewayError('aborted')
    const to = await reader.rangeEnd(from, isExact ? countBatch : authorizeBatch)
    const range: NameRange = { from, to }
    const counted = isExact ? await reader.countIn(query, range) : undefined
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

/**
 * Maximum parts and excluded parts of a query, and maximum exceptions of one. With more, authorizing name by name is
 * faster.
 */
const maxParts = 40

/** The folder rules and grants in the form of a query. */
interface QueryRules {
  /** The parts of the tree to which the query is limited; undefined if it is not. */
  readonly parts: readonly NamePart[] | undefined
  /** Parts of the tree that the query excludes. */
  readonly closed: readonly ExcludedPart[]
  /** The query applies all rules and grants: its results can be counted without further authorization. */
  readonly isExact: boolean
}

/**
 * Which names of the search index one principal may see: those in folders that the principal can reach from its base
 * and list, and that such a listing would return. Paths are of the whole tree.
 */
export class VisibleNames {
  readonly #folders = new Map<Path, SearchedFolder>()

  /** `base`: that of the principal, in the backend's spelling. `password`: the folder password of the request. */
  constructor(
    private readonly rules: Rules,
    private readonly decisions: Pick<Decisions, 'hidesNames' | 'isRestricted' | 'listed' | 'seenNames' | 'verdict'>,
    private readonly base: Path,
    private readonly password: string | undefined,
  ) {}

  /** Returns the names that the principal may see, in their order. */
  filter(names: readonly IndexedName[]): readonly IndexedName[] {
    if (!this.decisions.isRestricted) return names
    return names.filter(({ parent, name }) => {
      const folder = this.#folder(parent)
      return folder.isListable && isMember(folder, name)
    })
  }

  /** Whether the principal can reach the folder from its base: neither the folder nor one above it is hidden. */
  isReachable(folder: Path): boolean {
    return this.#folder(folder).isReachable
  }

  #folder(path: Path): SearchedFolder {
    const known = this.#folders.get(path)
    if (known) return known
    const folder = this.#isOnWay(path) ? this.#asked(path) : closedFolder
    this.#folders.set(path, folder)
    return folder
  }

  #asked(path: Path): SearchedFolder {
    const { verdict, members } = this.decisions.listed(path, this.password)
    const isReachable = verdict !== 'hidden' && verdict !== 'not_found'
    return { isReachable, isListable: verdict === 'allow', members }
  }

  /** Whether the base leads to the folder, whatever the verdict on the folder itself is. */
  #isOnWay(path: Path): boolean {
    if (path === this.base) return true
    if (path === root) return false
    const parent = this.#folder(parentOf(path))
    return parent.isReachable && isMember(parent, nameOf(path))
  }

  /**
   * Translates the rules and grants for a query below `top`: a query can exclude folders, but cannot match patterns
   * against names.
   */
  queryRules(top: Path): QueryRules {
    const nearest = this.rules.nearest(top)
    const below = this.rules.below(top)
    const parts = [
      ...(nearest ? [this.#excludedPart(top, top, nearest)] : []),
      ...below.map((rule) => this.#excludedPart(top, rule.path, rule)),
    ].filter((part) => part !== undefined)
    const closed = parts.filter(({ except }) => except.length <= maxParts).slice(0, maxParts)
    // The query compares paths exactly: it does not match a folder that the index has in a spelling other than the
    // rule's.
    const haveOneSpelling = below.every((rule) => this.rules.hasOneSpelling(rule.path))
    const byRules = haveOneSpelling && closed.length === parts.length && !this.decisions.hidesNames(top)
    const byGrants = this.#queryGrants(top)
    return { closed: [...closed, ...byGrants.closed], parts: byGrants.parts, isExact: byRules && byGrants.isExact }
  }

  #queryGrants(top: Path): QueryRules {
    const nameByName = { closed: [], parts: undefined, isExact: false }
    const seen = this.decisions.seenNames(top, maxParts)
    if (seen === undefined) return nameByName
    const { parts, closed, isExact } = seen
    const paths = [...(parts ?? []).map(({ path }) => path), ...closed]
    // As for rules: names in another spelling must be authorized one by one.
    if (!paths.every((path) => this.rules.hasOneSpelling(path))) return nameByName
    const excluded = closed.map((path) => ({ path, itself: true, members: true, deeper: true, except: [] }))
    return { closed: excluded, parts, isExact }
  }

  /** The part of the tree from `path` on that the rule excludes from listings; undefined for nothing. */
  #excludedPart(top: Path, path: Path, rule: Rule): ExcludedPart | undefined {
    // Patterns match single names, which are authorized one by one.
    const withoutPatterns = { ...rule, hide: '' }
    const ruling = { atPath: withoutPatterns, atParent: undefined }
    const verdictAt = (folder: Path) => this.decisions.verdict('list', folder, this.password, { ruling })
    const own = verdictAt(path)
    const deeper = verdictAt(`${path === '/' ? '' : path}/below` as Path)
    if (own === 'allow' && deeper === 'allow') return undefined
    // Nothing below a hidden folder is reachable, even if a rule further down would allow it.
    if (own === 'hidden') return { path, itself: path !== top, members: true, deeper: true, except: [] }
    const except = deeper === 'allow' ? [] : this.rules.below(path).map((each) => each.path)
    return { path, itself: false, members: own !== 'allow', deeper: deeper !== 'allow', except }
  }
}

/** The question of a search about a folder. */
interface SearchedFolder {
  /** Whether the principal can reach it from its base. */
  readonly isReachable: boolean
  readonly isListable: boolean
  readonly members: Pick<MemberFilter, 'shows'>
}

const closedFolder: SearchedFolder = { isReachable: false, isListable: false, members: { shows: () => false } }

/** Whether listings of the folder show the name. */
function isMember({ members }: SearchedFolder, name: string): boolean {
  return !name.startsWith(reservedPrefix) && members.shows(name)
}
