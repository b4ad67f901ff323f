/** Asks `policy/` for decisions about one principal. No other file calls `policy/`. */
import type { Principal } from '../accounts/principal.js'
import { GatewayError, type ErrorCode } from '../base/errors.js'
import { childOf, parentOf, root, type Path } from '../base/path.js'
import { listedRights, type ListedRight } from '../base/rights.js'
import type { Entry } from '../contract/entry.js'
import type { TreeDependencies } from './dependencies.js'
import type { Rule } from './folder-rules.js'
import type { GrantedPath } from './grant-trie.js'
import { systemFile, topName } from './impossible-paths.js'
import type { AccessOptions } from './operation-options.js'
import type { MoveId } from './path-mirror.js'
import { explainVerdict, type JudgedStep, type VerdictExplanation } from './policy/explanation.js'
import * as names from './policy/names.js'
import type { MemberFilter, SeenNames } from './policy/names.js'
import * as onePath from './policy/one-path.js'
import type { Action, FolderRights, PolicyRefusal, RuledPath, Ruling, Verdict } from './policy/one-path.js'
import * as wholeFolders from './policy/whole-folders.js'
import { unreadable, withoutContent, type SeenEntry } from './seen-entry.js'

/** The tables that decisions depend on, besides the principal. */
export type PolicyTables = Pick<TreeDependencies, 'rules' | 'grants'>

/** A principal whose base is in the spelling of a path. */
interface PrincipalAt {
  readonly at: Path
  readonly principal: Principal
}

type DecisionDependencies = PolicyTables & Pick<TreeDependencies, 'mounts' | 'settings' | 'isBaseFolder'>

/** The decisions for one principal, by the folder rules and the grants in force. */
export class Decisions {
  constructor(
    private readonly dependencies: DecisionDependencies,
    private readonly principal: Principal,
    /** The move item by item for which is decided: what it brings along does not refuse it (see `MoveId`). */
    private readonly moveId?: MoveId,
  ) {}

  // `authorize…` throws if the folder rules, the grants or the permissions do not allow an action. `assert…` checks a
  // condition that does not depend on the permission for the action. Paths are of the whole tree.

  /**
   * Throws the verdict as an error unless the action is allowed at `at` itself, without a look at symlinks. `at` is a
   * path of the whole tree, here and below. `principal`: of the place, if it was resolved.
   */
  authorize(action: Action, at: Path, options: AccessOptions, principal = this.principal): void {
    this.#enforce(this.verdict(action, at, options.password, { principal }), action, at, options)
  }

