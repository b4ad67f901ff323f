/** The grants of all users and groups, mirrored in memory. Paths are of the whole tree. */
import type { Membership, Principal } from '../accounts/principal.js'
import { GatewayError, undefinedIfMissing } from '../base/errors.js'
import { cleanPath, segmentsOf, type Path } from '../base/path.js'
import { rights, type Right } from '../base/rights.js'
import type { Grant } from '../database/tables/grants.js'
import type { Store } from '../database/tables.js'
import { GrantTrie, type GrantedPath } from './grant-trie.js'
import { PathMirror, type FoldedPath, type MoveId } from './path-mirror.js'

export type { Grant } from '../database/tables/grants.js'

/** The user or the group that a grant is of. */
export type Subject = { readonly userId: number } | { readonly groupId: number }

export function subjectOfGrant({ userId, groupId }: Pick<Grant, 'userId' | 'groupId'>): Subject {
  if (userId !== undefined) return { userId }
  if (groupId !== undefined) return { groupId }
  throw new Error('a grant is of a user or a group')
}

/** A grant as it is given. */
export interface NewGrant {
  /** A path of the whole tree. Nothing need exist there. */
  readonly path: string
  readonly allow: readonly string[]
  readonly deny: readonly string[]
}

type CheckedGrant = Pick<Grant, 'path' | 'allow' | 'deny'>

/** Maximum grants of one user or group: all of them are compiled when a member is first seen after a change. */
export const maxGrantsOfSubject = 1000
/**
 * Maximum grants in all: every change of one, and every rename of a folder that has one, reads all of them in every
 * process.
 */
export const maxGrants = 20_000

/** Maximum folders of a grant's path: each costs memory for every user that the grant is of. */
export const maxGrantDepth = 100

/** A compiled trie, with the facts besides the grants that it was compiled from. */
interface Compiled {
  readonly membership: Membership
  readonly grantedOnly: boolean
  /** The compiled grants; undefined if none applies. */
  readonly trie: GrantTrie | undefined
}

/**
 * Throws `invalid` for an unknown right, one that is both allowed and denied, a grant that says nothing, a relative
 * path, one of too many folders, two grants with one path, and too many grants.
 */
export function checkGrants(grants: readonly NewGrant[]): readonly CheckedGrant[] {
  if (grants.length > maxGrantsOfSubject) {
    throw new GatewayError('invalid', { reason: `a user or a group can have at most ${maxGrantsOfSubject} grants` })
  }
  const checked = grants.map(checkGrant)
  const paths = new Set<Path>()
  for (const { path } of checked) {
    if (paths.has(path)) throw new GatewayError('invalid', { reason: `there are two grants with the path ${path}` })
    paths.add(path)
  }
  return checked
}

function checkGrant({ path: text, allow, deny }: NewGrant): CheckedGrant {
  const invalid = (reason: string) => new GatewayError('invalid', { reason })
  if (!/^[/\\]/.test(text) || text.split(/[/\\]/).includes('..')) {
    throw invalid('the path of a grant begins with / and does not contain ..')
  }
  const path = cleanPath(text)
  if (segmentsOf(path).length > maxGrantDepth) {
    throw invalid(`the path of a grant has at most ${maxGrantDepth} folders`)
  }
  const unknown = [...allow, ...deny].find((name) => !(rights as readonly string[]).includes(name))
  if (unknown !== undefined) throw invalid(`unknown right ${unknown.slice(0, 50)}; there are: ${rights.join(', ')}`)
  const given = { path, allow: rightsIn(allow), deny: rightsIn(deny) }
  const both = given.allow.find((right) => given.deny.includes(right))
  if (both !== undefined) throw invalid(`the grant at ${path} both allows and denies ${both}`)
  if (given.allow.length > 0 && given.deny.includes('see')) {
    throw invalid(`the grant at ${path} denies see, without which nothing can be allowed`)
  }
  if (given.allow.length + given.deny.length === 0) throw invalid(`the grant at ${path} allows and denies nothing`)
  return given
}

/** The rights of these names, each once, in their usual order. */
function rightsIn(names: readonly string[]): readonly Right[] {
  return rights.filter((right) => names.includes(right))
}

export class Grants extends PathMirror<Grant> {
  /** The stored grants of each user and group. */
  #bySubject: ReadonlyMap<string, readonly Grant[]> = new Map()
  /**
   * The compiled grants of users, by user id, or by the move that is made; compiled at their first use after a change.
   */
  readonly #tries = new Map<number | symbol, Compiled>()
  /** The grants that deny `see` or `read`, of all users and groups; compiled at their first use after a change. */
  #denials: { readonly trie: GrantTrie | undefined } | undefined
  #indexed: readonly Grant[] = []

  private constructor(
    private readonly store: Pick<Store, 'grants'>,
    foldedPath: FoldedPath,
  ) {
    super(store.grants, foldedPath)
  }

  static async load(store: Pick<Store, 'grants'>, foldedPath: FoldedPath = () => undefined): Promise<Grants> {
    const grants = new Grants(store, foldedPath)
    await grants.reload()
    return grants
  }

  /** All stored grants. */
  list(): readonly Grant[] {
    return this.stored
  }

