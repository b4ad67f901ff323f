/**
 * A plain model of who may do what with a path, by users, groups, grants and folder rules, to which the decisions of
 * `src/tree/` are compared. It shares no code with them. It is written for reading: each function quotes the sentences
 * that it follows, everything is looked up anew, and nothing is fast.
 *
 * Left out: other spellings of a name, mount points, and the counting of wrong folder passwords.
 */
import type { Permission } from '../../src/accounts/principal.js'
import type { ErrorCode } from '../../src/base/errors.js'
import {
  childOf,
  isWithin,
  nameOf,
  parentOf,
  root,
  selfAndAncestors,
  under,
  within,
  type Path,
} from '../../src/base/path.js'

export const rights = ['see', 'read', 'write', 'rename', 'move', 'copy', 'remove', 'share'] as const
export type Right = (typeof rights)[number]

export interface User {
  readonly id: number
  readonly role: 'general' | 'guest' | 'admin'
  readonly permissions: readonly Permission[]
  readonly base: Path
  readonly grantedOnly: boolean
  /** The time from which the user may do nothing, in the unit of `Question.time`; undefined: never. */
  readonly expires: number | undefined
  /** The networks from which the user may come, by name; empty: all. */
  readonly allowFrom: readonly string[]
  /** Visitors of this share ask, and not the user, who is its creator. */
  readonly share?: Share | undefined
}

export interface Share {
  /** At or below the base of the creator. */
  readonly root: Path
  readonly mode: 'read' | 'upload' | 'both'
}

export interface Group {
  readonly id: number
  readonly permissions: readonly Permission[]
  readonly admin: boolean
  readonly members: readonly number[]
}

export interface Grant {
  readonly id: number
  readonly subject: { readonly user: number } | { readonly group: number }
  /** A path of the whole tree, as all paths of the model are. */
  readonly path: Path
  readonly allow: readonly Right[]
  readonly deny: readonly Right[]
}

/** A part that is absent or empty restricts nothing and allows nothing. Each `…Sub`: whether it also holds below. */
export interface Rule {
  readonly path: Path
  readonly password?: string
  readonly passwordSub?: boolean
  /** Regular expressions for names. */
  readonly hide?: readonly string[]
  readonly hideSub?: boolean
  readonly readUsers?: readonly number[]
  readonly readUsersSub?: boolean
  readonly writeUsers?: readonly number[]
  readonly writeUsersSub?: boolean
  readonly write?: boolean
  readonly writeSub?: boolean
}

export interface Entry {
  readonly path: Path
  readonly kind: 'file' | 'folder'
}

export interface Symlink {
  readonly path: Path
  /** The path that it leads to, which is not a symlink itself. */
  readonly target: Path
}

export interface World {
  readonly users: readonly User[]
  readonly groups: readonly Group[]
  readonly grants: readonly Grant[]
  readonly rules: readonly Rule[]
  /** What exists, without the root. */
  readonly entries: readonly Entry[]
  readonly symlinks: readonly Symlink[]
}

export interface Question {
  readonly user: number
  readonly action: Right
  readonly path: Path
  /** The new path, of `rename`, `move` and `copy`. */
  readonly to?: Path

  readonly protocol: 'http' | 'webdav' | 'sftp'
  readonly time: number
  /** The network of the client; undefined: a task asks. */
  readonly network?: string
  readonly revoked?: boolean
  /** Signed in by a read-only app password. */
  readonly readOnly?: boolean
  /** Authenticated by a signed URL of this path, and not as the user. */
  readonly signed?: Path
  /** The folder password that the request sends. */
  readonly password?: string

  /** Whether a `write` creates the entry, unless it exists. */
  readonly makes?: boolean
  /** Whether a `write` is by a handle that also reads. */
  readonly reads?: boolean
  /** Whether a `write` is an offline download. */
  readonly offlineDownload?: boolean
  /** Whether a `write` is a lock of infinite depth, or a `read` is a zip of the folder. */
  readonly wholeTree?: boolean
  /** Whether a `move` or `copy` replaces a folder that exists at the new path. */
  readonly replaces?: boolean
}

/** What decides, in the order in which it is asked. */
export const kinds = {
  signed: 'credential',
  share: 'credential',
  credential: 'credential',
  readOnly: 'credential',
  protocol: 'protocol',
  function: 'permission',
  base: 'base',
  hidden: 'hidden',
  notSeen: 'grant',
  readUsers: 'rule',
  password: 'rule',
  way: 'grant',
  grant: 'grant',
  grantedOnly: 'grant',
  folderOfGrant: 'grant',
  ruleWithWrite: 'rule',
  permission: 'permission',
  writeUsers: 'rule',
  wholeTree: 'grant',
  unreadableMember: 'grant',
  ruleBelow: 'rule',
} as const
export type Step = keyof typeof kinds

interface Cause {
  readonly step: Step
  readonly path?: Path
  readonly grant?: Grant | undefined
  readonly rule?: Rule | undefined
}

export interface Decision {
  readonly allowed: boolean
  /** The refusal; undefined if the question is allowed. */
  readonly error: ErrorCode | undefined
  readonly decidedBy: Cause
}

type Refusal = Decision | undefined

function refused(error: ErrorCode, decidedBy: Cause): Decision {
  return { allowed: false, error, decidedBy }
}

