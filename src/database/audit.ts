/** The events of the audit. */
import type { Knex } from 'knex'
import { root, type Path } from '../base/path.js'
import type {
  AuditCursor,
  AuditEvent,
  AuditFilter,
  AuditPage,
  FollowedEvents,
  NewDelivery,
  NumberedEvent,
} from './audit-rows.js'
import type { Database } from './database.js'
import { isPostgres } from './dialect.js'
import { eventFields, eventOf, fieldValues, type EventColumn } from './event-fields.js'
import { subtree } from './ranges.js'
import { indexedPathLength } from './schema.js'
import { addDeliveries } from './webhooks.js'

const columns = Object.values(eventFields)

type StoredEvent = Readonly<Record<EventColumn | 'id', string | number | null>>

/** The order of rows in which the newest event is first. The indexes have the times alone: few events share one. */
const newestRows = [
  { column: 'time', order: 'desc' },
  { column: 'event_id', order: 'desc' },
]

/** Rows that one transaction deletes. */
const sweepStep = 1000
/** Maximum number of events that one page, or one call for later ones, looks at. */
const maxLooks = 20_000

export class AuditTable {
  constructor(private readonly database: Database) {}

  async insert(
    events: readonly AuditEvent[],
    deliveriesOf?: (events: readonly AuditEvent[]) => readonly NewDelivery[],
  ): Promise<void> {
    if (events.length === 0) return
    const deliveries = deliveriesOf?.(events) ?? []
    await this.database.run(async (query) => {
      // The statement alone is atomic, and numbers are in the order of writers, which take turns.
      if (deliveries.length === 0 && !isPostgres(query)) await insertNew(query, events, false)
      else await query.transaction((transaction) => insertBoth(transaction, events, deliveries))
    })
  }

  async list(filter: AuditFilter, limit: number, before?: AuditCursor): Promise<AuditPage> {
    return this.database.read(async (query) => {
      const isRare = filter.path !== undefined && filter.path !== root && (await areFewBelow(query, filter.path))
      const candidates = (names: string) => candidatesOf(query, filter, before, isRare).select(query.raw(names))
      // Without an order of its own, it ends as soon as the page is full.
      const rows = await query
        .from(candidates('*').limit(maxLooks).as('candidates'))
        .where(matching(filter))
        .limit(limit)
        .select<readonly StoredEvent[]>('*')
      const events = rows.map(toEvent).sort(newestFirst)
      const last = events.at(-1)
      if (last && events.length === limit) return { events, next: { time: last.time, id: last.id } }
      const [looked] = (await candidates('time, event_id')
        .offset(maxLooks - 1)
        .limit(1)) as readonly Pick<StoredEvent, 'time' | 'event_id'>[]
      return { events, next: looked && { time: Number(looked.time), id: String(looked.event_id) } }
    })
  }

  async after(number: number, filter: AuditFilter, limit: number): Promise<FollowedEvents> {
    return this.database.read(async (query) => {
      const later = () => query<StoredEvent>('audit').where('id', '>', number).orderBy('id')
      // The end first: what becomes visible while the rows are read has higher numbers.
      const [far] = await later()
        .offset(maxLooks - 1)
        .limit(1)
        .select('id')
      const end = far === undefined ? await lastOf(query) : Number(far.id)
      const rows = await later()
        .andWhere('id', '<=', end)
        .andWhere(matching(filter))
        .limit(limit)
        .select<readonly StoredEvent[]>('*')
      const events = rows.map(toEvent)
      return { events, last: events.length === limit ? (events.at(-1)?.number ?? end) : end }
    })
  }

  async movesTo(paths: readonly Path[], limit: number, before?: AuditCursor): Promise<readonly AuditEvent[]> {
    if (paths.length === 0) return []
    const rows = await this.database.read((query) => {
      const moves = query<StoredEvent>('audit')
        .whereNotNull('target')
        .whereRaw(`${beginning('target')} in (${paths.map(() => '?').join(', ')})`, paths.map(cut))
        .whereIn('target', [...paths])
        .where({ kind: 'moved', result: 'done' })
        .orderBy(newestRows)
        .limit(limit)
      if (before) void moves.whereRaw('(time, event_id) < (?, ?)', [before.time, before.id])
      return moves.select<readonly StoredEvent[]>('*')
    })
    return rows.map(toEvent)
  }

  async get(id: string): Promise<NumberedEvent | undefined> {
    const row = await this.database.read((query) => query<StoredEvent>('audit').where({ event_id: id }).first())
    return row && toEvent(row)
  }

