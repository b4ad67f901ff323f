/**
 * Decisions on one path: what a principal may do with it. Pure functions of the principal, the path, the folder rules
 * and the grants. Paths are of the whole tree. Called only by `Decisions`, which looks up the rules and the grants.
 */
import type { Permission, Principal } from '../../accounts/principal.js'
import type { ExplainedStep } from '../../base/decision-steps.js'
import type { ErrorCode, ErrorDetail } from '../../base/errors.js'
import { childOf, isWithin, parentOf, type Path } from '../../base/path.js'
import { changingRights, type ChangingRight, type Right, type ShareMode } from '../../base/rights.js'
import { covers, type Rule } from '../folder-rules.js'
import type { GrantedPath } from '../grant-trie.js'
import { excludes, grantsContent, hidesSegmentOf, isGranted, isHidden, isSeen, isShared } from './names.js'

/**
 * What an operation does to a path. `list` lists a folder, `see` returns an entry, `read` reads its content; `share`
 * changes nothing either. For all changes, the rule of the folder that contains the path decides.
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
  | 'share' // show it to people without an account
  | 'attributes'
  | 'lock'
  | 'properties'

/** The folder rules and grants that apply to one path. */
export interface Ruling {
  /** The rule that applies to the path itself. */
  readonly atPath: Rule | undefined
  /** The rule that applies to the parent folder. */
  readonly atParent: Rule | undefined
  /** The decisions of the principal's grants; undefined if no grant applies to it anywhere. */
  readonly granted?: GrantedPath | undefined
}

/** A path with the rules and grants that apply to it. */
export interface RuledPath extends Ruling {
  readonly path: Path
  /** For a signed URL: whether a grant denies anybody to see or read it. */
  readonly deniedToSome?: boolean
}

/** A refusal: the code of the error, and its other fields. */
export interface PolicyRefusal {
  readonly code: ErrorCode
  readonly detail?: ErrorDetail | undefined
  readonly reason?: string | undefined
}

/**
 * What a decision says: `allow`, or why the action is refused. `not_found`: the grants do not let the principal see the
 * path. `refusalOf` returns the error that the client gets.
 */
export type Verdict =
  'allow' | Extract<ErrorCode, 'denied' | 'hidden' | 'not_found' | 'password_required' | 'unauthenticated'>

/** Actions that return something and need no permission of their own. */
type Inspection = 'list' | 'see' | 'read'

/**
 * The permission that each action requires where no grant mentions its right. `content`: the write permission, or a
 * rule that lets every user write.
 */
export const requirements: Readonly<Record<Exclude<Action, Inspection>, Permission | 'content' | 'nothing'>> = {
  refresh: 'content',
  write: 'content',
  mkdir: 'content',
  rename: 'rename',
  'rename to': 'rename',
  move: 'move',
  receive: 'nothing',
  copy: 'copy',
  remove: 'remove',
  share: 'share',
  attributes: 'content',
  lock: 'content',
  properties: 'content',
}

/** The right of grants that each action asks. */
export const askedRights: Readonly<Record<Action, Right>> = {
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
  share: 'share',
  attributes: 'write',
  lock: 'write',
  properties: 'write',
}

/** Actions that take an entry from its path: the folder of a grant needs the right for them from a grant above it. */
export const takingAway: ReadonlySet<Action> = new Set<Action>(['rename', 'move', 'remove'])

/** Actions that read a source and change nothing there. */
const reading: ReadonlySet<Action> = new Set<Action>(['list', 'see', 'read', 'refresh', 'copy', 'share'])

export function isInspection(action: Action): action is Inspection {
  return action === 'list' || action === 'see' || action === 'read'
}

/**
 * Decides whether the principal may do the action at the path. The first step that has a verdict gives it. An action
 * that no step refuses is allowed. Allocates nothing.
 */
export function judge(principal: Principal, action: Action, path: Path, rules: Ruling, password?: string): Verdict {
  const asked = isInspection(action) ? stepsOfInspections : steps
  return firstVerdict(asked, principal, action, path, rules, password) ?? 'allow'
}

/**
 * Decides whether the principal may do the action at any one member of the folder that no rule hides and that has no
 * grant of its own. `rule`: the rule that applies to the folder. `granted`: what the grants say at the folder.
 */
export function judgeOtherMembers(
  principal: Principal,
  action: Action,
  folder: Path,
  rule: Rule | undefined,
  password?: string,
  granted?: GrantedPath,
): Verdict {
  const ruling = { atPath: rule, atParent: rule, granted: granted?.rest }
  return firstVerdict(stepsOfMembers, principal, action, childOf(folder, 'any'), ruling, password) ?? 'allow'
}

