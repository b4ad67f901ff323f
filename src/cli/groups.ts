/** `tidegate group …` and `tidegate grant …` */
import { InvalidArgumentError, Option, type Command } from 'commander'
import type { Accounts } from '../accounts/accounts.js'
import type { Group } from '../accounts/groups.js'
import { GatewayError } from '../base/errors.js'
import { rights, type Right } from '../base/rights.js'
import { Grants, type Grant, type Subject } from '../tree/grants.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print } from './output.js'
import { treePath } from './tree-path.js'
import { findUser, namesOf, parsePermissions, permissionsHelp, permissionsShown } from './users.js'

interface GroupFlags extends CommonFlags {
  readonly name?: string
  readonly description?: string
  readonly permissions?: string
  readonly admin?: boolean
  readonly requireTwoStep?: boolean
  readonly requireProvider?: boolean
}

export function addGroupCommands(program: Command): void {
  const group = program.command('group').description('groups of users: add, edit, join, leave, list, rm')

  withCommonOptions(group.command('add <group>'))
    .description('add a group')
    .option('--description <text>', 'what it is for', '')
    .option('--permissions <list>', 'what its members may do besides: names, "all", "none", or a number', 'none')
    .option('--admin', 'its members are admins')
    .option('--require-two-step', 'its members must set up two-step verification before all else')
    .option('--require-provider', 'its members sign in at a provider or directory only')
    .addHelpText('after', permissionsHelp)
    .action((name: string, flags: GroupFlags) => {
      const permission = parsePermissions(flags.permissions ?? 'none')
      const { description = '', admin = false, requireTwoStep, requireProvider } = flags
      return inDataFolder(flags, async ({ accounts }) => {
        const fields = { name, description, permission, admin, requireTwoStep, requireProvider, members: [] }
        const row = await accounts.groups.create(fields)
        print(flags, describe(accounts, row), `the group ${name} is added`)
      })
    })

  withCommonOptions(group.command('edit <group>'))
    .description('change what is given, and leave the rest; it is in force at once')
    .option('--name <name>', 'a new name')
    .option('--description <text>', 'what it is for')
    .option('--permissions <list>', 'what its members may do besides: names, "all", "none", or a number')
    .option('--admin', 'its members are admins')
    .option('--no-admin', 'its members are admins no more')
    .option('--require-two-step', 'its members must set up two-step verification before all else')
    .option('--no-require-two-step', 'its members need no two-step verification')
    .option('--require-provider', 'its members sign in at a provider or directory only')
    .option('--no-require-provider', 'its members can sign in with a password')
    .addHelpText('after', permissionsHelp)
    .action((group: string, flags: GroupFlags) => {
      const { name, description, permissions, admin, requireTwoStep, requireProvider } = flags
      const permission = permissions === undefined ? undefined : parsePermissions(permissions)
      const changes = { name, description, permission, admin, requireTwoStep, requireProvider }
      if (Object.values(changes).every((each) => each === undefined)) {
        throw new GatewayError('invalid', { reason: 'nothing to change: see "tidegate group edit --help"' })
      }
      return inDataFolder(flags, async ({ accounts }) => {
        const { id } = findGroup(accounts, group)
        const row = await accounts.groups.update(id, changes)
        print(flags, describe(accounts, row), `the group ${group} is changed`)
      })
    })

  for (const [verb, description, outcome] of [
    ['join', 'make users members of a group', 'joined'],
    ['leave', 'remove users from a group', 'left'],
  ] as const) {
    withCommonOptions(group.command(`${verb} <group> <usernames...>`))
      .description(description)
      .action((group: string, usernames: readonly string[], flags: CommonFlags) =>
        inDataFolder(flags, async ({ accounts }) => {
          const { id, members } = findGroup(accounts, group)
          const named = usernames.map((username) => findUser(accounts, username).id)
          const others = members.filter((each) => !named.includes(each))
          const row = await accounts.groups.update(id, { members: verb === 'join' ? [...others, ...named] : others })
          print(flags, describe(accounts, row), `${usernames.join(', ')} ${outcome} the group ${group}`)
        }),
      )
  }

  withCommonOptions(group.command('list'))
    .description('list groups')
    .action((flags: CommonFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const groups = accounts.groups.list().map((each) => describe(accounts, each))
        const rows = groups.map(({ id, name, description, admin, permission, members }) => {
          return [id, name, admin, permissionsShown(permission), members.join(','), description]
        })
        print(flags, groups, formatTable(['id', 'group', 'admins', 'permissions', 'members', 'description'], rows))
      }),
    )

  withCommonOptions(group.command('rm <group>'))
    .description('remove a group and its grants')
    .action((name: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const row = findGroup(accounts, name)
        await accounts.groups.delete(row.id)
        print(flags, describe(accounts, row), `the group ${name} is removed`)
      }),
    )
}

interface SubjectFlags extends CommonFlags {
  readonly user?: string
  readonly group?: string
}

interface GrantFlags extends SubjectFlags {
  readonly allow: string
  readonly deny: string
}

