/**
 * All decisions on what a principal may do with a path, and on what it sees: pure functions of the principal, the path
 * and the folder rules. Paths are of the whole tree. Called only by `Access`, which looks up the rules.
 */
import type { Permission, Principal } from '../accounts/principal.js'
import type { ErrorCode, ErrorDetail } from '../base/errors.js'
import { childOf, isWithin, nameOf, parentOf, reservedPrefix, segmentsOf, within, type Path } from '../base/path.js'
import { maxSteps, stepsOf } from '../base/patterns.js'
import { covers, type Rule } from './folder-rules.js'

/**
 * What an operation does to a path. `list` lists a folder, `read` returns an entry or reads its content. For all
 * changes, the rule of the folder that contains the path decides.
 */
export type Action =
  | 'list'
  | 'read'
  | 'refresh'
  | 'write'
  | 'mkdir'
  | 'rename'
  | 'move'
  | 'receive' // be the target of a move or a copy
  | 'copy'
  | 'remove'
  | 'attributes'
  | 'lock'
  | 'properties'

/** The folder rules that apply to one path. */
export interface Ruling {
  /** The rule that applies to the path itself. */
  readonly own: Rule | undefined
  /** The rule that applies to the parent folder. */
  readonly folder: Rule | undefined
}

/** A path with the rules that apply to it. */
export interface RuledPath extends Ruling {
  readonly path: Path
}

/** Why something is refused: the code of the error, and what it says besides. */
export interface PolicyRefusal {
  readonly code: ErrorCode
  readonly detail?: ErrorDetail | undefined
  readonly reason?: string | undefined
}

export type Verdict = 'allow' | Extract<ErrorCode, 'denied' | 'hidden' | 'password_required' | 'unauthenticated'>

/** The permission that each action requires. `content`: the write permission, or a rule that lets every user write. */
const requirements: Readonly<Record<Exclude<Action, 'list' | 'read'>, Permission | 'content' | 'nothing'>> = {
  refresh: 'content',
  write: 'content',
  mkdir: 'content',
  rename: 'rename',
  move: 'move',
  receive: 'nothing',
  copy: 'copy',
  remove: 'remove',
  attributes: 'content',
  lock: 'content',
  properties: 'content',
}

/** Actions that read a source and change nothing there. */
const reading: ReadonlySet<Action> = new Set<Action>(['list', 'read', 'refresh', 'copy'])

/**
 * Decides on one action. Checks in this order: revocation, the path of a signed URL, protocol permissions, hidden
 * names, `readUsers`, folder password, then the permission for the change.
 */
export function judge(principal: Principal, action: Action, path: Path, rules: Ruling, password?: string): Verdict {
  const verdict = judgeCredential(principal, action, path)
  if (verdict !== undefined) return verdict
  return isHidden(principal, path, rules.folder) ? 'hidden' : judgeVisible(principal, action, path, rules, password)
}

/** As `judge`, for whichever members of `folder` no rule hides. `rule`: the one that applies to the folder. */
export function judgeMembers(
  principal: Principal,
  action: Action,
  folder: Path,
  rule: Rule | undefined,
  password?: string,
): Verdict {
  const member = childOf(folder, 'any')
  const ruling = { own: rule, folder: rule }
  return judgeCredential(principal, action, member) ?? judgeVisible(principal, action, member, ruling, password)
}

/** The verdict that follows from how the principal was authenticated; undefined if the rules decide. */
function judgeCredential(principal: Principal, action: Action, path: Path): Verdict | undefined {
  if (principal.signal.aborted) return 'unauthenticated'
  if (principal.onlyPath !== undefined) {
    return action === 'read' && principal.onlyPath === path ? 'allow' : 'denied'
  }
  return mayUseProtocol(principal, action) ? undefined : 'denied'
}

/** Actions that report a missing parent folder. */
const creating: ReadonlySet<Action> = new Set<Action>(['write', 'mkdir', 'receive', 'lock'])

/**
 * What a verdict says to the client; undefined for 'allow'. `isParentHidden`: whether reading the parent folder of the
 * path is 'hidden'.
 */
