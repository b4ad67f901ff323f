/**
 * Which names of the search index one principal may see: those in folders that the principal can reach from its base
 * and list, and that such a listing would return. Paths are of the whole tree.
 */
import type { Principal } from '../accounts/principal.js'
import { nameOf, parentOf, type Path } from '../contract/path.js'
import type { ExcludedPart } from '../store/search/names-reader.js'
import type { IndexedName } from '../store/search/names.js'
import { hidesNames, judge } from './authorizer.js'
import type { Rule, Rules } from './folder-rules.js'
import type { Verdict } from './policy.js'
import { isVisible } from './visibility.js'

/** Maximum excluded parts of a query, and maximum exceptions of one. With more, authorizing name by name is faster. */
const maxParts = 40

/** The folder rules in the form of a query. */
interface QueryRules {
  /** Parts of the tree that the query excludes. */
  readonly closed: readonly ExcludedPart[]
  /** The query applies all rules: its results can be counted without further authorization. */
  readonly exact: boolean
}

export class VisibleNames {
  /** Cached results, by folder. */
  readonly #reachable = new Map<Path, boolean>()
  readonly #listable = new Map<Path, boolean>()

  /** `password`: the folder password of the request. */
  constructor(
    private readonly rules: Rules,
    private readonly principal: Principal,
    private readonly password: string | undefined,
  ) {}

  /** Returns the names that the principal may see, in their order. */
  filter(names: readonly IndexedName[]): readonly IndexedName[] {
    if (this.rules.isEmpty) return names
    return names.filter((name) => this.#canList(name.parent) && this.#isVisible(name.parent, name.name))
  }

  /** Whether the principal can reach the folder from its base: neither the folder nor one above it is hidden. */
  isReachable(folder: Path): boolean {
    if (folder === this.principal.base) return this.#verdict(folder) !== 'hidden'
    const cached = this.#reachable.get(folder)
    if (cached !== undefined) return cached
    const parent = parentOf(folder)
    const isReachable =
      folder !== '/' &&
      this.isReachable(parent) &&
      this.#isVisible(parent, nameOf(folder)) &&
      this.#verdict(folder) !== 'hidden'
    this.#reachable.set(folder, isReachable)
    return isReachable
  }

  #canList(folder: Path): boolean {
    const cached = this.#listable.get(folder)
    if (cached !== undefined) return cached
    const canList = this.isReachable(folder) && this.#verdict(folder) === 'allow'
    this.#listable.set(folder, canList)
    return canList
  }

  #isVisible(folder: Path, name: string): boolean {
    const entry = { name, kind: 'file', size: 0, modified: epoch } as const
    return isVisible(this.rules, this.principal, folder, entry)
  }

  #verdict(folder: Path): Verdict {
    return judge(this.rules, this.principal, 'list', folder, this.password)
  }

  /**
   * Translates the rules for a query below `top`: a query can exclude folders, but cannot match patterns against names.
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
    const exact = haveOneSpelling && closed.length === parts.length && !hidesNames(this.rules, this.principal, top)
    return { closed, exact }
  }

  /** The part of the tree from `path` on that the rule excludes from listings; undefined for nothing. */
  #excludedPart(top: Path, path: Path, rule: Rule): ExcludedPart | undefined {
    // Patterns match single names, which are authorized one by one.
    const withoutPatterns = { ...rule, hide: '' }
    const ruling = { own: withoutPatterns, folder: undefined }
    const verdictAt = (folder: Path) => judge(this.rules, this.principal, 'list', folder, this.password, ruling)
    const own = verdictAt(path)
    const deeper = verdictAt(`${path === '/' ? '' : path}/below` as Path)
    if (own === 'allow' && deeper === 'allow') return undefined
    // Nothing below a hidden folder is reachable, even if a rule further down would allow it.
    if (own === 'hidden') return { path, itself: path !== top, members: true, deeper: true, except: [] }
    const except = deeper === 'allow' ? [] : this.rules.below(path).map((each) => each.path)
    return { path, itself: false, members: own !== 'allow', deeper: deeper !== 'allow', except }
  }
}

const epoch = new Date(0)
