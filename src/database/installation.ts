/** Fills a new installation with what was imported from another program. */
import { GatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import { KeysTable, UsersTable } from './accounts.js'
import { Database } from './database.js'
import { GrantsTable, GroupsTable } from './grants.js'
import type { KeyRow, UserRow } from './tables/accounts.js'
import type { Grant } from './tables/grants.js'
import type { GroupRow } from './tables/groups.js'
import type { FolderRule } from './tables/rules.js'
import type { ShareRow } from './tables/shares.js'
import type { StorageRow } from './tables/storages.js'
import { PasskeysTable, type PasskeyRow } from './passkeys.js'
import { RulesTable } from './rules.js'
import { SettingsTable } from './settings.js'
import { SharesTable } from './shares.js'
import { StoragesTable } from './storages.js'

/** A grant of what is imported with it. */
export type ImportedGrant = Pick<Grant, 'path' | 'allow' | 'deny'>

export type ImportedPasskey = Omit<PasskeyRow, 'id' | 'userId'>

export interface ImportedUser extends Omit<UserRow, 'id'> {
  /** The id in the other program, by which rules and groups name the user. */
  readonly id: number
  readonly keys: readonly Omit<KeyRow, 'id' | 'userId'>[]
  /** The passkeys of the user. Default: none. */
  readonly passkeys?: readonly ImportedPasskey[]
  readonly grants: readonly ImportedGrant[]
}

export interface ImportedGroup extends Omit<GroupRow, 'id'> {
  /** Ids of users in the other program, all of which are in `users`. */
  readonly members: readonly number[]
  readonly grants: readonly ImportedGrant[]
}

export interface ImportedShare extends ShareRow {
  /** Paths of the whole tree. */
  readonly roots: readonly Path[]
  /** The number of visits until now. */
  readonly visits: number
}

export interface Installation {
  readonly users: readonly ImportedUser[]
  readonly groups: readonly ImportedGroup[]
  readonly storages: readonly Omit<StorageRow, 'id'>[]
  /** The folder rules. They name users by the ids of the other program, all of which are in `users`. */
  readonly rules: readonly Omit<FolderRule, 'id'>[]
  /** The shares. Their creators have the ids of the other program, all of which are in `users`. */
  readonly shares: readonly ImportedShare[]
  readonly settings: ReadonlyMap<string, string>
}

/** Tables that a first run leaves empty. */
const emptyTables = [
  'ssh_keys',
  'app_passwords',
  'passkeys',
  'folder_rules',
  'user_groups',
  'grants',
  'shares',
  'tasks',
  'uploads',
] as const

/**
 * Rejects with `exists`, in the same transaction as `replaceInstallation`, if there is more than a first run makes.
 * `isFirst`: whether a first run makes this storage.
 */
export async function assertNew(database: Database, isFirst: (row: StorageRow) => boolean): Promise<void> {
  const users = await new UsersTable(database).all()
  const storages = await new StoragesTable(database).all()
  const filled = await database.read(async (query) => {
    const names: string[] = []
    for (const table of emptyTables) if ((await query(table).first(query.raw('1'))) !== undefined) names.push(table)
    return names
  })
  const isNew = users.every(({ role }) => role !== 'general') && storages.every(isFirst) && filled.length === 0
  if (isNew) return
  throw new GatewayError('exists', {
    reason: 'this installation has users, storages or rules of its own: import into a new one',
  })
}

/** Replaces what a first run has made, in one transaction. Rejects as `assertNew`. */
export async function replaceInstallation(
  database: Database,
  { users, groups, storages, rules, shares, settings }: Installation,
  isFirst: (row: StorageRow) => boolean,
): Promise<void> {
  await database.guarded('users', async (query) => {
    const within = new Database(query)
    await assertNew(within, isFirst)
    await query('users').delete()
    await query('storages').delete()
    const ids = new Map<number, number>()
    const newIds = (old: readonly number[]) => old.map((id) => ids.get(id) ?? 0)
    const keysTable = new KeysTable(within)
    const passkeysTable = new PasskeysTable(within)
    const grantsTable = new GrantsTable(within)
    for (const { id, keys, passkeys = [], grants, ...row } of users) {
      const user = await new UsersTable(within).insert(row)
      ids.set(id, user.id)
      for (const key of keys) await keysTable.insert({ ...key, userId: user.id })
      for (const passkey of passkeys) await passkeysTable.insert({ ...passkey, userId: user.id })
      if (grants.length > 0) await grantsTable.replace({ userId: user.id, groupId: undefined }, grants)
    }
    const groupsTable = new GroupsTable(within)
    for (const { members, grants, ...row } of groups) {
      const group = await groupsTable.insert(row)
      await groupsTable.setMembers(group.id, newIds(members))
      await grantsTable.replace({ userId: undefined, groupId: group.id }, grants)
    }
    for (const row of storages) await new StoragesTable(within).insert(row)
    for (const rule of rules) {
      const named = { readUsers: newIds(rule.readUsers), writeUsers: newIds(rule.writeUsers) }
      await new RulesTable(within).insert({ ...rule, ...named })
    }
    await new SharesTable(within).insertAll(
      shares.map(({ roots, visits, ...share }) => {
        return { row: { ...share, creatorId: ids.get(share.creatorId) ?? 0 }, roots, visits }
      }),
    )
    await new SettingsTable(within).set(settings)
  })
}
