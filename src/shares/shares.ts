/** The shares of all users, mirrored in memory. Their paths follow moved files and folders, as those of rules do. */
import type { BlockList } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { Principal } from '../accounts/principal.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import type { ShareRoot, ShareRow, ShareUse } from '../database/tables/shares.js'
import type { Store } from '../database/tables.js'
import { networksOf } from '../net/addresses.js'
import { PathMirror, type FoldedPath } from '../tree/path-mirror.js'
import { SharePseudonyms } from './pseudonyms.js'
import {
  checkModeChange,
  checkModeFields,
  checkRoots,
  checkShareCount,
  checkShareFields,
  checkShareId,
  randomShareId,
} from './share-fields.js'

export interface StoredShare extends ShareRow {
  /** The roots in their order, also those that were removed. */
  readonly roots: readonly ShareRoot[]
  /** The networks of visitors; undefined: any. */
  readonly networks: BlockList | undefined
}

/** A root with the row of its share. */
interface MirroredRoot extends ShareRoot {
  readonly share: ShareRow
}

export type ShareFields = Omit<ShareRow, 'id' | 'created'>

interface SharesOptions {
  readonly store: Pick<Store, 'shares' | 'shareRoots' | 'secrets'>
  readonly foldedPath: FoldedPath
  /** The time in milliseconds since 1970. */
  readonly now?: () => number
}

export class Shares extends PathMirror<ShareRoot, MirroredRoot> {
  #byId: ReadonlyMap<string, StoredShare> = new Map()
  #indexed: readonly MirroredRoot[] = []
  readonly #now: () => number
  #whenChanged: ((share: ShareRow) => void) | undefined

  private constructor(
    private readonly options: SharesOptions,
    private readonly pseudonyms: SharePseudonyms,
  ) {
    super(options.store.shareRoots, options.foldedPath)
    this.#now = options.now ?? Date.now
  }

  static async load(options: SharesOptions): Promise<Shares> {
    const shares = new Shares(options, await SharePseudonyms.open(options.store.secrets))
    await shares.reload()
    return shares
  }

  /** From now on, `end` is called with each share as it was before a change that ends the requests of its visitors. */
  onChange(end: (share: ShareRow) => void): void {
    this.#whenChanged = end
  }

  get(id: string): StoredShare | undefined {
    return this.#byId.get(id)
  }

  has(id: string): boolean {
    return this.#byId.has(id)
  }

