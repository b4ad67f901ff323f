/** `tidegate user …` */
import type { Command } from 'commander'
import { z } from 'zod'
import type { Accounts } from '../accounts/accounts.js'
import { allPermissions, permissionBits, permissionName, type Permission } from '../accounts/principal.js'
import { GatewayError } from '../base/errors.js'
import type { UserRow } from '../database/tables/accounts.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print, warn } from './output.js'
import { readPassword, withPasswordOptions, type PasswordFlags } from './password.js'
import { treePath } from './tree-path.js'

/** Permission bits by name, such as `webdav-read`. */
const permissionsByName: ReadonlyMap<string, number> = new Map(
  Object.entries(permissionBits).map(([name, bit]) => [permissionName(name as Permission), bit]),
)

const permissionNames: readonly string[] = [...permissionsByName.keys()]

const allowFromOption = ['--allow-from <list>', 'comma-separated addresses and networks, or "any"'] as const
const expiresOption = ['--expires <time>', 'when the account ends (RFC 3339), or "never"'] as const
const grantedOnlyOption = ['--granted-only', 'the user sees nothing but what a grant allows'] as const

export const permissionsHelp = `\nPermissions: ${permissionNames.join(', ')}.`

/** The flags that say from where, until when and for what an account can be used. */
interface LimitFlags {
  readonly allowFrom?: string
  readonly expires?: string
  readonly grantedOnly?: boolean
}

interface AddFlags extends CommonFlags, PasswordFlags, LimitFlags {
  readonly basePath: string
  readonly permissions: string
}

interface EditFlags extends CommonFlags, LimitFlags {
  readonly username?: string
  readonly basePath?: string
  readonly permissions?: string
}

export function addUserCommands(program: Command): void {
  const user = program.command('user').description('users: add, edit, list, passwd, reset-2fa, disable, enable, rm')

  withPasswordOptions(withCommonOptions(user.command('add <username>')))
    .description('add a user')
    .option('--base-path <path>', 'folder of the tree that the user sees as /', '/')
    .option('--permissions <list>', 'comma-separated names, "all", "none", or a number', 'webdav-read,sftp-read')
    .option(...allowFromOption)
    .option(...expiresOption)
    .option(...grantedOnlyOption)
    .addHelpText('after', permissionsHelp)
    .action(async (username: string, flags: AddFlags) => {
      const permission = parsePermissions(flags.permissions)
      const limits = parseLimits(flags)
      await inDataFolder(flags, async ({ accounts }) => {
        const { password, generated } = await readPassword(flags)
        const basePath = treePath(flags.basePath)
        const row = await accounts.users.create({
          username,
          password,
          basePath,
          role: 'general',
          permission,
          disabled: false,
          ssoId: '',
          ...limits,
        })
        const message = generated ? `${username} is added, with the password ${password}` : `${username} is added`
        print(flags, { ...describe(row), ...(generated ? { password } : {}) }, message)
      })
    })

  withCommonOptions(user.command('edit <username>'))
    .description('change what is given, and leave the rest')
    .option('--username <name>', 'a new name; sessions of the user end')
    .option('--base-path <path>', 'folder of the tree that the user sees as /')
    .option('--permissions <list>', 'comma-separated names, "all", "none", or a number')
    .option(...allowFromOption)
    .option(...expiresOption)
    .option(...grantedOnlyOption)
    .option('--no-granted-only', 'the user sees what its permissions and folder rules allow')
    .addHelpText('after', permissionsHelp)
    .action((name: string, flags: EditFlags) => {
      const { username, permissions } = flags
      const basePath = flags.basePath === undefined ? undefined : treePath(flags.basePath)
      const permission = permissions === undefined ? undefined : parsePermissions(permissions)
      const changes = { username, basePath, permission, ...parseLimits(flags) }
      if (Object.values(changes).every((each) => each === undefined)) {
        throw new GatewayError('invalid', { reason: 'nothing to change: see "tidegate user edit --help"' })
      }
      return inDataFolder(flags, async ({ accounts }) => {
        const row = await accounts.users.update(findUser(accounts, name).id, changes)
        print(flags, describe(row), `${name} is changed`)
        if (changes.allowFrom !== undefined) warnOfNetworks(accounts, row)
      })
    })

  withCommonOptions(user.command('list'))
    .description('list users')
    .action((flags: CommonFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const users = accounts.users.list().map((user) => ({ ...describe(user), groups: groupsOf(accounts, user.id) }))
        const rows = users.map(({ id, username, role, base_path, permission, disabled, groups }) => {
          const makers = groups.filter(({ admin }) => admin).map(({ name }) => name)
          const roles = [role, ...makers.map((name) => `admin by ${name}`)].join(', ')
          return [id, username, roles, base_path, disabled, permissionsShown(permission)]
        })
        print(flags, users, formatTable(['id', 'username', 'role', 'base folder', 'disabled', 'permissions'], rows))
      }),
    )

  withPasswordOptions(withCommonOptions(user.command('passwd <username>')))
    .description("set a user's password; sessions of the user end")
    .action((username: string, flags: CommonFlags & PasswordFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const { id } = findUser(accounts, username)
        const { password, generated } = await readPassword(flags)
        const row = await accounts.users.update(id, { password })
        const message = generated ? `${username} has the password ${password}` : `${username} has a new password`
        print(flags, { ...describe(row), ...(generated ? { password } : {}) }, message)
      }),
    )

  withCommonOptions(user.command('reset-2fa <username>'))
    .description("turn off a user's two-step verification; the password alone is then enough to sign in")
    .action((username: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const before = findUser(accounts, username)
        const row = await accounts.users.update(before.id, { otpSecret: '' })
        const outcome =
          before.otpSecret === '' ? 'had no two-step verification' : 'has no two-step verification any more'
        print(flags, describe(row), `${username} ${outcome}`)
      }),
    )

  for (const [name, disabled, outcome] of [
    ['disable', true, 'is disabled; running sessions end'],
    ['enable', false, 'is enabled'],
  ] as const) {
    withCommonOptions(user.command(`${name} <username>`))
      .description(disabled ? 'disable a user and end all sessions of the user' : 'enable a user')
      .action((username: string, flags: CommonFlags) =>
        inDataFolder(flags, async ({ accounts }) => {
          const row = await accounts.users.update(findUser(accounts, username).id, { disabled })
          print(flags, describe(row), `${username} ${outcome}`)
        }),
      )
  }

  withCommonOptions(user.command('rm <username>'))
    .description('remove a user and all keys of the user')
    .action((username: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const row = findUser(accounts, username)
        await accounts.users.delete(row.id)
        print(flags, describe(row), `${username} is removed`)
      }),
    )
}

