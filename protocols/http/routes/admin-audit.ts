/** Who did what. An extension of this gateway (docs/audit.md). */
import type { ServerResponse } from 'node:http'
import { z } from 'zod'
import {
  csv,
  eventObject,
  ndjson,
  type AuditCursor,
  type AuditEvent,
  type AuditFilter,
  type EventForm,
} from '../../../src/audit/forms.js'
import { newestPages } from '../../../src/audit/pages.js'
import { eventKinds } from '../../../src/base/event-kinds.js'
import { cleanPath } from '../../../src/base/path.js'
import { sendStream, startingWith } from '../../lib/send.js'
import { endpoint } from '../api/endpoint.js'
import { acceptNames } from '../api/envelope.js'
import { choice, integer, stringList, text, timeValue } from '../api/fields.js'
import { malformedPath, relativePath } from '../api/refusals.js'
import { namedText, timestamp } from '../api/schemas.js'

const kindName = namedText('EventKind', eventKinds)
const results = ['done', 'refused', 'failed'] as const
const resultName = namedText('EventResult', results)

export const eventData = z
  .object({
    id: z.uuid(),
    time: timestamp,
    node: z.string().describe('The name of the node on which it happened.'),
    kind: kindName,
    result: resultName,
    user_id: z.int().nullable(),
    user: z.string().describe('The name of the user when it happened, `guest`, `share:PSEUDONYM`, or `gateway:`.'),
    protocol: z.string().nullable().describe('Also `task` and `command line`.'),
    address: z.string().nullable().describe('Of the client; of a sum of refusals from several, their network.'),
    credential: z.string().nullable().describe('What signed in, by its id, such as `key:3`.'),
    path: z.string().nullable().describe('In the whole tree.'),
    target: z.string().nullable(),
    size: z.int().nullable().describe('In bytes.'),
    entry: z.enum(['file', 'folder', 'symlink']).nullable(),
    storage: z.string().nullable().describe('The mount path of the storage.'),
    error: z.string().nullable().describe('The name of the error.'),
    decided_by: z.string().nullable().describe('Of a refusal: the folder rule or grant that decided, in words.'),
    subject: z
      .string()
      .nullable()
      .describe(
        'What an admin or a user has changed, by its name or id, and a share by its `pseudonym`; of a rename both names, with ' +
          'an arrow.',
      ),
    fields: z.array(z.string()).nullable().describe('The names of the fields that were sent.'),
    duration: z.int().nullable().describe('In milliseconds.'),
    count: z
      .int()
      .nullable()
      .describe('How many refusals of one kind, or visits of one share, from one network are counted here.'),
  })
  .meta({ id: 'AuditEvent' })

/** A time in a query. Absent or empty: undefined. */
const time = z
  .union([timeValue, z.literal('').transform(() => undefined)], {
    error: 'must be a time such as 2030-12-31T23:59:59Z',
  })
  .optional()
  .transform((value) => value?.getTime())
  .meta({ wire: { type: 'string', format: 'date-time' } })

const shortText = text.refine((value) => value.length <= 255, 'must have 255 characters at most')

const cursorForm = /^(\d{1,15})\.([0-9a-f-]{36})$/

/** The `next` of a response. Absent or empty: undefined. */
const cursor = text
  .refine((value) => value === '' || cursorForm.test(value), 'must be `next` of a response')
  .transform((value): AuditCursor | undefined => {
    const [, at, id] = cursorForm.exec(value) ?? []
    return at === undefined || id === undefined ? undefined : { time: Number(at), id }
  })
  .meta({ wire: { type: 'string' } })

function cursorText(at: AuditCursor | undefined): string | null {
  return at === undefined ? null : `${at.time}.${at.id}`
}

const maxLimit = 1000
const defaultLimit = 100

