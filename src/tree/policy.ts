/**
 * All decisions on what a principal may do with a path, and on what it sees: pure functions of the principal, the path,
 * the folder rules and the grants. Paths are of the whole tree. Called only by `Access`, which looks up the rules and
 * the grants.
 */
import type { Permission, Principal } from '../accounts/principal.js'
import type { ErrorCode, ErrorDetail } from '../base/errors.js'
import {
  childOf,
  isWithin,
  nameOf,
  parentOf,
  reservedPrefix,
  root,
  segmentsOf,
  within,
  type Path,
} from '../base/path.js'
import { maxSteps, stepsOf } from '../base/patterns.js'
import type { Entry } from '../contract/entry.js'
import { covers, type Rule } from './folder-rules.js'
import type { GrantedPath } from './grant-trie.js'
import type { Right } from './grants.js'

/**
 * What an operation does to a path. `list` lists a folder, `see` returns an entry, `read` reads its content. For all
 * changes, the rule of the folder that contains the path decides.
 */
export type Action =
  | 'list'
  | 'see'
  | 'read'
  | 'refresh'
  | 'write'
  | 'mkdir'
  | 'rename'
  | 'rename to' // be the new path of a rename
  | 'move'
  | 'receive' // be the target of a move or a copy
  | 'copy'
  | 'remove'
  | 'attributes'
  | 'lock'
  | 'properties'

/** The folder rules and grants that apply to one path. */
export interface Ruling {
  /** The rule that applies to the path itself. */
  readonly own: Rule | undefined
  /** The rule that applies to the parent folder. */
  readonly folder: Rule | undefined
  /** What the grants of the principal say; undefined if none applies to it anywhere. */
  readonly granted?: GrantedPath | undefined
}

/** A path with the rules and grants that apply to it. */
export interface RuledPath extends Ruling {
  readonly path: Path
  /** For a signed URL: whether a grant denies anybody to see or read it. */
  readonly deniedToSome?: boolean
}

/** Why something is refused: the code of the error, and what it says besides. */
export interface PolicyRefusal {
  readonly code: ErrorCode
  readonly detail?: ErrorDetail | undefined
  readonly reason?: string | undefined
}

/** 'not_found': the grants do not let the principal see the path. */
export type Verdict =
  'allow' | Extract<ErrorCode, 'denied' | 'hidden' | 'not_found' | 'password_required' | 'unauthenticated'>

/** Actions that return something and need no permission of their own. */
type Look = 'list' | 'see' | 'read'

/**
 * The permission that each action requires where no grant mentions its right. `content`: the write permission, or a
 * rule that lets every user write.
 */
const requirements: Readonly<Record<Exclude<Action, Look>, Permission | 'content' | 'nothing'>> = {
  refresh: 'content',
  write: 'content',
  mkdir: 'content',
  rename: 'rename',
  'rename to': 'rename',
  move: 'move',
  receive: 'nothing',
  copy: 'copy',
  remove: 'remove',
  attributes: 'content',
  lock: 'content',
  properties: 'content',
}

/** The right of grants that each action asks. */
const askedRights: Readonly<Record<Action, Right>> = {
  list: 'see',
  see: 'see',
  read: 'read',
  refresh: 'write',
  write: 'write',
  mkdir: 'write',
  rename: 'rename',
  'rename to': 'rename',
  move: 'move',
  receive: 'write',
  copy: 'copy',
  remove: 'remove',
  attributes: 'write',
  lock: 'write',
  properties: 'write',
}

/** Actions that take an entry from its path: the folder of a grant needs the right for them from a grant above it. */
const takingAway: ReadonlySet<Action> = new Set<Action>(['rename', 'move', 'remove'])

/** Actions that read a source and change nothing there. */
const reading: ReadonlySet<Action> = new Set<Action>(['list', 'see', 'read', 'refresh', 'copy'])

function isLook(action: Action): action is Look {
  return action === 'list' || action === 'see' || action === 'read'
}

