/** The fields of an event: their names outside, their columns, and where they are in it. The only list of them. */
import type { Actor, AuditEvent } from './audit-rows.js'

interface Field {
  readonly column: string
  readonly type: 'text' | 'bigint' | 'integer'
  /** The key of the value in the event. Absent: the value is in the actor, under the key `ofActor`. */
  readonly key?: keyof AuditEvent
  readonly ofActor?: keyof Actor
}

/** By their names in JSON, CSV and the API, in the order in which they are stored and shown. */
export const eventFields = {
  time: { column: 'time', type: 'bigint', key: 'time' },
  id: { column: 'event_id', type: 'text', key: 'id' },
  node: { column: 'node', type: 'text', key: 'node' },
  kind: { column: 'kind', type: 'text', key: 'kind' },
  result: { column: 'result', type: 'text', key: 'result' },
  user_id: { column: 'user_id', type: 'integer', ofActor: 'userId' },
  user: { column: 'name', type: 'text', ofActor: 'name' },
  protocol: { column: 'protocol', type: 'text', ofActor: 'protocol' },
  address: { column: 'address', type: 'text', ofActor: 'address' },
  credential: { column: 'credential', type: 'text', ofActor: 'credential' },
  path: { column: 'path', type: 'text', key: 'path' },
  target: { column: 'target', type: 'text', key: 'target' },
  size: { column: 'size', type: 'bigint', key: 'size' },
  entry: { column: 'entry', type: 'text', key: 'entry' },
  storage: { column: 'storage', type: 'text', key: 'storage' },
  error: { column: 'error', type: 'text', key: 'error' },
  decided_by: { column: 'decided_by', type: 'text', key: 'decidedBy' },
  subject: { column: 'subject', type: 'text', key: 'subject' },
  fields: { column: 'fields', type: 'text', key: 'fields' },
  duration: { column: 'duration', type: 'bigint', key: 'duration' },
  count: { column: 'count', type: 'bigint', key: 'count' },
} as const satisfies Readonly<Record<string, Field>>

type Fields = typeof eventFields
export type EventFieldName = keyof Fields
export type EventColumn = Fields[EventFieldName]['column']

/** The value of a field in an event. */
export type EventFieldValue<Name extends EventFieldName> = Fields[Name] extends {
  readonly ofActor: infer Key extends keyof Actor
}
  ? Actor[Key]
  : Fields[Name] extends { readonly key: infer Key extends keyof AuditEvent }
    ? AuditEvent[Key]
    : never

export const eventFieldNames = Object.keys(eventFields) as readonly EventFieldName[]

const list: readonly Field[] = Object.values(eventFields)

/** The values of an event in the order of the fields; undefined where it has none. */
export function fieldValues(event: AuditEvent): readonly unknown[] {
  return list.map(({ key, ofActor }) => (ofActor === undefined ? event[key ?? 'id'] : event.actor[ofActor]))
}

/** The event of these values, in the order of the fields. Those that are null are left out. */
export function eventOf(values: readonly unknown[]): AuditEvent {
  const event: Record<string, unknown> = {}
  const actor: Record<string, unknown> = {}
  for (const [index, { key, ofActor }] of list.entries()) {
    const value = values[index] ?? undefined
    if (value === undefined) continue
    if (ofActor !== undefined) actor[ofActor] = value
    else if (key !== undefined) event[key] = value
  }
  return { ...event, actor } as unknown as AuditEvent
}
