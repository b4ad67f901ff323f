/**
 * A plain model of who may do what with a path, by users, groups, grants and folder rules, to which the decisions of
 * `src/tree/` are compared. It shares no code with them. It is written for reading: each function quotes the sentences
 * that it follows, everything is looked up anew, and nothing is fast.
 *
 * Left out: other spellings of a name, mount points, and the counting of wrong folder passwords.
 */
import type { Permission } from '../../src/accounts/principal.js'
import type { ErrorCode } from '../../src/base/errors.js'
import { childOf, isWithin, nameOf, parentOf, root, under, within, type Path } from '../../src/base/path.js'

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
  /** Of the whole tree, as all paths of the model are. */
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

  /** Of `write`: the entry is created, unless it exists. */
  readonly makes?: boolean
  /** Of `write`: by a handle that also reads. */
  readonly reads?: boolean
  /** Of `write`: an offline download. */
  readonly offlineDownload?: boolean
  /** Of `write`: a lock of infinite depth. Of `read`: a zip of the folder. */
  readonly wholeTree?: boolean
  /** Of `move` and `copy`: a folder that exists at the new path is replaced. */
  readonly replaces?: boolean
}

/** What decides, in the order in which it is asked. */
export const kinds = {
  signed: 'credential',
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
  /** Undefined if it is allowed. */
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
  if (question.signed !== undefined) return bySignedUrl(question, question.signed)
  const asked = pathsAsked(world, question)
  let refusal: Refusal = byCredential(world, question)
  for (const each of asked) {
    refusal ??= byBase(world, question, each)
    refusal ??= bySight(world, question, each)
    refusal ??= byReadUsers(world, question, each.path)
    refusal ??= byPassword(world, question, each.path)
    refusal ??= byRight(world, question, each)
    refusal ??= byWriteUsers(world, question, each)
  }
  refusal ??= byGrantsBelow(world, question)
  refusal ??= byMembers(world, question)
  refusal ??= byRulesBelow(world, question)
  return refusal ?? { allowed: true, error: undefined, decidedBy: causeOfPermission(world, question) }
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

/** "general permissions: the user's own bits together with those of the user's groups" */
function hasPermission(world: World, user: User, permission: Permission): boolean {
  return [user, ...groupsOf(world, user)].some(({ permissions }) => permissions.includes(permission))
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
    const rule = nearestRule(world, path)
    if (rule?.write && covers(world, rule, rule.writeSub, path)) {
      return { allowed: true, cause: { step: 'ruleWithWrite', path, rule } }
    }
  }
  return { allowed: false, cause }
}

