import type { Knex } from 'knex'
import type { Path } from '../path.js'
import type { FolderRule } from '../rules.js'
import { integer, numbers, path, text, truth, type Columns } from './columns.js'
import type { Database } from './database.js'
import { checkApart, renamed, subtree } from './ranges.js'
import { RowTable } from './row-table.js'

const columns: Columns<FolderRule> = {
  id: integer('id'),
  path: path('path'),
  password: text('password'),
  passwordSub: truth('password_sub'),
  write: truth('write'),
  writeSub: truth('write_sub'),
  hide: text('hide'),
  hideSub: truth('hide_sub'),
  readme: text('readme'),
  readmeSub: truth('readme_sub'),
  header: text('header'),
  headerSub: truth('header_sub'),
  readUsers: numbers('read_users'),
  readUsersSub: truth('read_users_sub'),
  writeUsers: numbers('write_users'),
  writeUsersSub: truth('write_users_sub'),
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
 * Rules at or below `from` go along to `to`. A rule that stands there gives way to one that arrives on its very path;
 * others stay, because the admin gave them to the place.
 */
export async function moveRules(query: Knex, from: Path, to: Path): Promise<void> {
  if (from === to) return
  checkApart(from, to)
  const arriving = query('folder_rules')
    .where(subtree(from))
    .select(renamed(query, 'path', from, to))
  await query('folder_rules').whereIn('path', arriving).delete()
  await query('folder_rules')
    .where(subtree(from))
    .update({ path: renamed(query, 'path', from, to) })
}
