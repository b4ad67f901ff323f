/**
 * Finds the paths of one principal in the whole tree, and authorizes what is done there: `resolve`, `authorize`, and
 * the symlinks between them (`symlinks.ts`). The decisions are those of `policy/`, with the folder rules and grants in
 * force. The way back, from errors and locks to the principal's own paths, is `redaction.ts`.
 */
import { permissionName, type Principal } from '../accounts/principal.js'
import { joinSignals } from '../base/cancellation.js'
import type { Attributes } from '../contract/capabilities.js'
import type { StatOptions, Awaitable } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { parentOf, root, under, within, type Path } from '../base/path.js'
import { listedRights, type ListedRight } from '../base/rights.js'
import type { MountedTree } from '../mounts/mounted-tree.js'
import type { TreeDependencies } from './dependencies.js'
import { Change, type Authority, type ChangePlan, type ResolvedPath } from './change.js'
import type { Rule } from './folder-rules.js'
import type { GrantedPath } from './grant-trie.js'
import type { AccessOptions, ChangeOptions } from './operation-options.js'
import { explainVerdict, type VerdictExplanation } from './policy/explanation.js'
import * as impossiblePaths from './policy/impossible-paths.js'
import * as names from './policy/names.js'
import type { MemberFilter, SeenNames } from './policy/names.js'
import * as onePath from './policy/one-path.js'
import type { Action, FolderRights, PolicyRefusal, RuledPath, Ruling, Verdict } from './policy/one-path.js'
import * as wholeFolders from './policy/whole-folders.js'
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

/** An entry as the principal sees it. */
export interface SeenEntry extends Entry {
  /** The grants do not let the principal read its content, or that of its target. */
  readonly unreadable?: true
}

export class Access implements Authority {
  readonly tree: MountedTree

  constructor(
    readonly dependencies: TreeDependencies,
    /** The principal, with its base as stored in the account. */
    readonly principal: Principal,
    /** The move item by item that is made: what follows the folder does not refuse it. */
    private readonly mover?: symbol,
  ) {
    this.tree = dependencies.mountedTree
  }

  /** Access of this principal, as it makes a move item by item. */
  asMover(mover: symbol): Access {
    return new Access(this.dependencies, this.principal, mover)
  }

  // Authorization. `resolve…` translates a path of the principal. `authorize…` throws or rejects if rules or
  // permissions do not allow an action. `assert…` checks a condition that does not depend on the action's permission.

  /**
   * Returns the path in the whole tree, in the backends' spelling: at once if no backend has to be asked. Throws
   * `not_found` for names reserved by the core.
   */
  resolve(path: Path, options: AccessOptions): Awaitable<Place> {
    return this.resolveAtOnce(path) ?? this.#resolveByBackend(path, options)
  }

  /** As `resolve`; undefined if a backend has to be asked, or its storage is starting. */
  resolveAtOnce(path: Path): Place | undefined {
    const at = this.#underBase(path)
    return this.dependencies.mounts.isAsNamed(at) ? { at, named: at, principal: this.principal } : undefined
  }