/**
 * "A decision is a chain of steps that can only **refuse**. The first that refuses gives the answer; what none refuses
 * is allowed."
 */
export function decide(world: World, question: Question): Decision {
  if (question.signed !== undefined) return bySignedUrl(world, question, question.signed)
  let refusal: Refusal = byFunction(world, question)
  for (const each of pathsAsked(world, question)) refusal ??= byPath(world, question, each)
  refusal ??= byTrees(world, question)
  return refusal ?? { allowed: true, error: undefined, decidedBy: causeOfPermission(world, question) }
}

/** The steps for one of the paths that are asked. */
function byPath(world: World, question: Question, asked: Asked): Refusal {
  return (
    byCredential(world, question, asked) ??
    byShare(world, question, asked) ??
    byBase(world, question, asked) ??
    bySight(world, question, asked) ??
    (asked.as === 'sight' ? undefined : (byName(world, question, asked) ?? byRulesAndRights(world, question, asked)))
  )
}

/**
 * The steps for the path alone, asked by its name, as a file is: not what is below it, and not the new path. "4. The
 * right" is asked for each right that the action needs, before "5. `write_users`".
 */
export function decideAt(world: World, question: Question): Decision {
  const { action, path, signed } = question
  if (signed !== undefined) return bySignedUrl(world, question, signed)
  const changes = action !== 'see' && action !== 'read' && action !== 'share'
  const each = asked(path, changes ? 'change' : 'look', action, action === 'write')
  const rights = action === 'move' ? rightsOfMove(world, question, path) : [action]
  let refusal =
    byCredential(world, question, each) ??
    byBase(world, question, each) ??
    bySight(world, question, each) ??
    byName(world, question, each) ??
    byReadUsers(world, question, each, true) ??
    byPassword(world, question, each, true)
  for (const right of rights) refusal ??= byRight(world, question, { ...each, right })
  refusal ??= byWriteUsers(world, question, each)
  return refusal ?? { allowed: true, error: undefined, decidedBy: causeOfPermission(world, question) }
}

function byRulesAndRights(world: World, question: Question, asked: Asked): Refusal {
  return byRules(world, question, asked) ?? byRight(world, question, asked) ?? byWriteUsers(world, question, asked)
}

/** What allowed it: that the path is a way, or the verdict on the action at the path. */
function causeOfPermission(world: World, question: Question): Cause {
  const { user, action, path } = question
  if (wayTo(world, userOf(world, user), path)) return { step: 'way', path }
  return verdict(world, userOf(world, user), action, path, question).cause
}

// ---- Words -------------------------------------------------------------------------------------------------------

function userOf(world: World, id: number): User {
  const user = world.users.find((each) => each.id === id)
  if (!user) throw new Error(`no user ${id}`)
  return user
}

function groupsOf(world: World, user: User): readonly Group[] {
  return world.groups.filter(({ members }) => members.includes(user.id))
}

/**
 * "general permissions: the user's own bits together with those of the user's groups". Of visitors of a share: "the
 * permissions of the creator narrowed to those of the mode" (docs/decisions/0045-shares.md).
 */
function hasPermission(world: World, user: User, permission: Permission): boolean {
  if (user.share !== undefined && !permissionsOfModes[user.share.mode].includes(permission)) return false
  return [user, ...groupsOf(world, user)].some(({ permissions }) => permissions.includes(permission))
}

const permissionsOfModes: Readonly<Record<Share['mode'], readonly Permission[]>> = {
  read: ['share'],
  upload: ['share', 'write'],
  both: ['share', 'write', 'copy'],
}

/** "Admins (by role or group)" */
function isAdmin(world: World, user: User): boolean {
  return user.role === 'admin' || groupsOf(world, user).some(({ admin }) => admin)
}

/** "granted only: a user who sees nothing but what a grant gives". "Admins: no grant applies to them." */
function isGrantedOnly(world: World, user: User): boolean {
  return user.grantedOnly && !isAdmin(world, user)
}

/** "of the grants of u and of u's groups". "Admins (by role or group): no grant applies to them." */
function grantsOf(world: World, user: User): readonly Grant[] {
  if (isAdmin(world, user)) return []
  const groups = groupsOf(world, user).map(({ id }) => id)
  return world.grants.filter(({ subject }) =>
    'user' in subject ? subject.user === user.id : groups.includes(subject.group),
  )
}

/** "A grant that allows anything allows `see`" */
function allows(grant: Grant, right: Right): boolean {
  return grant.allow.includes(right) || (right === 'see' && grant.allow.length > 0)
}

function denies(grant: Grant, right: Right): boolean {
  return grant.deny.includes(right)
}

function isStrictlyBelow(ancestor: Path, path: Path): boolean {
  return path !== ancestor && isWithin(ancestor, path)
}

// ---- Grants ------------------------------------------------------------------------------------------------------

/**
 * "**The deciding grant** for user u, right r, path p: of the grants of u and of u's groups at p or above it that
 * mention r, those at the longest path; there u's own decide before those of groups, and among groups a denial wins."
 */
function decidingGrant(grants: readonly Grant[], right: Right, path: Path): Grant | undefined {
  const mentioning = grants
    .filter((grant) => isWithin(grant.path, path))
    .filter((grant) => allows(grant, right) || denies(grant, right))
  const longest = Math.max(...mentioning.map((grant) => grant.path.length))
  const there = mentioning.filter((grant) => grant.path.length === longest)
  const own = there.filter(({ subject }) => 'user' in subject)
  const deciding = own.length > 0 ? own : there
  return deciding.find((grant) => denies(grant, right)) ?? deciding[0]
}