  async last(): Promise<number> {
    return this.database.read(lastOf)
  }

  async sweep(before: number, maxBytes: number, pause: () => Promise<unknown>): Promise<number> {
    const mostRows = Math.floor(maxBytes / (await this.#rowSize()))
    const keptFrom = Math.max(0, (await this.last()) + 1 - mostRows)
    let deleted = 0
    for (;;) {
      const step = await this.#deleteSome(before, keptFrom)
      deleted += step
      if (step === 0) return deleted
      await pause()
    }
  }

  /** Deletes some of the rows that are older than `before`, or have smaller numbers. Resolves to how many. */
  async #deleteSome(before: number, keptFrom: number): Promise<number> {
    return this.database.run(async (query) => {
      const tooMany = query('audit').where('id', '<', keptFrom).orderBy('id').limit(sweepStep).select('id')
      const removed = await query('audit').whereIn('id', tooMany).delete()
      if (removed > 0) return removed
      const tooOld = query('audit').where('time', '<', before).orderBy('time').limit(sweepStep).select('id')
      return query('audit').whereIn('id', tooOld).delete()
    })
  }

  /** About how many bytes a row takes with its part of the indexes, by the newest rows. */
  async #rowSize(): Promise<number> {
    const [sample] = await this.database.read((query) => {
      const long = ['path', 'target', 'subject', 'decided_by'] as const
      const newest = query('audit')
        .orderBy('id', 'desc')
        .limit(sweepStep)
        .select(...long)
      const length = long.map((column) => `coalesce(length(${column}), 0)`).join(' + ')
      const mean = query.raw(`avg(${length}) as mean`)
      return query.from(newest.as('newest')).select<{ mean: number | string | null }[]>(mean)
    })
    return 400 + 2 * Number(sample?.mean ?? 0)
  }
}

/** The highest number; 0 without an event. */
async function lastOf(query: Knex): Promise<number> {
  const [row] = await query('audit').max<{ last: number | string | null }[]>({ last: 'id' })
  return Number(row?.last ?? 0)
}

/** Inserts events that are not stored yet, with their deliveries. */
async function insertBoth(
  query: Knex,
  events: readonly AuditEvent[],
  deliveries: readonly NewDelivery[],
): Promise<void> {
  // Numbers must become visible in their order, for those who follow.
  if (isPostgres(query)) await query.raw("select pg_advisory_xact_lock(hashtext('tidegate audit'))")
  const added = new Set(await insertNew(query, events, deliveries.length > 0))
  await addDeliveries(
    query,
    deliveries.filter(({ eventId }) => added.has(eventId)),
  )
}

/**
 * Inserts the events that are not stored yet, by one statement for any number of them. Resolves to their ids if
 * `tellsIds`: thousands of results take longer than the rest.
 */
async function insertNew(query: Knex, events: readonly AuditEvent[], tellsIds: boolean): Promise<readonly string[]> {
  const names = columns.map(({ column }) => column).join(', ')
  const conflict = `on conflict (event_id) do nothing ${tellsIds ? 'returning event_id' : ''}`
  // Rows as lists: to find values by names takes the database longer than all else.
  const json = JSON.stringify(events.map(fieldValues))
  if (isPostgres(query)) {
    const values = columns.map(({ type }, index) => `(value ->> ${index})::${type}`).join(', ')
    const { rows } = await query.raw<{ rows: readonly { event_id: string }[] }>(
      `insert into audit (${names}) select ${values} from json_array_elements(?::json) ${conflict}`,
      [json],
    )
    return rows.map((row) => row.event_id)
  }
  const values = columns.map((_, index) => `value ->> ${index}`).join(', ')
  const rows = await query.raw<readonly { event_id: string }[]>(
    // Without `where`, the `on` of the conflict would be taken for that of a join. `json_each` would tell each row as a
    // text, which is parsed again for each of its values.
    `insert into audit (${names}) select ${values} from jsonb_each(?) where true ${conflict}`,
    [json],
  )
  return rows.map((row) => row.event_id)
}

/**
 * The events among which those of a page are, the newest first, by the index that finds the fewest: of a name, of one
 * path, below a path with few, or of a time.
 */
