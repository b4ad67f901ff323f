/** Modification times and modes that backends cannot store. */
import type { Knex } from 'knex'
import { parentOf, type Path } from '../base/path.js'
import type { Database } from './database.js'
import type { Presence } from './presence.js'
import { assertDisjoint, replacePrefix, subtree } from './ranges.js'
import type { StoredAttributes } from './tables/files.js'

interface AttributeColumns {
  path: Path
  parent: Path
  /** Text if the database driver does not support 64-bit integers. */
  modified: number | string | null
  mode: number | null
}

export class AttributesTable {
  constructor(
    private readonly database: Database,
    private readonly presence: Presence,
  ) {}

  async of(path: Path): Promise<StoredAttributes | undefined> {
    const row = await this.database.read((query) => query<AttributeColumns>('attributes').where({ path }).first())
    return row === undefined ? undefined : read(row)
  }

  async ofChildren(folder: Path): Promise<Map<Path, StoredAttributes>> {
    const rows = await this.database.read((query) =>
      query<AttributeColumns>('attributes')
        .where({ parent: folder })
        // The root is its own parent, but not its own child.
        .andWhereNot({ path: folder })
        .select('path', 'modified', 'mode'),
    )
    return new Map(rows.map((row) => [row.path, read(row)]))
  }

  /** Attributes that are undefined in `to` are unchanged. */
  async set(path: Path, to: StoredAttributes): Promise<void> {
    const changes: Partial<AttributeColumns> = {}
    if (to.modified !== undefined) changes.modified = to.modified.getTime()
    if (to.mode !== undefined) changes.mode = to.mode
    if (Object.keys(changes).length === 0) return
    this.presence.beforeInsert()
    await this.database.run((query) =>
      query<AttributeColumns>('attributes')
        .insert({ path, parent: parentOf(path), ...changes })
        .onConflict('path')
        .merge(changes),
    )
  }

  hasWithin(...paths: readonly Path[]): Promise<boolean> {
    return this.database.read((query) => this.presence.hasWithin(query, ...paths))
  }

  /** Copies the attributes of one file, replacing those of the target. */
  async copy(from: Path, to: Path): Promise<void> {
    if (from === to) return
    await this.database.transaction(async (query) => {
      await query<AttributeColumns>('attributes').where({ path: to }).delete()
      const row = await query<AttributeColumns>('attributes').where({ path: from }).first()
      if (row !== undefined) await query('attributes').insert({ ...row, path: to, parent: parentOf(to) })
    })
  }

  async delete(path: Path): Promise<void> {
    if (!(await this.hasWithin(path))) return
    await this.database.run((query) => query('attributes').where(subtree(path)).delete())
  }
}

function read({ modified, mode }: Pick<AttributeColumns, 'modified' | 'mode'>): StoredAttributes {
  return {
    modified: modified === null ? undefined : new Date(Number(modified)),
    mode: mode ?? undefined,
  }
}

/** Attributes at or below `from` replace those at or below `to`. */
export async function moveAttributes(query: Knex, from: Path, to: Path): Promise<void> {
  if (from === to) return
  assertDisjoint(from, to)
  await query('attributes').where(subtree(to)).delete()
  await query('attributes')
    .where({ path: from })
    .update({ path: to, parent: parentOf(to) })
  await query('attributes')
    .where(subtree(from))
    .update({ path: replacePrefix(query, 'path', from, to), parent: replacePrefix(query, 'parent', from, to) })
}