interface Verdict {
  readonly allowed: boolean
  readonly cause: Cause
}

/**
 * "4. The right: by the deciding grant; where none mentions it, by the general permission (`share`: bit 14; `write`: or
 * a folder rule with `write`)."
 *
 * "**Where no grant mentions r**: a user who is granted only is refused, whatever r is (the user's general permissions
 * open protocols and functions, never a path). For all others `see` and `read` are allowed, the rest needs the general
 * permission."
 *
 * `grants`: those that count.
 */
function verdict(
  world: World,
  user: User,
  right: Right,
  path: Path,
  question?: Question,
  grants = grantsOf(world, user),
): Verdict {
  const grant = decidingGrant(grants, right, path)
  if (grant) return { allowed: !denies(grant, right), cause: { step: 'grant', path, grant } }
  if (isGrantedOnly(world, user)) return { allowed: false, cause: { step: 'grantedOnly', path } }
  const cause = { step: 'permission', path } as const
  if (right === 'see' || right === 'read') return { allowed: true, cause }
  if (hasPermission(world, user, right)) return { allowed: true, cause }
  if (right === 'write') {
    // The permission for offline downloads includes the one to write.
    if (question?.offlineDownload && hasPermission(world, user, 'offlineDownload')) return { allowed: true, cause }
    const rule = nearestRule(world, parentOf(path))
    if (rule?.write && holdsIn(rule, rule.writeSub, parentOf(path))) {
      return { allowed: true, cause: { step: 'ruleWithWrite', path, rule } }
    }
  }
  return { allowed: false, cause }
}

/**
 * Whether the grants let the user see the path itself, and not only as a way. Of a share: "What the creator may not
 * share is not seen." (docs/decisions/0045-shares.md)
 */
function seesByGrants(world: World, user: User, path: Path): boolean {
  const isShared = user.share === undefined || verdict(world, user, 'share', path).allowed
  return isShared && verdict(world, user, 'see', path).allowed
}

/**
 * "**The way to a grant**, for every user: a folder in which `see` is refused, below which a grant of the user allows
 * it, is seen, lists only ways and grants, and cannot be read or changed otherwise (`denied`, since it is seen). A user
 * who is granted only and has no grant sees an empty root."
 */
export function wayTo(world: World, user: User, path: Path): boolean {
  if (seesByGrants(world, user, path)) return false
  const below = grantsOf(world, user).filter((grant) => isStrictlyBelow(path, grant.path))
  if (below.some((grant) => allows(grant, 'see') && seesByGrants(world, user, grant.path))) return true
  // What is shared is judged like any other path.
  return user.share === undefined && path === user.base && isGrantedOnly(world, user)
}

// ---- Folder rules ------------------------------------------------------------------------------------------------

/** "The nearest rule at or above a path applies." (docs/users.md) */
function nearestRule(world: World, path: Path): Rule | undefined {
  const above = world.rules.filter((rule) => isWithin(rule.path, path))
  return above.sort((one, other) => other.path.length - one.path.length)[0]
}

function isFolder(world: World, path: Path): boolean {
  return path === root || world.entries.some((entry) => entry.path === path && entry.kind === 'folder')
}

/** "Each part of a rule states whether it also applies below its own folder." (docs/users.md) */
function holdsIn(rule: Rule, sub: boolean | undefined, folder: Path): boolean {
  return sub === true || rule.path === folder
}

/**
 * Whether a part of the rule that decides on the path applies to it. As today: on a change, or a copy, the rule of the
 * folder that the path is in decides; on a look, that of the path itself. A part that does not apply below its own
 * folder applies to the files in it.
 */
function applies(rule: Rule, sub: boolean | undefined, { path, as }: Asked, isFile: boolean): boolean {
  if (as !== 'look') return holdsIn(rule, sub, parentOf(path))
  return holdsIn(rule, sub, path) || (isFile && rule.path === parentOf(path))
}

function rulingOn(world: World, { path, as }: Asked): Rule | undefined {
  return nearestRule(world, as === 'look' ? path : parentOf(path))
}

/** "`read_users` and `write_users` stay lists of user ids." An empty list names everybody. */
function excludes(users: readonly number[] | undefined, user: User): boolean {
  return users !== undefined && users.length > 0 && !users.includes(user.id)
}

/**
 * The rule that hides the path, or a folder that it is in. "Only the nearest rule at or above a path applies"
 * (docs/api.md): of the folder that the path is in. A rule hides names in its folder, and below it with `hideSub`. The
 * names of the base folder, which an admin has chosen, are seen.
 */
function hidingRule(world: World, user: User, path: Path): Rule | undefined {
  if (hasPermission(world, user, 'seeHidden') || path === root) return undefined
  const rule = nearestRule(world, parentOf(path))
  if (!rule) return undefined
  const inBase = [...selfAndAncestors(path)].filter((at) => !isWithin(at, user.base))
  return inBase.some((at) => hidesName(rule, at)) ? rule : undefined
}

