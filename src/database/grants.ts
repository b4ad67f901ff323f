/** Groups of users, and grants. */
import { bool, integer, optional, path, text, wordList, type Columns } from './columns.js'
import type { Database } from './database.js'
import { following, PathTable } from './path-table.js'
import { RowTable } from './row-table.js'
import type { Grant, GroupMember, GroupRow, Right } from './rows.js'

const groupColumns: Columns<GroupRow> = {
  id: integer('id'),
  name: text('name'),
  description: text('description'),
  permission: integer('permission'),
  admin: bool('admin'),
}

interface MemberColumns {
  group_id: number
  user_id: number
}

export class GroupsTable extends RowTable<GroupRow> {
  constructor(database: Database) {
    super(database, 'user_groups', groupColumns)
  }

  async members(): Promise<GroupMember[]> {
    const rows = await this.database.read((query) => query<MemberColumns>('group_members').select())
    return rows.map((row) => ({ groupId: row.group_id, userId: row.user_id }))
  }

  async setMembers(groupId: number, userIds: readonly number[]): Promise<void> {
    const rows = [...new Set(userIds)].map((userId) => ({ group_id: groupId, user_id: userId }))
    await this.database.transaction(async (query) => {
      await query('group_members').where({ group_id: groupId }).delete()
      if (rows.length > 0) await query('group_members').insert(rows)
    })
  }
}

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
}
