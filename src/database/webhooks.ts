/** Webhooks, and the deliveries that each of them still has to get. */
import type { Knex } from 'knex'
import type { DeliveryRow, NewDelivery, WebhookRow } from './audit-rows.js'
import {
  bool,
  integer,
  json,
  optional,
  readRow,
  text,
  time,
  writeRow,
  type Columns,
  type StoredRow,
} from './columns.js'
import type { Database } from './database.js'
import { RowTable } from './row-table.js'

/** The most deliveries of a webhook that are stored. */
export const maxDeliveries = 100_000

/** Rows in one statement. */
const rowsPerInsert = 500

const hookColumns: Columns<WebhookRow> = {
  id: integer('id'),
  name: text('name'),
  url: text('url'),
  secret: text('secret'),
  oldSecret: optional(text('old_secret')),
  oldSecretEnds: optional(time('old_secret_ends')),
  kinds: json('kinds'),
  paths: json('paths'),
  enabled: bool('enabled'),
  disabledReason: optional(text('disabled_reason')),
  created: time('created'),
}

const deliveryColumns: Columns<DeliveryRow> = {
  id: integer('id'),
  hookId: integer('hook_id'),
  eventId: text('event_id'),
  body: text('body'),
  attempts: integer('attempts'),
  nextAt: integer('next_at'),
  lastStatus: optional(integer('last_status')),
  lastError: optional(text('last_error')),
  failedAt: optional(time('failed_at')),
}

export class WebhooksTable extends RowTable<WebhookRow> {
  constructor(database: Database) {
    super(database, 'webhooks', hookColumns)
  }

  /** The deliveries of a webhook that is switched on begin anew. */
  override async update(id: number, changes: Partial<Omit<WebhookRow, 'id'>>): Promise<WebhookRow> {
    return this.database.transaction(async (query) => {
      const row = await this.updateWith(query, id, changes)
      if (changes.enabled === true) {
        const unfinished = query('webhook_outbox').where({ hook_id: id, failed_at: null })
        await unfinished.update({ attempts: 0, next_at: 0 })
      }
      return row
    })
  }

  async switchOff(id: number, reason: string): Promise<boolean> {
    return this.database.run((query) => switchOff(query, id, reason))
  }
}

export class DeliveriesTable {
  constructor(private readonly database: Database) {}

  async next(hookId: number, limit: number): Promise<DeliveryRow[]> {
    return this.#list((query) =>
      query.where({ hook_id: hookId, failed_at: null }).orderBy(['next_at', 'id']).limit(limit),
    )
  }

  async repeated(hookId: number, now: number): Promise<DeliveryRow | undefined> {
    const [row] = await this.#list((query) =>
      query
        .where({ hook_id: hookId, failed_at: null })
        .andWhereBetween('next_at', [1, now])
        .orderBy('next_at', 'desc')
        .limit(1),
    )
    return row
  }

  async list(
    hookId: number,
    failed: boolean,
    { after, limit }: { readonly after: number; readonly limit: number },
  ): Promise<DeliveryRow[]> {
    return this.#list((query) => {
      const rows = query.where({ hook_id: hookId }).andWhere('id', '>', after).orderBy('id').limit(limit)
      return failed ? rows.whereNotNull('failed_at') : rows.whereNull('failed_at')
    })
  }

  async #list(which: (query: Knex.QueryBuilder) => Knex.QueryBuilder): Promise<DeliveryRow[]> {
    const rows = await this.database.read((query) => which(query('webhook_outbox')).select<readonly StoredRow[]>('*'))
    return rows.map((row) => readRow(deliveryColumns, row))
  }

  async counts(): Promise<ReadonlyMap<number, { readonly waiting: number; readonly failed: number }>> {
    const rows: readonly StoredRow[] = await this.database.read((query) =>
      query('webhook_outbox').groupBy('hook_id').select('hook_id').count({ every: '*', failed: 'failed_at' }),
    )
    return new Map(
      rows.map(({ hook_id: id, every, failed }) => [
        Number(id),
        { waiting: Number(every) - Number(failed), failed: Number(failed) },
      ]),
    )
  }

  async fail(id: number, outcome: Omit<DeliveryRow, 'id' | 'hookId' | 'eventId' | 'body'>): Promise<void> {
    const changes = writeRow<DeliveryRow>(deliveryColumns, outcome)
    await this.database.run((query) => query('webhook_outbox').where({ id }).update(changes))
  }

  async delete(id: number): Promise<void> {
    await this.database.run((query) => query('webhook_outbox').where({ id }).delete())
  }

  async announce(hookIds: readonly number[]): Promise<void> {
    if (hookIds.length > 0) await this.database.run((query) => announce(query, hookIds))
  }

  async restart(hookId: number, eventIds?: readonly string[]): Promise<ReadonlySet<string>> {
    return this.database.transaction((query) => restart(query, hookId, eventIds))
  }

  async replay(hookId: number, rows: readonly Pick<NewDelivery, 'eventId' | 'body'>[]): Promise<void> {
    await this.database.transaction(async (query) => {
      await restart(
        query,
        hookId,
        rows.map(({ eventId }) => eventId),
      )
      await addDeliveries(
        query,
        rows.map((row) => ({ ...row, hookId, nextAt: 0 })),
      )
    })
  }
}

