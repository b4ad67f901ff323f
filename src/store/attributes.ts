import type { Knex } from 'knex'
import { parentOf, type Path } from '../path.js'
import type { Database } from './database.js'
import type { Presence } from './presence.js'
import { checkApart, renamed, subtree } from './ranges.js'
import type { RememberedAttributes } from './rows.js'

interface AttributeColumns {
  path: Path
  parent: Path
  /** Text where the database has 64 bits and its driver does not. */
  modified: number | string | null
  mode: number | null
}

export class AttributesTable {
  constructor(
    private readonly database: Database,
    private readonly presence: Presence,
  ) {}

  async of(path: Path): Promise<RememberedAttributes | undefined> {
    const row = await this.database.read((query) => query<AttributeColumns>('attributes').where({ path }).first())
    return row === undefined ? undefined : read(row)
  }

  async ofChildren(folder: Path): Promise<Map<Path, RememberedAttributes>> {
    const rows = await this.database.read((query) =>
      query<AttributeColumns>('attributes')
        .where({ parent: folder })
        // The root is its own parent, and nobody's child.
        .andWhereNot({ path: folder })
        .select('path', 'modified', 'mode'),
    )
    return new Map(rows.map((row) => [row.path, read(row)]))
  }

  /** What `to` does not name stays as it was. */
  async set(path: Path, to: RememberedAttributes): Promise<void> {
    const changes: Partial<AttributeColumns> = {}
    if (to.modified !== undefined) changes.modified = to.modified.getTime()
    if (to.mode !== undefined) changes.mode = to.mode
    if (Object.keys(changes).length === 0) return
    this.presence.inserting()
    await this.database.run((query) =>
      query<AttributeColumns>('attributes')
        .insert({ path, parent: parentOf(path), ...changes })
        .onConflict('path')
        .merge(changes),
    )
  }

  hasWithin(...paths: readonly Path[]): Promise<boolean> {
    return this.database.read((query) => this.presence.within(query, ...paths))
  }

  async move(from: Path, to: Path): Promise<void> {
    await this.database.transaction((query) => moveAttributes(query, from, to))
  }

  /** Of one file. */
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

function read({ modified, mode }: Pick<AttributeColumns, 'modified' | 'mode'>): RememberedAttributes {
  return {
    modified: modified === null ? undefined : new Date(Number(modified)),
    mode: mode ?? undefined,
  }
}

/** What is remembered at or below `from` replaces what is remembered at or below `to`. */
export async function moveAttributes(query: Knex, from: Path, to: Path): Promise<void> {
  if (from === to) return
  checkApart(from, to)
  await query('attributes').where(subtree(to)).delete()
  await query('attributes')
    .where({ path: from })
    .update({ path: to, parent: parentOf(to) })
  await query('attributes')
    .where(subtree(from))
    .update({ path: renamed(query, 'path', from, to), parent: renamed(query, 'parent', from, to) })
}