export function refusalOf(verdict: Verdict, action: Action, isParentHidden: () => boolean): PolicyRefusal | undefined {
  if (verdict === 'allow') return undefined
  if (verdict === 'denied' && action === 'refresh') return { code: verdict, detail: 'refresh_denied' }
  const tellsOfParent = verdict === 'hidden' && creating.has(action) && isParentHidden()
  return { code: verdict, detail: tellsOfParent ? 'parent_hidden' : undefined }
}

/** What a verdict on a path below that of the request says to the client. Undefined for 'allow'. */
export function refusalBelow(verdict: Verdict): PolicyRefusal | undefined {
  return verdict === 'allow' ? undefined : { code: verdict, reason: 'permission denied below this folder' }
}

/**
 * The rule that decides who may do the action, and which password it requires: that of the parent folder for changes,
 * the path's own for listing, reading and refreshing.
 */
export function decidingRule(action: Action, rules: Ruling): Rule | undefined {
  return isChange(action) ? rules.folder : rules.own
}

function isChange(action: Action): boolean {
  return action !== 'list' && action !== 'read' && action !== 'refresh'
}

function judgeVisible(
  principal: Principal,
  action: Action,
  path: Path,
  rules: Ruling,
  password: string | undefined,
): Verdict {
  const [rule, at] = isChange(action) ? [rules.folder, parentOf(path)] : [rules.own, path]
  if (rule) {
    if (excludes(rule.readUsers, principal) && (covers(rule, rule.readUsersSub, at) || isMember(rule, action, path))) {
      return 'hidden'
    }
    const isProtected = covers(rule, rule.passwordSub, at) || isMember(rule, action, path)
    if (
      rule.password !== '' &&
      isProtected &&
      !principal.hasPermission('skipPasswords') &&
      password !== rule.password
    ) {
      return 'password_required'
    }
  }
  if (action === 'list' || action === 'read') return 'allow'
  return mayChange(principal, action, rules, path)
}

/** Whether the principal's protocol and credentials allow the action at all. */
function mayUseProtocol(principal: Principal, action: Action): boolean {
  if (principal.readOnly && !reading.has(action)) return false
  if (!principal.mayUseProtocol || action === 'list' || action === 'read') return principal.mayUseProtocol
  const { permissions } = principal.protocol
  return permissions === undefined || principal.hasPermission(permissions.manage)
}

function mayChange(principal: Principal, action: Exclude<Action, 'list' | 'read'>, rules: Ruling, path: Path): Verdict {
  const folder = action === 'refresh' ? path : parentOf(path)
  const rule = action === 'refresh' ? rules.own : rules.folder
  // A copy does not change its source: only read access is required there.
  if (action !== 'copy' && excludesWriter(principal, rule, folder)) return 'denied'
  const required = requirements[action]
  if (required === 'nothing') return 'allow'
  if (required === 'content' && letsEveryoneWrite(rule, folder)) return 'allow'
  return principal.hasPermission(required === 'content' ? 'write' : required) ? 'allow' : 'denied'
}

/** Whether the rule that applies to `folder` names others as the only users who may change something there. */
function excludesWriter(principal: Principal, rule: Rule | undefined, folder: Path): boolean {
  return rule !== undefined && excludes(rule.writeUsers, principal) && covers(rule, rule.writeUsersSub, folder)
}

/** Whether the rule that applies to `folder` lets every user write content there. */
function letsEveryoneWrite(rule: Rule | undefined, folder: Path): boolean {
  return rule !== undefined && rule.write && covers(rule, rule.writeSub, folder)
}

/** What listings tell of the principal's rights in a folder. */
export interface FolderRights {
  /** The principal may change something here. */
  readonly write: boolean
  /** A folder rule lets every user write here. */
  readonly writeByRule: boolean
}

/** `rule`: the rule that applies to `folder`. */
export function folderRights(principal: Principal, folder: Path, rule: Rule | undefined): FolderRights {
  const writeByRule = letsEveryoneWrite(rule, folder)
  const mayWrite = writeByRule || writePermissions.some((permission) => principal.hasPermission(permission))
  return { writeByRule, write: mayWrite && !excludesWriter(principal, rule, folder) }
}

const writePermissions = ['write', 'rename', 'move', 'copy', 'remove'] as const

/**
 * Decides on an action at the target of a symlink. The action is allowed at `symlink` itself. `realBase`: the
 * principal's base with its symlinks resolved. 'outside': the target is not below the base.
 */