/** Counts the hooks as changed, so that the process that delivers gets a notice. */
async function announce(query: Knex, hookIds: readonly number[]): Promise<void> {
  await query('webhooks')
    .whereIn('id', [...hookIds])
    .update({ id: query.ref('id') })
}

/** Deliveries begin anew: those of these events, by default those that have failed. Resolves to their events. */
async function restart(query: Knex, hookId: number, eventIds?: readonly string[]): Promise<ReadonlySet<string>> {
  await announce(query, [hookId])
  const rows = query('webhook_outbox').where({ hook_id: hookId })
  if (eventIds === undefined) void rows.whereNotNull('failed_at')
  else void rows.whereIn('event_id', eventIds)
  const restarted: readonly { event_id: string }[] = await rows
    .update({ attempts: 0, next_at: 0, failed_at: null })
    .returning('event_id')
  return new Set(restarted.map((row) => row.event_id))
}

/**
 * Stores deliveries to those of the hooks that exist and are on, as part of a transaction. One that is stored already
 * stays as it is. A hook with more than `maxDeliveries` is switched off: the others must not suffer from one that does
 * not answer.
 */
export async function addDeliveries(query: Knex, rows: readonly NewDelivery[]): Promise<void> {
  const hooks = [...new Set(rows.map(({ hookId }) => hookId))]
  if (hooks.length === 0) return
  const open: readonly { id: number }[] = await query('webhooks')
    .whereIn('id', hooks)
    .andWhere({ enabled: true })
    .forKeyShare()
    .select('id')
  const ids = new Set(open.map(({ id }) => id))
  const added = rows.filter(({ hookId }) => ids.has(hookId))
  for (let at = 0; at < added.length; at += rowsPerInsert) {
    const part = added.slice(at, at + rowsPerInsert).map(({ hookId, eventId, body, nextAt }) => {
      return { hook_id: hookId, event_id: eventId, body, attempts: 0, next_at: nextAt }
    })
    await query('webhook_outbox').insert(part).onConflict(['hook_id', 'event_id']).ignore()
  }
  for (const id of ids) {
    const excess = await query<StoredRow>('webhook_outbox')
      .where({ hook_id: id })
      .orderBy('event_id')
      .offset(maxDeliveries)
      .first('event_id')
    if (excess !== undefined) await switchOff(query, id, `more than ${maxDeliveries} deliveries were waiting`)
  }
}

/** Switches a hook off that is on. Resolves to whether it was. */
async function switchOff(query: Knex, id: number, reason: string): Promise<boolean> {
  const changed = await query('webhooks')
    .where({ id, enabled: true })
    .update({ enabled: false, disabled_reason: reason })
  return changed > 0
}
