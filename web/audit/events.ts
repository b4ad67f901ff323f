/** The events that the page of the audit shows: a page of them, older ones on demand, and those that happen since. */
import { get, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { queryClient } from '../api/queries.ts'
import type { AuditQuery } from './filter.ts'

export type Events = Data<'/api/admin/audit'>

const pageLength = 100
/** Number of shown events from which those that happen since replace them. */
const mostShown = 1000
/** Calls that look for a page: one looks at a limited number of events. */
const mostCalls = 10

/** The events that are shown, and those since. */
export async function withNewEvents(query: AuditQuery): Promise<Events> {
  const shown = queryClient.getQueryData<Events>(keys.audit(query))
  if (!shown || shown.content.length > mostShown) return pageOf(query)
  const since = await get('/api/admin/audit', { query: { ...query, after: shown.last, limit: mostShown } })
  return {
    content: [...added(shown, since.content).toReversed(), ...shown.content],
    next: shown.next,
    last: since.last,
  }
}

/** Adds a page of older events to those that are shown. */
export async function showOlder(query: AuditQuery): Promise<void> {
  const key = keys.audit(query)
  await queryClient.cancelQueries({ queryKey: key })
  const cursor = queryClient.getQueryData<Events>(key)?.next ?? ''
  const older = await pageOf(query, cursor)
  queryClient.setQueryData<Events>(key, (shown) =>
    shown?.next === cursor
      ? { ...shown, content: [...shown.content, ...added(shown, older.content)], next: older.next }
      : shown,
  )
}

/** The events that are not shown yet: one that was stored late is among the older ones, and among the new. */
function added({ content }: Events, events: Events['content']): Events['content'] {
  const shown = new Set(content.map(({ id }) => id))
  return events.filter(({ id }) => !shown.has(id))
}

async function pageOf(query: AuditQuery, cursor = ''): Promise<Events> {
  const ask = (at: string) => get('/api/admin/audit', { query: { ...query, limit: pageLength, cursor: at } })
  let page = await ask(cursor)
  for (let call = 1; call < mostCalls && page.next !== null && page.content.length < pageLength; call++) {
    const { content, next } = await ask(page.next)
    page = { ...page, content: [...page.content, ...added(page, content)], next }
  }
  return page
}