const auditFields = z.object({
  from: time.describe('Not before this time.'),
  to: time.describe('Before this time.'),
  user: shortText.describe('The name that the user had when it happened.'),
  path: text.meta({ example: '/projects' }).describe('In the whole tree: events about it and what is below it.'),
  kind: stringList
    .transform((values) => values.flatMap((value) => value.split(',')).filter((value) => value !== ''))
    .pipe(z.array(z.enum(eventKinds, { error: 'must be kinds of events, separated by commas' })))
    .meta({ wire: { type: 'array', items: { $ref: '#/components/schemas/EventKind' } } })
    .describe('One or several kinds, also separated by commas.'),
  result: choice(...results),
  address: shortText
    .meta({ example: '192.0.2.7' })
    .describe('An address, or the beginning of addresses with `*` after it.'),
  cursor: cursor.describe('`next` of the response before: older events.'),
  after: integer(-1).describe(
    '`last` of a response, to follow what happens: only events that were stored since, in their order.',
  ),
  format: choice('ndjson', 'csv').describe('As `Accept` does, for links.'),
  limit: integer(defaultLimit)
    .refine((limit) => limit >= 1 && limit <= maxLimit, `must be from 1 to ${maxLimit}`)
    .describe('Of a response in JSON; the others have all events.'),
})

/** The types that `Accept` can name beside JSON. */
const streams = { 'application/x-ndjson': ndjson, 'text/csv': csv } as const

/** Names of these for links, which cannot set the field `Accept`. */
const formats = { ndjson: 'application/x-ndjson', csv: 'text/csv' } as const

export const adminAuditEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/audit',
    tag: 'Audit',
    summary: 'List what happened, newest first',
    description:
      'A response may have fewer events than `limit`, or none, and nevertheless a `next`: each looks at a limited number of ' +
      'events. With `Accept: application/x-ndjson` or `text/csv` the response has all events that match, without an envelope; ' +
      'if they cannot all be read, the connection is closed before the end.',
    access: 'admin',
    fields: auditFields,
    data: z.object({
      content: z.array(eventData).readonly(),
      next: z.string().nullable().describe('The `cursor` of older events. null: there are none.'),
      last: z.int().describe('The number of the last stored event that was looked at, for the next `after`.'),
    }),
    refusals: [...malformedPath, relativePath],
    otherTypes: Object.keys(streams),
    async answer({ api: { gateway }, context, fields }) {
      const { audit } = gateway.records
      const { cursor: before, after, limit } = fields
      const filter = filterOf(fields)
      const asked = fields.format && formats[fields.format]
      const form = Object.entries(streams).find(([type]) => (asked ? type === asked : acceptNames(context.req, type)))
      if (form !== undefined) {
        context.respond = false
        await stream(context.res, form, newestPages(audit, filter, { before }))
        return { content: [], next: null, last: 0 }
      }
      if (after >= 0) {
        const { events, last } = await audit.after(after, filter, limit)
        return { content: events.map(eventObject), next: null, last }
      }
      const last = await audit.last()
      const { events, next } = await audit.list(filter, limit, before)
      // Those that were stored meanwhile are after `last`.
      const content = events.filter(({ number }) => number <= last).map(eventObject)
      return { content, next: cursorText(next), last }
    },
  }),
]

function filterOf({ from, to, user, path, kind, result, address }: z.output<typeof auditFields>): AuditFilter {
  return {
    ...{ from, to },
    user: user || undefined,
    path: path === '' ? undefined : cleanPath(path),
    kinds: kind.length > 0 ? kind : undefined,
    result: result || undefined,
    address: address || undefined,
  }
}

/** Rejects before the header section is sent if the first page cannot be read. */
async function stream(
  response: ServerResponse,
  [type, form]: readonly [type: string, form: EventForm],
  pages: AsyncGenerator<readonly AuditEvent[]>,
): Promise<void> {
  const texts = async function* () {
    for await (const events of pages) yield events.map((event) => form.of(event)).join('')
  }
  const rest = texts()
  const first = await rest.next()
  const extension = type === 'text/csv' ? 'csv' : 'ndjson'
  response.writeHead(200, {
    'Content-Type': `${type}; charset=utf-8`,
    'Content-Disposition': `attachment; filename="audit.${extension}"`,
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  })
  try {
    if (form.head !== '') response.write(form.head)
    await sendStream(startingWith(first, rest), response)
  } catch (error) {
    // The client must not take what it has received for all events.
    response.destroy()
    throw error
  }
}
