/** The events of the audit. */
import type { Knex } from 'knex'
import type { Path } from '../base/path.js'
import type { AuditEvent, AuditFilter, AuditPage, EventFacts, NewDelivery, NumberedEvent } from './audit-rows.js'
import type { Database } from './database.js'
import { isPostgres } from './dialect.js'
import { subtree } from './ranges.js'
import { indexedPathLength } from './schema.js'

/** The columns besides `id`, each with its type and with where its value is in the JSON of an event. */
const columns = {
  event_id: ['text', 'id'],
  time: ['bigint', 'time'],
  node: ['text', 'node'],
  kind: ['text', 'kind'],
  result: ['text', 'result'],
  user_id: ['integer', 'actor', 'userId'],
  name: ['text', 'actor', 'name'],
  protocol: ['text', 'actor', 'protocol'],
  address: ['text', 'actor', 'address'],
  credential: ['text', 'actor', 'credential'],
  path: ['text', 'path'],
  target: ['text', 'target'],
  size: ['bigint', 'size'],
  entry: ['text', 'entry'],
  storage: ['text', 'storage'],
  error: ['text', 'error'],
  decided_by: ['text', 'decidedBy'],
  subject: ['text', 'subject'],
  fields: ['text', 'fields'],
  duration: ['bigint', 'duration'],
  count: ['bigint', 'count'],
} as const

type StoredEvent = Readonly<Record<keyof typeof columns | 'id', string | number | null>>

/** Rows that one transaction deletes. */
const sweepStep = 1000

export class AuditTable {
  constructor(private readonly database: Database) {}

  async insert(
    events: readonly AuditEvent[],
    deliveriesOf?: (added: readonly AuditEvent[]) => readonly NewDelivery[],
  ): Promise<number> {
    if (events.length === 0) return 0
    return this.database.transaction(async (query) => {
      // Numbers must become visible in their order, for those who follow.
      if (isPostgres(query)) await query.raw("select pg_advisory_xact_lock(hashtext('tidegate audit'))")
      const added = new Set(await insertNew(query, events))
      if (deliveriesOf) {
        await insertDeliveries(query, deliveriesOf(events.filter(({ id }) => added.has(id))))
      }
      return added.size
    })
  }

  async list(filter: AuditFilter, { limit, before, after }: AuditPage): Promise<readonly NumberedEvent[]> {
    return this.database.read(async (query) => {
      const rows = query<StoredEvent>('audit').where(matching(filter)).limit(limit)
      if (before) void rows.whereRaw('(time, event_id) < (?, ?)', [before.time, before.id])
      if (after === undefined) void rows.orderBy([desc('time'), desc('event_id')])
      else void rows.where('id', '>', after).orderBy('id')
      return (await rows.select<readonly StoredEvent[]>()).map(toEvent)
    })
  }

  async last(): Promise<number> {
    const [row] = await this.database.read((query) =>
      query('audit').max<{ last: number | string | null }[]>({ last: 'id' }),
    )
    return Number(row?.last ?? 0)
  }

