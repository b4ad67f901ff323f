import type { Knex } from 'knex'
import { GatewayError } from '../errors.js'
import { parentOf, type Path } from '../path.js'
import { largestProperties, type Property, type PropertyChange } from '../properties.js'
import type { Database } from './database.js'
import type { Presence } from './presence.js'
import { checkApart, renamed, subtree } from './ranges.js'

interface PropertyColumns extends Property {
  readonly path: Path
  readonly parent: Path
}

const shown = ['namespace', 'name', 'value', 'language'] as const

/** Of a page of `within`. */
const pathsAtOnce = 500

export class PropertiesTable {
  constructor(
    private readonly database: Database,
    private readonly presence: Presence,
  ) {}

  async of(path: Path): Promise<Property[]> {
    const rows = await this.database.read((query) =>
      query<PropertyColumns>('properties')
        .where({ path })
        .orderBy(['namespace', 'name'])
        .select(...shown),
    )
    return rows
  }

  async ofChildren(folder: Path, which?: readonly Path[]): Promise<Map<Path, Property[]>> {
    const rows = await this.database.read((query) => {
      const found = query<PropertyColumns>('properties')
      return (
        (which ? found.whereIn('path', which) : found.where({ parent: folder }))
          // The root is its own parent, and nobody's child.
          .andWhereNot({ path: folder })
          .orderBy(['path', 'namespace', 'name'])
          .select('path', ...shown)
      )
    })
    const children = new Map<Path, Property[]>()
    for (const { path, ...property } of rows) {
      const known = children.get(path)
      if (known === undefined) children.set(path, [property])
      else known.push(property)
    }
    return children
  }

  async sizeOfChildren(folder: Path): Promise<number> {
    return this.database.read((query) => sizeOf(query, { parent: folder }))
  }

  async change(path: Path, changes: readonly PropertyChange[]): Promise<void> {
    this.presence.inserting()
    await this.database.transaction(async (query) => {
      for (const change of changes) {
        if ('set' in change) {
          const { namespace, name, value, language } = change.set
          await query<PropertyColumns>('properties')
            .insert({ path, parent: parentOf(path), namespace, name, value, language })
            .onConflict(['path', 'namespace', 'name'])
            .merge()
        } else {
          const { namespace, name } = change.remove
          await query<PropertyColumns>('properties').where({ path, namespace, name }).delete()
        }
      }
      if ((await sizeOf(query, { path })) > largestProperties) {
        throw new GatewayError('no_space', {
          reason: `the properties of one file or folder may take up ${largestProperties} characters`,
        })
      }
    })
  }

  hasWithin(...paths: readonly Path[]): Promise<boolean> {
    return this.database.read((query) => this.presence.within(query, ...paths))
  }

  async move(from: Path, to: Path): Promise<void> {
    await this.database.transaction((query) => moveProperties(query, from, to))
  }

  async copy(from: Path, to: Path, deep: boolean): Promise<void> {
    if (from === to) return
    if (deep) checkApart(from, to)
    await this.database.transaction(async (query) => {
      await query('properties')
        .where(deep ? subtree(to) : { path: to })
        .delete()
      await copyOwn(query, from, to)
      if (deep) await copyBelow(query, from, to)
    })
  }

  async *within(path: Path): AsyncGenerator<readonly Path[]> {
    for (let after = ''; ;) {
      const rows = await this.database.read((query) =>
        query<PropertyColumns>('properties')
          .where(subtree(path))
          .andWhere('path', '>', after)
          .distinct('path')
          .orderBy('path')
          .limit(pathsAtOnce),
      )
      const paths = rows.map((row) => row.path)
      const last = paths.at(-1)
      if (last === undefined) return
      yield paths
      after = last
    }
  }

  async follow(pairs: readonly (readonly [from: Path, to: Path])[], keep: boolean): Promise<void> {
    if (pairs.length === 0) return
    await this.database.transaction(async (query) => {
      for (const [from, to] of pairs) {
        await query('properties').where({ path: to }).delete()
        if (keep) await copyOwn(query, from, to)
        else
          await query('properties')
            .where({ path: from })
            .update({ path: to, parent: parentOf(to) })
      }
    })
  }

  async delete(path: Path): Promise<void> {
    if (!(await this.hasWithin(path))) return
    await this.database.run((query) => query('properties').where(subtree(path)).delete())
  }
}

/** In characters. */
async function sizeOf(query: Knex, where: Partial<PropertyColumns>): Promise<number> {
  const [row]: readonly { size: number | string | null }[] = await query('properties')
    .where(where)
    .select({ size: query.raw(`sum(${shown.map((column) => `length(${column})`).join(' + ')})`) })
  return Number(row?.size ?? 0)
}

/** Properties at or below `from` replace those at or below `to`. */
export async function moveProperties(query: Knex, from: Path, to: Path): Promise<void> {
  if (from === to) return
  checkApart(from, to)
  await query('properties').where(subtree(to)).delete()
  await query('properties')
    .where({ path: from })
    .update({ path: to, parent: parentOf(to) })
  await query('properties')
    .where(subtree(from))
    .update({ path: renamed(query, 'path', from, to), parent: renamed(query, 'parent', from, to) })
}

/** The target's path and parent, then what is shown. */
function copyRows(query: Knex, path: Knex.Raw, parent: Knex.Raw, which: Knex.QueryCallback): Knex.QueryBuilder {
  const target = query.raw('?? (??, ??, ??, ??, ??, ??)', ['properties', 'path', 'parent', ...shown])
  return query(target).insert(
    query('properties')
      .where(which)
      .select(path, parent, ...shown),
  )
}

async function copyOwn(query: Knex, from: Path, to: Path): Promise<void> {
  const text = (path: Path): Knex.Raw => query.raw('cast(? as text)', [path])
  await copyRows(query, text(to), text(parentOf(to)), (rows) => void rows.where({ path: from }))
}

async function copyBelow(query: Knex, from: Path, to: Path): Promise<void> {
  const path = renamed(query, 'path', from, to)
  const parent = renamed(query, 'parent', from, to)
  await copyRows(query, path, parent, (rows) => void rows.where(subtree(from)).andWhereNot({ path: from }))
}
