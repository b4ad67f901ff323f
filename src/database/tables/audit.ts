/** The events of the audit. */
import type { Path } from '../../base/path.js'
import type {
  AuditCursor,
  AuditEvent,
  AuditFilter,
  AuditPage,
  FollowedEvents,
  NewDelivery,
  NumberedEvent,
} from '../audit-rows.js'

export interface AuditRows {
  /**
   * Stores the events that are not stored yet, and what `deliveriesOf` returns for these, in one transaction.
   * Deliveries to hooks that do not exist any more are omitted.
   */
  insert(
    events: readonly AuditEvent[],
    deliveriesOf?: (events: readonly AuditEvent[]) => readonly NewDelivery[],
  ): Promise<void>
  /** At most `limit` events, the newest first, that are older than `before`. */
  list(filter: AuditFilter, limit: number, before?: AuditCursor): Promise<AuditPage>
  /**
   * At most `limit` of the events that match and have higher numbers, in the order of these, for who follows what
   * happens. `last`: the number of the last event that was looked at. The next call with it has the events after
   * these: none twice, and none is left out.
   */
  after(number: number, filter: AuditFilter, limit: number): Promise<FollowedEvents>
  /** Undefined if there is no event of this id. */
  get(id: string): Promise<NumberedEvent | undefined>
  /**
   * The moves that were done to one of these paths before `before`, newest first. For the history of what is in a
   * folder that was moved.
   */
  movesTo(paths: readonly Path[], limit: number, before?: AuditCursor): Promise<readonly AuditEvent[]>
  /** The highest number of an event; 0 if there is none. */
  last(): Promise<number>
  /**
   * Deletes the events before this time in milliseconds since 1970, and the oldest beyond about `maxBytes`, in short
   * transactions with a `pause` after each. Resolves to their number.
   */
  sweep(before: number, maxBytes: number, pause: () => Promise<unknown>): Promise<number>
}