export function addGrantCommands(program: Command): void {
  const grant = program.command('grant').description('what users and groups may do at which paths: add, list, rm')

  withSubject(withCommonOptions(grant.command('add <path>')))
    .description('allow or deny rights at a path and everything below it; replaces the grant that was there')
    .option('--allow <rights>', 'comma-separated names', joined, '')
    .option('--deny <rights>', 'comma-separated names', joined, '')
    .addHelpText('after', `\nRights: ${rights.join(', ')}. The path is one of the whole tree, and need not exist.`)
    .action((path: string, flags: GrantFlags) =>
      inDataFolder(flags, async ({ accounts, store }) => {
        const at = treePath(path)
        const subject = subjectOf(accounts, flags)
        const grants = await Grants.load(store)
        const isThere = (each: Grant) => each.path === at
        const before = grants.of(subject).find(isThere)
        const others = grants.of(subject).filter((each) => !isThere(each))
        await grants.replace(subject, [...others, { path, allow: wordsOf(flags.allow), deny: wordsOf(flags.deny) }])
        const added = grants.of(subject).filter(isThere)
        const replaced =
          before && `, in place of one that allowed ${listOf(before.allow)} and denied ${listOf(before.deny)}`
        print(
          flags,
          added.map((each) => describeGrant(accounts, each))[0],
          `the grant at ${path} is stored${replaced ?? ''}`,
        )
      }),
    )

  withSubject(withCommonOptions(grant.command('list')))
    .description('list all grants, or those of a user or a group')
    .action((flags: SubjectFlags) =>
      inDataFolder(flags, async ({ accounts, store }) => {
        const all = await Grants.load(store)
        const { users, groups } = accounts
        const subjects: readonly Subject[] =
          flags.user === undefined && flags.group === undefined
            ? [...users.list().map(({ id }) => ({ userId: id })), ...groups.list().map(({ id }) => ({ groupId: id }))]
            : [subjectOf(accounts, flags)]
        const grants = subjects.flatMap((each) => all.of(each)).map((each) => describeGrant(accounts, each))
        const rows = grants.map(({ user, group, path, allow, deny }) => {
          return [user ?? '', group ?? '', path, allow.join(','), deny.join(',')]
        })
        print(flags, grants, formatTable(['user', 'group', 'path', 'allowed', 'denied'], rows))
      }),
    )

  withSubject(withCommonOptions(grant.command('rm <path>')))
    .description('remove the grant of a user or a group at a path')
    .action((path: string, flags: SubjectFlags) =>
      inDataFolder(flags, async ({ accounts, store }) => {
        const at = treePath(path)
        const subject = subjectOf(accounts, flags)
        const grants = await Grants.load(store)
        const removed = grants.of(subject).find((each) => each.path === at)
        if (removed === undefined) throw new GatewayError('not_found', { reason: `there is no such grant at ${path}` })
        const others = grants.of(subject).filter((each) => each !== removed)
        await grants.replace(subject, others)
        print(flags, describeGrant(accounts, removed), `the grant at ${path} is removed`)
      }),
    )
}

/** Joins the values of an option that is given several times. */
function joined(value: string, before: string): string {
  return `${before},${value}`
}

/** The value of an option that can be given only once: a grant is of one user or group. */
function once(value: string, before: string | undefined): string {
  if (before !== undefined) throw new InvalidArgumentError('It is given twice.')
  return value
}

function withSubject(command: Command): Command {
  return command
    .addOption(new Option('--user <username>', 'that of a user').conflicts('group').argParser(once))
    .addOption(new Option('--group <group>', 'that of a group').argParser(once))
}

/** Throws `invalid` if neither a user nor a group is named, and `not_found`. */
function subjectOf(accounts: Accounts, { user, group }: SubjectFlags): Subject {
  if (user !== undefined) return { userId: findUser(accounts, user).id }
  if (group !== undefined) return { groupId: findGroup(accounts, group).id }
  throw new GatewayError('invalid', { reason: 'name a user with --user, or a group with --group' })
}

/** Finds a group by name. Throws `not_found`. */
function findGroup(accounts: Accounts, name: string): Group {
  const group = accounts.groups.byName(name)
  if (group === undefined) throw new GatewayError('not_found', { reason: `there is no group ${name}` })
  return group
}

function wordsOf(text: string): readonly string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')
}

/** The group as commands print it. */
function describe(
  { users }: Accounts,
  { members, requireTwoStep, requireProvider, providedAdmins: _, ...group }: Group,
) {
  const names = members.map((id) => users.get(id)?.username ?? String(id))
  const required = { require_two_step: requireTwoStep, require_provider: requireProvider }
  return { ...group, ...required, permissions: namesOf(group.permission), members: names }
}

function listOf(rights: readonly Right[]): string {
  return rights.join(', ') || 'nothing'
}

function describeGrant({ users, groups }: Accounts, { id, userId, groupId, path, allow, deny }: Grant) {
  const user = userId === undefined ? undefined : users.get(userId)?.username
  const group = groupId === undefined ? undefined : groups.get(groupId)?.name
  return { id, user, group, path, allow, deny }
}
