/**
 * The paths of one principal in the whole tree: `resolve` finds them, and `symlinks.ts` follows their symlinks. What
 * the principal may do there is decided by `Decisions`. The way back, from errors and locks to the principal's own
 * paths, is `redaction.ts`.
 */
import type { Principal } from '../accounts/principal.js'
import { joinSignals } from '../base/cancellation.js'
import type { Attributes } from '../contract/capabilities.js'
import type { StatOptions, Awaitable } from '../contract/call-options.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { root, under, within, type Path } from '../base/path.js'
import type { MountedTree } from '../mounts/mounted-tree.js'
import { Change, type Authority, type ChangePlan, type ResolvedPath } from './change.js'
import { Decisions, errorOf, refuse } from './decisions.js'
import type { TreeDependencies } from './dependencies.js'
import { reservedName } from './impossible-paths.js'
import type { AccessOptions, ChangeOptions } from './operation-options.js'
import type { MoveId } from './path-mirror.js'
import type { Action } from './policy/one-path.js'
import { followingActions, followSymlinks, type Following } from './symlinks.js'

/**
 * A path that the principal has named. `resolve` and `place` neither authorize it nor follow its symlinks;
 * `resolveAndAuthorize` does both.
 */
export interface Place extends ResolvedPath {
  /** The path before its symlinks were followed. */
  readonly named: Path
  /** The principal, with its base in the spelling of the path. */
  readonly principal: Principal
}

export class Access implements Authority {
  readonly tree: MountedTree
  readonly decisions: Decisions

  /** `moveId`: the move item by item that is made, if it is one. */
  constructor(
    readonly dependencies: TreeDependencies,
    /** The principal, with its base as stored in the account. */
    readonly principal: Principal,
    moveId?: MoveId,
  ) {
    this.tree = dependencies.mountedTree
    this.decisions = new Decisions(dependencies, principal, moveId)
  }

  /** Access of this principal, as it makes a move item by item. */
  forMove(moveId: MoveId): Access {
    return new Access(this.dependencies, this.principal, moveId)
  }

  /**
   * Returns the path in the whole tree, in the backends' spelling: at once if no backend has to be asked. Throws
   * `not_found` for names reserved by the core.
   */
  resolve(path: Path, options: AccessOptions): Awaitable<Place> {
    return this.resolveAtOnce(path) ?? this.#resolveByBackend(path, options)
  }

  /** Resolves a path without asking a backend. Undefined if a backend has to be asked, or its storage is starting. */
  resolveAtOnce(path: Path): Place | undefined {
    const at = this.#underBase(path)
    return this.dependencies.mounts.isAsNamed(at) ? { at, named: at, principal: this.principal } : undefined
  }