function candidatesOf(
  query: Knex,
  filter: AuditFilter,
  before: AuditCursor | undefined,
  areFew: boolean,
): Knex.QueryBuilder {
  const { from, to, user, at, path } = filter
  const rows = query('audit').orderBy(newestRows)
  const within: Knex.QueryCallback = (some) => {
    // Without a condition on the time, SQLite would sort the whole table.
    void some.where('time', '>=', from ?? 0)
    if (to !== undefined) void some.where('time', '<', to)
    if (before) void some.whereRaw('(time, event_id) < (?, ?)', [before.time, before.id])
  }
  void rows.where(within)
  if (user !== undefined) return rows.where('name', user)
  if (at !== undefined) return rows.whereIn('id', idsAt(query, at, within))
  return path !== undefined && areFew ? rows.whereIn('id', idsBelow(query, path)) : rows
}

/** The ids of the newest events at a path, by it and by the target. */
function idsAt(query: Knex, at: Path, within: Knex.QueryCallback): Knex.QueryBuilder {
  const newest = (column: string) =>
    query('audit')
      .whereRaw(`${column} is not null and ${beginning(column)} = ?`, [cut(at)])
      .andWhere(within)
      .orderBy(newestRows)
      .limit(maxLooks)
      .select('id')
  return query
    .from(newest('path').as('by_path'))
    .select('id')
    .union([query.from(newest('target').as('by_target')).select('id')])
}

/** The ids of at least the events at or below a path, but of at most `maxLooks` of each column. */
function idsBelow(query: Knex, path: Path): Knex.QueryBuilder {
  const ids = (column: string) => {
    const some = query('audit').where(startsAt(column, path)).limit(maxLooks).select('id')
    return query.from(some.as(`by_${column}`)).select('id')
  }
  return ids('path').union([ids('target')])
}

/** Whether `idsBelow` has them all. Of many, some are among the newest events. */
async function areFewBelow(query: Knex, path: Path): Promise<boolean> {
  const [found] = await query
    .from(idsBelow(query, path).as('found'))
    .select<{ count: number | string }[]>(query.raw('count(*) as count'))
  return Number(found?.count) < maxLooks
}

function matching({ from, to, user, path, at, kinds, result, address }: AuditFilter): Knex.QueryCallback {
  return (query) => {
    if (from !== undefined) void query.where('time', '>=', from)
    if (to !== undefined) void query.where('time', '<', to)
    if (user !== undefined) void query.where('name', user)
    if (path !== undefined) void query.where(either((one, column) => void one.where(subtree(path, column))))
    if (at !== undefined) void query.where(either((one, column) => void one.where(column, at)))
    if (kinds !== undefined) void query.whereIn('kind', [...kinds])
    if (result !== undefined) void query.where({ result })
    if (address?.endsWith('*') === true) {
      const start = address.slice(0, -1)
      void query.whereRaw('substr(address, 1, ?) = ?', [start.length, start])
    } else if (address !== undefined) void query.where({ address })
  }
}

/** A condition that the path or the target meets. */
function either(condition: (query: Knex.QueryBuilder, column: string) => void): Knex.QueryCallback {
  return (query) => void query.where((one) => condition(one, 'path')).orWhere((one) => condition(one, 'target'))
}

/**
 * A condition that every path at or below `path` meets, and some others too. The indexes have the beginnings
 * of paths only: PostgreSQL does not index longer texts.
 */
function startsAt(column: string, path: Path): Knex.QueryCallback {
  const below = `${path}/`
  const start = beginning(column)
  return (query) => {
    void query.whereNotNull(column)
    if (below.length > indexedPathLength) void query.whereRaw(`${start} = ?`, [cut(path)])
    // Also what sorts between the path and what is below it: SQLite reads the whole table for two ranges.
    else void query.whereRaw(`${start} >= ? and ${start} < ?`, [path, `${path}0`])
  }
}

function beginning(column: string): string {
  return `substr(${column}, 1, ${indexedPathLength})`
}

/** The part of a path that an index has. */
function cut(path: Path): string {
  return path.length > indexedPathLength ? Array.from(path).slice(0, indexedPathLength).join('') : path
}

function newestFirst(one: AuditEvent, other: AuditEvent): number {
  return other.time - one.time || (one.id < other.id ? 1 : -1)
}

function toEvent(row: StoredEvent): NumberedEvent {
  const values = columns.map(({ column, type }) => {
    const value = row[column]
    if (value === null) return undefined
    if (column === 'fields') return JSON.parse(String(value)) as unknown
    // PostgreSQL's large integers come as texts.
    return type === 'text' ? value : Number(value)
  })
  return { number: Number(row.id), ...eventOf(values) }
}
