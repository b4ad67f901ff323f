/** Webhooks and their deliveries. */
import type { DeliveryRow, NewDelivery, WebhookRow } from '../audit-rows.js'
import type { New } from './path-rows.js'

export interface WebhookRows {
  all(): Promise<WebhookRow[]>
  insert(row: New<WebhookRow>): Promise<WebhookRow> // `exists` for a taken name
  /** Deliveries of a hook that is switched on begin anew. `not_found`, and `exists` for a taken name. */
  update(id: number, changes: Partial<New<WebhookRow>>): Promise<WebhookRow>
  /** False if it is off, or does not exist. */
  switchOff(id: number, reason: string): Promise<boolean>
  /** Deletes the webhook and its deliveries. */
  delete(id: number): Promise<boolean>
}

/**
 * What webhooks still have to get, and what they could not be given. `audit.insert` adds to it. Writes are as those
 * of `relaxed`.
 */
export interface DeliveryRows {
  /** The deliveries of one hook that have not failed, in the order of `nextAt`. */
  next(hookId: number, limit: number): Promise<DeliveryRow[]>
  /** The latest of those that were attempted before, and are due again at `now`. */
  repeated(hookId: number, now: number): Promise<DeliveryRow | undefined>
  /** The deliveries with ids above `after`, in their order: those that have failed, or all others. */
  list(
    hookId: number,
    failed: boolean,
    page: { readonly after: number; readonly limit: number },
  ): Promise<DeliveryRow[]>
  /** Returns the numbers of deliveries that wait and that have failed, by the id of the hook. */
  counts(): Promise<ReadonlyMap<number, { readonly waiting: number; readonly failed: number }>>
  /** Stores how an attempt has failed. Does nothing if there is no such delivery any more. */
  fail(id: number, outcome: Omit<DeliveryRow, 'id' | 'hookId' | 'eventId' | 'body'>): Promise<void>
  delete(id: number): Promise<void>
  /** Tells the process that delivers of new deliveries to these hooks. */
  announce(hookIds: readonly number[]): Promise<void>
  /** Begins deliveries anew: those of these events, by default those that have failed. Resolves to their events. */
  restart(hookId: number, eventIds?: readonly string[]): Promise<ReadonlySet<string>>
  /** Adds deliveries of these events, and begins those anew that are there. In one transaction. */
  replay(hookId: number, rows: readonly Pick<NewDelivery, 'eventId' | 'body'>[]): Promise<void>
}