/** Whether the rule hides the last name of a path. */
function hidesName(rule: Rule, path: Path): boolean {
  if (!isStrictlyBelow(rule.path, path) || !holdsIn(rule, rule.hideSub, parentOf(path))) return false
  return rule.hide?.some((pattern) => new RegExp(pattern, 'u').test(nameOf(path))) === true
}

/** The rule of a folder from which it leaves the user out as a reader: listings do not show the folder. */
function ownRuleAgainstReader(world: World, user: User, path: Path): Rule | undefined {
  return world.rules.find((rule) => rule.path === path && excludes(rule.readUsers, user))
}

// ---- Step 1 ------------------------------------------------------------------------------------------------------

/**
 * "A signed URL is judged as today and asks no grant": it allows to read its one path, and satisfies folder rules.
 * Where that is a symlink, what it leads to needs a signature of its own, unless the same rule or a grant closes both.
 */
function bySignedUrl(world: World, { action, path }: Question, signed: Path): Decision {
  const cause = { step: 'signed', path } as const
  const isAsked = path === signed && (action === 'read' || action === 'see')
  const target = realPath(world, path, true)
  const isAllowed = isAsked && (target === path || signatureOpens(world, path, target))
  return isAllowed ? { allowed: true, error: undefined, decidedBy: cause } : refused('denied', cause)
}

function signatureOpens(world: World, symlink: Path, target: Path): boolean {
  if (isClosedByGrant(world, target) && !isClosedByGrant(world, symlink)) return false
  const hiding = nearestRule(world, parentOf(target))
  if (hiding && [...selfAndAncestors(target)].some((at) => hidesName(hiding, at))) return false
  const isSameRule = nearestRule(world, target) === nearestRule(world, symlink) && isClosedByRule(world, symlink)
  return isSameRule || !isClosedByRule(world, target)
}

/**
 * "1. Credential: revoked, past its end, a network that is not allowed, the protocol's permissions, a read-only app
 * password." "Networks are asked at the request": a task has none. The source of a copy is not changed.
 */
function byCredential(world: World, question: Question, { as, right }: Asked): Refusal {
  const user = userOf(world, question.user)
  const { network, protocol } = question
  const looks = as === 'look'
  const isPast = user.expires !== undefined && question.time >= user.expires
  const isElsewhere = network !== undefined && user.allowFrom.length > 0 && !user.allowFrom.includes(network)
  if (question.revoked || isPast || isElsewhere) return refused('unauthenticated', { step: 'credential' })
  if (question.readOnly && !looks && right !== 'copy') return refused('denied', { step: 'readOnly' })
  if (protocol !== 'http') {
    const mayUse = hasPermission(world, user, protocol === 'webdav' ? 'webdavRead' : 'sftpRead')
    const mayChange = hasPermission(world, user, protocol === 'webdav' ? 'webdavManage' : 'sftpManage')
    if (!mayUse || (!looks && !mayChange)) return refused('denied', { step: 'protocol' })
  }
  return undefined
}

/**
 * "`read`: they list and download. `upload`: they add files to a folder and see nothing of it. `both`: they list,
 * download, add and replace files and make folders. In no mode do they remove, rename or move anything."
 * (docs/shares.md) That there is something is what a link tells, and what is shared is itself not changed.
 */
function byShare(world: World, question: Question, { path, as, right }: Asked): Refusal {
  const { share } = userOf(world, question.user)
  if (share === undefined) return undefined
  const isRoot = path === share.root
  if (isRoot && right === 'see') return undefined
  const isPermitted = rightsOfModes[share.mode].includes(right ?? 'write') && !(isRoot && as === 'change')
  return isPermitted ? undefined : refused('denied', { step: 'share', path })
}

const rightsOfModes: Readonly<Record<Share['mode'], readonly Right[]>> = {
  read: ['share', 'see', 'read'],
  upload: ['share', 'write'],
  both: ['share', 'see', 'read', 'write', 'copy'],
}

/** "The user's general permissions open protocols and functions, never a path." */
function byFunction(world: World, question: Question): Refusal {
  const user = userOf(world, question.user)
  if (question.offlineDownload !== true || hasPermission(world, user, 'offlineDownload')) return undefined
  return (
    byCredential(world, question, asked(question.path, 'change', 'write')) ?? refused('denied', { step: 'function' })
  )
}

// ---- Which path is asked -----------------------------------------------------------------------------------------

interface Asked {
  readonly path: Path
  /**
   * Whether something changes here: then the folder rule of the parent folder and `write_users` are asked. The source
   * of a copy is asked as a change that `write_users` do not concern. `sight`: only whether the path is seen.
   */
  readonly as: 'look' | 'change' | 'sight'
  /** Undefined where no right is asked. */
  readonly right: Right | undefined
  /** Whether the entry is created here, so that one that is not seen is answered as in a missing folder. */
  readonly makes: boolean
  /** A path that a symlink leads to. */
  readonly isTarget?: boolean
}

function asked(path: Path, as: Asked['as'], right: Right | undefined, makes = false): Asked {
  return { path, as, right, makes }
}

/**
 * The path without the symlinks that it leads through; with `last`, also without one that it ends with. "**Symlinks**:
 * the target's path is asked too".
 */
function realPath(world: World, path: Path, last: boolean): Path {
  const symlink = world.symlinks.find((each) => isWithin(each.path, path) && (last || each.path !== path))
  return symlink ? under(symlink.target, within(symlink.path, path) ?? root) : path
}

