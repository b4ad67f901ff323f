/** What an event of the audit says, in plain words. */
import type { Data } from '../api/client.ts'
import { EventKind, EventResult } from '../api/schema.ts'
import { textOfName } from '../components/error-text.ts'
import { kindText } from '../components/event-text.ts'
import { formatSize, formatTimeWithSeconds, list } from '../texts/format.ts'
import { textFor, textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'events')

export type AuditEvent = Data<'/api/admin/audit'>['content'][number]

/** `stored a new file`, with why it was not done. */
export function eventText(event: AuditEvent): string {
  const { kind, result, error, decided_by: decidedBy, count } = event
  const why = [error !== null && errorText(error), decidedBy].filter(Boolean).join(' – ')
  // The name of this kind says that it was not done.
  const outcome = result === EventResult.done ? '' : kind === EventKind.signin_refused ? why : texts.events[result](why)
  const times = count === null ? '' : texts.events.times(count)
  return texts.facts([kindText(kind), outcome, times])
}

/** What it is about: the path, what came of it by a move or copy, or what was administered. */
export function placeText({ path, target, subject }: Pick<AuditEvent, 'path' | 'target' | 'subject'>): string {
  return [path ?? subject, target].filter(Boolean).join(' → ')
}

/** Every field that the event has, with its name. */
export function factsOf(event: AuditEvent): readonly (readonly [name: string, text: string])[] {
  return Object.entries(texts.events.fields).flatMap(([name, title]) => {
    const value = event[name as keyof AuditEvent]
    return value === null ? [] : [[title, factText(name as keyof AuditEvent, value)] as const]
  })
}

function factText(name: keyof AuditEvent, value: NonNullable<AuditEvent[keyof AuditEvent]>): string {
  if (name === 'time') return formatTimeWithSeconds(String(value))
  if (name === 'size') return formatSize(Number(value))
  return Array.isArray(value) ? list(value) : String(value)
}

function errorText(name: string): string {
  return textFor(name, texts.events.errors) ?? textOfName(name)
}