  async #resolveByBackend(path: Path, options: AccessOptions): Promise<Place> {
    const requested = this.#underBase(path)
    await this.dependencies.mounts.whenStarted(requested, options)
    const at = await this.spelled(requested, options)
    return { at, named: at, principal: this.principal.respelled(requested, at) }
  }

  /**
   * The path in the backends' spelling. Grants apply to every spelling, so that no backend is asked for a path that the
   * principal does not see: it is refused.
   */
  async spelled(at: Path, { signal }: AccessOptions): Promise<Path> {
    return this.isSeen(at) ? this.tree.canonicalPath(at, { signal }) : at
  }

  /** As `resolve`, for the target of a move of `source`, a path of the whole tree. */
  async resolveMoveTarget(path: Path, source: Path, options: AccessOptions): Promise<Place> {
    const requested = this.#underBase(path)
    await this.dependencies.mounts.whenStarted(requested, options)
    const isSeen = this.isSeen(requested)
    const at = isSeen ? await this.tree.canonicalTarget(requested, source, { signal: options.signal }) : requested
    return { at, named: at, principal: this.principal.respelled(requested, at) }
  }

  #underBase(path: Path): Path {
    this.dependencies.cluster.assertCurrent()
    const at = under(this.principal.base, path)
    refuse(impossiblePaths.reservedName(at))
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
    this.authorize(action, place.at, options, place.principal)
    return followSymlinks(this, action, place, options, following)
  }

  /**
   * As `resolveAndAuthorize`, for the facts of an entry (`see`), or for what is made of its content (`read`). A rule
   * that does not apply to subfolders (`passwordSub`, `readUsersSub`) protects the files of its folder only. The entry
   * of a subfolder may therefore be read by whoever may list that subfolder.
   */
  async resolveAndAuthorizeEntry(
    path: Path,
    options: AccessOptions & StatOptions,
    action: 'see' | 'read' = 'see',
  ): Promise<Place> {
    const place = await this.resolve(path, options)
    const { at, principal } = place
    const following = { last: options.ofSymlink !== true }
    const refusal = this.refusalOf(action, at, options, principal)
    if (!refusal) return followSymlinks(this, action, place, options, following)
    if (this.refusalOf('list', at, options, principal)) refuse(refusal)
    if (action === 'read') this.assertContentGranted(at)
    try {
      const folder = await followSymlinks(this, 'list', place, options, following)
      if ((await this.tree.entry(folder.at, options)).kind === 'folder') return folder
    } catch (error) {
      // Whatever it is: the answer must not tell whether a file of this name exists.
      if (isGatewayError(error, 'aborted')) throw error
    }
    throw errorOf(refusal)
  }

  /**
   * How a `Change` of one path resolves it: as `resolveAndAuthorize`, with the entry if resolving the path has loaded
   * it. `last`: as in `Following`.
   */
  resolving(action: Action, path: Path, options: ChangeOptions, last = followingActions.has(action)) {
    return {
      options,
      resolve: async (): Promise<readonly [Place]> => [
        await this.resolveAndAuthorize(action, path, options, { last, entry: last }),
      ],
      named: (): readonly Path[] | undefined => {
        const place = this.resolveAtOnce(path)
        return place === undefined || this.refusalOf(action, place.at, options) ? undefined : [place.at]
      },
    }
  }

  /** Authorizes an action at the target of a symlink. `reason`: of the error for a target that is outside the base. */
  authorizeTarget(
    action: Action,
    { at, principal }: Place,
    target: Path,
    realBase: Path,
    options: AccessOptions,
    reason?: string,
  ): void {
    const [from, to] = [this.#ruled(at), this.#ruled(target)]
    const { password } = options
    const decide = (compared?: string) => onePath.judgeTarget(principal, action, from, to, realBase, compared)
    const verdict = password ? this.#counted(onePath.decidingRule(action, to), password, decide) : decide()
    if (verdict === 'outside') throw new GatewayError('denied', { reason })
    this.#enforce(verdict, action, target, options)
  }

  /**
   * Throws the verdict as an error unless the action is allowed at `at` itself, without a look at symlinks. `at` is a
   * path of the whole tree, here and below. `principal`: of the place, if it was resolved.
   */
  authorize(action: Action, at: Path, options: AccessOptions, principal = this.principal): void {
    this.#enforce(this.verdict(action, at, options.password, { principal }), action, at, options)
  }

  /** Rejects if `authorize` rejects for every member of `folder` that no rule hides. */
  authorizeMembers(action: Action, folder: Path, options: AccessOptions): void {
    const verdict = this.#verdictOnMembers(action, folder, options.password, onePath.judgeEveryMember)
    if (verdict !== 'allow') throw new GatewayError(verdict)
  }

  /** Throws as `authorize` by the credential and for what is not seen, before a backend is asked for it. */
  assertSeen(action: Action, { at, principal }: Place, { makesFile }: AccessOptions): void {
    // A signed URL asks no grant, and its path is not the one that its symlinks have led to.
    if (principal.onlyPath !== undefined) return
    const verdict = onePath.judgeSight(principal, action, at, this.#granted(at))
    if (verdict !== undefined) refuse(onePath.refusalOf(verdict, action, () => false, makesFile))
  }

  /** Whether the grants let the principal know that `at` exists. */
  isSeen(at: Path): boolean {
    return names.isSeen(this.principal, at, this.#granted(at))
  }

  /** Rejects with `denied` if the grants do not let the principal read the content at `at`, which it may see. */
  assertContentGranted(at: Path): void {
    refuse(onePath.contentRefusal(this.#granted(at)))
  }

  /** The members of a folder, without what is made of content that the grants do not let the principal read. */
  factsOfMembers(folder: Path, entries: readonly Entry[]): readonly SeenEntry[] {
    const granted = this.#granted(folder)
    if (granted === undefined) return entries
    const facts = entries.map((entry): SeenEntry => {
      const member = granted.child(entry.name)
      if (names.tellsContent(member, entry)) return entry
      return onePath.contentRefusal(member) ? unreadable(entry) : withoutContent(entry)
    })
    // The same list is not serialized again.
    return facts.some((each, index) => each !== entries[index]) ? facts : entries
  }

  /** As `factsOfMembers`, for the entry at `at`. */
  factsOf(at: Path, entry: Entry): SeenEntry {
    const granted = this.#granted(at)
    if (onePath.contentRefusal(granted)) return unreadable(entry)
    return granted && !names.tellsContent(granted, entry) ? withoutContent(entry) : entry
  }

  /** Rejects with `denied` if the grants do not let the principal copy what is at `at`. */
  assertCopyGranted(at: Path): void {
    refuse(wholeFolders.copyRefusal(this.principal, this.#granted(at)))
  }

  /** Rejects with `denied` if a grant below the folder refuses one of these actions on all of it. */
  assertTreeGranted(actions: readonly Action[], folder: Path): void {
    refuse(wholeFolders.treeRefusal(this.principal, actions, this.#granted(folder)))
  }

  /** The paths below the folder that the principal sees and whose content the grants do not let it read. */
  unreadableBelow(folder: Path): readonly Path[] {
    return wholeFolders.unreadableBelow(this.principal, this.#granted(folder))
  }

  /** Rejects with `denied` if the grants do not let the principal have what is at `source` at `target`. */
  assertMayLand(actions: readonly Action[], source: Path, target: Path, isFolder: boolean): void {
    refuse(wholeFolders.landingRefusal(actions, this.#ruled(source), this.#ruled(target), isFolder))
  }

  /** Rejects with `denied` if the principal could read more of a folder at `target`, moved item by item, than here. */
  assertMayMoveByItems(source: Path, target: Path): void {
    refuse(wholeFolders.sheddingRefusal(this.principal, this.#ruled(source), this.#ruled(target)))
  }

  #enforce(verdict: Verdict, action: Action, at: Path, options: AccessOptions): void {
    if (verdict !== 'allow') refuse(this.#refusal(verdict, action, at, options))
    if (action === 'write' || action === 'mkdir') this.assertAllowedName(at)
    if (onePath.creating.has(action)) this.#assertNoTopName(at)
  }

  #refusal(verdict: Verdict, action: Action, at: Path, options: AccessOptions): PolicyRefusal | undefined {
    const { password, makesFile } = options
    const isParentHidden = () => this.verdict('read', parentOf(at), password) === 'hidden'
    return onePath.refusalOf(verdict, action, isParentHidden, makesFile)
  }

  /** Why an action is not allowed at `at`; undefined if it is. */
  refusalOf(action: Action, at: Path, options: AccessOptions, principal = this.principal): PolicyRefusal | undefined {
    return this.#refusal(this.verdict(action, at, options.password, { principal }), action, at, options)
  }

  /** Rejects with `denied` for the name of a system file if the setting `ignore_system_files` is on. */
  assertAllowedName(at: Path): void {
    const refusal = impossiblePaths.systemFile(at)
    if (refusal && this.dependencies.settings.bool('ignore_system_files')) refuse(refusal)
  }

  #assertNoTopName(at: Path): void {
    const { isBaseFolder } = this.dependencies
    refuse(
      impossiblePaths.topName(
        at,
        (folder) => folder === root || folder === this.principal.base || isBaseFolder(folder),
      ),
    )
  }

  /** Rejects with `denied` for mount points, the folders above them, and the principal's base. */
  assertMovable(at: Path, detail: 'mount_moved' | 'mount_removed'): void {
    refuse(wholeFolders.fixedFolder(this.#isFixed(at), detail))
  }

  /** Rejects if `source` cannot take the place of `target`. `isFolder`: the source is a folder. */
  assertReplaceable(source: Path, target: Path, isFolder: boolean): void {
    refuse(wholeFolders.replacement(source, target, isFolder, this.dependencies.mounts.isMountFolder(target)))
  }

  /** The principal's own path for a path of the whole tree. Paths outside the base are shown as the base. */
  ownPath(at: Path): Path {
    return within(this.principal.baseIn(at), at) ?? root
  }

  /** The path in the principal's own tree. Rejects with `denied` if it is outside of that. */
  ownPathWithin(at: Path, { base }: Principal): Path {
    refuse(impossiblePaths.outsideBase(base, at))
    return within(base, at) ?? root
  }

  /** Rejects with `denied` for the text of a relative symlink that has `..` after a name. */
  assertRelativeTarget(text: string): void {
    refuse(impossiblePaths.relativeTarget(text))
  }

  /** Rejects with `denied` if a symlink in the storage mounted at `mountPoint` would lead out of it. */
  assertTargetWithin(mountPoint: Path, leadsTo: Path): void {
    refuse(impossiblePaths.symlinkTarget(mountPoint, leadsTo))
  }

  /** Rejects with `denied` if a move of the folder would show the principal names that are hidden now. */
  assertStaysHidden(source: Path, target: Path): void {
    refuse(wholeFolders.revealedBy(this.principal, this.#ruled(source), this.#ruled(target)))
  }

  /**
   * Rejects if `authorize` rejects for a member of `folder`, which is below that of the request, that no rule hides and
   * that has no grants of its own.
   */
  authorizeMembersBelow(action: Action, folder: Path, options: AccessOptions): void {
    refuse(onePath.refusalBelow(this.#verdictOnMembers(action, folder, options.password)))
  }

  /** Rejects with `denied` if listings omit this path, which is below that of the request. */
  assertShownBelow(at: Path): void {
    if (this.isOmitted(at)) refuse(onePath.refusalBelow('denied'))
  }

  #isFixed(at: Path): boolean {
    return at === this.principal.baseIn(at) || this.dependencies.mounts.isMountFolder(at)
  }

  /**
   * The attributes that an entry gets where these are asked for. Mount points, the folders above them and the
   * principal's base keep their mode: another one could lock everybody out. It is ignored and not refused, because
   * clients that copy a folder with its attributes (rsync on sshfs, `put -pr`) set it for the folder that they copy
   * into too.
   */
  async settableAttributes(at: Path, { modified, mode }: Attributes): Promise<Attributes> {
    const isFixed = mode !== undefined && (this.#isFixed(at) || at === (await this.#realBase(at)))
    return { modified, mode: isFixed ? undefined : mode }
  }

  #realBase(at: Path): Promise<Path> {
    return this.tree.realPath(this.principal.baseIn(at), { last: true })
  }

  /** Authorizes searching in general, by the credential alone. `VisibleNames` authorizes each result. */
  authorizeSearch(): void {
    const ruling = { atPath: undefined, atParent: undefined }
    const verdict = this.verdict('list', this.principal.base, undefined, { ruling })
    if (verdict !== 'allow') throw new GatewayError(verdict)
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

  // Decisions of `policy/`, with the folder rules and grants in force. No other file calls it.

  /** What refuses an action at `at`, for admins: a grant, a folder rule, a permission. Undefined if nothing does. */
  refusedBy(action: Action, at: Path): string | undefined {
    const { verdict, decidedBy } = explainVerdict(this.principal, action, at, this.#ruled(at))
    if (verdict === 'allow') return undefined
    const { step, grants, rule, permissions } = decidedBy
    if (grants.length > 0) {
      const { nameOfSubject } = this.dependencies
      return grants.map((grant) => `the grant of ${nameOfSubject(grant)} at ${grant.path}`).join(', ')
    }
    if (rule !== undefined) return `the folder rule at ${rule.path}`
    return permissions.length > 0 ? `the permission ${permissions.map(permissionName).join(', ')}` : step
  }

  /**
   * Decides on an action at `at`. `password`: the folder password of the request. Throws `throttled` if the client has
   * sent too many wrong ones and sends one. `principal`: of the place, if it was resolved. `ruling`: used instead of
   * the rules that apply to `at`, for example for a member that does not exist yet.
   */
  verdict(
    action: Action,
    at: Path,
    password?: string,
    given: { readonly principal?: Principal; readonly ruling?: Ruling } = {},
  ): Verdict {
    const { principal = this.principal, ruling = this.#ruled(at) } = given
    if (!password) return onePath.judge(principal, action, at, ruling)
    const decide = (compared?: string) => onePath.judge(principal, action, at, ruling, compared)
    return this.#counted(onePath.decidingRule(action, ruling), password, decide)
  }

  /** Decides on an action on those members of a folder that no rule hides. Throws as `verdict`. */
  #verdictOnMembers(
    action: Action,
    folder: Path,
    password: string | undefined,
    judge: typeof onePath.judgeOtherMembers = onePath.judgeOtherMembers,
  ): Verdict {
    const rule = this.dependencies.rules.nearest(folder)
    const granted = this.#granted(folder)
    const decide = (compared?: string) => judge(this.principal, action, folder, rule, compared, granted)
    return password ? this.#counted(rule, password, decide) : decide()
  }

  /** The decision with this password, which is compared and counted only if the decision depends on it. */
  #counted<Decision extends Verdict | 'outside'>(
    rule: Rule | undefined,
    password: string,
    decide: (compared?: string) => Decision,
  ): Decision {
    const without = decide()
    if (without !== 'password_required' || !rule) return without
    const { rules } = this.dependencies
    rules.guesses.assertNotLocked(rule, this.principal)
    const decision = decide(password)
    // The password of another folder is no guess: clients send the last one, wherever they go.
    if (decision === 'password_required' && !rules.hasPassword(password)) {
      rules.guesses.countWrong(rule, this.principal, password)
    }
    return decision
  }

  /** All on which a decision at a path depends, besides the principal. */
  #ruled(path: Path): RuledPath {
    return ruledPath(this.dependencies, this.principal, path, this.mover)
  }

  #granted(path: Path): GrantedPath | undefined {
    return grantedPath(this.dependencies, this.principal, path, this.mover)
  }

  folderRights(folder: Path): FolderRights {
    const rule = this.dependencies.rules.nearest(folder)
    return onePath.folderRights(this.principal, folder, rule, this.#granted(folder))
  }

  /** What the principal may do with those entries of the folder that have no grants of their own. */
  rightsInFolder(folder: Path, password: string | undefined): readonly ListedRight[] {
    return listedRights.filter((action) => this.#verdictOnMembers(action, folder, password) === 'allow')
  }

  /** Whether the principal may make something in the folder. */
  mayFill(folder: Path): boolean {
    return this.#verdictOnMembers('mkdir', folder, undefined) === 'allow'
  }

  /** Whether the principal may read the whole tree, so that no target of a symlink needs a decision on reads. */
  get readsAll(): boolean {
    return wholeFolders.readsAll(this.principal, root, this.isRestricted)
  }

  /** Whether the tree has folder rules, or grants apply to the principal, or to the targets of a signed URL. */
  get isRestricted(): boolean {
    const { rules, grants } = this.dependencies
    return !rules.isEmpty || this.hasGrants || (this.principal.onlyPath !== undefined && !grants.isEmpty)
  }

  /** Whether grants apply to the principal. */
  get hasGrants(): boolean {
    return this.#granted(root) !== undefined
  }

  movesAnySymlink(mountPoint: Path): boolean {
    const { base } = this.principal
    const principal = this.principal.respelled(base, this.principal.baseIn(mountPoint))
    return wholeFolders.movesAnySymlink(principal, mountPoint, this.isRestricted)
  }

  get seesMountUsages(): boolean {
    return names.seesMountUsages(this.principal)
  }

  memberFilter(folder: Path): MemberFilter {
    return this.#memberFilter(folder, this.dependencies.rules.nearest(folder), this.#granted(folder))
  }

  #memberFilter(folder: Path, rule: Rule | undefined, granted: GrantedPath | undefined): MemberFilter {
    const { rules } = this.dependencies
    const ruleOf = rules.below(folder).length > 0 ? (member: Path) => rules.ruleOf(member) : undefined
    return names.memberFilter(this.principal, folder, rule, ruleOf, granted)
  }

  /** Whether the principal may list the folder, and which members a listing shows. Throws as `verdict`. */
  listed(folder: Path, password: string | undefined): { readonly verdict: Verdict; readonly members: MemberFilter } {
    const ruling = this.#ruled(folder)
    const verdict = this.verdict('list', folder, password, { ruling })
    return { verdict, members: this.#memberFilter(folder, ruling.atPath, ruling.granted) }
  }

  /** Whether listings of the parent folder omit `at`. */
  isOmitted(at: Path): boolean {
    const { rules } = this.dependencies
    return names.isOmitted(this.principal, at, rules.nearest(parentOf(at)), rules.ruleOf(at), this.#granted(at))
  }

  /** What the grants show the principal of the names below `top`; undefined for more than `maxPaths` paths. */
  seenNames(top: Path, maxPaths: number): SeenNames | undefined {
    return names.seenNames(this.#granted(top), maxPaths)
  }

  /** Whether a rule can hide names from the principal at any depth below `top`. */
  hidesNames(top: Path): boolean {
    const { rules } = this.dependencies
    return [rules.nearest(top), ...rules.below(top)].some((rule) => names.hidesNames(this.principal, rule))
  }
}

/**
 * The entry as a principal is told of it that must not read its content. Backends make revisions of digests of the
 * content: the entity tag is then made of the time and the size.
 */
export function unreadable(entry: Entry): SeenEntry {
  const { revision: _revision, ...facts } = withoutContent(entry)
  return { ...facts, unreadable: true }
}

function withoutContent({ hashes: _hashes, thumbnailUrl: _thumbnailUrl, ...facts }: Entry): Entry {
  return facts
}

/** Throws the refusal as an error, if there is one. */
export function refuse(refusal: PolicyRefusal | undefined): void {
  if (refusal) throw errorOf(refusal)
}

function errorOf({ code, detail, reason }: PolicyRefusal): GatewayError {
  return new GatewayError(code, { detail, reason })
}

function ruledPath(dependencies: PolicyTables, principal: Principal, path: Path, mover?: symbol): RuledPath {
  const { rules, grants } = dependencies
  return {
    path,
    atPath: rules.nearest(path),
    atParent: rules.nearest(parentOf(path)),
    granted: grantedPath(dependencies, principal, path, mover),
    deniedToSome: principal.onlyPath !== undefined && grants.deniesReading(path),
  }
}

function grantedPath(
  { grants }: PolicyTables,
  principal: Principal,
  path: Path,
  mover: symbol | undefined,
): GrantedPath | undefined {
  return onePath.isSubjectToGrants(principal) ? grants.at(principal, path, mover) : undefined
}

/** What decisions depend on, besides the principal. */
export type PolicyTables = Pick<TreeDependencies, 'rules' | 'grants'>

/** A decision with its reasons. */
export interface ExplainedAccess extends VerdictExplanation {
  /** What the principal is answered; undefined if it is allowed. */
  readonly refusal: PolicyRefusal | undefined
  /** Whether grants apply to the principal. */
  readonly isSubjectToGrants: boolean
  /** Where a grant below refuses the action on a whole folder at the path. */
  readonly refusedPathBelow: Path | undefined
  /** Whether a folder at the path may be listed. */
  readonly mayList: boolean
}

/**
 * Why the principal may or may not do something at `at`, a path of the whole tree in the backends' spelling. Asks no
 * backend: the path is asked by its name, without a folder password, and a folder as a file is.
 */
export function explainAccess(
  dependencies: PolicyTables,
  principal: Principal,
  action: Action,
  at: Path,
): ExplainedAccess {
  const ruled = ruledPath(dependencies, principal, at)
  const verdictOn = (asked: Action, path: Path) =>
    onePath.judge(principal, asked, path, ruledPath(dependencies, principal, path))
  const explanation = explainVerdict(principal, action, at, ruled)
  const isParentHidden = () => verdictOn('read', parentOf(at)) === 'hidden'
  return {
    ...explanation,
    // What is outside the base folder cannot even be named, so that no parent is missing.
    refusal: onePath.refusalOf(explanation.verdict, action, isParentHidden, explanation.decidedBy.cause !== 'base'),
    isSubjectToGrants: onePath.isSubjectToGrants(principal),
    refusedPathBelow: wholeFolders.refusedAt(principal, [action], ruled.granted),
    mayList: verdictOn('list', at) === 'allow',
  }
}

/** Whether URLs of `at` must be signed because of a storage option, a folder rule or a grant. */
export function needsSignature(
  { rules, grants, mounts }: Pick<TreeDependencies, 'rules' | 'grants' | 'mounts'>,
  at: Path,
): boolean {
  return (
    mounts.rowOf(at)?.enableSign === true || onePath.isRestricted(at, rules.nearest(at)) || grants.deniesReading(at)
  )
}