/**
 * Decides on one action by steps that can only refuse: the first that refuses gives the verdict. They are: revocation,
 * the path of a signed URL, which asks no grant, and protocol permissions; what the grants do not let the principal
 * see, and hidden names; `readUsers` and the folder password; the right, by the deciding grant, or else the permission;
 * `writeUsers`.
 */
export function judge(principal: Principal, action: Action, path: Path, rules: Ruling, password?: string): Verdict {
  const verdict = judgeSight(principal, action, path, rules.granted)
  if (verdict !== undefined) return verdict
  return isHidden(principal, path, rules.folder) ? 'hidden' : judgeVisible(principal, action, path, rules, password)
}

/**
 * As `judge`, for those members of `folder` that no rule hides and that have no grants of their own. `rule`: the one
 * that applies to the folder; `granted`: what the grants say at the folder.
 */
export function judgeMembers(
  principal: Principal,
  action: Action,
  folder: Path,
  rule: Rule | undefined,
  password?: string,
  granted?: GrantedPath,
): Verdict {
  const member = childOf(folder, 'any')
  const ruling = { own: rule, folder: rule, granted: granted?.rest }
  const verdict = judgeSight(principal, action, member, ruling.granted)
  return verdict ?? judgeVisible(principal, action, member, ruling, password)
}

/** As `judgeMembers`, of what is refused for every member. Each one with grants of its own must be judged by itself. */
export function judgeAnyMember(
  principal: Principal,
  action: Action,
  folder: Path,
  rule: Rule | undefined,
  password?: string,
  granted?: GrantedPath,
): Verdict {
  if (granted?.hasBelow !== true) return judgeMembers(principal, action, folder, rule, password, granted)
  const member = childOf(folder, 'any')
  const verdict = judgeCredential(principal, action, member)
  return verdict ?? judgeByRule(principal, action, member, { own: rule, folder: rule }, password) ?? 'allow'
}

/** Whether any grant applies to the principal. None does to a signed URL, which its signature permits. */
export function asksGrants({ role, onlyPath }: Principal): boolean {
  return role !== 'admin' && onlyPath === undefined
}

/** As `judge`, by its first steps alone: the credential, and what the grants do not let the principal see. */
export function judgeSight(
  principal: Principal,
  action: Action,
  path: Path,
  granted: GrantedPath | undefined,
): Verdict | undefined {
  return judgeCredential(principal, action, path) ?? (isSeen(principal, path, granted) ? undefined : 'not_found')
}

/**
 * Whether the grants let the principal know that the path exists. The base folder of a user who is granted only is
 * always seen, without its members.
 */
export function isSeen(principal: Principal, path: Path, granted: GrantedPath | undefined): boolean {
  if (granted === undefined || grants('see', granted) || granted.opensBelow) return true
  return granted.grantedOnly && path === principal.baseIn(path)
}

/** Whether the grants allow a right that needs no permission where no grant mentions it. */
function grants(right: 'see' | 'read', granted: GrantedPath): boolean {
  return granted.says(right) ?? !granted.grantedOnly
}

/** Whether the grants let the principal read the content. */
function grantsContent(granted: GrantedPath | undefined): boolean {
  return granted === undefined || (grants('see', granted) && grants('read', granted))
}

/**
 * Whether the grants allow the right; undefined if none mentions it, so that a permission decides. `fromAbove`: the
 * right is needed from a grant above the path too.
 */
function grantsRight(right: Right, granted: GrantedPath, fromAbove: boolean): boolean | undefined {
  // Every right needs `see`: the way to a grant is seen, and nothing can be done with it.
  if (!grants('see', granted)) return false
  const said = granted.says(right)
  if (said === false) return false
  return (fromAbove ? granted.saysAbove(right) : said) ?? (granted.grantedOnly ? false : undefined)
}

