/** The authorization decision: a pure function of principal, action, path and folder rules. */
import { hasPermission, type Permission, type Principal } from '../accounts/principal.js'
import { protocols } from '../accounts/protocols.js'
import type { ErrorCode } from '../contract/errors.js'
import { parentOf, segmentsOf, within, type Path } from '../contract/path.js'
import { maxSteps, stepsOf } from '../contract/patterns.js'
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

/** Actions on a symlink that apply to its target. All others apply to the symlink itself. */
export const symlinkFollowingActions: ReadonlySet<Action> = new Set<Action>([
  'list',
  'read',
  'refresh',
  'write',
  'attributes',
  'lock',
  'properties',
])

/**
 * Decides on one action. `path` is a path of the whole tree. Checks in this order: revocation, protocol permissions,
 * hidden names, `readUsers`, folder password, then the permission for the change.
 */
export function judge(principal: Principal, action: Action, path: Path, rules: Ruling, password?: string): Verdict {
  if (principal.signal.aborted) return 'unauthenticated'
  if (principal.onlyPath !== undefined) {
    return action === 'read' && principal.onlyPath === path ? 'allow' : 'denied'
  }
  if (!mayUseProtocol(principal, action)) return 'denied'
  if (isHidden(principal, path, rules.folder)) return 'hidden'
  // The parent folder's rule decides on changes; the path's own rule decides on listing, reading and refreshing.
  const isChange = action !== 'list' && action !== 'read' && action !== 'refresh'
  const rule = isChange ? rules.folder : rules.own
  const at = isChange ? parentOf(path) : path
  if (rule) {
    if (excludes(rule.readUsers, principal) && (covers(rule, rule.readUsersSub, at) || isMember(rule, action, path))) {
      return 'hidden'
    }
    const isProtected = covers(rule, rule.passwordSub, at) || isMember(rule, action, path)
    if (
      rule.password !== '' &&
      isProtected &&
      !hasPermission(principal, 'skipPasswords') &&
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
  if (principal.readOnly === true && !reading.has(action)) return false
  const { permissions } = protocols[principal.protocol]
  if (permissions === undefined || !hasPermission(principal, permissions.read)) return permissions === undefined
  return action === 'list' || action === 'read' || hasPermission(principal, permissions.manage)
}

function mayChange(principal: Principal, action: Exclude<Action, 'list' | 'read'>, rules: Ruling, path: Path): Verdict {
  const folder = action === 'refresh' ? path : parentOf(path)
  const rule = action === 'refresh' ? rules.own : rules.folder
  // A copy does not change its source: only read access is required there.
  if (action !== 'copy' && rule && excludes(rule.writeUsers, principal) && covers(rule, rule.writeUsersSub, folder)) {
    return 'denied'
  }
  const required = requirements[action]
  if (required === 'nothing') return 'allow'
  if (required === 'content') return mayWriteContent(principal, rule, folder) ? 'allow' : 'denied'
  return hasPermission(principal, required) ? 'allow' : 'denied'
}

/** Whether files may be written into `folder`. `rule`: the rule that applies to the folder. */
export function mayWriteContent(principal: Principal, rule: Rule | undefined, folder: Path): boolean {
  if (rule && excludes(rule.writeUsers, principal) && covers(rule, rule.writeUsersSub, folder)) return false
  return hasPermission(principal, 'write') || (rule !== undefined && rule.write && covers(rule, rule.writeSub, folder))
}

/** Names of files that operating systems create automatically. */
const systemFiles: ReadonlySet<string> = new Set(['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir'])

/** Whether this is the name of a file that an operating system creates. macOS uses the prefix `._`. */
export function isSystemFile(name: string): boolean {
  return systemFiles.has(name) || name.startsWith('._')
}

/**
 * Whether a segment of `path` below the rule's folder matches the rule's patterns. `folder`: the rule that applies to
 * the parent folder of `path`, so that listings and direct requests have the same result.
 */
export function isHidden(principal: Principal, path: Path, folder: Rule | undefined): boolean {
  if (!folder || folder.hide === '' || hasPermission(principal, 'seeHidden')) return false
  // Segments of the base are visible, because an administrator has assigned it.
  return hidesSegmentOf(folder, path, segmentsOf(principal.base).length - segmentsOf(folder.path).length)
}

/**
 * As `isHidden`, for a user without the permission to see hidden entries. The first `skipped` segments below the rule's
 * folder are not checked. A path that takes too long to match is hidden.
 */
export function hidesSegmentOf(rule: Rule, path: Path, skipped = 0): boolean {
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
export function excludes(users: readonly number[], principal: Principal): boolean {
  return users.length > 0 && !users.includes(principal.userId)
}