export function judgeTarget(
  principal: Principal,
  action: Action,
  symlink: RuledPath,
  target: RuledPath,
  realBase: Path,
  password?: string,
): Verdict | 'outside' {
  if (principal.onlyPath !== undefined) {
    const verdict = judge(principal, action, symlink.path, symlink)
    return verdict === 'allow' && !isOpenTarget(principal, symlink, target) ? 'denied' : verdict
  }
  if (!isWithin(principal.base, target.path) && !isWithin(realBase, target.path)) return 'outside'
  return judge(principal, action, target.path, target, password)
}

/**
 * Whether the signature of a symlink's path permits reading its target. A target that a different rule restricts
 * needs a signature for its own path.
 */
function isOpenTarget(principal: Principal, symlink: RuledPath, target: RuledPath): boolean {
  const hasSameRule = target.own === symlink.own && isRestricted(symlink.path, symlink.own)
  return (hasSameRule || !isRestricted(target.path, target.own)) && !isHidden(principal, target.path, target.folder)
}

/** Whether `rule`, which applies to `path`, restricts reading it, or hides it, for any user. */
export function isRestricted(path: Path, rule: Rule | undefined): boolean {
  if (rule === undefined) return false
  const reaches = (sub: boolean) => covers(rule, sub, path) || covers(rule, sub, parentOf(path))
  return (
    (rule.password !== '' && reaches(rule.passwordSub)) ||
    (rule.readUsers.length > 0 && reaches(rule.readUsersSub)) ||
    (rule.hide !== '' && (reaches(rule.hideSub) || hidesSegmentOf(rule, path)))
  )
}

/**
 * Whether nothing at or below `top` can be refused to a principal that may read `top`, so that the targets of symlinks
 * to there need no decision. `hasRules`: whether the tree has folder rules.
 */
export function readsAll({ base }: Principal, top: Path, hasRules: boolean): boolean {
  return !hasRules && isWithin(base, top)
}

/**
 * Whether a folder may be moved without a decision on the targets of the symlinks in it. `mountPoint`: that of its
 * storage.
 */
export function movesAnySymlink(principal: Principal, mountPoint: Path, hasRules: boolean): boolean {
  return principal.role === 'admin' || readsAll(principal, mountPoint, hasRules)
}

/** Whether listings show the principal how much space the storages have. */
export function seesMountUsages({ role }: Principal): boolean {
  return role !== 'guest'
}

// Hidden names

/** Whether a rule hides names from the principal, in its own folder or below. */
export function hidesNames(principal: Principal, rule: Rule | undefined): rule is Rule {
  return rule !== undefined && rule.hide !== '' && !principal.hasPermission('seeHidden')
}

/** Which members of one folder its listings show. */
export interface MemberFilter {
  readonly showsAll: boolean
  shows(name: string): boolean
}

/**
 * The filter for listings of `folder`, which the principal may list. `rule`: the rule that applies to the folder.
 * `ruleOf`: the own rule of a folder; undefined if no folder below has one.
 */
export function memberFilter(
  principal: Principal,
  folder: Path,
  rule: Rule | undefined,
  ruleOf: ((member: Path) => Rule | undefined) | undefined,
): MemberFilter {
  const hiding = hidesNames(principal, rule) && covers(rule, rule.hideSub, folder) ? rule : undefined
  const showsAll = hiding === undefined && ruleOf === undefined
  return {
    showsAll,
    shows(name) {
      if (showsAll) return true
      const member = childOf(folder, name)
      return !isOmitted(principal, member, hiding, ruleOf?.(member))
    },
  }
}

/**
 * Whether listings of the parent folder omit `path`. `folder`: the rule that applies to the parent folder. `own`: the
 * rule of `path` itself, not one that applies to it from above.
 */
export function isOmitted(principal: Principal, path: Path, folder: Rule | undefined, own: Rule | undefined): boolean {
  return (own !== undefined && excludes(own.readUsers, principal)) || isHidden(principal, path, folder)
}

/** A move of a folder must not show the principal names that a rule above the folder hides: it does not move too. */
export function revealedBy(principal: Principal, source: RuledPath, target: RuledPath): PolicyRefusal | undefined {
  if (!revealsNames(principal, source, target)) return undefined
  return { code: 'denied', reason: 'a folder rule hides things here that would be seen there' }
}

