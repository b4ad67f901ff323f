/** Events as receivers of webhooks get them: CloudEvents 1.0, in its JSON format. */
import { eventObject } from '../audit/forms.js'
import type { AuditEvent } from '../database/audit-rows.js'

/** Kinds that say how it ended, or are about something that can end in several ways. */
const withAnyResult: ReadonlySet<string> = new Set(['signin.refused', 'task.ended'])

/** The kind, with `.refused` or `.failed` after it for what was not done: a receiver must not take it for done. */
export function nameOfEvent({ kind, result }: Pick<AuditEvent, 'kind' | 'result'>): string {
  return result === 'done' || withAnyResult.has(kind) ? kind : `${kind}.${result}`
}

/** `source`: the URI of this installation. */
export function cloudEventOf(event: AuditEvent, source: string): string {
  const { id, time, path } = event
  // Its id and time are attributes, and what it does not have is left out.
  const isData = ([name, value]: [string, unknown]) => value !== null && name !== 'id' && name !== 'time'
  const data = Object.fromEntries(Object.entries(eventObject(event)).filter(isData))
  return cloudEvent({ id, time, source, type: nameOfEvent(event), subject: path, data })
}

interface CloudEvent {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly time: number
  readonly source: string
  /** Without the prefix of this program. */
  readonly type: string
  readonly subject?: string | undefined
  readonly data: object
}

export function cloudEvent({ time, type, data, ...event }: CloudEvent): string {
  return JSON.stringify({
    specversion: '1.0',
    ...event,
    type: `tidegate.${type}`,
    time: new Date(time).toISOString(),
    datacontenttype: 'application/json',
    data,
  })
}
