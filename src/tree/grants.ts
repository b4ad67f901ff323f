/** The grants of all users and groups, mirrored in memory. Paths are of the whole tree. */
import type { Membership } from '../accounts/groups.js'
import type { Principal } from '../accounts/principal.js'
import type { Path } from '../base/path.js'
import type { Grant } from '../database/rows.js'
import type { Store } from '../database/tables.js'
import { GrantTrie, type GrantedPath } from './grant-trie.js'
import { PathMirror, type FoldedPath } from './path-mirror.js'

export type { Grant, Right } from '../database/rows.js'

/** What a trie was compiled from, besides the grants. */
interface Compiled {
  readonly membership: Membership
  readonly grantedOnly: boolean
  /** Undefined if no grant applies. */
  readonly trie: GrantTrie | undefined
}

export class Grants extends PathMirror<Grant> {
  #applying: readonly Grant[] = []
  /** By user id; compiled at their first use after a change. */
  readonly #tries = new Map<number, Compiled>()
  /** Those that deny `see` or `read`, of anybody. */
  #denials: GrantTrie | undefined

  private constructor(store: Pick<Store, 'grants'>, foldedPath: FoldedPath) {
    super(store.grants, foldedPath)
  }

  static async load(store: Pick<Store, 'grants'>, foldedPath: FoldedPath = () => undefined): Promise<Grants> {
    const grants = new Grants(store, foldedPath)
    await grants.reload()
    return grants
  }

  /**
   * What the grants of the principal say at a path; undefined if none of them says anything anywhere, and the principal
   * may do what needs no grant.
   */
  at(principal: Principal, path: Path): GrantedPath | undefined {
    return this.#trieOf(principal)?.at(path)
  }

  /** Whether a grant at `path` or above it denies anybody to see or read it. */
  deniesReading(path: Path): boolean {
    const denied = this.#denials?.at(path)
    return denied?.says('see') === false || denied?.says('read') === false
  }

  #trieOf(principal: Principal): GrantTrie | undefined {
    const { userId, grantedOnly } = principal
    if (this.isEmpty && !grantedOnly) return undefined
    const { membership } = principal
    const known = this.#tries.get(userId)
    if (known?.membership === membership && known.grantedOnly === grantedOnly) return known.trie
    const groups = new Set(membership.groups)
    const grants = this.#applying.filter((grant) =>
      grant.groupId === undefined ? grant.userId === userId : groups.has(grant.groupId),
    )
    const applies = grantedOnly || grants.length > 0
    const trie = applies ? new GrantTrie(grants, this.foldedPath, grantedOnly) : undefined
    this.#tries.set(userId, { membership, grantedOnly, trie })
    return trie
  }

  protected override async compile(rows: readonly Grant[]): Promise<readonly Grant[]> {
    return rows
  }

  protected override index(applying: readonly Grant[]): void {
    this.#applying = applying
    this.#tries.clear()
    const denials = applying
      .map((grant) => ({
        ...grant,
        allow: [],
        deny: grant.deny.filter((right) => right === 'see' || right === 'read'),
      }))
      .filter(({ deny }) => deny.length > 0)
    this.#denials = denials.length > 0 ? new GrantTrie(denials, this.foldedPath, false) : undefined
  }

  /** A user or a group has one grant for a path. */
  protected override subjectOf({ userId, groupId }: Grant): string {
    return `${userId ?? ''} ${groupId ?? ''}`
  }
}
