/** Dead properties of WebDAV (RFC 4918 §4). */
import type { Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import { parentOf, type Path } from '../base/path.js'
import type { Database } from './database.js'
import type { Presence } from './presence.js'
import { assertDisjoint, replacePrefix, subtree } from './ranges.js'
import type { Property, PropertyChange, PropertyLimits } from './tables/files.js'

interface PropertyColumns extends Property {
  readonly path: Path
  readonly parent: Path
  /** The user who has stored the property; null if an earlier version has. */
  readonly user_id: number | null
  readonly size: number | null
}

const propertyColumns = ['namespace', 'name', 'value', 'language'] as const

/** Maximum paths in one page of `within`. */
const pageSize = 500

export class PropertiesTable {
  /** The size of each user's properties when it was counted, and of what this process has stored since. */
  readonly #sizes = new Map<number, number>()

  constructor(
    private readonly database: Database,
    private readonly presence: Presence,
  ) {}

  async of(path: Path): Promise<Property[]> {
    return this.database.read(async (query) => {
      if (await this.presence.isEmpty(query)) return []
      return query<PropertyColumns>('properties')
        .where({ path })
        .orderBy(['namespace', 'name'])
        .select(...propertyColumns)
    })
  }

  async ofChildren(folder: Path, which?: readonly Path[]): Promise<Map<Path, Property[]>> {
    const rows = await this.database.read(async (query) => {
      if (await this.presence.isEmpty(query)) return []
      const found = query<PropertyColumns>('properties')
      return (
        (which ? found.whereIn('path', which) : found.where({ parent: folder }))
          // The root is its own parent, but not its own child.
          .andWhereNot({ path: folder })
          .orderBy(['path', 'namespace', 'name'])
          .select('path', ...propertyColumns)
      )
    })
    const children = new Map<Path, Property[]>()
    for (const { path, ...property } of rows) {
      const siblings = children.get(path)
      if (siblings === undefined) children.set(path, [property])
      else siblings.push(property)
    }
    return children
  }

  async sizeOfChildren(folder: Path): Promise<number> {
    return this.database.read(async (query) => {
      return (await this.presence.isEmpty(query)) ? 0 : sizeOf(query, { parent: folder })
    })
  }

  async change(
    path: Path,
    changes: readonly PropertyChange[],
    userId?: number,
    { ofPath = Infinity, ofUser = Infinity }: Partial<PropertyLimits> = {},
  ): Promise<void> {
    this.presence.beforeInsert()
    await this.database.transaction(async (query) => {
      let added = 0
      for (const change of changes) {
        if ('set' in change) {
          const { namespace, name, value, language } = change.set
          const size = propertyOverhead + namespace.length + name.length + value.length + language.length
          added += size
          await query<PropertyColumns>('properties')
            .insert({ path, parent: parentOf(path), namespace, name, value, language, user_id: userId ?? null, size })
            .onConflict(['path', 'namespace', 'name'])
            .merge()
        } else {
          const { namespace, name } = change.remove
          await query<PropertyColumns>('properties').where({ path, namespace, name }).delete()
        }
      }
      if ((await sizeOf(query, { path })) > ofPath) {
        throw new GatewayError('no_space', {
          reason: `the properties of one file or folder are limited to ${ofPath} characters`,
        })
      }
      if (userId !== undefined && added > 0) await this.#add(query, userId, added, ofUser)
    })
  }

  async assertRoom(userId: number, limit: number): Promise<void> {
    await this.database.read((query) => this.#add(query, userId, 0, limit - 1))
  }

  /** Adds what has been stored to the user's size. Throws `no_space` if that is more than the limit. */
  async #add(query: Knex, userId: number, added: number, limit: number): Promise<void> {
    const counted = this.#sizes.get(userId)
    const isExact = counted === undefined || counted + added > limit
    const size = isExact ? await ownedSize(query, userId) : counted + added
    this.#sizes.set(userId, size)
    if (size <= limit) return
    this.#sizes.delete(userId)
    throw new GatewayError('no_space', {
      reason: 'the properties that this account has stored have reached their limit',
    })
  }

  hasWithin(...paths: readonly Path[]): Promise<boolean> {
    return this.database.read((query) => this.presence.hasWithin(query, ...paths))
  }

  async move(from: Path, to: Path): Promise<void> {
    await this.database.transaction((query) => moveProperties(query, from, to))
  }

  async copy(from: Path, to: Path, deep: boolean, userId?: number): Promise<void> {
    if (from === to) return
    if (deep) assertDisjoint(from, to)
    await this.database.transaction(async (query) => {
      await query('properties')
        .where(deep ? subtree(to) : { path: to })
        .delete()
      await copyPath(query, from, to, userId)
      if (deep) await copyDescendants(query, from, to, userId)
    })
    if (userId !== undefined) this.#sizes.delete(userId)
  }

  async *within(path: Path): AsyncGenerator<readonly Path[]> {
    for (let after = ''; ;) {
      const rows = await this.database.read((query) =>
        query<PropertyColumns>('properties')
          .where(subtree(path))
          .andWhere('path', '>', after)
          .distinct('path')
          .orderBy('path')
          .limit(pageSize),
      )
      const paths = rows.map((row) => row.path)
      const last = paths.at(-1)
      if (last === undefined) return
      yield paths
      after = last
    }
  }

  async transfer(pairs: readonly (readonly [from: Path, to: Path])[], keep: boolean, userId?: number): Promise<void> {
    if (pairs.length === 0) return
    await this.database.transaction(async (query) => {
      for (const [from, to] of pairs) {
        await query('properties').where({ path: to }).delete()
        if (keep) await copyPath(query, from, to, userId)
        else
          await query('properties')
            .where({ path: from })
            .update({ path: to, parent: parentOf(to) })
      }
    })
    if (keep && userId !== undefined) this.#sizes.delete(userId)
  }

  async delete(path: Path): Promise<void> {
    if (!(await this.hasWithin(path))) return
    await this.database.run((query) => query('properties').where(subtree(path)).delete())
  }
}

/** Total size of the properties that a user has stored: read from an index alone. */
async function ownedSize(query: Knex, userId: number): Promise<number> {
  const [row]: readonly { size: number | string | null }[] = await query('properties')
    .where({ user_id: userId })
    .sum({ size: 'size' })
  return Number(row?.size ?? 0)
}

/** Total size of the selected properties, in characters. Each counts at least `propertyOverhead`. */
async function sizeOf(query: Knex, where: Partial<PropertyColumns>): Promise<number> {
  const [row]: readonly { size: number | string | null }[] = await query('properties')
    .where(where)
    .select({ size: query.raw(`sum(${sizeExpression})`) })
  return Number(row?.size ?? 0)
}

/** Properties at or below `from` replace those at or below `to`. */
export async function moveProperties(query: Knex, from: Path, to: Path): Promise<void> {
  if (from === to) return
  assertDisjoint(from, to)
  await query('properties').where(subtree(to)).delete()
  await query('properties')
    .where({ path: from })
    .update({ path: to, parent: parentOf(to) })
  await query('properties')
    .where(subtree(from))
    .update({ path: replacePrefix(query, 'path', from, to), parent: replacePrefix(query, 'parent', from, to) })
}

/** Inserts copies of the selected rows with the given path and parent, as properties of the user. */
function copyRows(
  query: Knex,
  [path, parent]: readonly [path: Knex.Raw, parent: Knex.Raw],
  which: Knex.QueryCallback,
  userId: number | undefined,
): Knex.QueryBuilder {
  const columns = ['path', 'parent', 'user_id', 'size', ...propertyColumns]
  const target = query.raw(`?? (${columns.map(() => '??').join(', ')})`, ['properties', ...columns])
  const owner = query.raw('cast(? as integer)', [userId ?? null])
  return query(target).insert(
    query('properties')
      .where(which)
      .select(path, parent, owner, query.raw(sizeExpression), ...propertyColumns),
  )
}

async function copyPath(query: Knex, from: Path, to: Path, userId: number | undefined): Promise<void> {
  const text = (path: Path): Knex.Raw => query.raw('cast(? as text)', [path])
  await copyRows(query, [text(to), text(parentOf(to))], (rows) => void rows.where({ path: from }), userId)
}

async function copyDescendants(query: Knex, from: Path, to: Path, userId: number | undefined): Promise<void> {
  const path = replacePrefix(query, 'path', from, to)
  const parent = replacePrefix(query, 'parent', from, to)
  const which: Knex.QueryCallback = (rows) => void rows.where(subtree(from)).andWhereNot({ path: from })
  await copyRows(query, [path, parent], which, userId)
}

/**
 * The size that each property adds, besides its characters: many small ones take as much memory and time as few large
 * ones.
 */
const propertyOverhead = 256

/** The size of a property as SQL. */
const sizeExpression = [propertyOverhead, ...propertyColumns.map((column) => `length(${column})`)].join(' + ')