/** The verdict that follows from how the principal was authenticated; undefined if the rules decide. */
function judgeCredential(principal: Principal, action: Action, path: Path): Verdict | undefined {
  if (principal.signal.aborted) return 'unauthenticated'
  if (principal.onlyPath !== undefined) {
    return (action === 'read' || action === 'see') && principal.onlyPath === path ? 'allow' : 'denied'
  }
  return mayUseProtocol(principal, action) ? undefined : 'denied'
}

/** Actions that report a missing parent folder. */
const creating: ReadonlySet<Action> = new Set<Action>(['write', 'mkdir', 'rename to', 'receive', 'lock'])

/**
 * What a verdict says to the client; undefined for 'allow'. `isParentHidden`: whether reading the parent folder of the
 * path is 'hidden'. `makes`: false if the action is about what exists already.
 */
export function refusalOf(
  verdict: Verdict,
  action: Action,
  isParentHidden: () => boolean,
  makes = true,
): PolicyRefusal | undefined {
  if (verdict === 'allow') return undefined
  // As in a folder that is missing.
  if (verdict === 'not_found' && makes && creating.has(action)) return { code: 'parent_missing' }
  if (verdict === 'denied' && action === 'refresh') return { code: verdict, detail: 'refresh_denied' }
  const tellsOfParent = verdict === 'hidden' && creating.has(action) && isParentHidden()
  return { code: verdict, detail: tellsOfParent ? 'parent_hidden' : undefined }
}

/** What a verdict on a path below that of the request says to the client. Undefined for 'allow'. */
export function refusalBelow(verdict: Verdict): PolicyRefusal | undefined {
  return verdict === 'allow' ? undefined : { ...refusedBelow, code: verdict }
}

/**
 * The rule that decides who may do the action, and which password it requires: that of the parent folder for changes,
 * the path's own for listing, reading and refreshing.
 */
export function decidingRule(action: Action, rules: Ruling): Rule | undefined {
  return isChange(action) ? rules.folder : rules.own
}

function isChange(action: Action): boolean {
  return !isLook(action) && action !== 'refresh'
}

function judgeVisible(
  principal: Principal,
  action: Action,
  path: Path,
  rules: Ruling,
  password: string | undefined,
): Verdict {
  const verdict = judgeByRule(principal, action, path, rules, password)
  if (verdict !== undefined) return verdict
  if (!isLook(action)) return mayChange(principal, action, rules, path)
  return action !== 'read' || grantsContent(rules.granted) ? 'allow' : 'denied'
}

/** The verdict by `readUsers` and the folder password; undefined if they do not refuse. */
function judgeByRule(
  principal: Principal,
  action: Action,
  path: Path,
  rules: Ruling,
  password: string | undefined,
): Verdict | undefined {
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
  return undefined
}

/** Whether the principal's protocol and credentials allow the action at all. */
function mayUseProtocol(principal: Principal, action: Action): boolean {
  if (principal.readOnly && !reading.has(action)) return false
  if (!principal.mayUseProtocol || isLook(action)) return principal.mayUseProtocol
  const { permissions } = principal.protocol
  return permissions === undefined || principal.hasPermission(permissions.manage)
}

function mayChange(principal: Principal, action: Exclude<Action, Look>, rules: Ruling, path: Path): Verdict {
  const folder = action === 'refresh' ? path : parentOf(path)
  const rule = action === 'refresh' ? rules.own : rules.folder
  const isGranted = rules.granted && grantsAction(principal, action, rules.granted)
  if (isGranted === false) return 'denied'
  // A copy does not change its source: only read access is required there.
  if (action !== 'copy' && excludesWriter(principal, rule, folder)) return 'denied'
  const required = requirements[action]
  if (isGranted === true || required === 'nothing') return 'allow'
  if (required === 'content' && letsEveryoneWrite(rule, folder)) return 'allow'
  return principal.hasPermission(required === 'content' ? 'write' : required) ? 'allow' : 'denied'
}

