/** Worlds and questions for the model of rights, which a seed repeats. They are small: grants and rules meet. */
import type { Permission } from '../../src/accounts/principal.js'
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
import { Random } from '../soak/chaos/random.js'
import {
  rights,
  type Entry,
  type Grant,
  type Group,
  type Question,
  type Right,
  type Rule,
  type User,
  type World,
} from './model.js'

/** Names of entries. Patterns of rules hide the last one, and `c` in some folders. */
const names = ['a', 'b', 'c', 'secret'] as const
const patterns = ['^secret', 'c$', '^s'] as const

const changing: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove', 'share']
const protocolPermissions: readonly Permission[] = ['webdavRead', 'webdavManage', 'sftpRead', 'sftpManage']

const networks = ['office', 'home'] as const
const folderPassword = 'open sesame'

class Choices extends Random {
  /** True with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(all: readonly T[]): T {
    const picked = this.of(all)
    if (picked === undefined) throw new Error('nothing to choose from')
    return picked
  }

  /** Each one with this probability. */
  some<T>(all: readonly T[], probability: number): readonly T[] {
    return all.filter(() => this.chance(probability))
  }
}

export function generateWorld(seed: number): World {
  const random = new Choices(seed)
  const entries = generateEntries(random)
  const folders = [root, ...entries.filter(({ kind }) => kind === 'folder').map(({ path }) => path)]
  const users = generateUsers(random, folders)
  const groups = generateGroups(random, users)
  return {
    users,
    groups,
    grants: generateGrants(random, users, groups, folders),
    rules: random.chance(0.2) ? [] : generateRules(random, users, folders),
    entries,
    symlinks: random.chance(0.25) ? generateSymlinks(random, entries) : [],
  }
}

function generateEntries(random: Choices): readonly Entry[] {
  const entries: Entry[] = []
  const fill = (folder: Path, depth: number): void => {
    for (const name of random.some(names, depth === 0 ? 0.8 : 0.6)) {
      const path = childOf(folder, name)
      const kind = depth < 3 && random.chance(0.6) ? 'folder' : 'file'
      entries.push({ path, kind })
      if (kind === 'folder') fill(path, depth + 1)
    }
  }
  while (entries.length < 4) {
    entries.length = 0
    fill(root, 0)
  }
  return entries
}

function generateUsers(random: Choices, folders: readonly Path[]): readonly User[] {
  const user = (id: number, role: User['role'], grantedOnly: boolean): User => ({
    id,
    role,
    permissions: [
      ...random.some(changing, random.pick([0, 0.7, 1, 1])),
      ...random.some(protocolPermissions, 0.85),
      ...random.some<Permission>(['seeHidden', 'skipPasswords'], role === 'admin' ? 0.5 : 0.1),
      ...random.some<Permission>(['offlineDownload'], 0.5),
    ],
    base: random.chance(0.85) ? root : random.pick(folders),
    grantedOnly,
    expires: random.chance(0.04) ? 50 : undefined,
    allowFrom: random.chance(0.07) ? random.some(networks, 0.5) : [],
  })
  return [
    user(1, 'admin', random.chance(0.1)),
    user(2, 'guest', random.chance(0.5)),
    user(3, 'general', false),
    user(4, 'general', false),
    user(5, 'general', true),
  ]
}

function generateGroups(random: Choices, users: readonly User[]): readonly Group[] {
  return [1, 2, 3].map((id) => {
    const admin = id === 3 && random.chance(0.3)
    const members = users.filter(({ role }) => !admin || role !== 'guest').map((user) => user.id)
    return {
      id,
      permissions: random.some(changing, random.pick([0, 0.3])),
      admin,
      members: random.some(members, 0.4),
    }
  })
}

/** A grant does not need an existing path. Of one subject there is one at each path. */
function generateGrants(
  random: Choices,
  users: readonly User[],
  groups: readonly Group[],
  folders: readonly Path[],
): readonly Grant[] {
  const subjects = [
    ...users.map(({ id }) => ({ user: id })).slice(random.chance(0.2) ? 0 : 1),
    ...groups.map(({ id }) => ({ group: id })),
  ]
  const grants = new Map<string, Grant>()
  for (let id = 1, count = Math.floor(random.between(0, 16)); id <= count; id++) {
    const subject = random.pick(subjects)
    const folder = random.pick(folders)
    const path = random.chance(0.7) ? folder : childOf(folder, random.pick(names))
    const mentioned = random.chance(0.2) ? rights : random.some(rights, 0.35)
    const denied = random.chance(0.5) ? random.some(mentioned, 0.4) : []
    // A grant that allows anything allows `see`; seldom it denies it nevertheless.
    const isClosed = denied.includes('see') && random.chance(0.9)
    const allow = isClosed ? [] : mentioned.filter((right) => !denied.includes(right))
    grants.set(JSON.stringify([subject, path]), { id, subject, path, allow, deny: denied })
  }
  return [...grants.values()]
}

