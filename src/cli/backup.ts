/** `tidegate backup`, `restore` and `export`. */
import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Option, type Command } from 'commander'
import { driverTypes } from '../../drivers/index.js'
import { version } from '../base/version.js'
import { leftOut, writeBackup } from '../installation/backup.js'
import { writeAside } from '../installation/scratch-folder.js'
import { parseAddition } from '../mounts/fields.js'
import type { UserRow } from '../database/tables/accounts.js'
import type { FolderRule } from '../database/tables/rules.js'
import type { ShareRoot, ShareRow } from '../database/tables/shares.js'
import type { StorageRow } from '../database/tables/storages.js'
import { snapshotDatabase } from '../database/snapshot.js'
import { withoutPassword } from '../database/store-url.js'
import type { Store } from '../database/tables.js'
import {
  configOf,
  databaseOf,
  inDataFolder,
  knownSettings,
  openData,
  withCommonOptions,
  withDataOptions,
  type CommonFlags,
} from './data-folder.js'
import { print } from './output.js'
import { describe } from './users.js'

export function addBackupCommands(program: Command): void {
  withCommonOptions(program.command('backup <file>'))
    .description('write the database and the configuration file to one archive, also beside a running daemon')
    .addHelpText('after', `\n${leftOut}\nThe file has all passwords and keys: only its owner can read it.`)
    .action(async (file: string, flags: CommonFlags) => {
      const config = await configOf(flags)
      const location = await databaseOf(config)
      const snapshot = (target: string) => snapshotDatabase(location, target)
      const { configFile } = config
      const manifest = await writeBackup(file, { snapshot, configFile })
      const path = resolve(file)
      const message = `${leftOut}\n${path} has the database${configFile === undefined ? '' : ` and ${configFile}`}.`
      print(flags, { file: path, ...manifest, left_out: leftOut }, message)
    })

  withCommonOptions(program.command('restore <file>'))
    .description('restore a backup into a data folder, or a PostgreSQL database, that has no installation')
    .addHelpText(
      'after',
      `\nNo daemon may run there.\n${leftOut}\nThe configuration file becomes tidegate.json in the data folder.`,
    )
    .action(async (file: string, flags: CommonFlags) => {
      const config = await configOf(flags)
      // Only here: other commands start faster without it.
      const { restoreBackup } = await import('../installation/restore.js')
      const { manifest, tables, configuration } = await restoreBackup(resolve(file), config)
      // The audit is that of the backup now, and gets the event of this command.
      await inDataFolder(flags, () => Promise.resolve())
      const rows = tables.reduce((sum, table) => sum + table.rows, 0)
      const lines = [
        leftOut,
        `${rows} rows of ${manifest.time} are restored.`,
        ...(configuration === undefined ? [] : [`The configuration file is ${configuration}: name it with --config.`]),
      ]
      print(flags, { data: config.data, ...manifest, tables, configuration }, lines.join('\n'))
    })

  withDataOptions(program.command('export [file]'))
    .description(
      'write users, groups, storages, folder rules, grants, shares and settings as JSON, by default to standard output',
    )
    .addOption(
      new Option('--with-secrets', 'with password hashes, and the passwords and keys of storages, shares and settings'),
    )
    .action(async (file: string | undefined, flags: CommonFlags & { readonly withSecrets?: boolean }) => {
      const store = await openData(await configOf(flags))
      try {
        const text = `${JSON.stringify(await exportOf(store, flags.withSecrets === true), null, 2)}\n`
        if (file === undefined) process.stdout.write(text)
        else await writeAside(resolve(file), (target) => writeFile(target, text, { mode: 0o600, flush: true }))
      } finally {
        await store.close()
      }
    })
}

/**
 * What `tidegate export` writes: users, groups, storages, folder rules, grants, shares and stored settings. Without
 * secrets, these are left out: hashes of passwords, secrets of two-step verification, passwords of folders, codes of
 * shares, secret settings, options of drivers that are declared secret, options and settings that this program does not
 * know, and passwords in URLs.
 */
export async function exportOf(
  store: Pick<Store, 'users' | 'groups' | 'storages' | 'rules' | 'grants' | 'shares' | 'shareRoots' | 'settings'>,
  withSecrets: boolean,
): Promise<object> {
  const { users, groups, storages, rules, grants, shares, shareRoots, settings } = store
  const members = await groups.members()
  const roots = new Map<string, ShareRoot[]>()
  for (const root of await shareRoots.all()) roots.set(root.shareId, [...(roots.get(root.shareId) ?? []), root])
  const membersOf = (id: number) => members.filter(({ groupId }) => groupId === id).map(({ userId }) => userId)
  return {
    program: version,
    users: (await users.all()).map((user) => userOf(user, withSecrets)),
    groups: (await groups.all()).map((group) => ({ ...snakeCase(group), members: membersOf(group.id) })),
    storages: (await storages.all()).map((storage) => storageOf(storage, withSecrets)),
    rules: (await rules.all()).map((rule) => ruleOf(rule, withSecrets)),
    grants: (await grants.all()).map(snakeCase),
    shares: (await shares.all()).map((share) => savedShare(share, roots.get(share.id) ?? [], withSecrets)),
    settings: settingsOf(await settings.all(), withSecrets),
  }
}

function userOf(user: UserRow, withSecrets: boolean): object {
  const secrets = { password_hash: user.passwordHash, otp_secret: user.otpSecret }
  return { ...describe(user), sso_id: user.ssoId, ...(withSecrets && secrets) }
}

function storageOf({ addition, ...row }: StorageRow, withSecrets: boolean): object {
  const options = optionsOf(addition)
  const fields = driverTypes.find(({ name }) => name === row.driver)?.fields ?? {}
  const shown = Object.entries(options ?? {})
    .filter(([name]) => Object.hasOwn(fields, name) && fields[name]?.secret !== true)
    .map(([name, value]) => [name, typeof value === 'string' ? withoutPassword(value) : value] as const)
  return { ...snakeCase(row), addition: withSecrets ? (options ?? addition) : Object.fromEntries(shown) }
}

/** Undefined if the text is not valid, or so deep that it cannot be written. */
function optionsOf(addition: string): Record<string, unknown> | undefined {
  try {
    const options = parseAddition(addition)
    JSON.stringify(options)
    return options
  } catch {
    return undefined
  }
}

function ruleOf({ password, ...rule }: FolderRule, withSecrets: boolean): object {
  return { ...snakeCase(rule), has_password: password !== '', ...(withSecrets && { password }) }
}

/** The names are those that earlier versions have written. */
function savedShare(
  { code, maxVisits, ...share }: ShareRow,
  roots: readonly ShareRoot[],
  withSecrets: boolean,
): object {
  const files = [...roots].sort((one, other) => one.position - other.position)
  return {
    ...snakeCase(share),
    max_accessed: maxVisits,
    files: files.map(({ path, removed }) => ({ path, removed })),
    has_password: code !== '',
    ...(withSecrets && { password: code }),
  }
}

function settingsOf(stored: ReadonlyMap<string, string>, withSecrets: boolean): object {
  const shownKeys = new Set(knownSettings.filter(({ secret }) => secret !== true).map(({ key }) => key))
  const shown = [...stored].filter(([key]) => shownKeys.has(key))
  return Object.fromEntries(withSecrets ? stored : shown.map(([key, value]) => [key, withoutPassword(value)]))
}

/** The row with the names of the API. */
function snakeCase(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
}
