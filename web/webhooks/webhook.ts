/** A webhook, and the events that it can ask for. */
import type { Data } from '../api/client.ts'
import { EventKind } from '../api/schema.ts'
import { kindText } from '../components/event-text.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'events', 'audit')

export type Webhook = Data<'/api/admin/webhook/list'>['content'][number]

/** The beginnings of kinds that can be chosen, by the group that names them. */
const beginnings = {
  'file.*': 'files',
  'signin.*': 'accounts',
  'share.*': 'shares',
  'admin.*': 'administration',
} as const

/** The kinds that the form offers. */
export const offeredKinds: readonly string[] = [...Object.keys(beginnings), ...Object.values(EventKind)]

/** A kind in plain words, or as it is if it is none that the form offers. */
export function chosenText(kind: string): string {
  if (kind in beginnings) {
    const group = texts.audit.groups[beginnings[kind as keyof typeof beginnings]]
    return texts.withNote(texts.audit.all(group), kind)
  }
  return kindText(kind)
}