/** The path that is asked, and then the one that its symlinks lead to, for the same right. */
function withTarget(world: World, first: Asked, last: boolean): readonly Asked[] {
  const path = realPath(world, first.path, last)
  return path === first.path ? [first] : [first, { ...first, path, isTarget: true }]
}

/** The path of what is moved, removed or copied: a symlink itself, and not what it leads to. */
function sourceOf(world: World, { path }: Question): Path {
  return realPath(world, path, false)
}

function newPathOf({ action, to }: Question): Path {
  if (to === undefined) throw new Error(`${action} needs a new path`)
  return to
}

/** "**Which path is asked.**" Of two paths the first is asked first, but a move asks at first whether both are seen. */
function pathsAsked(world: World, question: Question): readonly Asked[] {
  const { action, path } = question
  switch (action) {
    case 'see':
    case 'read':
    case 'share':
      // "`remove`, `share`: the entry."
      return withTarget(world, asked(path, 'look', action), true)
    case 'remove':
      return withTarget(world, asked(path, 'change', 'remove'), false)
    case 'write': {
      // "`write`: the entry (also folders, attributes, properties, locks, refresh, offline downloads); a handle that
      // also reads asks `read`."
      const writes = withTarget(world, asked(path, 'change', 'write', question.makes === true), true)
      return question.reads ? [...writes, ...writes.map((each) => ({ ...each, right: 'read' as const }))] : writes
    }
    case 'rename':
    case 'move':
      return pathsOfMove(world, question)
    case 'copy': {
      // "`copy`: `copy` and `read` at the source, `write` at the target."
      const to = newPathOf(question)
      return [
        ...withTarget(world, asked(path, 'look', 'read'), true),
        asked(sourceOf(world, question), 'change', 'copy'),
        ...pathsOfTarget(world, question),
        targetAsked(world, question, realPath(world, to, false)),
        ...replacedAsked(world, question),
      ]
    }
  }
}

/** A move asks the paths that symlinks lead to, and whether those are seen that are named. */
function pathsOfMove(world: World, question: Question): readonly Asked[] {
  const [source, target] = [sourceOf(world, question), realPath(world, newPathOf(question), false)]
  const followed = rightsOfMove(world, question, source).map((right) => asked(source, 'change', right))
  return [
    asked(question.path, 'sight', 'move'),
    // As today, what a symlink leads to is asked as what is moved elsewhere is.
    ...(source === question.path ? [] : followed.map((each) => ({ ...each, isTarget: true }))),
    ...pathsOfTarget(world, question),
    ...rightsAtSource(world, question).map((right) => asked(source, 'change', right)),
    // "`rename`: the old and the new path."
    isRename(world, question) ? asked(target, 'change', 'rename', true) : targetAsked(world, question, target),
    ...replacedAsked(world, question),
  ]
}

/** Whether the new path is seen, and what is asked where a symlink leads elsewhere. */
function pathsOfTarget(world: World, question: Question): readonly Asked[] {
  const to = newPathOf(question)
  const target = realPath(world, to, false)
  const named = asked(to, 'sight', undefined, true)
  return target === to ? [named] : [named, { ...targetAsked(world, question, target), isTarget: true }]
}

/** A move within a folder is a rename. */
function isRename(world: World, question: Question): boolean {
  return parentOf(sourceOf(world, question)) === parentOf(realPath(world, newPathOf(question), false))
}

/** What a rename or move asks at the source, and of all that is below it. */
function actionsOf(world: World, question: Question): readonly ('rename' | 'move')[] {
  if (isRename(world, question)) return ['rename']
  return nameOf(question.path) === nameOf(newPathOf(question)) ? ['move'] : ['move', 'rename']
}

/**
 * "`move`: at the source `move`, `rename` too if the name changes (as today), `remove` too if a grant mentions it
 * there". What it could read at the target is asked at the end: `byLanding`.
 */
function rightsAtSource(world: World, question: Question): readonly Right[] {
  const source = sourceOf(world, question)
  return actionsOf(world, question).flatMap((action) =>
    action === 'move' ? rightsOfMove(world, question, source) : [action],
  )
}

function rightsOfMove(world: World, question: Question, path: Path): readonly Right[] {
  const mentioned = decidingGrant(grantsOf(world, userOf(world, question.user)), 'remove', path) !== undefined
  return mentioned ? ['remove', 'move'] : ['move']
}

/**
 * "Of targets of moves and copies `write` is asked if a grant mentions it there or the caller is granted only; else
 * today's rule for targets holds": no permission to write is needed, and folder rules are asked.
 */
function targetAsked(world: World, question: Question, to: Path): Asked {
  const user = userOf(world, question.user)
  const mentioned = decidingGrant(grantsOf(world, user), 'write', to) !== undefined
  // Whether visitors write is for the creator's permission to say, also by a copy.
  const isAsked = mentioned || isGrantedOnly(world, user) || user.share !== undefined
  return asked(to, 'change', isAsked ? 'write' : undefined, true)
}

/** As today: a folder that is replaced is removed, and a file that is replaced is written. */
function replacedAsked(world: World, question: Question): readonly Asked[] {
  const to = realPath(world, newPathOf(question), false)
  const replaced = question.replaces === true ? world.entries.find((entry) => entry.path === to) : undefined
  return replaced === undefined ? [] : [asked(to, 'change', replaced.kind === 'folder' ? 'remove' : 'write', true)]
}

