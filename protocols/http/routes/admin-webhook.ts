/** Administration of webhooks. An extension of this gateway, described in docs/webhooks.md. */
import { z } from 'zod'
import { replayLimit, type Replayed, type ShownWebhook } from '../../../src/webhooks/webhooks.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import {
  flagValue,
  integer,
  integerValue,
  optionalField,
  paging,
  requiredText,
  rowId,
  timeValue,
} from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { pageData, timestamp } from '../api/schemas.js'

const name = requiredText.meta({ example: 'index' }).describe('Unique, at most 255 bytes.')
const url = requiredText.meta({ example: 'https://example.com/hook' }).describe('Where events are sent, by POST.')
const kinds = optionalField(z.array(z.string()))
  .meta({ example: ['file.*', 'removed'] })
  .describe('Names of events, or beginnings of them with `.*`. Empty: all.')
const paths = optionalField(z.array(z.string()))
  .meta({ example: ['/projects'] })
  .describe('Patterns of paths of the whole tree; each is also for what is below. Empty: all, and events without one.')
const enabled = optionalField(flagValue).describe('Default: true.')
const id = integerValue.meta({ example: 1 })
const secret = z.string().meta({ example: 'whsec_…' }).describe('What signs the messages. It is not shown again.')

const webhookData = z
  .object({
    id: z.int(),
    name: z.string(),
    url: z.string(),
    kinds: z.array(z.string()),
    paths: z.array(z.string()),
    enabled: z.boolean(),
    disabled_reason: z.string().nullable().describe('Why the gateway has switched it off.'),
    old_secret_ends: timestamp.nullable().describe('Until when the secret before the last rotation signs too.'),
    created: timestamp,
    waiting: z.int().describe('Deliveries that it has not received yet.'),
    failed: z.int().describe('Deliveries that have failed for good.'),
  })
  .meta({ id: 'Webhook' })

const deliveryData = z
  .object({
    id: z.int(),
    event_id: z.string().describe('The `webhook-id` of the message.'),
    body: z.string().describe('As it is sent: a CloudEvent.'),
    attempts: z.int().describe('Those that have failed.'),
    next: timestamp.nullable().describe('When the next attempt is due. Null: at once, or never.'),
    last_status: z.int().nullable(),
    last_error: z.string().nullable(),
    failed: timestamp.nullable().describe('When the last attempt has failed. Null while there will be others.'),
  })
  .meta({ id: 'WebhookDelivery' })

function timeOf(time: Date | number | undefined): string | null {
  return time === undefined ? null : new Date(time).toISOString()
}

function webhookObject({ disabledReason, oldSecretEnds, created, ...row }: ShownWebhook): z.input<typeof webhookData> {
  const times = { old_secret_ends: timeOf(oldSecretEnds), created: created.toISOString() }
  return { ...row, ...times, kinds: [...row.kinds], paths: [...row.paths], disabled_reason: disabledReason ?? null }
}

const unknownHook: Refusal = { code: 404, text: 'webhook not found', error: 'record_missing' }
const nameTaken: Refusal = { code: 409, text: 'a webhook of this name exists already', error: 'exists' }
const faultyField: Refusal = {
  code: 400,
  text: '…',
  error: 'invalid',
  when: 'a field is invalid; the message is the reason',
}
const noRange: Refusal = { code: 400, text: 'from and to are given together, without event_ids', error: 'invalid' }

/** Runs `work` with the responses to errors about webhooks. */
function withHookErrors<T>(work: () => Promise<T>): Promise<T> {
  return withResponses({ not_found: unknownHook, exists: nameTaken }, work)
}

interface ReplayFields {
  readonly event_ids?: readonly string[] | undefined
  readonly from?: Date | undefined
  readonly to?: Date | undefined
}

function replayedOf({ event_ids: eventIds, from, to }: ReplayFields): Replayed {
  if (from === undefined && to === undefined) return eventIds === undefined ? 'failed' : { eventIds }
  if (from === undefined || to === undefined || eventIds !== undefined) throw refused(noRange)
  return { from: from.getTime(), to: to.getTime() }
}

