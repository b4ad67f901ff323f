/** Folders of backends that have no empty folders. */
import type { Knex } from 'knex'
import { parentOf, type Path } from '../base/path.js'
import type { Database } from './database.js'
import { assertDisjoint, replacePrefix, subtree } from './ranges.js'

interface FolderColumns {
  path: Path
  parent: Path
  /** Text if the database driver does not support 64-bit integers. */
  modified: number | string
}

export class FoldersTable {
  constructor(private readonly database: Database) {}

  async of(path: Path): Promise<Date | undefined> {
    const row = await this.database.read((query) => query<FolderColumns>('folders').where({ path }).first())
    return row && new Date(Number(row.modified))
  }

  async ofChildren(folder: Path): Promise<Map<Path, Date>> {
    const rows = await this.database.read((query) =>
      query<FolderColumns>('folders')
        .where({ parent: folder })
        // The root is its own parent, but not its own child.
        .andWhereNot({ path: folder })
        .select('path', 'modified'),
    )
    return new Map(rows.map(({ path, modified }) => [path, new Date(Number(modified))]))
  }

  async put(path: Path, modified?: Date): Promise<void> {
    const row: FolderColumns = { path, parent: parentOf(path), modified: (modified ?? new Date()).getTime() }
    await this.database.run((query) => {
      const insertion = query<FolderColumns>('folders').insert(row).onConflict('path')
      return modified === undefined ? insertion.ignore() : insertion.merge(['modified'])
    })
  }

  async delete(path: Path): Promise<void> {
    await this.database.run((query) => query('folders').where(subtree(path)).delete())
  }
}

/** Moves the records of a folder and of all below it, which replace those of the target. */
export async function moveFolders(query: Knex, from: Path, to: Path): Promise<void> {
  assertDisjoint(from, to)
  await query('folders').where(subtree(to)).delete()
  await query('folders')
    .where({ path: from })
    .update({ path: to, parent: parentOf(to) })
  await query('folders')
    .where(subtree(from))
    .update({ path: replacePrefix(query, 'path', from, to), parent: replacePrefix(query, 'parent', from, to) })
}