function generateRules(random: Choices, users: readonly User[], folders: readonly Path[]): readonly Rule[] {
  const ids = users.map(({ id }) => id)
  const rules = new Map<Path, Rule>()
  for (let count = Math.floor(random.between(1, 4)); count > 0; count--) {
    const path = random.pick(folders)
    rules.set(path, {
      path,
      ...(random.chance(0.25) ? { password: folderPassword, passwordSub: random.chance(0.6) } : {}),
      ...(random.chance(0.5) ? { hide: random.some(patterns, 0.5), hideSub: random.chance(0.6) } : {}),
      ...(random.chance(0.2) ? { readUsers: random.some(ids, 0.6), readUsersSub: random.chance(0.6) } : {}),
      ...(random.chance(0.5) ? { writeUsers: random.some(ids, 0.6), writeUsersSub: random.chance(0.6) } : {}),
      ...(random.chance(0.5) ? { write: true, writeSub: random.chance(0.6) } : {}),
    })
  }
  return [...rules.values()]
}

/** One symlink, beside the entries, that leads to one of them. */
function generateSymlinks(random: Choices, entries: readonly Entry[]): World['symlinks'] {
  const folders = entries.filter(({ kind }) => kind === 'folder').map(({ path }) => path)
  const target = random.pick(entries).path
  const outside = [root, ...folders].filter((folder) => !isWithin(target, folder))
  return [{ path: childOf(random.pick(outside), 'link'), target }]
}

export function generateQuestion(world: World, random: Random): Question {
  return askAbout(world, new Choices(random.next() * 2 ** 32))
}

interface Subject {
  readonly user: User
  readonly action: Right
  readonly path: Path
}

function askAbout(world: World, random: Choices): Question {
  const subject = subjectOf(world, random)
  const { user } = subject
  const path = throughSymlink(world, random, subject.path)
  // The root has no new path.
  const action = path === root && needsNewPath(subject.action) ? 'see' : subject.action
  const to = generateNewPath(world, random, user, action, path)
  const named = to && throughSymlink(world, random, to)
  const isReading = action === 'see' || action === 'read'
  return {
    user: user.id,
    action,
    path,
    ...(named === undefined ? {} : { to: named }),
    protocol: random.chance(0.85) ? 'http' : random.pick(['webdav', 'sftp']),
    time: Math.floor(random.between(0, 100)),
    ...(random.chance(0.9) ? { network: random.pick(networks) } : {}),
    ...(random.chance(0.01) ? { revoked: true } : {}),
    ...(random.chance(0.025) ? { readOnly: true } : {}),
    ...(random.chance(isReading ? 0.15 : 0.01) ? { signed: random.chance(0.6) ? path : root } : {}),
    ...(random.chance(0.7) ? { password: random.chance(0.8) ? folderPassword : 'wrong' } : {}),
    ...optionsOf(action, random),
  }
}

/** Most questions are about a grant or a rule, where paths that are chosen without them would seldom lead. */
function subjectOf(world: World, random: Choices): Subject {
  const kind = random.pick(['anywhere', 'grant', 'denial', 'rule', 'rule'])
  const denials = world.grants.filter(({ path, deny }) => parentOf(path) !== root && deny.length > 0)
  const grant = random.of(kind === 'denial' ? denials : world.grants)
  const rule = random.of(world.rules)
  let subject: Subject | undefined
  if (kind === 'grant' && grant) subject = nearGrant(world, random, grant)
  if (kind === 'denial' && grant) subject = aboveDenial(world, random, grant)
  if (kind === 'rule' && rule) subject = nearRule(world, random, rule)
  if (subject && (isWithin(subject.user.base, subject.path) || random.chance(0.25))) return subject
  const user = random.pick(world.users)
  return { user, action: random.pick(rights), path: random.chance(0.1) ? user.base : generatePath(world, random, user) }
}

function nearGrant(world: World, random: Choices, grant: Grant): Subject {
  const user = random.pick(holdersOf(world, grant))
  const { path } = grant
  if (grant.deny.includes('see') && random.chance(0.6)) return { user, action: 'write', path }
  if (random.chance(0.15)) return { user, action: 'see', path: random.pick([...selfAndAncestors(parentOf(path))]) }
  const taking = (['rename', 'move', 'remove'] as const).filter((right) => grant.allow.includes(right))
  if (taking.length > 0 && random.chance(0.25)) return { user, action: random.pick(taking), path }
  const mentioned = random.chance(0.7) ? random.of([...grant.allow, ...grant.deny]) : undefined
  return { user, action: mentioned ?? random.pick(rights), path: generatePathNear(world, random, path) }
}

