/**
 * What of the index one principal may find: a name is found by whoever could walk to its folder from their own root, list that
 * folder, and see it there. Paths are of the whole tree.
 */
import { nameOf, parentOf, type Path } from '../path.js'
import { judge, type Verdict } from '../policy.js'
import { holds, type Principal } from '../principal.js'
import type { Rule, Rules } from '../rules.js'
import type { IndexedName } from '../store/search/names.js'
import type { ClosedPart } from '../store/search/names-reader.js'
import { isVisible } from '../visibility.js'

/** More parts than this, or more exceptions of one, make a query slower than judging name by name. */
const mostParts = 40

/** What a query can leave out by itself. */
export interface QueryRules {
  readonly closed: readonly ClosedPart[]
  /** What the query finds needs no further judging to be counted. */
  readonly exact: boolean
}

export class VisibleNames {
  readonly #known = new Map<Path, boolean>()
  readonly #open = new Map<Path, boolean>()

  /** `password`: the one that came with the request. */
  constructor(
    private readonly rules: Rules,
    private readonly principal: Principal,
    private readonly password: string | undefined,
  ) {}

  /** Those names that the principal may find, in their order. */
  of(names: readonly IndexedName[]): readonly IndexedName[] {
    if (this.rules.isEmpty) return names
    return names.filter((name) => this.#isOpen(name.parent) && this.#shows(name.parent, name.name))
  }

  /** Whether there may be something to find at or below the folder. */
  knows(folder: Path): boolean {
    if (folder === this.principal.base) return this.#verdict(folder) !== 'hidden'
    const known = this.#known.get(folder)
    if (known !== undefined) return known
    const parent = parentOf(folder)
    const knows =
      folder !== '/' && this.knows(parent) && this.#shows(parent, nameOf(folder)) && this.#verdict(folder) !== 'hidden'
    this.#known.set(folder, knows)
    return knows
  }

  #isOpen(folder: Path): boolean {
    const known = this.#open.get(folder)
    if (known !== undefined) return known
    const open = this.knows(folder) && this.#verdict(folder) === 'allow'
    this.#open.set(folder, open)
    return open
  }

  #shows(folder: Path, name: string): boolean {
    const entry = { name, kind: 'file', size: 0, modified: never } as const
    return isVisible(this.rules, this.principal, folder, entry)
  }

  #verdict(folder: Path): Verdict {
    const ruling = { own: this.rules.nearest(folder), folder: this.rules.nearest(parentOf(folder)) }
    return judge(this.principal, 'list', folder, ruling, this.password)
  }

  /** What of the rules a query below `top` can obey by itself: folders that are closed whatever the names in them. */
  inQuery(top: Path): QueryRules {
    const nearest = this.rules.nearest(top)
    const below = this.rules.below(top)
    const parts = [
      ...(nearest ? [this.#closed(top, top, nearest)] : []),
      ...below.map((rule) => this.#closed(top, rule.path, rule)),
    ].filter((part) => part !== undefined)
    const closed = parts.filter(({ except }) => except.length <= mostParts).slice(0, mostParts)
    const hides = [nearest, ...below].some((rule) => rule !== undefined && rule.hide !== '')
    // Where a rule's folder may have another spelling, the query does not find it by that of the rule.
    const spelled = below.every((rule) => this.rules.hasOneSpelling(rule.path))
    const exact = spelled && closed.length === parts.length && (!hides || holds(this.principal, 'seeHidden'))
    return { closed, exact }
  }

  /** What the rule closes of the part of the tree for which it decides, from `path` on; undefined for nothing. */
  #closed(top: Path, path: Path, rule: Rule): ClosedPart | undefined {
    // Patterns are about single names: those are judged one by one.
    const bare = { ...rule, hide: '' }
    const ask = (folder: Path) => judge(this.principal, 'list', folder, { own: bare, folder: undefined }, this.password)
    const own = ask(path)
    const deeper = ask(`${path === '/' ? '' : path}/below` as Path)
    if (own === 'allow' && deeper === 'allow') return undefined
    // Nothing leads through a folder that is hidden, whatever other rules say further down.
    if (own === 'hidden') return { path, itself: path !== top, members: true, deeper: true, except: [] }
    const except = deeper === 'allow' ? [] : this.rules.below(path).map((each) => each.path)
    return { path, itself: false, members: own !== 'allow', deeper: deeper !== 'allow', except }
  }
}

const never = new Date(0)
