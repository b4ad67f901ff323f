/** Who did what to a file or folder. An extension of this gateway (docs/audit.md). */
import { z } from 'zod'
import { cleanPath } from '../../../src/base/path.js'
import { maxFollowed, type HistoryCursor, type HistoryEvent } from '../../../src/tree/history.js'
import { accessOptions, treeHeaders } from '../api/access-options.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused } from '../api/errors.js'
import { integer, requiredText, text } from '../api/fields.js'
import { pathRefusals } from '../api/refusals.js'
import { timestamp } from '../api/schemas.js'

const historyData = z
  .object({
    id: z.uuid(),
    time: timestamp,
    kind: z.string().describe('As those of `/api/admin/audit`.'),
    user: z
      .string()
      .describe('The name of the user, or `guest`; `share:` for visitors, and for admins `share:PSEUDONYM`.'),
    protocol: z.string().nullable(),
    address: z.string().nullable().describe('null unless the caller is an admin.'),
    path: z.string().nullable().describe('As the caller names it; null if the caller may not see it.'),
    target: z.string().nullable().describe('The same of where it was moved or copied to.'),
    size: z.int().nullable().describe('In bytes.'),
  })
  .meta({ id: 'HistoryEvent' })

const maxLimit = 200

const wrongCursor: Refusal = { code: 400, text: 'cursor: must be `next` of a response', error: 'invalid' }

/** The content of `next`: the paths are checked again, so that it needs no signature. */
const cursorData = z.object({
  time: z.int().min(0),
  id: z.uuid(),
  paths: z.array(z.string()).max(maxFollowed),
  isMade: z.boolean(),
})

export const historyEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/history',
    tag: 'Files',
    summary: 'List who did what to a file or folder, newest first',
    description:
      'Also before it was moved or renamed, as far as the caller may see where it was. What is below a folder is not listed. ' +
      'It must exist now. Who has read it is for admins, and only recorded if the setting `audit_reads` is on.',
    access: 'user',
    headers: treeHeaders,
    fields: z.object({
      path: requiredText.meta({ example: '/folder/file.txt' }),
      password: text.describe('The password of the folder. Default: the header `Password`.'),
      cursor: text.describe('`next` of the response before: what happened earlier.'),
      limit: integer(50).refine((limit) => limit >= 1 && limit <= maxLimit, `must be from 1 to ${maxLimit}`),
    }),
    data: z.object({
      content: z.array(historyData).readonly(),
      next: z.string().nullable().describe('The `cursor` of what happened earlier. null: nothing.'),
    }),
    refusals: [...pathRefusals, wrongCursor],
    async answer({ api: { gateway }, context, fields, headers, principal }) {
      const { seesActivity } = principal
      const { events, next } = await gateway.as(principal).history(cleanPath(fields.path), {
        ...accessOptions(context, fields.password || headers.password),
        limit: fields.limit,
        before: cursorOf(fields.cursor),
        withReads: seesActivity,
      })
      return {
        content: events.map((event) => historyObject(event, seesActivity)),
        next: next === undefined ? null : Buffer.from(JSON.stringify(next)).toString('base64url'),
      }
    },
  }),
]

function cursorOf(value: string): HistoryCursor | undefined {
  if (value === '') return undefined
  const { data } = cursorData.safeParse(jsonIn(Buffer.from(value, 'base64url')))
  if (data === undefined) throw refused(wrongCursor)
  return { ...data, paths: data.paths.map((path) => cleanPath(path)) }
}

function jsonIn(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString()) as unknown
  } catch {
    return undefined
  }
}

function historyObject(
  { id, time, kind, actor, path, target, size }: HistoryEvent,
  seesActivity: boolean,
): z.input<typeof historyData> {
  return {
    ...{ id, time: new Date(time).toISOString(), kind },
    user: seesActivity ? actor.name : actor.name.replace(/^share:.*/s, 'share:'),
    protocol: actor.protocol ?? null,
    address: (seesActivity ? actor.address : undefined) ?? null,
    ...{ path: path ?? null, target: target ?? null, size: size ?? null },
  }
}