/**
 * Returns a refusal that holds for every member of the folder, whatever its own grants say; otherwise 'allow', and
 * then each member with a grant of its own must be judged by itself. Parameters are those of `judgeOtherMembers`.
 */
export function judgeEveryMember(
  principal: Principal,
  action: Action,
  folder: Path,
  rule: Rule | undefined,
  password?: string,
  granted?: GrantedPath,
): Verdict {
  if (granted?.hasBelow !== true) return judgeOtherMembers(principal, action, folder, rule, password, granted)
  const ruling = { atPath: rule, atParent: rule }
  return firstVerdict(stepsOfAnyMember, principal, action, childOf(folder, 'any'), ruling, password) ?? 'allow'
}

/** Whether grants apply to the principal. They do not apply to administrators and to signed URLs. */
export function isSubjectToGrants({ accountRole: role, onlyPath }: Principal): boolean {
  return role !== 'admin' && onlyPath === undefined
}

/** Asks only the first steps of `judge`: the credential, and whether the grants let the principal see the path. */
export function judgeSight(
  principal: Principal,
  action: Action,
  path: Path,
  granted: GrantedPath | undefined,
): Verdict | undefined {
  return firstVerdict(
    stepsToSight,
    principal,
    action,
    path,
    { atPath: undefined, atParent: undefined, granted },
    undefined,
  )
}

/**
 * Whether the grants allow the right; undefined if none mentions it, so that a permission decides. `fromAbove`: a
 * grant above the path must allow the right.
 */
export function grantsRight(right: Right, granted: GrantedPath, fromAbove: boolean): boolean | undefined {
  // Every right needs `see`. Folders above a grant are listed, so that the user can reach it, without this right.
  if (!isGranted('see', granted)) return false
  const said = granted.says(right)
  if (said === false) return false
  return (fromAbove ? granted.saysAbove(right) : said) ?? (granted.grantedOnly ? false : undefined)
}

/** Actions by which an entry may get a name. They report a missing parent folder. */
export const creating: ReadonlySet<Action> = new Set<Action>(['write', 'mkdir', 'rename to', 'receive', 'lock'])

/**
 * Returns the error that a client gets for a verdict; undefined for 'allow'. `isParentHidden`: whether reading the
 * parent folder of the path is 'hidden'. `makes`: false if the entry exists already.
 */
export function refusalOf(
  verdict: Verdict,
  action: Action,
  isParentHidden: () => boolean,
  makes = true,
): PolicyRefusal | undefined {
  if (verdict === 'allow') return undefined
  // A path that the principal does not see is refused like one whose parent folder is missing.
  if (verdict === 'not_found' && makes && creating.has(action)) return { code: 'parent_missing' }
  if (verdict === 'denied' && action === 'refresh') return { code: verdict, detail: 'refresh_denied' }
  const namesParent = verdict === 'hidden' && creating.has(action) && isParentHidden()
  return { code: verdict, detail: namesParent ? 'parent_hidden' : undefined }
}

/** Returns the error for a verdict on a path below the path of the request. Undefined for 'allow'. */
export function refusalBelow(verdict: Verdict): PolicyRefusal | undefined {
  if (verdict === 'allow') return undefined
  return verdict === 'denied' ? refusedBelow : { code: verdict }
}

/**
 * The rule that decides who may do the action, and which password it requires: that of the parent folder for changes,
 * the path's own for listing, reading, refreshing and sharing.
 */
export function decidingRule(action: Action, rules: Ruling): Rule | undefined {
  return isChange(action) ? rules.atParent : rules.atPath
}

export function isChange(action: Action): boolean {
  return !isInspection(action) && action !== 'refresh' && action !== 'share'
}

// The steps

/** The steps of `judge`: no path that it is asked about is outside the base folder. */
type StepName = Exclude<ExplainedStep, 'base'> | 'signature' | 'app password' | 'share'

/** A step of a decision. It can only refuse, except that a signature allows what is signed. */
export interface Step {
  readonly name: StepName
  /** The verdict; undefined if the next step is asked. */
  readonly verdict: (
    principal: Principal,
    action: Action,
    path: Path,
    rules: Ruling,
    password: string | undefined,
  ) => Verdict | undefined
}