export const adminWebhookEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/webhook/list',
    tag: 'Webhooks',
    summary: 'List the webhooks, without their secrets',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(webhookData),
    async answer({ api: { gateway }, fields }) {
      const all = await gateway.webhooks.list()
      return { content: pageOf(all, fields).map(webhookObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/webhook/create',
    tag: 'Webhooks',
    summary: 'Create a webhook; only this response contains its secret',
    access: 'admin',
    event: 'admin.webhook',
    recentSignIn: true,
    fields: z.strictObject({ name, url, kinds, paths, enabled }),
    data: z.object({ id: z.int(), secret }),
    refusals: [faultyField, nameTaken],
    answer({ api: { gateway }, fields: { kinds: chosen = [], paths: at = [], enabled: isOn = true, ...fields } }) {
      return withHookErrors(async () => {
        const hook = { ...fields, kinds: chosen, paths: at, enabled: isOn }
        const { row, secret: made } = await gateway.webhooks.create(hook)
        return { id: row.id, secret: made }
      })
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/webhook/update',
    tag: 'Webhooks',
    summary: 'Change a webhook; absent fields are unchanged',
    description: 'What it still has to get begins anew when it is switched on.',
    access: 'admin',
    event: 'admin.webhook',
    recentSignIn: true,
    fields: z.strictObject({ id, name: optionalField(name), url: optionalField(url), kinds, paths, enabled }),
    refusals: [faultyField, unknownHook, nameTaken],
    async answer({ api: { gateway }, fields: { id: hook, ...changes } }) {
      await withHookErrors(() => gateway.webhooks.update(hook, changes))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/webhook/delete',
    tag: 'Webhooks',
    summary: 'Delete a webhook, with what it still has to get',
    access: 'admin',
    event: 'admin.webhook',
    recentSignIn: true,
    query: rowId,
    refusals: [unknownHook],
    async answer({ api: { gateway }, query }) {
      await withHookErrors(() => gateway.webhooks.delete(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/webhook/rotate',
    tag: 'Webhooks',
    summary: 'Make a new secret; only this response contains it',
    description: 'The secret before it signs too for a day: each message then has two signatures.',
    access: 'admin',
    event: 'admin.webhook',
    recentSignIn: true,
    query: rowId,
    data: z.object({ secret }),
    refusals: [unknownHook],
    answer({ api: { gateway }, query }) {
      return withHookErrors(async () => ({ secret: await gateway.webhooks.rotate(query.id) }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/webhook/test',
    tag: 'Webhooks',
    summary: 'Send an event of the type `tidegate.test` at once, also to a webhook that is off',
    access: 'admin',
    event: 'admin.webhook',
    query: rowId,
    data: z.object({
      status: z.int().nullable().describe('That of the response. Null: there was none.'),
      error: z.string().nullable().describe('Null if the receiver has accepted it.'),
      milliseconds: z.int(),
    }),
    refusals: [unknownHook],
    answer({ api: { gateway }, query }) {
      return withHookErrors(async () => {
        const { status = null, error = null, milliseconds } = await gateway.webhooks.test(query.id)
        return { status, error, milliseconds }
      })
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/webhook/deliveries',
    tag: 'Webhooks',
    summary: 'List what a webhook has not received yet, or what has failed for good',
    access: 'admin',
    fields: z.object({
      id,
      failed: optionalField(flagValue).describe('Whether those that have failed for good are listed. Default: true.'),
      after: integer(0).describe('Only those with higher ids: the last id of the page before.'),
    }),
    data: z.object({ content: z.array(deliveryData).describe('At most 100, by id.') }),
    refusals: [unknownHook],
    answer({ api: { gateway }, fields: { id: hook, failed = true, after } }) {
      return withHookErrors(async () => {
        const rows = await gateway.webhooks.deliveries(hook, failed, { after, limit: 100 })
        const content = rows.map(({ id: row, eventId, body, attempts, nextAt, lastStatus, lastError, failedAt }) => ({
          ...{ id: row, event_id: eventId, body, attempts },
          next: failedAt === undefined && nextAt > 0 ? timeOf(nextAt) : null,
          ...{ last_status: lastStatus ?? null, last_error: lastError ?? null, failed: timeOf(failedAt) },
        }))
        return { content }
      })
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/webhook/replay',
    tag: 'Webhooks',
    summary: 'Deliver again what has failed, some events, or those of a time that match the webhook',
    access: 'admin',
    event: 'admin.webhook',
    fields: z.strictObject({
      id,
      event_ids: optionalField(z.array(z.string()).max(replayLimit)).describe('Their ids.'),
      from: optionalField(timeValue).describe('Not before.'),
      to: optionalField(timeValue).describe('Before.'),
    }),
    data: z.object({ count: z.int().describe('How many deliveries begin.') }),
    refusals: [faultyField, noRange, unknownHook],
    answer({ api: { gateway }, fields: { id: hook, ...fields } }) {
      return withHookErrors(async () => ({ count: await gateway.webhooks.replay(hook, replayedOf(fields)) }))
    },
  }),
]