  async #resolveByBackend(path: Path, options: AccessOptions): Promise<Place> {
    const requested = this.#underBase(path)
    await this.#whenStarted(requested, options)
    const at = await this.spelled(requested, options)
    return { at, named: at, principal: this.principal.respelled(requested, at) }
  }

  /**
   * Waits until the storage at the path has started, if the principal may see the path. It does not wait otherwise,
   * because the time of the answer would tell that a storage is there.
   */
  async #whenStarted(at: Path, options: AccessOptions): Promise<void> {
    if (this.decisions.isSeen(at)) await this.dependencies.mounts.whenStarted(at, options)
  }

  /**
   * The path in the backends' spelling. Grants apply to every spelling, so that no backend is asked for a path that the
   * principal does not see: it is refused.
   */
  async spelled(at: Path, { signal }: AccessOptions): Promise<Path> {
    return this.decisions.isSeen(at) ? this.tree.canonicalPath(at, { signal }) : at
  }

  /** Resolves the target of a move of `source`, a path of the whole tree. */
  async resolveMoveTarget(path: Path, source: Path, options: AccessOptions): Promise<Place> {
    const requested = this.#underBase(path)
    await this.#whenStarted(requested, options)
    const isSeen = this.decisions.isSeen(requested)
    const at = isSeen ? await this.tree.canonicalTarget(requested, source, { signal: options.signal }) : requested
    return { at, named: at, principal: this.principal.respelled(requested, at) }
  }

  #underBase(path: Path): Path {
    this.dependencies.cluster.assertCurrent()
    const at = under(this.principal.base, path)
    refuse(reservedName(at))
    return at
  }

  /** A path of the whole tree, in the backends' spelling, that follows from one that was resolved. */
  place(at: Path): Place {
    const { principal } = this
    return { at, named: at, principal: principal.respelled(principal.base, principal.baseIn(at)) }
  }

  /** `resolve`, `authorize` and `followSymlinks`, in this order. */
  async resolveAndAuthorize(
    action: Action,
    path: Path,
    options: AccessOptions,
    following: Following = {},
  ): Promise<Place> {
    const place = await this.resolve(path, options)
    this.decisions.authorize(action, place.at, options, place.principal)
    return followSymlinks(this, action, place, options, following)
  }

  /**
   * Like `resolveAndAuthorize`, for the facts of an entry (`see`), or for what is derived from its content (`read`). A
   * rule that does not apply to subfolders (`passwordSub`, `readUsersSub`) protects the files of its folder only. The
   * entry of a subfolder may therefore be read by whoever may list that subfolder.
   */
  async resolveAndAuthorizeEntry(
    path: Path,
    options: AccessOptions & StatOptions,
    action: 'see' | 'read' = 'see',
  ): Promise<Place> {
    const place = await this.resolve(path, options)
    const { at, principal } = place
    const following = { last: options.ofSymlink !== true }
    const refusal = this.decisions.refusalOf(action, at, options, principal)
    if (!refusal) return followSymlinks(this, action, place, options, following)
    if (this.decisions.refusalOf('list', at, options, principal)) refuse(refusal)
    if (action === 'read') this.decisions.assertContentGranted(at)
    try {
      const folder = await followSymlinks(this, 'list', place, options, following)
      if ((await this.tree.entry(folder.at, options)).kind === 'folder') return folder
    } catch (error) {
      // Whatever the error is: the response must not reveal whether a file of this name exists.
      if (isGatewayError(error, 'aborted')) throw error
    }
    throw errorOf(refusal)
  }

  /**
   * How a `Change` of one path resolves it: like `resolveAndAuthorize`, with the entry if resolving the path has loaded
   * it. `last`: whether a symlink at the path itself is followed.
   */
  resolving(action: Action, path: Path, options: ChangeOptions, last = followingActions.has(action)) {
    return {
      options,
      resolve: async (): Promise<readonly [Place]> => [
        await this.resolveAndAuthorize(action, path, options, { last, entry: last }),
      ],
      named: (): readonly Path[] | undefined => {
        const place = this.resolveAtOnce(path)
        return place === undefined || this.decisions.refusalOf(action, place.at, options) ? undefined : [place.at]
      },
    }
  }

  /** The principal's own path for a path of the whole tree. Paths outside the base are shown as the base. */
  ownPath(at: Path): Path {
    return within(this.principal.baseIn(at), at) ?? root
  }

  /**
   * The attributes that an entry gets where these are asked for. Mount points, the folders above them and the
   * principal's base keep their mode: another one could lock everybody out. It is ignored and not refused, because
   * clients that copy a folder with its attributes (rsync on sshfs, `put -pr`) set it for the folder that they copy
   * into too.
   */
  async settableAttributes(at: Path, { modified, mode }: Attributes): Promise<Attributes> {
    const realBase = () => this.tree.realPath(this.principal.baseIn(at), { last: true })
    const isFixed = mode !== undefined && (this.decisions.isFixed(at) || at === (await realBase()))
    return { modified, mode: isFixed ? undefined : mode }
  }

  /** Throws `unauthenticated` once the principal's session is revoked. */
  assertNotRevoked(): void {
    if (this.principal.signal.aborted) throw new GatewayError('unauthenticated')
  }

  /** Runs work whose signal aborts when the caller's does, and when the principal's session is revoked. */
  async untilRevoked<Result>(
    { signal }: AccessOptions,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const joined = joinSignals(signal, this.principal.signal)
    try {
      return await work(joined.signal)
    } finally {
      joined.release()
    }
  }

  /** A change that the principal makes. */
  change<Paths extends readonly ResolvedPath[]>(plan: ChangePlan<Paths>): Change<Paths> {
    return new Change(this.dependencies, this, plan)
  }
}