function firstVerdict(
  asked: readonly Step[],
  principal: Principal,
  action: Action,
  path: Path,
  rules: Ruling,
  password: string | undefined,
): Verdict | undefined {
  for (const step of asked) {
    const verdict = step.verdict(principal, action, path, rules, password)
    if (verdict !== undefined) return verdict
  }
  return undefined
}

const bySession: Step = {
  name: 'session',
  verdict: ({ signal }) => (signal.aborted ? 'unauthenticated' : undefined),
}

const bySignature: Step = {
  name: 'signature',
  verdict({ onlyPath }, action, path) {
    if (onlyPath === undefined) return undefined
    return (action === 'read' || action === 'see') && onlyPath === path ? 'allow' : 'denied'
  },
}

const byAppPassword: Step = {
  name: 'app password',
  verdict: ({ readOnly }, action) => (readOnly && !reading.has(action) ? 'denied' : undefined),
}

const byProtocol: Step = {
  name: 'protocol',
  verdict(principal, action) {
    if (!principal.mayUseProtocol) return 'denied'
    if (isInspection(action) || action === 'share' || principal.share !== undefined) return undefined
    const { permissions } = principal.protocol
    return permissions === undefined || principal.hasPermission(permissions.manage) ? undefined : 'denied'
  },
}

/**
 * What visitors of a share may do in each of its modes. Nothing that is there is removed, renamed or moved. They copy
 * only within the share, because each of its files and folders is a tree of its own.
 */
const sharedActions: Readonly<Record<ShareMode, ReadonlySet<Action>>> = {
  read: new Set<Action>(['share', 'list', 'see', 'read']),
  upload: new Set<Action>(['share', 'write']),
  both: new Set<Action>([
    ...['share', 'list', 'see', 'read', 'write', 'mkdir', 'attributes', 'lock', 'copy', 'receive', 'properties'],
  ] as const),
}

/**
 * What visitors of a share may do is limited to its mode, below a file or folder of the share, which is itself not
 * changed, and not made again if it is missing. All other steps judge visitors as the creator.
 */
const byShare: Step = {
  name: 'share',
  verdict(principal, action, path) {
    const { share } = principal
    if (share === undefined) return undefined
    const isRoot = path === principal.baseIn(path)
    if (isRoot && action === 'see') return undefined
    // A copy into the root asks it too. To replace a folder by one needs the right to remove it.
    const changesRoot = isRoot && isChange(action) && action !== 'receive'
    return sharedActions[share.mode].has(action) && !changesRoot ? undefined : 'denied'
  },
}

const bySight: Step = {
  name: 'sight',
  verdict: (principal, _action, path, { granted }) => (isSeen(principal, path, granted) ? undefined : 'not_found'),
}

const byHiddenNames: Step = {
  name: 'hidden names',
  verdict: (principal, _action, path, { atParent }) => (isHidden(principal, path, atParent) ? 'hidden' : undefined),
}

const byReaders: Step = {
  name: 'readers',
  verdict(principal, action, path, rules) {
    const rule = decidingRule(action, rules)
    if (rule === undefined || !excludes(rule.readUsers, principal)) return undefined
    return concerns(rule, rule.readUsersSub, action, path) ? 'hidden' : undefined
  },
}

const byPassword: Step = {
  name: 'password',
  verdict(principal, action, path, rules, password) {
    const rule = decidingRule(action, rules)
    if (rule === undefined || rule.password === '' || password === rule.password) return undefined
    if (!concerns(rule, rule.passwordSub, action, path)) return undefined
    return principal.hasPermission('skipPasswords') ? undefined : 'password_required'
  },
}

const byRight: Step = {
  name: 'right',
  verdict(principal, action, path, rules) {
    const { granted } = rules
    if (isInspection(action) && action !== 'read') return undefined
    // A visitor sees the folders above what is shared, and may do nothing else there.
    if (!isShared(principal, granted)) return 'denied'
    if (isInspection(action)) return grantsContent(granted) ? undefined : 'denied'
    const isGranted = granted && grantsAction(principal, action, granted)
    if (isGranted !== undefined) return isGranted ? undefined : 'denied'
    return isPermitted(principal, action, path, rules) ? undefined : 'denied'
  },
}

const byWriters: Step = {
  name: 'writers',
  verdict(principal, action, path, { atPath, atParent }) {
    if (action === 'refresh') return excludesWriter(principal, atPath, path) ? 'denied' : undefined
    // A copy does not change its source: only read access is required there.
    if (atParent === undefined || !isChange(action) || action === 'copy') return undefined
    return excludesWriter(principal, atParent, parentOf(path)) ? 'denied' : undefined
  },
}

