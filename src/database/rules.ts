/** Folder rules, and how they follow a folder that is moved. */
import type { Knex } from 'knex'
import type { Path } from '../base/path.js'
import { integer, json, path, text, bool, type Columns } from './columns.js'
import type { Database } from './database.js'
import { assertDisjoint, replacePrefix, subtree } from './ranges.js'
import { RowTable } from './row-table.js'
import type { FolderRule } from './rows.js'

const columns: Columns<FolderRule> = {
  id: integer('id'),
  path: path('path'),
  password: text('password'),
  passwordSub: bool('password_sub'),
  write: bool('write'),
  writeSub: bool('write_sub'),
  hide: text('hide'),
  hideSub: bool('hide_sub'),
  readme: text('readme'),
  readmeSub: bool('readme_sub'),
  header: text('header'),
  headerSub: bool('header_sub'),
  readUsers: json<readonly number[]>('read_users'),
  readUsersSub: bool('read_users_sub'),
  writeUsers: json<readonly number[]>('write_users'),
  writeUsersSub: bool('write_users_sub'),
}

export class RulesTable extends RowTable<FolderRule> {
  constructor(database: Database) {
    super(database, 'folder_rules', columns)
  }

  async move(from: Path, to: Path): Promise<void> {
    await this.database.transaction((query) => moveRules(query, from, to))
  }
}

/**
 * Moves the rules at or below `from` to `to`. A rule that already has the new path of a moved one is deleted. Other
 * rules at or below `to` are unchanged, because the admin set them for that path.
 */
export async function moveRules(query: Knex, from: Path, to: Path): Promise<void> {
  if (from === to) return
  assertDisjoint(from, to)
  const targetPaths = query('folder_rules')
    .where(subtree(from))
    .select(replacePrefix(query, 'path', from, to))
  await query('folder_rules').whereIn('path', targetPaths).delete()
  await query('folder_rules')
    .where(subtree(from))
    .update({ path: replacePrefix(query, 'path', from, to) })
}