// ---- Steps 2 to 5 ------------------------------------------------------------------------------------------------

/**
 * "The base folder is the user's `/`, as today; grants outside it have no effect". No symlink leads out of it. "A share
 * is a list of roots, and each is the base of a principal" (docs/decisions/0045-shares.md).
 */
function byBase(world: World, question: Question, { path, isTarget }: Asked): Refusal {
  const { base, share } = userOf(world, question.user)
  const isInside = isWithin(share?.root ?? base, path)
  return isInside ? undefined : refused(isTarget === true ? 'denied' : 'not_found', { step: 'base', path })
}

/**
 * "2. Not seen: … `see` refused by the grants ("not found" everywhere; for what would be made there, as in a missing
 * folder)." This is asked before hidden names, whose answer tells more.
 */
function bySight(world: World, question: Question, { path, makes }: Asked): Refusal {
  const user = userOf(world, question.user)
  if (seesByGrants(world, user, path) || wayTo(world, user, path)) return undefined
  const { grant } = verdict(world, user, 'see', path).cause
  return refused(makes ? 'parent_missing' : 'not_found', { step: 'notSeen', path, grant })
}

/** "2. Not seen: a name that a folder rule hides (403 over HTTP, as today)". */
function byName(world: World, question: Question, { path }: Asked): Refusal {
  const rule = hidingRule(world, userOf(world, question.user), path)
  return rule && refused('hidden', { step: 'hidden', path, rule })
}

/**
 * "3. Folder rules: `read_users`, password." As today, a folder is asked as a file is, unless it is listed. Who may
 * list it sees it too; to others the answer does not tell that it is a folder. It is shared as a file is.
 */
function byRules(world: World, question: Question, asked: Asked): Refusal {
  const asFile = byReadUsers(world, question, asked, true) ?? byPassword(world, question, asked, true)
  if (asked.as !== 'look' || !isFolder(world, realPath(world, asked.path, true))) return asFile
  const asFolder = byReadUsers(world, question, asked, false) ?? byPassword(world, question, asked, false)
  if (question.action === 'read' && question.wholeTree === true) return asFolder
  return asked.right === 'read' || asked.right === 'share' || asFolder ? asFile : undefined
}

/** Whom `read_users` leaves out does not see the path. */
function byReadUsers(world: World, question: Question, asked: Asked, isFile: boolean): Refusal {
  const rule = rulingOn(world, asked)
  if (!rule || !excludes(rule.readUsers, userOf(world, question.user))) return undefined
  return applies(rule, rule.readUsersSub, asked, isFile) ? refused('hidden', { step: 'readUsers', rule }) : undefined
}

function byPassword(world: World, question: Question, asked: Asked, isFile: boolean): Refusal {
  const rule = rulingOn(world, asked)
  if (!rule?.password || question.password === rule.password) return undefined
  if (hasPermission(world, userOf(world, question.user), 'skipPasswords')) return undefined
  const isAsked = applies(rule, rule.passwordSub, asked, isFile)
  return isAsked ? refused('password_required', { step: 'password', rule }) : undefined
}

/** "4. The right", if one is asked. A way "cannot be read or changed otherwise (`denied`)". */
function byRight(world: World, question: Question, { path, right, as, makes }: Asked): Refusal {
  const user = userOf(world, question.user)
  if (wayTo(world, user, path)) {
    if (as === 'look' && right === 'see') return undefined
    const { grant } = verdict(world, user, 'see', path).cause
    return refused('denied', { step: 'way', path, grant })
  }
  if (right === undefined) return undefined
  const { allowed, cause } = verdict(world, user, right, path, question)
  if (!allowed) return refused('denied', cause)
  // A new path is not the folder of a grant, but what it replaces is.
  const isNew = makes && right !== 'remove'
  return isNew || isAllowedFromAbove(world, user, right, path)
    ? undefined
    : refused('denied', { ...cause, step: 'folderOfGrant' })
}

/**
 * "**The folder of a grant itself** is renamed, moved or removed only with that right from above it: a grant of
 * `remove` on /sales empties /sales and does not delete it."
 */
function isAllowedFromAbove(world: World, user: User, right: Right, path: Path): boolean {
  if (right !== 'rename' && right !== 'move' && right !== 'remove') return true
  const above = grantsOf(world, user).filter((grant) => grant.path !== path)
  return verdict(world, user, right, path, undefined, above).allowed
}

/** "5. `write_users`." */
function byWriteUsers(world: World, question: Question, asked: Asked): Refusal {
  const rule = rulingOn(world, asked)
  if (!rule || asked.as !== 'change' || asked.right === 'copy') return undefined
  const isExcluded = excludes(rule.writeUsers, userOf(world, question.user))
  return isExcluded && applies(rule, rule.writeUsersSub, asked, true)
    ? refused('denied', { step: 'writeUsers', rule })
    : undefined
}

// ---- Whole trees -------------------------------------------------------------------------------------------------

/**
 * "**Whole trees.** A removal, rename or move of a folder, the replacement of a folder by a move or copy, and a lock of
 * infinite depth are refused (`denied`) before anything changes if a grant of the caller below denies that right (of
 * the replaced folder: `remove`) or `see`, at the source or where it lands. This refusal follows from the grant alone,
 * whether or not anything exists there; it is the one answer that tells of a path not seen."
 *
 * The grant below `path` for which an operation that needs `right` in the whole tree is refused.
 */