  /** Returns the refusal of an action at `at`; undefined if it is allowed. */
  refusalOf(action: Action, at: Path, options: AccessOptions, principal = this.principal): PolicyRefusal | undefined {
    return this.#refusal(this.verdict(action, at, options.password, { principal }), action, at, options)
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

  /** The step that refuses an action at `at` with this error, without a folder password. Undefined if none does. */
  refusedBy(action: Action, at: Path, code: ErrorCode): JudgedStep | undefined {
    const { verdict, decidedBy } = explainVerdict(this.principal, action, at, this.#ruled(at))
    return this.#refusal(verdict, action, at, {})?.code === code ? decidedBy : undefined
  }

  /** Throws as `authorize` by the credential and for what is not seen, before a backend is asked for it. */
  assertSeen(action: Action, { at, principal }: PrincipalAt, { makesFile }: AccessOptions): void {
    // A signed URL asks no grant, and its path is not the one that its symlinks have led to.
    if (principal.onlyPath !== undefined) return
    const verdict = onePath.judgeSight(principal, action, at, this.#granted(at))
    if (verdict !== undefined) refuse(onePath.refusalOf(verdict, action, () => false, makesFile))
  }

  /** Whether the grants let the principal know that `at` exists. */
  isSeen(at: Path): boolean {
    return names.isSeen(this.principal, at, this.#granted(at))
  }

  /** Throws with `denied` if the grants do not let the principal read the content at `at`, which it may see. */
  assertContentGranted(at: Path): void {
    refuse(onePath.contentRefusal(this.#granted(at)))
  }

  /** Authorizes an action at the target of a symlink. `reason`: of the error for a target that is outside the base. */
  authorizeTarget(
    action: Action,
    { at, principal }: PrincipalAt,
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

  /** Authorizes searching in general, by the credential alone. `VisibleNames` authorizes each result. */
  authorizeSearch(): void {
    const ruling = { atPath: undefined, atParent: undefined }
    const verdict = this.verdict('list', this.principal.base, undefined, { ruling })
    if (verdict !== 'allow') throw new GatewayError(verdict)
  }

  /** Throws with `denied` for the name of a system file if the setting `ignore_system_files` is on. */
  assertAllowedName(at: Path): void {
    const refusal = systemFile(at)
    if (refusal && this.dependencies.settings.bool('ignore_system_files')) refuse(refusal)
  }

  // The members of a folder

  /** Throws if `authorize` throws for every member of `folder` that no rule hides. */
  authorizeMembers(action: Action, folder: Path, options: AccessOptions): void {
    const verdict = this.#verdictOnMembers(action, folder, options.password, onePath.judgeEveryMember)
    if (verdict !== 'allow') throw new GatewayError(verdict)
  }

  /**
   * Throws if `authorize` throws for a member of `folder`, which is below that of the request, that no rule hides and
   * that has no grants of its own.
   */
  authorizeMembersBelow(action: Action, folder: Path, options: AccessOptions): void {
    refuse(onePath.refusalBelow(this.#verdictOnMembers(action, folder, options.password)))
  }

  /** Throws with `denied` if listings omit this path, which is below that of the request. */
  assertShownBelow(at: Path): void {
    if (this.isOmitted(at)) refuse(onePath.refusalBelow('denied'))
  }

  /** Whether listings of the parent folder omit `at`. */
  isOmitted(at: Path): boolean {
    const { rules } = this.dependencies
    return names.isOmitted(this.principal, at, rules.nearest(parentOf(at)), rules.ruleOf(at), this.#granted(at))
  }

  memberFilter(folder: Path): MemberFilter {
    return this.#memberFilter(folder, this.dependencies.rules.nearest(folder), this.#granted(folder))
  }

  /** Whether the principal may list the folder, and which members a listing shows. Throws as `verdict`. */
  listed(folder: Path, password: string | undefined): { readonly verdict: Verdict; readonly members: MemberFilter } {
    const ruling = this.#ruled(folder)
    const verdict = this.verdict('list', folder, password, { ruling })
    return { verdict, members: this.#memberFilter(folder, ruling.atPath, ruling.granted) }
  }

  /** Returns the names below `top` that the grants let the principal see; undefined for more than `maxPaths` paths. */
  seenNames(top: Path, maxPaths: number): SeenNames | undefined {
    return names.seenNames(this.#granted(top), maxPaths)
  }

  /** Whether a rule can hide names from the principal at any depth below `top`. */
  hidesNames(top: Path): boolean {
    const { rules } = this.dependencies
    return [rules.nearest(top), ...rules.below(top)].some((rule) => names.hidesNames(this.principal, rule))
  }

  folderRights(folder: Path): FolderRights {
    const rule = this.dependencies.rules.nearest(folder)
    return onePath.folderRights(this.principal, folder, rule, this.#granted(folder))
  }

  /** Returns the rights of the principal for those entries of the folder that have no grants of their own. */
  rightsInFolder(folder: Path, password: string | undefined): readonly ListedRight[] {
    return listedRights.filter((action) => this.#verdictOnMembers(action, folder, password) === 'allow')
  }

  /** Whether the principal may make something in the folder. */
  mayFill(folder: Path): boolean {
    return this.#verdictOnMembers('mkdir', folder, undefined) === 'allow'
  }

  // What an operation does with a whole folder

  /** Whether `at` is a mount point, a folder above one that the principal sees, or the principal's base. */
  isFixed(at: Path): boolean {
    return at === this.principal.baseIn(at) || this.#isMountFolder(at)
  }

  /**
   * Whether the path is a mount point, or leads to one that the principal sees. Mount points below that it does not see
   * do not count: the grants refuse them, and the error must not reveal them.
   */
  #isMountFolder(at: Path): boolean {
    const { mounts } = this.dependencies
    if (mounts.isMountPoint(at)) return true
    const members = mounts.foldersIn(at).map(({ name }) => childOf(at, name))
    return members.some((member) => this.isSeen(member) && this.#isMountFolder(member))
  }

  /** Throws with `denied` for mount points, the folders above them, and the principal's base. */
  assertMovable(at: Path, detail: 'mount_moved' | 'mount_removed'): void {
    refuse(wholeFolders.fixedFolderRefusal(this.isFixed(at), detail))
  }

  /** Throws if `source` cannot take the place of `target`. `isFolder`: the source is a folder. */
  assertReplaceable(source: Path, target: Path, isFolder: boolean): void {
    refuse(wholeFolders.replacementRefusal(source, target, isFolder, this.#isMountFolder(target)))
  }

  /** Throws with `denied` if a move of the folder would show the principal names that are hidden now. */
  assertStaysHidden(source: Path, target: Path): void {
    refuse(wholeFolders.revealingRefusal(this.principal, this.#ruled(source), this.#ruled(target)))
  }

  /** Throws with `denied` if the grants do not let the principal have what is at `source` at `target`. */
  assertMayLand(actions: readonly Action[], source: Path, target: Path, isFolder: boolean): void {
    refuse(wholeFolders.readableByMoveRefusal(actions, this.#ruled(source), this.#ruled(target), isFolder))
  }

  /** Throws with `denied` if the principal could read more of a folder at `target`, moved item by item, than here. */
  assertMayMoveByItems(source: Path, target: Path): void {
    refuse(wholeFolders.readableByItemsRefusal(this.principal, this.#ruled(source), this.#ruled(target)))
  }

  /** Throws with `denied` if the grants do not let the principal copy what is at `at`. */
  assertCopyGranted(at: Path): void {
    refuse(wholeFolders.copyRefusal(this.principal, this.#granted(at)))
  }

  /** Throws with `denied` if a grant below the folder refuses one of these actions on all of it. */
  assertTreeGranted(actions: readonly Action[], folder: Path): void {
    refuse(wholeFolders.treeRefusal(this.principal, actions, this.#granted(folder)))
  }

  /** The paths below the folder that the principal sees and whose content the grants do not let it read. */
  unreadableBelow(folder: Path): readonly Path[] {
    return wholeFolders.unreadableBelow(this.principal, this.#granted(folder))
  }

  /** Whether a folder may be moved, in the storage with this mount point, without a decision on the symlinks in it. */
  movesAnySymlink({ at: mountPoint, principal }: PrincipalAt): boolean {
    return wholeFolders.movesAnySymlink(principal, mountPoint, this.isRestricted)
  }

  // What the principal sees of entries

  /** The entry at `at`, without what is derived from content that the grants hide. */
  factsOf(at: Path, entry: Entry): SeenEntry {
    const granted = this.#granted(at)
    if (onePath.contentRefusal(granted)) return unreadable(entry)
    return granted && !names.showsDerived(granted, entry) ? withoutContent(entry) : entry
  }

  /** Returns the facts of the members of a folder, as `factsOf` does. */
  factsOfMembers(folder: Path, entries: readonly Entry[]): readonly SeenEntry[] {
    const granted = this.#granted(folder)
    if (granted === undefined) return entries
    const { withGrants } = granted
    const showsOthers = names.grantsContent(granted.rest)
    const facts = entries.map((entry): SeenEntry => {
      if (showsOthers && entry.isSymlink !== true && !withGrants.has(entry.name)) return entry
      const member = granted.child(entry.name)
      if (names.showsDerived(member, entry)) return entry
      return onePath.contentRefusal(member) ? unreadable(entry) : withoutContent(entry)
    })
    // The same list is not serialized again.
    return facts.some((each, index) => each !== entries[index]) ? facts : entries
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

  get seesMountUsages(): boolean {
    return names.seesMountUsages(this.principal)
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

  #assertNoTopName(at: Path): void {
    const { isBaseFolder } = this.dependencies
    refuse(topName(at, (folder) => folder === root || folder === this.principal.base || isBaseFolder(folder)))
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

  #memberFilter(folder: Path, rule: Rule | undefined, granted: GrantedPath | undefined): MemberFilter {
    const { rules } = this.dependencies
    const ruleOf = rules.below(folder).length > 0 ? (member: Path) => rules.ruleOf(member) : undefined
    return names.memberFilter(this.principal, folder, rule, ruleOf, granted)
  }

  /** All on which a decision at a path depends, besides the principal. */
  #ruled(path: Path): RuledPath {
    return ruledPath(this.dependencies, this.principal, path, this.moveId)
  }

  #granted(path: Path): GrantedPath | undefined {
    return grantedPath(this.dependencies, this.principal, path, this.moveId)
  }
}

/** Throws the refusal as an error, if there is one. */
export function refuse(refusal: PolicyRefusal | undefined): void {
  if (refusal) throw errorOf(refusal)
}

/** The error of a refusal. */
export function errorOf({ code, detail, reason }: PolicyRefusal): GatewayError {
  return new GatewayError(code, { detail, reason })
}

function ruledPath(dependencies: PolicyTables, principal: Principal, path: Path, moveId?: MoveId): RuledPath {
  const { rules, grants } = dependencies
  return {
    path,
    atPath: rules.nearest(path),
    atParent: rules.nearest(parentOf(path)),
    granted: grantedPath(dependencies, principal, path, moveId),
    deniedToSome: principal.onlyPath !== undefined && grants.deniesReading(path),
  }
}

function grantedPath(
  { grants }: PolicyTables,
  principal: Principal,
  path: Path,
  moveId: MoveId | undefined,
): GrantedPath | undefined {
  return onePath.isSubjectToGrants(principal) ? grants.at(principal, path, moveId) : undefined
}

/** A decision with its reasons. */
export interface ExplainedAccess extends VerdictExplanation {
  /** The refusal that the principal gets; undefined if the action is allowed. */
  readonly refusal: PolicyRefusal | undefined
  /** Whether grants apply to the principal. */
  readonly isSubjectToGrants: boolean
  /** The path below at which a grant refuses the action on a whole folder; undefined if none does. */
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
    // A path outside the base folder cannot be named at all, so no parent is reported as missing.
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