export function revealsNames(principal: Principal, { path, own: rule }: RuledPath, target: RuledPath): boolean {
  if (!hidesNames(principal, rule) || rule.path === path || !rule.hideSub) return false
  const { folder } = target
  return folder?.hide !== rule.hide || !covers(folder, folder.hideSub, target.path)
}

/**
 * Whether a segment of `path` below the rule's folder matches the rule's patterns. `folder`: the rule that applies to
 * the parent folder of `path`, so that listings and direct requests have the same result.
 */
function isHidden(principal: Principal, path: Path, folder: Rule | undefined): boolean {
  if (!hidesNames(principal, folder)) return false
  // Segments of the base are visible, because an administrator has assigned it.
  return hidesSegmentOf(folder, path, segmentsOf(principal.base).length - segmentsOf(folder.path).length)
}

/**
 * As `isHidden`, for a user without the permission to see hidden entries. The first `skipped` segments below the rule's
 * folder are not checked. A path that takes too long to match is hidden.
 */
function hidesSegmentOf(rule: Rule, path: Path, skipped = 0): boolean {
  const names = segmentsOf(within(rule.path, path) ?? path)
  let left = maxSteps
  return names.some((name, depth) => {
    if (depth < skipped || (depth > 0 && !rule.hideSub)) return false
    left -= stepsOf(rule.hideCost, name.length)
    return left < 0 || rule.hides(name)
  })
}

/**
 * Whether the path is read as a direct member of the rule's folder: rules apply to these even without their `…Sub`
 * flags.
 */
function isMember(rule: Rule, action: Action, path: Path): boolean {
  return action === 'read' && parentOf(path) === rule.path
}

/** Whether a list of users in a rule excludes the principal. An empty list excludes nobody. */
function excludes(users: readonly number[], principal: Principal): boolean {
  return users.length > 0 && !users.includes(principal.userId)
}

// Paths that are refused whatever the permissions and the folder rules are

/** Names of files that operating systems create automatically. macOS also creates names with the prefix `._`. */
const systemFiles: ReadonlySet<string> = new Set(['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir'])

/** Names that are reserved by the core, in any case, do not exist. */
export function reservedName(at: Path): PolicyRefusal | undefined {
  return at.toLowerCase().includes(`/${reservedPrefix}`) ? { code: 'not_found' } : undefined
}

/** A new name while system files are ignored. */
export function systemFile(at: Path): PolicyRefusal | undefined {
  const name = nameOf(at)
  return systemFiles.has(name) || name.startsWith('._') ? { code: 'denied', detail: 'system_file' } : undefined
}

/** Mount points, the folders above them, and the principal's base cannot be moved or removed. */
export function fixedFolder(isFixed: boolean, detail: 'mount_moved' | 'mount_removed'): PolicyRefusal | undefined {
  return isFixed ? { code: 'denied', detail } : undefined
}

/** The target of a move or a copy. `isFolder`: the source is one. `isMountFolder`: the target is one. */
export function replacement(
  source: Path,
  target: Path,
  isFolder: boolean,
  isMountFolder: boolean,
): PolicyRefusal | undefined {
  if (isFolder && isWithin(source, target)) return { code: 'invalid', detail: 'into_itself' }
  if (isWithin(target, source)) return { code: 'invalid', reason: 'a folder cannot be replaced by what is in it' }
  return isMountFolder ? { code: 'denied', reason: 'a mount point cannot be replaced' } : undefined
}

/** A path that a principal with this base is told of. */
export function outsideBase(base: Path, at: Path): PolicyRefusal | undefined {
  return isWithin(base, at) ? undefined : { code: 'denied' }
}

/** The text of a relative symlink. After another symlink, `..` would mean the parent of that symlink's target. */
export function relativeTarget(text: string): PolicyRefusal | undefined {
  const names = text.split('/').filter((name) => name !== '' && name !== '.')
  const first = names.findIndex((name) => name !== '..')
  if (first < 0 || !names.includes('..', first)) return undefined
  return { code: 'denied', reason: 'the target of a symlink may have .. at its start only' }
}

/** Where a new symlink leads to. `mountPoint`: that of its storage. */
export function symlinkTarget(mountPoint: Path, leadsTo: Path): PolicyRefusal | undefined {
  if (within(mountPoint, leadsTo) !== undefined) return undefined
  return { code: 'denied', reason: 'the target of a symlink must be in the same storage' }
}