export function refusesWholeTree(world: World, user: User, right: Right, path: Path): Grant | undefined {
  return grantsOf(world, user)
    .filter((grant) => isStrictlyBelow(path, grant.path))
    .find((grant) =>
      [right, 'see' as const].some((each) => denies(grant, each) && !verdict(world, user, each, grant.path).allowed),
    )
}

/** What a rename or move needs in the whole tree: to move an entry that a grant lets nobody remove is to remove it. */
function rightsBelow(world: World, question: Question): readonly Right[] {
  return actionsOf(world, question).flatMap((action) => (action === 'move' ? (['move', 'remove'] as const) : [action]))
}

/** What is asked of everything below the paths, after the paths themselves. */
function byTrees(world: World, question: Question): Refusal {
  const { action } = question
  const source = sourceOf(world, question)
  const real = realPath(world, question.path, true)
  const isTree = isFolder(world, source)
  switch (action) {
    case 'remove':
      return isTree
        ? (byTree(world, question, source, ['remove'], 'remove') ?? byHidden(world, question, source))
        : undefined
    case 'write':
      // A lock of infinite depth.
      return question.wholeTree && isFolder(world, real) ? byTree(world, question, real, ['write'], 'write') : undefined
    case 'read':
      return question.wholeTree ? byZip(world, question, real) : undefined
    case 'copy':
      return (
        byReplaced(world, question) ??
        (isTree ? byCopy(world, question, source) : undefined) ??
        byReplacedNames(world, question)
      )
    case 'rename':
    case 'move':
      return (
        byReplaced(world, question) ??
        (isTree ? byTree(world, question, source, rightsBelow(world, question), 'move') : undefined) ??
        byLanding(world, question, source) ??
        (isTree ? byRevealedNames(world, question, source) : undefined) ??
        byReplacedNames(world, question)
      )
    default:
      return undefined
  }
}

/**
 * The grants below a folder, and the folder rules there, for an operation on all of it. `action`: what is asked of the
 * members of each folder with a rule.
 */
function byTree(world: World, question: Question, folder: Path, rights: readonly Right[], action: Right): Refusal {
  const user = userOf(world, question.user)
  for (const right of rights) {
    const grant = refusesWholeTree(world, user, right, folder)
    if (grant) return refused('denied', { step: 'wholeTree', path: folder, grant })
  }
  return byRulesBelow(world, question, [folder, ...foldersWithRules(world, folder)], action)
}

function foldersWithRules(world: World, folder: Path): readonly Path[] {
  return world.rules.map(({ path }) => path).filter((path) => isStrictlyBelow(folder, path))
}

/**
 * "Who may remove a folder that contains entries they cannot see? No user: neither by removing it, nor by replacing it.
 * … whether a rule hides entries, requires a password, or restricts readers or writers."
 * (docs/decisions/0009-unseen-things.md) As today, the members of each folder with a rule are asked, whether or not it
 * has any. A rename asks to move them.
 */
function byRulesBelow(world: World, question: Question, folders: readonly Path[], action: Right): Refusal {
  for (const folder of folders) {
    if (!world.rules.some(({ path }) => path === folder)) continue
    const member = childOf(folder, 'a member without grants')
    const rights = action === 'move' ? rightsOfMove(world, question, member) : [action]
    for (const right of rights) {
      const each = asked(member, 'change', right)
      const refusal = bySight(world, question, each) ?? byRulesAndRights(world, question, each)
      if (refusal) return { ...refusal, decidedBy: { ...refusal.decidedBy, step: 'ruleBelow', path: folder } }
    }
  }
  return undefined
}

/** A removal is refused if the folder has entries that listings do not show. */
function byHidden(world: World, question: Question, folder: Path): Refusal {
  const user = userOf(world, question.user)
  const below = [...world.entries, ...world.symlinks].filter(({ path }) => isStrictlyBelow(folder, path))
  const hidden = below.find(({ path }) => !isListed(world, user, path))
  return hidden && refused('denied', { step: 'ruleBelow', path: hidden.path })
}

/** "the replacement of a folder by a move or copy" */
function byReplaced(world: World, question: Question): Refusal {
  const to = realPath(world, newPathOf(question), false)
  return question.replaces && isFolder(world, to) ? byTree(world, question, to, ['remove'], 'remove') : undefined
}

function byReplacedNames(world: World, question: Question): Refusal {
  const to = realPath(world, newPathOf(question), false)
  return question.replaces && isFolder(world, to) ? byHidden(world, question, to) : undefined
}

/**
 * "`read` wherever the caller could read at the target (a move sheds no denial)": also below, where a grant at the
 * target would open what is closed at the source. Of a folder, also what denies where it lands, as `write` does.
 */
function byLanding(world: World, question: Question, source: Path): Refusal {
  const user = userOf(world, question.user)
  const target = realPath(world, newPathOf(question), false)
  const isTree = isFolder(world, source)
  for (const landing of [target, ...(isTree ? grantedPaths(world, user, target) : [])]) {
    const from = under(source, within(target, landing) ?? root)
    if (reads(world, user, landing) && !reads(world, user, from))
      return refused('denied', { step: 'grant', path: from })
  }
  if (!isTree) return undefined
  for (const right of [...actionsOf(world, question), 'write' as const]) {
    const grant = refusesWholeTree(world, user, right, target)
    if (grant) return refused('denied', { step: 'wholeTree', path: target, grant })
  }
  return undefined
}

