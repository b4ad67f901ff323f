/** The forms in which events leave the gateway: objects and lines of JSON, CSV, and lines of a log (docs/audit.md). */
import type { AuditEvent } from '../database/audit-rows.js'
import { eventFieldNames, fieldValues, type EventFieldName, type EventFieldValue } from '../database/event-fields.js'

export type { AuditCursor, AuditEvent, AuditFilter, NumberedEvent } from '../database/audit-rows.js'

/** An event with the names of the API. What it does not have is null. */
export type EventObject = {
  -readonly [Name in EventFieldName]: Name extends 'time'
    ? string
    : Name extends 'fields'
      ? string[] | null
      : Exclude<EventFieldValue<Name>, undefined> | (undefined extends EventFieldValue<Name> ? null : never)
}

export function eventObject(event: AuditEvent): EventObject {
  const values = fieldValues(event)
  const named = Object.fromEntries(eventFieldNames.map((name, index) => [name, values[index] ?? null]))
  return { ...named, time: new Date(event.time).toISOString() } as EventObject
}

/** The form of a stream of events: what comes before all of them, and the text of each. */
export interface EventForm {
  readonly head: string
  readonly of: (event: AuditEvent) => string
}

/** One object of JSON on each line. */
export const ndjson: EventForm = { head: '', of: (event) => `${JSON.stringify(eventObject(event))}\n` }

/** RFC 4180, with a header. Spreadsheets get texts that they would run as formulas with a quote before them. */
export const csv: EventForm = {
  head: csvLine(eventFieldNames),
  of: (event) => csvLine(Object.values(eventObject(event))),
}

function csvLine(values: readonly EventObject[EventFieldName][]): string {
  return `${values.map(csvCell).join(',')}\r\n`
}

function csvCell(value: EventObject[EventFieldName]): string {
  const text = Array.isArray(value) ? value.join(' ') : String(value ?? '')
  const safe = /^[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** Maximum characters of a value in a line of the log. */
const maxValue = 1024

/** The line without a line end, as fail2ban reads it: `TIME tidegate[NODE]: sign-in refused protocol=P address=A …`. */
export function logLine(event: AuditEvent): string {
  return `${new Date(event.time).toISOString()} tidegate[${word(event.node)}]: ${logText(event)}`
}

/**
 * The line without time and program. Texts that clients choose come after the address, are quoted, and have no
 * characters that end a line or a quoted text.
 */
export function logText({ kind, result, actor, ...facts }: AuditEvent): string {
  const what = kind === 'signin.refused' ? 'sign-in refused' : `${kind} ${result}`
  const words = { protocol: actor.protocol, address: actor.address }
  const { path, target, subject, fields, decidedBy } = facts
  const texts = { user: actor.name, path, target, subject, fields: fields?.join(' '), decided_by: decidedBy }
  const others = { size: facts.size, entry: facts.entry, error: facts.error, count: facts.count }
  const pairs = [
    ...Object.entries(words).map(([name, value]) => [name, value && word(value)] as const),
    ...Object.entries(texts).map(([name, value]) => [name, value === undefined ? value : quoted(value)] as const),
    ...Object.entries(others).map(
      ([name, value]) => [name, value === undefined ? value : word(String(value))] as const,
    ),
  ]
  const given = pairs.filter(([, value]) => value !== undefined).map(([name, value]) => `${name}=${value ?? ''}`)
  return [what, ...given].join(' ')
}

/** A value without blanks: addresses, and names that the gateway has given. */
function word(value: string): string {
  return value.replaceAll(/[^\w.:%/-]/g, '_')
}

/** A text as JSON quotes it, in ASCII. */
function quoted(value: string): string {
  const cut = value.length > maxValue ? `${value.slice(0, maxValue)}…` : value
  return JSON.stringify(cut).replaceAll(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