/** Whether the grants let the user see the path itself, and not only as a way. */
function seesByGrants(world: World, user: User, path: Path): boolean {
  return verdict(world, user, 'see', path).allowed
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
  return path === user.base && isGrantedOnly(world, user)
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

function isFile(world: World, path: Path): boolean {
  return world.entries.some((entry) => entry.path === path && entry.kind === 'file')
}

/**
 * "Each part of a rule states whether it also applies below its own folder." (docs/users.md) A part that does not
 * applies to the folder and to the files in it; a name that does not exist is answered as a file.
 */
function covers(world: World, rule: Rule, sub: boolean | undefined, path: Path): boolean {
  return sub === true || rule.path === path || (rule.path === parentOf(path) && !isFolder(world, path))
}

/** "`read_users` and `write_users` stay lists of user ids." An empty list names everybody. */
function excludes(users: readonly number[] | undefined, user: User): boolean {
  return users !== undefined && users.length > 0 && !users.includes(user.id)
}

/**
 * The rule that hides the path, or a folder that it is in. A rule hides names in its folder, and below it with
 * `hideSub`; of the rules of a folder the nearest counts.
 */
function hidingRule(world: World, user: User, path: Path): Rule | undefined {
  if (hasPermission(world, user, 'seeHidden') || path === root) return undefined
  const folder = parentOf(path)
  const rule = nearestRule(world, folder)
  const isActive = rule !== undefined && (rule.path === folder || rule.hideSub === true)
  if (isActive && rule.hide?.some((pattern) => new RegExp(pattern, 'u').test(nameOf(path)))) return rule
  return hidingRule(world, user, folder)
}

function ruleAgainstReader(world: World, user: User, path: Path): Rule | undefined {
  const rule = nearestRule(world, path)
  return rule && covers(world, rule, rule.readUsersSub, path) && excludes(rule.readUsers, user) ? rule : undefined
}

function ruleAgainstWriter(world: World, user: User, path: Path): Rule | undefined {
  const rule = nearestRule(world, path)
  return rule && covers(world, rule, rule.writeUsersSub, path) && excludes(rule.writeUsers, user) ? rule : undefined
}

function ruleWithPassword(world: World, user: User, path: Path, sent: string | undefined): Rule | undefined {
  const rule = nearestRule(world, path)
  if (!rule?.password || hasPermission(world, user, 'skipPasswords')) return undefined
  return covers(world, rule, rule.passwordSub, path) && sent !== rule.password ? rule : undefined
}

// ---- Step 1 ------------------------------------------------------------------------------------------------------

/** "A signed URL is judged as today and asks no grant": it allows to read its one path, and satisfies folder rules. */
function bySignedUrl({ action, path }: Question, signed: Path): Decision {
  const cause = { step: 'signed', path } as const
  const allowed = path === signed && (action === 'read' || action === 'see')
  return allowed ? { allowed, error: undefined, decidedBy: cause } : refused('denied', cause)
}

/**
 * "1. Credential: revoked, past its end, a network that is not allowed, the protocol's permissions, a read-only app
 * password." "Networks are asked at the request": a task has none.
 */
function byCredential(world: World, question: Question): Refusal {
  const user = userOf(world, question.user)
  const { network, protocol } = question
  const changes = question.action !== 'see' && question.action !== 'read'
  const isPast = user.expires !== undefined && question.time >= user.expires
  const isElsewhere = network !== undefined && user.allowFrom.length > 0 && !user.allowFrom.includes(network)
  if (question.revoked || isPast || isElsewhere) return refused('unauthenticated', { step: 'credential' })
  if (protocol !== 'http') {
    const mayUse = hasPermission(world, user, protocol === 'webdav' ? 'webdavRead' : 'sftpRead')
    const mayChange = hasPermission(world, user, protocol === 'webdav' ? 'webdavManage' : 'sftpManage')
    if (!mayUse || (changes && !mayChange)) return refused('denied', { step: 'protocol' })
  }
  if (question.readOnly && changes) return refused('denied', { step: 'readOnly' })
  // "The user's general permissions open protocols and functions, never a path."
  if (question.offlineDownload && !hasPermission(world, user, 'offlineDownload')) {
    return refused('denied', { step: 'function' })
  }
  return undefined
}

// ---- Which path is asked -----------------------------------------------------------------------------------------

interface Asked {
  readonly path: Path
  readonly rights: readonly Right[]
  /** Whether the entry is created here, so that one that is not seen is answered as in a missing folder. */
  readonly makes: boolean
  /** Whether something changes here: it asks `write_users`. */
  readonly changes: boolean
}

/**
 * "**Which path is asked.**", and "**Symlinks**: the target's path is asked too": after the path that leads to it, and
 * for the same rights.
 */
function pathsAsked(world: World, question: Question): readonly Asked[] {
  return namedPathsAsked(world, question).flatMap((each) => {
    const real = realPath(world, each.path)
    return real === each.path ? [each] : [each, { ...each, path: real }]
  })
}

function realPath(world: World, path: Path): Path {
  const symlink = world.symlinks.find((each) => isWithin(each.path, path))
  return symlink ? under(symlink.target, within(symlink.path, path) ?? root) : path
}

function namedPathsAsked(world: World, question: Question): readonly Asked[] {
  const user = userOf(world, question.user)
  const { action, path } = question
  const at = { path, makes: false, changes: true }
  const to = () => {
    if (question.to === undefined) throw new Error(`${action} needs a new path`)
    return { path: question.to, makes: true, changes: true }
  }
  switch (action) {
    case 'see':
    case 'read':
    case 'share':
      // "`remove`, `share`: the entry."
      return [{ ...at, rights: [action], changes: false }]
    case 'remove':
      return [{ ...at, rights: ['remove'] }]
    case 'write':
      // "`write`: the entry (also folders, attributes, properties, locks, refresh, offline downloads); a handle that
      // also reads asks `read`."
      return [{ ...at, rights: question.reads ? ['write', 'read'] : ['write'], makes: question.makes === true }]
    case 'rename':
      // "`rename`: the old and the new path."
      return [
        { ...at, rights: ['rename'] },
        { ...to(), rights: ['rename'] },
      ]
    case 'move':
      return [{ ...at, rights: rightsAtSourceOfMove(world, user, path, to().path) }, target(world, user, to())]
    case 'copy':
      // "`copy`: `copy` and `read` at the source, `write` at the target."
      return [{ ...at, rights: ['copy', 'read'], changes: false }, target(world, user, to())]
  }
}

/**
 * "`move`: at the source `move`, `rename` too if the name changes (as today), `remove` too if a grant mentions it
 * there, and `read` wherever the caller could read at the target (a move sheds no denial); at the target `write`."
 */
function rightsAtSourceOfMove(world: World, user: User, path: Path, to: Path): readonly Right[] {
  const asked: Right[] = ['move']
  if (nameOf(path) !== nameOf(to)) asked.push('rename')
  if (decidingGrant(grantsOf(world, user), 'remove', path)) asked.push('remove')
  const couldRead = seesByGrants(world, user, to) && verdict(world, user, 'read', to).allowed
  if (couldRead) asked.push('read')
  return asked
}

/**
 * "Of targets of moves and copies `write` is asked if a grant mentions it there or the caller is granted only; else
 * today's rule for targets holds": no permission to write is needed, and folder rules are asked.
 */
function target(world: World, user: User, to: Omit<Asked, 'rights'>): Asked {
  const mentioned = decidingGrant(grantsOf(world, user), 'write', to.path) !== undefined
  return { ...to, rights: mentioned || isGrantedOnly(world, user) ? ['write'] : [] }
}

// ---- Steps 2 to 5 ------------------------------------------------------------------------------------------------

/** "The base folder is the user's `/`, as today; grants outside it have no effect". */
function byBase(world: World, question: Question, { path }: Asked): Refusal {
  return isWithin(userOf(world, question.user).base, path) ? undefined : refused('not_found', { step: 'base', path })
}

/**
 * "2. Not seen: a name that a folder rule hides (403 over HTTP, as today), or `see` refused by the grants ("not found"
 * everywhere; for what would be made there, as in a missing folder)."
 */
function bySight(world: World, question: Question, { path, makes }: Asked): Refusal {
  const user = userOf(world, question.user)
  const rule = hidingRule(world, user, path)
  if (rule) return refused('hidden', { step: 'hidden', path, rule })
  if (seesByGrants(world, user, path) || wayTo(world, user, path)) return undefined
  const { grant } = verdict(world, user, 'see', path).cause
  return refused(makes ? 'parent_missing' : 'not_found', { step: 'notSeen', path, grant })
}

/** "3. Folder rules: `read_users`, password." Whom `read_users` leaves out does not see the path. */
function byReadUsers(world: World, question: Question, path: Path): Refusal {
  const rule = ruleAgainstReader(world, userOf(world, question.user), path)
  return rule && refused('hidden', { step: 'readUsers', path, rule })
}

/** "3. Folder rules: `read_users`, password." */
function byPassword(world: World, question: Question, path: Path): Refusal {
  const rule = ruleWithPassword(world, userOf(world, question.user), path, question.password)
  return rule && refused('password_required', { step: 'password', path, rule })
}

/** "4. The right", for each right that is asked. A way "cannot be read or changed otherwise (`denied`)". */
function byRight(world: World, question: Question, { path, rights, makes, changes }: Asked): Refusal {
  const user = userOf(world, question.user)
  if (wayTo(world, user, path)) {
    if (!changes && rights.every((right) => right === 'see')) return undefined
    const { grant } = verdict(world, user, 'see', path).cause
    return refused('denied', { step: 'way', path, grant })
  }
  for (const right of rights) {
    const { allowed, cause } = verdict(world, user, right, path, question)
    if (!allowed) return refused('denied', cause)
    if (!makes && !isAllowedFromAbove(world, user, right, path)) {
      return refused('denied', { ...cause, step: 'folderOfGrant' })
    }
  }
  return undefined
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
function byWriteUsers(world: World, question: Question, { path, changes }: Asked): Refusal {
  const rule = changes ? ruleAgainstWriter(world, userOf(world, question.user), path) : undefined
  return rule && refused('denied', { step: 'writeUsers', path, rule })
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

function byGrantsBelow(world: World, question: Question): Refusal {
  const user = userOf(world, question.user)
  for (const [right, path] of wholeTreesOf(world, question)) {
    const grant = refusesWholeTree(world, user, right, path)
    if (grant) return refused('denied', { step: 'wholeTree', path, grant })
  }
  return undefined
}

/** The whole trees that a question is about, each with the right that it needs there. */
function wholeTreesOf(world: World, question: Question): readonly (readonly [Right, Path])[] {
  const { action, path, to = path } = question
  const replaced = question.replaces && isFolder(world, to) ? ([['remove', to]] as const) : []
  // The refusal does not depend on what exists below, so a name that does not exist is answered as a folder.
  const source = isFile(world, path) ? [] : [path]
  switch (action) {
    case 'remove':
      return source.map((at) => [action, at])
    case 'rename':
    case 'move':
      return [...source.flatMap((at) => [[action, at] as const, [action, to] as const]), ...replaced]
    case 'copy':
      return replaced
    case 'write':
      return question.wholeTree ? source.map((at) => [action, at]) : []
    default:
      return []
  }
}

/**
 * "A copy or a zip leaves out, silently, what the caller does not see, and is refused before its first byte if it would
 * hold what the caller sees and may not read (or, for a copy, not copy): as for folder rules today."
 */
function byMembers(world: World, question: Question): Refusal {
  if (question.action === 'copy') return byMembersOf(world, question, question.path, ['read', 'copy'])
  if (question.action === 'read' && question.wholeTree) return byMembersOf(world, question, question.path, ['read'])
  return undefined
}

function byMembersOf(world: World, question: Question, folder: Path, needed: readonly Right[]): Refusal {
  const user = userOf(world, question.user)
  const names = world.entries.filter(({ path }) => parentOf(path) === folder).map(({ path }) => nameOf(path))
  for (const name of visible(world, user, folder, names)) {
    const path = childOf(folder, name)
    const refusal =
      byPassword(world, question, path) ??
      byRight(world, question, { path, rights: needed, makes: false, changes: false }) ??
      byMembersOf(world, question, path, needed)
    if (!refusal) continue
    const isOfRule = refusal.decidedBy.rule !== undefined
    return isOfRule ? refusal : refused('denied', { ...refusal.decidedBy, step: 'unreadableMember' })
  }
  return undefined
}

/**
 * "Who may remove a folder that contains entries they cannot see? No user: neither by removing it, nor by replacing it.
 * … whether a rule hides entries, requires a password, or restricts readers or writers. … A move is permitted if the
 * rule moves along or applies at the target too" (docs/decisions/0009-unseen-things.md)
 */
function byRulesBelow(world: World, question: Question): Refusal {
  const { action, path, to = path, password } = question
  const user = userOf(world, question.user)
  const closing = (at: Path) =>
    hidingRule(world, user, at) ??
    ruleAgainstReader(world, user, at) ??
    ruleWithPassword(world, user, at, password) ??
    ruleAgainstWriter(world, user, at)
  const check = (folder: Path, stays: (rule: Rule, at: Path) => boolean): Refusal => {
    for (const entry of world.entries.filter((each) => isStrictlyBelow(folder, each.path))) {
      const rule = closing(entry.path)
      if (rule && !stays(rule, entry.path)) return refused('denied', { step: 'ruleBelow', path: entry.path, rule })
    }
    return undefined
  }
  let refusal: Refusal
  if (action === 'remove') refusal = check(path, () => false)
  if (action === 'rename' || action === 'move') {
    refusal = check(path, (rule, at) => {
      const landing = under(to, within(path, at) ?? root)
      return isWithin(path, rule.path) || nearestRule(world, landing) === rule
    })
  }
  if (question.replaces && isFolder(world, to)) refusal ??= check(to, () => false)
  return refusal
}

// ---- Listings and links ------------------------------------------------------------------------------------------

/**
 * "**Not seen** is the same in every answer, count, search total and conflict": the names in a folder that a listing
 * shows. A way "lists only ways and grants", because nothing else is seen there. A folder with a password is listed.
 */
export function visible(world: World, user: User, folder: Path, names: readonly string[]): readonly string[] {
  return names.filter((name) => {
    const path = childOf(folder, name)
    const isSeen = seesByGrants(world, user, path) || wayTo(world, user, path)
    return isSeen && !hidingRule(world, user, path) && !ruleAgainstReader(world, user, path)
  })
}

/**
 * "**Links**: a path at or below a denial of `see` or `read` needs a signature, as under a folder rule": of whomever
 * the grant is. Under a folder rule: where its password applies.
 */
export function needsSignature(world: World, path: Path): boolean {
  const rule = nearestRule(world, path)
  if (rule?.password && covers(world, rule, rule.passwordSub, path)) return true
  return world.grants.some((grant) => isWithin(grant.path, path) && (denies(grant, 'see') || denies(grant, 'read')))
}
