/** Folder rules. */
import { integer, json, path, text, bool, type Columns } from './columns.js'
import type { Database } from './database.js'
import { following, PathTable } from './path-table.js'
import type { FolderRule } from './tables/rules.js'

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

export class RulesTable extends PathTable<FolderRule> {
  constructor(database: Database) {
    super(database, following.rules, columns)
  }
}
