/**
 * The grants of one principal, compiled by the segments of their paths: which grant decides on a right at a path. What
 * follows from that is decided in `policy/`. Paths are of the whole tree.
 */
import { childOf, foldCase, nameOf, root, segmentsOf, type Path } from '../base/path.js'
import { rights, type Right } from '../base/rights.js'
import type { Grant } from '../database/tables/grants.js'
import type { FoldedPath } from './path-mirror.js'

/** A set of rights, as bits. */
type Rights = number

function setOf(which: readonly Right[]): Rights {
  return which.reduce((set, right) => set | bitOf(right), 0)
}

function bitOf(right: Right): Rights {
  return 1 << rights.indexOf(right)
}

/** The rights that the grants with one path allow and deny. */
interface Sayings {
  allowed: Rights
  denied: Rights
}

class Node {
  readonly own: Sayings = { allowed: 0, denied: 0 }
  readonly ofGroups: Sayings = { allowed: 0, denied: 0 }
  /** The grants with this path, for explanations. No decision reads them. */
  readonly grants: Grant[] = []
  readonly children = new Map<string, Node>()
  /** The children by folded name: names that differ only in case or Unicode normalization share a key. */
  readonly byFoldedName = new Map<string, Node[]>()
  /** A grant below allows `see`. */
  opens = false

  constructor(readonly path: Path) {}

  child(name: string): Node {
    const existing = this.children.get(name)
    if (existing) return existing
    const child = new Node(childOf(this.path, name))
    this.children.set(name, child)
    const key = foldCase(name)
    this.byFoldedName.set(key, [...(this.byFoldedName.get(key) ?? []), child])
    return child
  }
}

/** Combines the grants at one path: the user's own decide before those of groups, and a denial before another grant. */
function combined(nodes: readonly Node[]): Sayings {
  let [ownAllowed, ownDenied, allowed, denied] = [0, 0, 0, 0]
  for (const { own, ofGroups } of nodes) {
    ownAllowed |= own.allowed
    ownDenied |= own.denied
    allowed |= ofGroups.allowed
    denied |= ofGroups.denied
  }
  const isOwn = ownAllowed | ownDenied
  return { allowed: (ownAllowed & ~ownDenied) | (allowed & ~denied & ~isOwn), denied: ownDenied | (denied & ~isOwn) }
}

/** Names of members that have grants. */
export interface NamesWithGrants {
  has(name: string): boolean
  /** All of them; absent if other spellings have the same grants. */
  keys?(): Iterable<string>
}

/** The decisions of the grants on each right at one path. */
export class GrantedPath {
  #rest: GrantedPath | undefined
  /** Members that were asked before, by name: those with grants in one spelling only. */
  #known: Map<string, GrantedPath> | undefined
  /** The rights that the grants above the path allow and deny there. */
  private readonly above: Sayings
  /** The rights that are allowed and denied at the path, by the grants at it and above it. */
  private readonly applying: Sayings

  /** `nodes`: those of the path, one for each spelling that has grants at or below it. */
  constructor(
    private readonly nodes: readonly Node[],
    /** The path; for a member without grants of its own, that of its folder. */
    readonly path: Path,
    private readonly here: Sayings,
    /** The decisions of the grants on the folder of the path; undefined for the root. */
    private readonly parent: GrantedPath | undefined,
    private readonly foldedPath: FoldedPath,
    /** Whether what no grant allows is refused. */
    readonly grantedOnly: boolean,
  ) {
    this.above = parent?.applying ?? nothing
    this.applying = overridden(this.above, here)
  }

  /** Whether the deciding grant allows the right; undefined if no grant mentions it. */
  says(right: Right): boolean | undefined {
    return decision(right, this.applying)
  }

  /** Whether the grants above the path alone allow the right; undefined if none of them mentions it. */
  saysAbove(right: Right): boolean | undefined {
    return decision(right, this.above)
  }

  /**
   * The grants that decide on the right: those at the longest path that mention it, of which those of the user decide
   * before those of groups, and denials before others. None if no grant mentions it.
   */
  decidingGrants(right: Right): readonly Grant[] {
    const mentioning = this.nodes.flatMap(({ grants }) => grants.filter((grant) => mentions(grant, right)))
    if (mentioning.length === 0) return this.parent?.decidingGrants(right) ?? []
    const own = mentioning.filter(({ userId }) => userId !== undefined)
    const deciding = own.length > 0 ? own : mentioning
    const denying = deciding.filter(({ deny }) => deny.includes(right))
    return denying.length > 0 ? denying : deciding
  }

  /** Whether a grant with this very path denies one of the rights, and no other with this path decides otherwise. */
  deniesHere(which: readonly Right[]): boolean {
    return (this.here.denied & setOf(which)) !== 0
  }

  /** Whether a grant below allows `see`. */
  get opensBelow(): boolean {
    return this.nodes.some(({ opens }) => opens)
  }