  async sweep(before: number, maxBytes: number, pause: () => Promise<unknown>): Promise<number> {
    const keptFrom = (await this.last()) + 1 - Math.floor(maxBytes / (await this.#rowSize()))
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

/** Inserts the events that are not stored yet, by one statement for any number of them. Resolves to their ids. */
async function insertNew(query: Knex, events: readonly AuditEvent[]): Promise<string[]> {
  const names = Object.keys(columns).join(', ')
  const values = Object.values(columns)
  const conflict = 'on conflict (event_id) do nothing returning event_id'
  const json = JSON.stringify(events)
  if (isPostgres(query)) {
    const selected = values.map(([type, ...path]) => `(value #>> '{${path.join(',')}}')::${type}`).join(', ')
    const { rows } = await query.raw<{ rows: readonly { event_id: string }[] }>(
      `insert into audit (${names}) select ${selected} from json_array_elements(?::json) ${conflict}`,
      [json],
    )
    return rows.map((row) => row.event_id)
  }
  const selected = values.map(([, ...path]) => `value ->> '$.${path.join('.')}'`).join(', ')
  const rows = await query.raw<readonly { event_id: string }[]>(
    // Without `where`, the `on` of the conflict would be taken for that of a join.
    `insert into audit (${names}) select ${selected} from json_each(?) where true ${conflict}`,
    [json],
  )
  return rows.map((row) => row.event_id)
}

/** Inserts deliveries to hooks that exist. */
async function insertDeliveries(query: Knex, deliveries: readonly NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return
  const hooks = [...new Set(deliveries.map(({ hookId }) => hookId))]
  const existing = await query('webhooks').whereIn('id', hooks).forShare().select<readonly { id: number }[]>('id')
  const ids = new Set(existing.map(({ id }) => id))
  const rows = deliveries
    .filter(({ hookId }) => ids.has(hookId))
    .map(({ hookId, eventId, body, nextAt }) => ({
      ...{ hook_id: hookId, event_id: eventId, body },
      ...{ attempts: 0, next_at: nextAt },
    }))
  for (let start = 0; start < rows.length; start += 100) {
    await query('webhook_outbox')
      .insert(rows.slice(start, start + 100))
      .onConflict(['hook_id', 'event_id'])
      .ignore()
  }
}

function desc(column: string) {
  return { column, order: 'desc' as const }
}

function matching({ from, to, user, path, kinds, result, address }: AuditFilter): Knex.QueryCallback {
  return (query) => {
    if (from !== undefined) void query.where('time', '>=', from)
    if (to !== undefined) void query.where('time', '<', to)
    if (user !== undefined) void query.where('name', user)
    if (path !== undefined) void query.where(about(path))
    if (kinds !== undefined) void query.whereIn('kind', [...kinds])
    if (result !== undefined) void query.where({ result })
    if (address?.endsWith('*')) {
      const start = address.slice(0, -1)
      void query.whereRaw('substr(address, 1, ?) = ?', [start.length, start])
    } else if (address !== undefined) void query.where({ address })
  }
}

/**
 * A condition for events whose path or target is `path` or below it. The indexes have the beginnings of paths only:
 * PostgreSQL does not index longer texts.
 */
function about(path: Path): Knex.QueryCallback {
  const below = path === '/' ? '/' : `${path}/`
  const beyond = `${below.slice(0, -1)}0`
  const isLong = below.length > indexedPathLength
  const start = isLong ? [...path].slice(0, indexedPathLength).join('') : path
  return (query) => {
    for (const column of ['path', 'target']) {
      const beginning = `substr(${column}, 1, ${indexedPathLength})`
      void query.orWhere((one) => {
        if (isLong) void one.whereRaw(`${beginning} = ?`, [start]).andWhere(subtree(path, column))
        else void one.whereRaw(`${beginning} = ? or (${beginning} >= ? and ${beginning} < ?)`, [path, below, beyond])
      })
    }
  }
}

function toEvent(row: StoredEvent): NumberedEvent {
  const text = (value: string | number | null) => (value === null ? undefined : (value as string))
  const integer = (value: string | number | null) => (value === null ? undefined : Number(value))
  const event: NumberedEvent = {
    number: Number(row.id),
    id: row.event_id as string,
    time: Number(row.time),
    node: row.node as string,
    kind: row.kind as EventFacts['kind'],
    actor: withoutUndefined({
      userId: integer(row.user_id),
      name: row.name as string,
      protocol: text(row.protocol),
      address: text(row.address),
      credential: text(row.credential),
    }),
    result: row.result as EventFacts['result'],
    path: text(row.path) as Path | undefined,
    target: text(row.target) as Path | undefined,
    size: integer(row.size),
    entry: text(row.entry) as EventFacts['entry'],
    storage: text(row.storage) as Path | undefined,
    error: text(row.error),
    decidedBy: text(row.decided_by),
    subject: text(row.subject),
    fields: row.fields === null ? undefined : (JSON.parse(row.fields as string) as string[]),
    duration: integer(row.duration),
    count: integer(row.count),
  }
  return withoutUndefined(event)
}

/** So that an event is the same that was inserted. */
function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as T
}
