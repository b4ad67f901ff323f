/** Events in pages, as the database tells them. */
import type { AuditCursor, AuditFilter, NumberedEvent } from '../database/audit-rows.js'
import type { Store } from '../database/tables.js'

/** Events of one page. */
const pageSize = 1000

/** Yields at most `limit` of the events that match, the newest first. A page may be empty: more follow nevertheless. */
export async function* newestPages(
  audit: Pick<Store['audit'], 'list'>,
  filter: AuditFilter,
  { limit = Infinity, before: first }: { readonly limit?: number; readonly before?: AuditCursor | undefined } = {},
): AsyncGenerator<readonly NumberedEvent[]> {
  let before = first
  for (let left = limit; left > 0;) {
    const { events, next } = await audit.list(filter, Math.min(left, pageSize), before)
    yield events
    if (next === undefined) return
    before = next
    left -= events.length
  }
}