/** Finds a user by name. Throws `not_found`. */
export function findUser(accounts: Accounts, username: string): UserRow {
  const user = accounts.users.byName(username)
  if (user === undefined) throw new GatewayError('not_found', { reason: `there is no user ${username}` })
  return user
}

/** The groups of a user, as commands print them. */
function groupsOf({ groups }: Accounts, userId: number) {
  return groups
    .of(userId)
    .groups.flatMap((id) => groups.get(id) ?? [])
    .map(({ name, admin }) => ({ name, admin }))
}

/**
 * Warns if no admin can be used from everywhere any more. Whoever changes networks over HTTP cannot lock itself out,
 * but a command has no address. It can undo the change.
 */
function warnOfNetworks(accounts: Accounts, user: UserRow): void {
  const { username, allowFrom } = user
  if (allowFrom.length === 0 || !accounts.admission.isLastAdminBound(user)) return
  warn(
    `no admin can sign in from everywhere now: ${username} only from ${allowFrom.join(', ')}. ` +
      `"tidegate user edit ${username} --allow-from any" takes that back`,
  )
}

/** Returns the limits that the flags set. Throws `invalid` for a malformed time. */
function parseLimits({ allowFrom, expires, grantedOnly }: LimitFlags) {
  return {
    ...(allowFrom !== undefined && { allowFrom: allowFrom === 'any' ? [] : allowFrom.split(',') }),
    ...(expires !== undefined && { expires: expires === 'never' ? null : parseTime(expires) }),
    ...(grantedOnly !== undefined && { grantedOnly }),
  }
}

/** Parses a time of RFC 3339. Throws `invalid`. */
export function parseTime(text: string): Date {
  if (z.iso.datetime({ offset: true }).safeParse(text).success) return new Date(text)
  throw new GatewayError('invalid', { reason: `${text} is not a time such as 2030-12-31T23:59:59Z, or "never"` })
}

/** The user as commands print it, without secrets. */
export function describe(user: UserRow) {
  return {
    id: user.id,
    username: user.username,
    role: user.role,
    base_path: user.basePath,
    permission: user.permission,
    permissions: namesOf(user.permission),
    disabled: user.disabled,
    two_step: user.otpSecret !== '',
    granted_only: user.grantedOnly,
    allow_from: user.allowFrom,
    expires: user.expires ?? null,
  }
}

/** Parses a list of names, `all`, `none`, or a number to permission bits. Throws `invalid` for an unknown name. */
export function parsePermissions(text: string): number {
  if (text === 'all') return allPermissions
  if (text === 'none') return 0
  if (/^\d+$/.test(text)) return Number(text)
  return text.split(',').reduce((sum, name) => {
    const bit = permissionsByName.get(name.trim())
    if (bit === undefined) {
      throw new GatewayError('invalid', {
        reason: `unknown permission "${name.trim()}"; there are: ${permissionNames.join(', ')}, all, none`,
      })
    }
    return sum | bit
  }, 0)
}

/** The names of these permission bits. */
export function namesOf(permissions: number): readonly string[] {
  return [...permissionsByName].filter(([, bit]) => (permissions & bit) !== 0).map(([name]) => name)
}

/** The permissions as lists of commands show them. */
export function permissionsShown(permission: number): string {
  const names = namesOf(permission)
  return names.length === permissionNames.length ? 'all' : names.join(',') || 'none'
}