/** Whether the grants let the user read the content. */
function reads(world: World, user: User, path: Path): boolean {
  return seesByGrants(world, user, path) && verdict(world, user, 'read', path).allowed
}

/** The paths below a folder that have grants of the user, and the folders on the way to them. */
function grantedPaths(world: World, user: User, folder: Path): readonly Path[] {
  const paths = grantsOf(world, user).flatMap(({ path }) => [...selfAndAncestors(path)])
  return [...new Set(paths)].filter((path) => isStrictlyBelow(folder, path))
}

/**
 * "A move is permitted if the rule moves along or applies at the target too; otherwise it would reveal hidden entries."
 * (docs/decisions/0009-unseen-things.md)
 */
function byRevealedNames(world: World, question: Question, source: Path): Refusal {
  const rule = nearestRule(world, source)
  if (!rule?.hide?.length || hasPermission(world, userOf(world, question.user), 'seeHidden')) return undefined
  if (rule.path === source || rule.hideSub !== true) return undefined
  const target = realPath(world, newPathOf(question), false)
  const there = nearestRule(world, parentOf(target))
  const applies = there?.hide?.join() === rule.hide.join() && holdsIn(there, there.hideSub, target)
  return applies ? undefined : refused('denied', { step: 'ruleBelow', path: source, rule })
}

/**
 * "A copy or a zip leaves out, silently, what the caller does not see, and is refused before its first byte if it would
 * hold what the caller sees and may not read (or, for a copy, not copy): as for folder rules today." A copy is refused
 * by the grant alone, as a move is.
 */
function byCopy(world: World, question: Question, source: Path): Refusal {
  const user = userOf(world, question.user)
  for (const path of grantedPaths(world, user, source)) {
    if (!seesByGrants(world, user, path) && !wayTo(world, user, path)) continue
    if (reads(world, user, path) && verdict(world, user, 'copy', path).allowed) continue
    return refused('denied', { step: 'unreadableMember', path })
  }
  const shown = foldersWithRules(world, source).filter((path) => isShownBelow(world, user, source, path))
  return byRulesBelow(world, question, shown, 'copy')
}

/** What exists of it is asked: a zip changes nothing. */
function byZip(world: World, question: Question, folder: Path): Refusal {
  if (!isFolder(world, folder)) return undefined
  const user = userOf(world, question.user)
  for (const { path } of world.entries.filter((entry) => isStrictlyBelow(folder, entry.path))) {
    if (!seesByGrants(world, user, path) && !wayTo(world, user, path)) continue
    if (!reads(world, user, path)) return refused('denied', { step: 'unreadableMember', path })
  }
  for (const path of foldersWithRules(world, folder)) {
    if (!isFolder(world, path) || !isShownBelow(world, user, folder, path)) continue
    const each = asked(path, 'look', 'see')
    const refusal = byName(world, question, each) ?? byRulesAndRights(world, question, each)
    if (refusal) return refusal
  }
  return undefined
}

/** Whether listings show the path and all folders on the way from `top` to it. */
function isShownBelow(world: World, user: User, top: Path, path: Path): boolean {
  return [...selfAndAncestors(path)].filter((at) => isStrictlyBelow(top, at)).every((at) => isListed(world, user, at))
}

// ---- Listings and links ------------------------------------------------------------------------------------------

/**
 * "**Not seen** is the same in every answer, count, search total and conflict": the names in a folder that a listing
 * shows. A way "lists only ways and grants", because nothing else is seen there. A folder with a password is listed.
 */
export function visible(world: World, user: User, folder: Path, names: readonly string[]): readonly string[] {
  return names.filter((name) => isListed(world, user, childOf(folder, name)))
}

function isListed(world: World, user: User, path: Path): boolean {
  const isSeen = seesByGrants(world, user, path) || wayTo(world, user, path)
  return isSeen && !hidingRule(world, user, path) && !ownRuleAgainstReader(world, user, path)
}

/**
 * "**Links**: a path at or below a denial of `see` or `read` needs a signature, as under a folder rule": of whomever
 * the grant is. As today under a folder rule: where it has a password or readers for the path or its folder, or hides
 * names there for anybody.
 */
export function needsSignature(world: World, path: Path): boolean {
  return isClosedByRule(world, path) || isClosedByGrant(world, path)
}

function isClosedByRule(world: World, path: Path): boolean {
  const rule = nearestRule(world, path)
  if (!rule) return false
  const reaches = (sub: boolean | undefined) => holdsIn(rule, sub, path) || holdsIn(rule, sub, parentOf(path))
  if (rule.password && reaches(rule.passwordSub)) return true
  if (rule.readUsers?.length && reaches(rule.readUsersSub)) return true
  if (!rule.hide?.length) return false
  return reaches(rule.hideSub) || [...selfAndAncestors(path)].some((at) => hidesName(rule, at))
}

function isClosedByGrant(world: World, path: Path): boolean {
  const above = world.grants.filter((grant) => isWithin(grant.path, path))
  return above.some((grant) => denies(grant, 'see') || denies(grant, 'read'))
}
