/** May they? A pure function of who asks, what for, and the folder rules. Everything that is refused is refused here. */
import type { ErrorCode } from './errors.js'
import { parentOf, segmentsOf, within, type Path } from './path.js'
import { mostSteps, stepsOf } from './patterns.js'
import { holds, type Permission, type Principal } from './principal.js'
import { covers, type Rule } from './rules.js'

/**
 * What is asked of a path. `list` enters a folder, `read` tells of a thing or reads it. Changes are asked of the
 * path that changes: its folder's rule decides.
 */
export type Action =
  | 'list'
  | 'read'
  | 'refresh'
  | 'write'
  | 'mkdir'
  | 'rename'
  | 'move'
  | 'receive' // become the target of a move or a copy
  | 'copy'
  | 'remove'
  | 'attributes'
  | 'lock'
  | 'properties'

/** The folder rules that matter for one path. */
export interface Ruling {
  /** The rule that decides for the path itself. */
  readonly own: Rule | undefined
  /** The rule that decides for the folder that holds it. */
  readonly folder: Rule | undefined
}

export type Verdict = 'allow' | Extract<ErrorCode, 'denied' | 'hidden' | 'password_required' | 'unauthenticated'>

/** Which permission each change needs; `content` is the write bit or a rule that lets everybody write. */
const needs: Readonly<Record<Exclude<Action, 'list' | 'read'>, Permission | 'content' | 'nothing'>> = {
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

const doorPermissions: Readonly<Record<'webdav' | 'sftp', { read: Permission; manage: Permission }>> = {
  webdav: { read: 'webdavRead', manage: 'webdavManage' },
  sftp: { read: 'sftpRead', manage: 'sftpManage' },
}

/** Actions that read a source and change nothing there. */
const reading: ReadonlySet<Action> = new Set<Action>(['list', 'read', 'refresh', 'copy'])

/** Actions that mean what a link leads to; all others mean the name itself. */
export const throughLinks: ReadonlySet<Action> = new Set<Action>([
  'list',
  'read',
  'refresh',
  'write',
  'attributes',
  'lock',
  'properties',
])

/**
 * `path` is of the whole tree. In this order: authority, door, hidden, read_users, folder password, then what the
 * change itself needs.
 */
export function judge(principal: Principal, action: Action, path: Path, rules: Ruling, password?: string): Verdict {
  if (principal.signal.aborted) return 'unauthenticated'
  if (principal.onlyPath !== undefined) {
    return action === 'read' && principal.onlyPath === path ? 'allow' : 'denied'
  }
  if (!mayUseDoor(principal, action)) return 'denied'
  if (isHidden(principal, path, rules.folder)) return 'hidden'
  // Changes are decided by the folder they happen in; entering and reading by the path itself.
  const isChange = action !== 'list' && action !== 'read' && action !== 'refresh'
  const rule = isChange ? rules.folder : rules.own
  const at = isChange ? parentOf(path) : path
  if (rule) {
    if (excludes(rule.readUsers, principal) && (covers(rule, rule.readUsersSub, at) || isMember(rule, action, path))) {
      return 'hidden'
    }
    const closed = covers(rule, rule.passwordSub, at) || isMember(rule, action, path)
    if (rule.password !== '' && closed && !holds(principal, 'skipPasswords') && password !== rule.password) {
      return 'password_required'
    }
  }
  if (action === 'list' || action === 'read') return 'allow'
  return mayChange(principal, action, rules, path)
}

/** Whether the principal's door and credentials allow the action at all. */
function mayUseDoor(principal: Principal, action: Action): boolean {
  if (principal.readOnly === true && !reading.has(action)) return false
  if (principal.door === 'http') return true
  const { read, manage } = doorPermissions[principal.door]
  return holds(principal, read) && (action === 'list' || action === 'read' || holds(principal, manage))
}

function mayChange(principal: Principal, action: Exclude<Action, 'list' | 'read'>, rules: Ruling, path: Path): Verdict {
  const folder = action === 'refresh' ? path : parentOf(path)
  const rule = action === 'refresh' ? rules.own : rules.folder
  // A copy leaves its source as it is: only reading was needed there.
  if (action !== 'copy' && rule && excludes(rule.writeUsers, principal) && covers(rule, rule.writeUsersSub, folder)) {
    return 'denied'
  }
  const need = needs[action]
  if (need === 'nothing') return 'allow'
  if (need === 'content') return mayWriteContent(principal, rule, folder) ? 'allow' : 'denied'
  return holds(principal, need) ? 'allow' : 'denied'
}

/** Whether files may be put into `folder`, whose deciding rule is given. */
export function mayWriteContent(principal: Principal, rule: Rule | undefined, folder: Path): boolean {
  if (rule && excludes(rule.writeUsers, principal) && covers(rule, rule.writeUsersSub, folder)) return false
  return holds(principal, 'write') || (rule !== undefined && rule.write && covers(rule, rule.writeSub, folder))
}

/** Names that operating systems leave behind by themselves. */
const systemFiles: ReadonlySet<string> = new Set(['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir'])

/** Whether nobody but an operating system would give this name; macOS puts `._` before those of files. */
export function isSystemFile(name: string): boolean {
  return systemFiles.has(name) || name.startsWith('._')
}

/**
 * Whether a name on the way from the rule's folder down to `path` matches the rule's patterns. The rule is that of the
 * folder that holds the path, so that a listing and a direct request agree.
 */
export function isHidden(principal: Principal, path: Path, folder: Rule | undefined): boolean {
  if (!folder || folder.hide === '' || holds(principal, 'seeHidden')) return false
  // What lies at or above the principal's own root was given by the admin.
  return hidesOnTheWay(folder, path, segmentsOf(principal.base).length - segmentsOf(folder.path).length)
}

/**
 * The same for somebody who sees nothing hidden. The first `given` names below the rule's folder are not asked about. A path that
 * takes too long to match is hidden.
 */
export function hidesOnTheWay(rule: Rule, path: Path, given = 0): boolean {
  const names = segmentsOf(within(rule.path, path) ?? path)
  let left = mostSteps
  return names.some((name, depth) => {
    if (depth < given || (depth > 0 && !rule.hideSub)) return false
    left -= stepsOf(rule.hideCost, name.length)
    return left < 0 || rule.hides(name)
  })
}

/** What lies directly in a closed folder is closed with it, also where the rule does not reach further down. */
function isMember(rule: Rule, action: Action, path: Path): boolean {
  return action === 'read' && parentOf(path) === rule.path
}

function excludes(users: readonly number[], principal: Principal): boolean {
  return users.length > 0 && !users.includes(principal.userId)
}