const credential = [bySession, bySignature, byAppPassword, byProtocol, byShare]
const readAccess = [byReaders, byPassword]

/**
 * All steps of a decision, in their order: the credential; what the grants do not let the principal see, and hidden
 * names; who may read, by folder rules; the right, by the deciding grant, or else by a permission; who may write, by
 * folder rules.
 */
export const steps: readonly Step[] = [...credential, bySight, byHiddenNames, ...readAccess, byRight, byWriters]
/** The steps without those that never refuse an inspection. */
const stepsOfInspections: readonly Step[] = steps.filter((step) => step !== byAppPassword && step !== byWriters)
const stepsToSight: readonly Step[] = [...credential, bySight]
const stepsOfMembers: readonly Step[] = steps.filter((step) => step !== byHiddenNames)
const stepsOfAnyMember: readonly Step[] = [...credential, ...readAccess]

/** Whether a part of the rule that decides on the action applies to the path. */
function concerns(rule: Rule, sub: boolean, action: Action, path: Path): boolean {
  return covers(rule, sub, isChange(action) ? parentOf(path) : path) || isMember(rule, action, path)
}

/** Whether a permission, or a rule with `write`, allows the action where no grant mentions its right. */
function isPermitted(
  principal: Principal,
  action: Exclude<Action, Inspection>,
  path: Path,
  { atPath, atParent }: Ruling,
): boolean {
  // The creator decides whether visitors write, also by a copy.
  const required = action === 'receive' && principal.share !== undefined ? 'content' : requirements[action]
  if (required === 'nothing') return true
  if (required !== 'content') return principal.hasPermission(required)
  if (principal.hasPermission('write')) return true
  return action === 'refresh'
    ? letsEveryoneWrite(atPath, path)
    : atParent !== undefined && letsEveryoneWrite(atParent, parentOf(path))
}

/** Whether the grants allow an action. See `grantsRight`. */
function grantsAction(
  principal: Principal,
  action: Exclude<Action, Inspection>,
  granted: GrantedPath,
): boolean | undefined {
  if (action === 'move' && refusesRemoval(principal, granted)) return false
  return grantsRight(askedRights[action], granted, takingAway.has(action))
}

/** Refuses a move where a grant mentions `remove` and the principal does not have it: a move takes the entry away. */
export function refusesRemoval(principal: Principal, granted: GrantedPath): boolean {
  if (granted.says('remove') === undefined) return false
  return !(grantsRight('remove', granted, true) ?? principal.hasPermission('remove'))
}

/** Whether the rule that applies to `folder` names others as the only users who may change something there. */
function excludesWriter(principal: Principal, rule: Rule | undefined, folder: Path): boolean {
  return rule !== undefined && excludes(rule.writeUsers, principal) && covers(rule, rule.writeUsersSub, folder)
}

/** Whether the rule that applies to `folder` lets every user write content there. */
function letsEveryoneWrite(rule: Rule | undefined, folder: Path): boolean {
  return rule !== undefined && rule.write && covers(rule, rule.writeSub, folder)
}

/** The principal's rights in a folder, as listings have them. */
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
  const grantsOf = (right: ChangingRight) => granted && grantsRight(right, granted.rest, false)
  const writeByRule = letsEveryoneWrite(rule, folder) && grantsOf('write') !== false
  const may = (right: ChangingRight) => grantsOf(right) ?? principal.hasPermission(right)
  const mayWrite = writeByRule || changingRights.some(may)
  return { writeByRule, write: mayWrite && !excludesWriter(principal, rule, folder) }
}

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
  const hasSameRule = target.atPath === symlink.atPath && isRestricted(symlink.path, symlink.atPath)
  return (
    (hasSameRule || !isRestricted(target.path, target.atPath)) && !isHidden(principal, target.path, target.atParent)
  )
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

export const refusedBelow: PolicyRefusal = { code: 'denied', reason: 'permission denied below this folder' }

/**
 * Returns the refusal of the grants to let the principal read the content at a path which it may see; undefined if they
 * let it.
 */
export function contentRefusal(granted: GrantedPath | undefined): PolicyRefusal | undefined {
  return grantsContent(granted) ? undefined : { code: 'denied' }
}

/**
 * Whether the path is read as a direct member of the rule's folder: rules apply to these even without their `…Sub`
 * flags.
 */
function isMember(rule: Rule, action: Action, path: Path): boolean {
  return (action === 'read' || action === 'see' || action === 'share') && parentOf(path) === rule.path
}