/** A change, a copy or a zip of a tree that holds what the grant denies. */
function aboveDenial(world: World, random: Choices, grant: Grant): Subject {
  const hinders = grant.deny.filter((right) => right === 'read' || right === 'copy')
  const denied = random.of(hinders) ?? random.pick(grant.deny)
  const action = denied === 'see' || denied === 'share' ? random.pick(['remove', 'move'] as const) : denied
  const path = random.pick([...selfAndAncestors(parentOf(grant.path))].filter((each) => each !== root))
  return {
    user: random.pick(holdersOf(world, grant)),
    action: action === 'read' ? random.pick(['read', 'copy']) : action,
    path,
  }
}

function nearRule(world: World, random: Choices, rule: Rule): Subject {
  const path = generatePathNear(world, random, rule.path)
  const writers = world.users.filter(({ grantedOnly }) => !grantedOnly)
  if (rule.write && random.chance(0.6)) {
    const unable = writers.filter(({ permissions }) => !permissions.includes('write'))
    return { user: random.of(unable) ?? random.pick(writers), action: 'write', path }
  }
  if (random.chance(0.3)) {
    const above = random.pick([...selfAndAncestors(parentOf(path))])
    return { user: random.pick(writers), action: random.pick(['remove', 'rename', 'move']), path: above }
  }
  return { user: random.pick(writers), action: random.pick(rights), path }
}

/** The path by the name of a symlink that leads to it or to a folder that it is in, at times. */
function throughSymlink(world: World, random: Choices, path: Path): Path {
  const symlink = world.symlinks.find(({ target }) => isWithin(target, path))
  return symlink && random.chance(0.5) ? under(symlink.path, within(symlink.target, path) ?? root) : path
}

/** The users for whom a grant holds; all, if it is of a group without members. */
function holdersOf(world: World, { subject }: Grant): readonly User[] {
  const ids = 'user' in subject ? [subject.user] : world.groups.find(({ id }) => id === subject.group)?.members
  const holders = world.users.filter(({ id }) => ids?.includes(id))
  return holders.length > 0 ? holders : world.users
}

function generatePathNear(world: World, random: Choices, near: Path): Path {
  if (random.chance(0.45)) return near
  if (random.chance(0.3)) return random.pick([...selfAndAncestors(parentOf(near))])
  const below = world.entries.map(({ path }) => path).filter((path) => isWithin(near, path))
  return random.chance(0.5) ? childOf(near, random.pick(names)) : (random.of(below) ?? near)
}

function optionsOf(action: Right, random: Choices): Partial<Question> {
  switch (action) {
    case 'write':
      return {
        makes: random.chance(0.9),
        reads: random.chance(0.2),
        offlineDownload: random.chance(0.18),
        wholeTree: random.chance(0.3),
      }
    case 'read':
      return { wholeTree: random.chance(0.6) }
    case 'move':
    case 'copy':
      return { replaces: random.chance(0.4) }
    default:
      return {}
  }
}

/** Mostly what exists in the base folder, or where a grant is; sometimes a missing name, or a path outside the base. */
function generatePath(world: World, random: Choices, user: User): Path {
  const existing = [...world.entries, ...world.symlinks].map(({ path }) => path)
  const isInside = (path: Path) => isWithin(user.base, path)
  const inside = existing.filter(isInside)
  const granted = world.grants.flatMap(({ path }) => [...selfAndAncestors(path)]).filter(isInside)
  if (random.chance(0.05)) return random.pick([root, ...existing])
  if (random.chance(0.1)) return childOf(random.pick([user.base, ...inside]), random.pick(names))
  return random.pick([user.base, ...inside, ...granted])
}

function needsNewPath(action: Right): boolean {
  return action === 'rename' || action === 'move' || action === 'copy'
}

/** Another path than `path` and not below it, in a folder of the tree or where a grant is. */
function generateNewPath(world: World, random: Choices, user: User, action: Right, path: Path): Path | undefined {
  if (!needsNewPath(action)) return undefined
  const otherName = random.pick(names.filter((name) => name !== nameOf(path)))
  if (action === 'rename') return childOf(parentOf(path), otherName)
  const isTarget = (folder: Path) => isWithin(user.base, folder) && !isWithin(path, folder)
  const folders = [root, ...world.entries.filter(({ kind }) => kind === 'folder').map((entry) => entry.path)]
  const granted = world.grants.map((grant) => grant.path)
  const aboveGrant = granted.flatMap((each) => [...selfAndAncestors(parentOf(each))])
  const landing = random.of(aboveGrant.filter((each) => each !== root && isTarget(parentOf(each)) && each !== path))
  if (landing !== undefined && random.chance(0.25)) return landing
  const folder = random.of((random.chance(0.4) ? granted : folders).filter(isTarget)) ?? parentOf(path)
  return childOf(folder, folder === parentOf(path) || random.chance(0.3) ? otherName : nameOf(path))
}