  /** The shares of all users, ordered by id. */
  list(): readonly StoredShare[] {
    return [...this.#byId.values()].sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  /** The shares that a principal administers, ordered by id: its own, or all for an admin. */
  of(principal: Principal): readonly StoredShare[] {
    return this.list().filter((share) => this.#isOf(principal, share))
  }

  /** Whether a principal may make shares for others, and administers those of all. */
  actsForOthers({ role }: Principal): boolean {
    return role === 'admin'
  }

  /** Returns one share of the principal; undefined if it does not exist, or is the share of another user. */
  find(principal: Principal, id: string): StoredShare | undefined {
    const share = this.#byId.get(id)
    return share && this.#isOf(principal, share) ? share : undefined
  }

  #isOf(principal: Principal, { creatorId }: ShareRow): boolean {
    return this.actsForOthers(principal) || principal.userId === creatorId
  }

  /** Returns the name of the share in the audit, webhooks and logs. The share need not exist. */
  pseudonymOf(id: string): string {
    return this.pseudonyms.of(id)
  }

  /** Returns the use of each of these shares, by id. */
  use(ids: readonly string[]): Promise<ReadonlyMap<string, ShareUse>> {
    return this.options.store.shares.use(ids)
  }

  /**
   * `id`: empty for a random one. Rejects with `invalid` for fields, an id or paths that a share cannot have, or if
   * there are too many shares, and with `exists` for a taken id. Whether the creator may share the paths is asked
   * before, by `VisitorAccess`.
   */
  async create(id: string, fields: ShareFields, roots: readonly Path[], visits = 0): Promise<StoredShare> {
    checkShareFields(fields)
    checkModeFields(fields)
    checkRoots(roots, fields.mode)
    const own = [...this.#byId.values()].filter(({ creatorId }) => creatorId === fields.creatorId)
    checkShareCount(this.#byId.size, own.length)
    const isTaken = (other: string) => this.#byId.has(other)
    const chosen = id === '' ? randomShareId(isTaken) : checkShareId(id)
    await takenIdKnown(
      this.options.store.shares.insert({ ...fields, id: chosen, created: new Date(this.#now()) }, roots, visits),
    )
    return this.#reloaded(chosen)
  }

  /** Absent fields, roots and `visits` are unchanged. Rejects as `create`, and with `not_found`. */
  async update(
    id: string,
    changes: Partial<ShareFields> & { readonly id?: string },
    roots?: readonly Path[],
    visits?: number,
  ): Promise<StoredShare> {
    checkShareFields(changes)
    if (changes.id !== undefined) checkShareId(changes.id)
    const before = this.#byId.get(id)
    if (before !== undefined) checkModeChange(before, changes)
    const { mode = before?.mode ?? 'read' } = changes
    if (roots !== undefined) checkRoots(roots, mode)
    else if (changes.mode !== undefined && before !== undefined)
      checkRoots(
        before.roots.map(({ path }) => path),
        mode,
      )
    await takenIdKnown(this.options.store.shares.update(id, changes, roots, visits))
    return this.#reloaded(changes.id ?? id)
  }

  /** Rejects with `not_found`. */
  async delete(id: string): Promise<void> {
    const existed = await this.options.store.shares.delete(id)
    await this.reload()
    if (!existed) throw shareUnknown()
  }

  async #reloaded(id: string): Promise<StoredShare> {
    await this.reload()
    const share = this.#byId.get(id)
    // Another process may have deleted it meanwhile.
    if (share === undefined) throw shareUnknown()
    return share
  }

  protected override async compile(rows: readonly ShareRoot[]): Promise<readonly MirroredRoot[]> {
    const shares = new Map((await this.options.store.shares.all()).map((share) => [share.id, share]))
    return rows.flatMap((root) => {
      const share = shares.get(root.shareId)
      return share === undefined ? [] : [{ ...root, share }]
    })
  }

  protected override index(): void {
    // Called also when a move begins or ends, which changes no share.
    if (this.#indexed === this.stored) return
    this.#indexed = this.stored
    const before = this.#byId
    const roots = new Map<ShareRow, ShareRoot[]>()
    for (const { share, ...root } of this.stored) {
      const others = roots.get(share)
      if (others) others.push(root)
      else roots.set(share, [root])
    }
    this.#byId = new Map([...roots].map(([row, of]) => [row.id, withRoots(row, of)]))
    for (const share of before.values()) {
      if (isChanged(share, this.#byId.get(share.id))) this.#whenChanged?.(share)
    }
  }

  /** A path is a root of a share once. */
  protected override subjectOf({ shareId }: MirroredRoot): string {
    return shareId
  }

  protected override readonly marksRemovals = true
}

/** Whether the end of a share has come. `now`: milliseconds since 1970. */
export function isExpired({ expires }: ShareRow, now: number): boolean {
  return expires !== undefined && expires.getTime() <= now
}

function withRoots(row: ShareRow, roots: readonly ShareRoot[]): StoredShare {
  return {
    ...row,
    roots: [...roots].sort((one, other) => one.position - other.position),
    networks: row.allowFrom.length === 0 ? undefined : networksOf(row.allowFrom),
  }
}

/**
 * Whether visitors of a share have to ask again. What they only read may have moved meanwhile; an upload must not reach
 * what is made at the old path.
 */
function isChanged(before: StoredShare, after: StoredShare | undefined): boolean {
  if (after === undefined) return true
  const access = ({ creatorId, mode, code, expires, disabled, allowFrom, webdav }: StoredShare) => {
    return [creatorId, mode, code, expires, disabled, allowFrom, webdav]
  }
  if (!isDeepStrictEqual(access(before), access(after))) return true
  const isThere = (root: ShareRoot) =>
    after.roots.some(
      ({ id, removed, path }) =>
        id === root.id && removed === root.removed && (after.mode === 'read' || path === root.path),
    )
  return !before.roots.every(isThere)
}

function shareUnknown(): GatewayError {
  return new GatewayError('not_found', { reason: 'there is no such share' })
}

async function takenIdKnown(change: Promise<void>): Promise<void> {
  try {
    await change
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
    throw new GatewayError('exists', { reason: 'a share of this id exists already', cause: error })
  }
}
