/** Groups of users, and grants. */
import type { Knex } from 'knex'
import type { Right } from '../base/rights.js'
import { bool, integer, optional, path, text, wordList, type Columns } from './columns.js'
import { Database } from './database.js'
import { IdentitiesTable } from './identities.js'
import { following, PathTable } from './path-table.js'
import { RowTable } from './row-table.js'
import type { Grant } from './tables/grants.js'
import type { GroupMember, GroupRow, GroupContents, MembershipChanges } from './tables/groups.js'
import type { UserContents } from './tables/accounts.js'

const groupColumns: Columns<GroupRow> = {
  id: integer('id'),
  name: text('name'),
  description: text('description'),
  permission: integer('permission'),
  admin: bool('admin'),
  requireTwoStep: bool('require_two_step'),
  requireProvider: bool('require_provider'),
  providedAdmins: bool('provided_admins'),
}

interface MemberColumns {
  group_id: number
  user_id: number
}

/** A statement of SQLite takes 32,766 values at most. */
const rowsPerInsert = 1000

export class GroupsTable extends RowTable<GroupRow> {
  constructor(database: Database) {
    super(database, 'user_groups', groupColumns)
  }

  override async insert(row: Omit<GroupRow, 'id'>, contents: GroupContents = {}): Promise<GroupRow> {
    return this.database.transaction(async (query) => {
      const inserted = await this.insertWith(query, row)
      await storeContents(query, inserted.id, contents)
      return inserted
    })
  }

  override async update(
    id: number,
    changes: Partial<Omit<GroupRow, 'id'>>,
    contents: GroupContents = {},
  ): Promise<GroupRow> {
    return this.database.guarded('users', async (query) => {
      const updated = await this.updateWith(query, id, changes)
      await storeContents(query, id, contents)
      return updated
    })
  }

  async members(): Promise<GroupMember[]> {
    const rows = await this.database.read((query) => query<MemberColumns>('group_members').select())
    return rows.map((row) => ({ groupId: row.group_id, userId: row.user_id }))
  }

  async setMembers(groupId: number, userIds: readonly number[]): Promise<void> {
    const rows = [...new Set(userIds)].map((userId) => ({ group_id: groupId, user_id: userId }))
    await this.#replaceMembers({ group_id: groupId }, rows)
  }

  /** Replaces the groups of a user in one transaction. `not_found` as `setMembers`. */
  async setGroupsOf(userId: number, groupIds: readonly number[]): Promise<void> {
    const rows = [...new Set(groupIds)].map((groupId) => ({ group_id: groupId, user_id: userId }))
    await this.#replaceMembers({ user_id: userId }, rows)
  }

  async changeGroupsOf(userId: number, { joined, left, keepsRestrictions }: MembershipChanges): Promise<void> {
    await this.database.guarded('users', async (query) => {
      const leaving = query('group_members').where({ user_id: userId }).whereIn('group_id', left)
      if (keepsRestrictions) {
        const denying = query('grants').whereNotNull('group_id').whereNot({ deny: '' }).select('group_id')
        const restricting = query(this.table)
          .where({ admin: false })
          .where((is) => {
            void is.where({ require_two_step: true }).orWhere({ require_provider: true }).orWhereIn('id', denying)
          })
        void leaving.whereNotIn('group_id', restricting.select('id'))
      }
      await leaving.delete()
      const rows = joined.map((groupId) => ({ group_id: groupId, user_id: userId }))
      if (rows.length > 0) await query('group_members').insert(rows).onConflict(['group_id', 'user_id']).ignore()
    })
  }

  async #replaceMembers(which: Partial<MemberColumns>, rows: readonly MemberColumns[]): Promise<void> {
    await this.database.transaction(async (query) => {
      await query('group_members').where(which).delete()
      for (let at = 0; at < rows.length; at += rowsPerInsert) {
        await query('group_members').insert(rows.slice(at, at + rowsPerInsert))
      }
    })
  }
}

/** `query`: of the transaction. */
async function storeContents(query: Knex, groupId: number, { members, grants }: GroupContents): Promise<void> {
  const within = new Database(query)
  if (members !== undefined) await new GroupsTable(within).setMembers(groupId, members)
  if (grants !== undefined) await new GrantsTable(within).replace({ userId: undefined, groupId }, grants)
}

/** `query`: of the transaction. */
export async function storeContentsOfUser(
  query: Knex,
  userId: number,
  { groups, grants, identity }: UserContents,
): Promise<void> {
  const within = new Database(query)
  if (groups !== undefined) await new GroupsTable(within).setGroupsOf(userId, groups)
  if (grants !== undefined) await new GrantsTable(within).replace({ userId, groupId: undefined }, grants)
  if (identity !== undefined) await new IdentitiesTable(within).insert({ ...identity, userId })
}

type GrantFields = Pick<Grant, 'path' | 'allow' | 'deny'>

const grantColumns: Columns<Grant> = {
  id: integer('id'),
  userId: optional(integer('user_id')),
  groupId: optional(integer('group_id')),
  path: path('path'),
  allow: wordList<Right>('allow'),
  deny: wordList<Right>('deny'),
}

export class GrantsTable extends PathTable<Grant> {
  constructor(database: Database) {
    super(database, following.grants, grantColumns)
  }

  async replace({ userId, groupId }: Pick<Grant, 'userId' | 'groupId'>, grants: readonly GrantFields[]): Promise<void> {
    await this.database.transaction(async (query) => {
      const subject = { user_id: userId ?? null, group_id: groupId ?? null }
      const stored: readonly { id: number; path: string }[] = await query(this.table)
        .where(subject)
        .select('id', 'path')
      const ids = new Map(stored.map(({ id, path }) => [path, id]))
      for (const { path, allow, deny } of grants) {
        const id = ids.get(path)
        ids.delete(path)
        if (id === undefined) await this.insertWith(query, { userId, groupId, path, allow, deny })
        else await this.updateWith(query, id, { allow, deny })
      }
      for (const id of ids.values()) await query(this.table).where({ id }).delete()
    })
  }
}