/** As `grantsRight`, for an action. */
function grantsAction(principal: Principal, action: Exclude<Action, Look>, granted: GrantedPath): boolean | undefined {
  // To move an entry is to remove it, where a grant says who may do that.
  if (action === 'move' && granted.says('remove') !== undefined) {
    const removes = grantsRight('remove', granted, true) ?? principal.hasPermission('remove')
    if (!removes) return false
  }
  return grantsRight(askedRights[action], granted, takingAway.has(action))
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

/** `rule`: the rule that applies to `folder`. `granted`: what the grants say there. */
export function folderRights(
  principal: Principal,
  folder: Path,
  rule: Rule | undefined,
  granted?: GrantedPath,
): FolderRights {
  const grantsOf = (right: WriteRight) => granted && grantsRight(right, granted.rest, false)
  const writeByRule = letsEveryoneWrite(rule, folder) && grantsOf('write') !== false
  const may = (right: WriteRight) => grantsOf(right) ?? principal.hasPermission(right)
  const mayWrite = writeByRule || writeRights.some(may)
  return { writeByRule, write: mayWrite && !excludesWriter(principal, rule, folder) }
}

/** Each is a permission too. */
const writeRights = ['write', 'rename', 'move', 'copy', 'remove'] as const
type WriteRight = (typeof writeRights)[number]

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
 * Whether the signature of a symlink's path permits reading its target. A target that a different rule restricts, or
 * that a grant denies where none denies the symlink, needs a signature for its own path.
 */
function isOpenTarget(principal: Principal, symlink: RuledPath, target: RuledPath): boolean {
  if (target.deniedToSome === true && symlink.deniedToSome !== true) return false
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
 * to there need no decision. `hasRules`: whether the tree has folder rules, or grants apply to the principal.
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
 * `ruleOf`: the own rule of a folder; undefined if no folder below has one. `granted`: what the grants say at the
 * folder.
 */
export function memberFilter(
  principal: Principal,
  folder: Path,
  rule: Rule | undefined,
  ruleOf: ((member: Path) => Rule | undefined) | undefined,
  granted?: GrantedPath,
): MemberFilter {
  const hiding = hidesNames(principal, rule) && covers(rule, rule.hideSub, folder) ? rule : undefined
  const asksGrants = granted !== undefined && (granted.hasBelow || !grants('see', granted.rest))
  const showsAll = hiding === undefined && ruleOf === undefined && !asksGrants
  return {
    showsAll,
    shows(name) {
      if (showsAll) return true
      const member = childOf(folder, name)
      return !isOmitted(principal, member, hiding, ruleOf?.(member), asksGrants ? granted.child(name) : undefined)
    },
  }
}

/**
 * Whether listings of the parent folder omit `path`. `folder`: the rule that applies to the parent folder. `own`: the
 * rule of `path` itself, not one that applies to it from above. `granted`: what the grants say at `path`.
 */
export function isOmitted(
  principal: Principal,
  path: Path,
  folder: Rule | undefined,
  own: Rule | undefined,
  granted?: GrantedPath,
): boolean {
  if (!isSeen(principal, path, granted)) return true
  return (own !== undefined && excludes(own.readUsers, principal)) || isHidden(principal, path, folder)
}

// Whole trees

const refusedBelow: PolicyRefusal = { code: 'denied', reason: 'permission denied below this folder' }

/**
 * Why these actions on a whole folder are refused by grants below it, whether or not anything exists there. A copy
 * leaves out what the principal does not see.
 */
export function treeRefusal(
  principal: Principal,
  actions: readonly Action[],
  granted: GrantedPath | undefined,
): PolicyRefusal | undefined {
  if (granted?.hasBelow !== true) return undefined
  const denied: readonly Right[] = [...actions.map((action) => askedRights[action]), 'see']
  for (const below of granted.below()) {
    const isRefused = actions.includes('copy')
      ? isSeen(principal, below.path, below) && !isCopied(principal, below)
      : below.deniesHere(denied)
    if (isRefused) return refusedBelow
  }
  return undefined
}

/** Whether the grants, or else the permission, let the principal copy what is at a path. */
function isCopied(principal: Principal, granted: GrantedPath): boolean {
  return grantsContent(granted) && (grantsRight('copy', granted, false) ?? principal.hasPermission('copy'))
}

/** Why the grants do not let the principal copy what is at a path. */
export function copyRefusal(principal: Principal, granted: GrantedPath | undefined): PolicyRefusal | undefined {
  return granted === undefined || isCopied(principal, granted) ? undefined : refusedBelow
}

/** Why the grants do not let the principal read the content at a path which it may see. */
export function contentRefusal(granted: GrantedPath | undefined): PolicyRefusal | undefined {
  return grantsContent(granted) ? undefined : { code: 'denied' }
}

/**
 * Whether an entry tells the principal what is made of its content, such as hashes. `granted`: what the grants say at
 * its path. Where grants apply, a symlink tells nothing: its target may be one that the principal cannot read.
 */
export function tellsContent(granted: GrantedPath, { isSymlink }: Pick<Entry, 'isSymlink'>): boolean {
  return isSymlink !== true && grantsContent(granted)
}

/** The paths below a folder that the principal sees and whose content the grants do not let it read. */
export function unreadableBelow(principal: Principal, granted: GrantedPath | undefined): readonly Path[] {
  if (granted?.hasBelow !== true) return []
  const unreadable = [...granted.below()].filter(
    (below) => isSeen(principal, below.path, below) && !grantsContent(below),
  )
  return unreadable.map(({ path }) => path)
}

/**
 * Why a rename or move must not put what is at the source at the target: a move does not make anything readable for the
 * principal. `actions`: 'rename', 'move', or both. `isFolder`: everything below moves too.
 */
export function landingRefusal(
  actions: readonly Action[],
  { granted: source }: RuledPath,
  { path, granted: target }: RuledPath,
  isFolder: boolean,
): PolicyRefusal | undefined {
  if (source === undefined || target === undefined) return undefined
  if (grantsContent(target) && !grantsContent(source)) return { code: 'denied' }
  if (!isFolder || !target.hasBelow) return undefined
  const denied: readonly Right[] = [...actions.map((action) => askedRights[action]), 'write', 'see']
  for (const below of target.below()) {
    const names = segmentsOf(within(path, below.path) ?? root)
    const from = names.reduce((at, name) => at.child(name), source)
    if (below.deniesHere(denied) || (grantsContent(below) && !grantsContent(from))) return refusedBelow
  }
  return undefined
}

/** A part of the tree of which the principal sees the names. `deep`: also everything below `path`. */
export interface SeenPart {
  readonly path: Path
  readonly deep: boolean
}

/** What the grants show of the names below a folder. */
export interface SeenNames {
  /** The parts that are seen; undefined if the whole folder is, except for `closed`. */
  readonly parts: readonly SeenPart[] | undefined
  /** Paths that are not seen, with everything below them. */
  readonly closed: readonly Path[]
  /** Nothing else has to be asked. */
  readonly isExact: boolean
}

export function seenNames(granted: GrantedPath | undefined): SeenNames {
  if (granted === undefined) return { parts: undefined, closed: [], isExact: true }
  const parts: SeenPart[] = []
  const closed: Path[] = []
  let isExact = true
  const sees = grants('see', granted)
  for (const below of granted.below()) {
    if (grants('see', below)) {
      parts.push({ path: below.path, deep: true })
      continue
    }
    if (below.opensBelow) parts.push({ path: below.path, deep: false })
    if (!sees && !parts.some(({ path, deep }) => deep && isWithin(path, below.path))) continue
    // The way to a grant within a part that is seen is asked name by name.
    if (below.opensBelow) isExact = false
    else closed.push(below.path)
  }
  return { parts: sees ? undefined : parts, closed, isExact }
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
  return (action === 'read' || action === 'see') && parentOf(path) === rule.path
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