  /** Whether a path below has grants of its own. */
  get hasBelow(): boolean {
    return this.nodes.some(({ children }) => children.size > 0)
  }

  /** The members without grants of their own, and everything below them. */
  get rest(): GrantedPath {
    this.#rest ??= this.#below([], this.path)
    return this.#rest
  }

  /**
   * The names of the members that have grants at or below them, for folders with many others. Do not keep it: whether a
   * backend ignores case can change.
   */
  get withGrants(): NamesWithGrants {
    const [first, ...others] = this.nodes
    const isSpelledOnce = others.length === 0 && this.foldedPath(this.path) === undefined
    if (first !== undefined && isSpelledOnce) return first.children
    return { has: (name) => this.hasBelow && this.#spellings(name).length > 0 }
  }

  /** The member of this name. */
  child(name: string): GrantedPath {
    if (!this.hasBelow) return this.rest
    const known = this.#known?.get(name)
    if (known) return known
    // Most members of a large folder have no grants in any spelling.
    const spellings = this.#spellings(name)
    if (spellings.length === 0) return this.rest
    const path = childOf(this.path, name)
    // Whether a backend ignores case can change.
    if (spellings.some((node) => nameOf(node.path) !== name)) return this.#respelledChild(spellings, path)
    const child = this.#below(spellings, path)
    this.#known ??= new Map()
    this.#known.set(name, child)
    return child
  }

  #respelledChild(spellings: readonly Node[], path: Path): GrantedPath {
    const name = nameOf(path)
    const key = this.foldedPath(path)
    const nodes = spellings.filter(
      (node) => nameOf(node.path) === name || (key !== undefined && this.foldedPath(node.path) === key),
    )
    return nodes.length === 0 ? this.rest : this.#below(nodes, path)
  }

  /** All paths below that have grants, and those above them. */
  *below(): Generator<GrantedPath> {
    const names = new Set(this.nodes.flatMap(({ children }) => [...children.keys()]))
    for (const name of names) {
      const child = this.child(name)
      yield child
      yield* child.below()
    }
  }

  /** The nodes of all members whose names differ from this one in case or Unicode normalization at most. */
  #spellings(name: string): readonly Node[] {
    const folded = foldCase(name)
    const [first] = this.nodes
    if (first !== undefined && this.nodes.length === 1) return first.byFoldedName.get(folded) ?? []
    return this.nodes.flatMap(({ byFoldedName }) => byFoldedName.get(folded) ?? [])
  }

  #below(nodes: readonly Node[], path: Path): GrantedPath {
    return new GrantedPath(nodes, path, combined(nodes), this, this.foldedPath, this.grantedOnly)
  }
}

const nothing: Sayings = { allowed: 0, denied: 0 }

function mentions({ allow, deny }: Grant, right: Right): boolean {
  // A grant of any right implies `see`.
  return allow.includes(right) || deny.includes(right) || (right === 'see' && allow.length > 0)
}

function decision(right: Right, { allowed, denied }: Sayings): boolean | undefined {
  const bit = bitOf(right)
  if ((denied & bit) !== 0) return false
  return (allowed & bit) === 0 ? undefined : true
}

/** Returns the rights that apply at a path: those that are mentioned there, and for all others, those from above. */
function overridden(above: Sayings, here: Sayings): Sayings {
  const mentioned = here.allowed | here.denied
  return {
    allowed: (above.allowed & ~mentioned) | here.allowed,
    denied: (above.denied & ~mentioned) | here.denied,
  }
}

export class GrantTrie {
  readonly #root: GrantedPath

  /** `grants`: those of the user and of its groups. */
  constructor(grants: readonly Grant[], foldedPath: FoldedPath, grantedOnly: boolean) {
    const top = new Node(root)
    for (const grant of grants) {
      const { path, userId, allow, deny } = grant
      let node = top
      for (const name of segmentsOf(path)) node = node.child(name)
      const sayings = userId === undefined ? node.ofGroups : node.own
      // A grant that allows a right also allows `see`, as in `mentions`.
      sayings.allowed |= setOf(allow.length > 0 ? [...allow, 'see'] : [])
      sayings.denied |= setOf(deny)
      node.grants.push(grant)
    }
    markOpening(top)
    this.#root = new GrantedPath([top], root, combined([top]), undefined, foldedPath, grantedOnly)
  }

  at(path: Path): GrantedPath {
    let granted = this.#root
    for (const name of segmentsOf(path)) {
      const next = granted.child(name)
      // Nothing below has grants of its own.
      if (next === granted.rest) return next
      granted = next
    }
    return granted
  }
}

/** Returns whether a grant at or below the node allows `see`. */
function markOpening(node: Node): boolean {
  for (const child of node.children.values()) if (markOpening(child)) node.opens = true
  return node.opens || decision('see', combined([node])) === true
}