  /** The stored grants of a user or a group, ordered by path. */
  of(subject: Subject): readonly Grant[] {
    return this.#bySubject.get(keyOf(subject)) ?? []
  }

  /**
   * Replaces the grants of a user or a group. Rejects as `checkGrants`, with `invalid` if there would be more than
   * `maxGrants`, and with `not_found` if the subject does not exist. No session ends: grants are asked at each use.
   */
  async replace(subject: Subject, grants: readonly NewGrant[]): Promise<void> {
    const checked = this.check(grants, subject)
    await this.store.grants.replace({ userId: undefined, groupId: undefined, ...subject }, checked)
    await this.reload()
  }

  /** The grants as they can be stored for the subject, a new one if omitted. Throws `invalid` as `replace` rejects. */
  check(grants: readonly NewGrant[], subject?: Subject): readonly CheckedGrant[] {
    const checked = checkGrants(grants)
    const others = this.stored.length - (subject === undefined ? 0 : this.of(subject).length)
    if (checked.length > 0 && others + checked.length > maxGrants) {
      throw new GatewayError('invalid', { reason: `there can be at most ${maxGrants} grants` })
    }
    return checked
  }

  /**
   * What the grants of the principal say at a path; undefined if none of them says anything anywhere, and the principal
   * may do what needs no grant. `moveId`: the move item by item for which it is asked.
   */
  at(principal: Principal, path: Path, moveId?: MoveId): GrantedPath | undefined {
    return this.#trieOf(principal, moveId)?.at(path)
  }

  /** Whether a grant at `path` or above it denies anybody to see or read it. */
  deniesReading(path: Path): boolean {
    const denied = this.#trieOfDenials()?.at(path)
    return denied?.says('see') === false || denied?.says('read') === false
  }

  /** Whether a grant below `path` denies anybody to see or read something there. */
  deniesReadingBelow(path: Path): boolean {
    return this.#trieOfDenials()?.at(path).hasBelow === true
  }

  #trieOf(principal: Principal, moveId: MoveId | undefined): GrantTrie | undefined {
    const { userId, grantedOnly } = principal
    if (this.isEmpty && !grantedOnly) return undefined
    const { membership } = principal
    const own = moveId !== undefined && this.hasOwnMove(moveId) ? moveId : undefined
    const known = this.#tries.get(own ?? userId)
    if (known?.membership === membership && known.grantedOnly === grantedOnly) return known.trie
    const groups = new Set(membership.groups)
    const isOfUser = (grant: Grant) =>
      grant.groupId === undefined ? grant.userId === userId : groups.has(grant.groupId)
    const decides = (grant: Grant) => isOfUser(grant) && (own === undefined || !this.isOfOwnMove(grant, own))
    const grants = this.applying.filter(decides)
    const applies = grantedOnly || grants.length > 0
    const trie = applies ? new GrantTrie(grants, this.foldedPath, grantedOnly) : undefined
    this.#tries.set(own ?? userId, { membership, grantedOnly, trie })
    return trie
  }

  protected override async compile(rows: readonly Grant[]): Promise<readonly Grant[]> {
    return rows
  }

  protected override index(): void {
    this.#tries.clear()
    this.#denials = undefined
    // Called also when a move begins or ends, which changes no stored grant.
    if (this.#indexed === this.stored) return
    this.#indexed = this.stored
    const bySubject = new Map<string, Grant[]>()
    for (const grant of [...this.stored].sort((one, other) => (one.path < other.path ? -1 : 1))) {
      const key = keyOf(grant)
      const others = bySubject.get(key)
      if (others) others.push(grant)
      else bySubject.set(key, [grant])
    }
    this.#bySubject = bySubject
  }

  #trieOfDenials(): GrantTrie | undefined {
    this.#denials ??= { trie: this.#compiledDenials() }
    return this.#denials.trie
  }

  #compiledDenials(): GrantTrie | undefined {
    const denials = this.applying
      .map((grant) => ({
        ...grant,
        allow: [],
        deny: grant.deny.filter((right) => right === 'see' || right === 'read'),
      }))
      .filter(({ deny }) => deny.length > 0)
    return denials.length > 0 ? new GrantTrie(denials, this.foldedPath, false) : undefined
  }

  /**
   * Two grants of one subject may apply at a path: a denial wins, so that nothing is seen of the folder before the
   * moved one is stored.
   */
  protected override readonly canCoincide = true

  /** Two grants at spellings of one path apply together, so they move together. */
  protected override async joined(row: Grant, other: Grant): Promise<Grant> {
    const deny = rightsIn([...row.deny, ...other.deny])
    const given = [...row.allow, ...other.allow]
    // A grant of any right implies `see`.
    const allowed = rightsIn(given.length > 0 ? ['see', ...given] : [])
    const allow = deny.includes('see') ? [] : allowed.filter((right) => !deny.includes(right))
    const changes = { allow, deny }
    await undefinedIfMissing(this.rows.update(row.id, changes))
    await this.rows.delete(other.id)
    return { ...row, ...changes }
  }

  /** A user or a group has one grant for a path. */
  protected override subjectOf(grant: Grant): string {
    return keyOf(grant)
  }
}

function keyOf({ userId, groupId }: { readonly userId?: number | undefined; readonly groupId?: number | undefined }) {
  return `${userId ?? ''} ${groupId ?? ''}`
}
