/** Administration of settings. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/errors.js'
import { onRow } from '../admin-rows.js'
import type { Context, Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { bodyLimit, integerValue, parseFields, readFields } from '../fields.js'

/** Clients send whole rows back: what a setting is, is not theirs to say. */
const savedRows = z.object({
  settings: z.array(
    z.object({
      key: z.string().min(1, 'must not be empty'),
      value: z.union([z.string(), z.number().transform(String), z.boolean().transform(String)], {
        error: 'must be a text',
      }),
    }),
    { error: 'must be a list of settings' },
  ),
})

const missing = 'failed to get settingItem: record not found'

export function adminSettingRoutes(routes: Routes, { gateway: { settings } }: Door): void {
  routes.get('/api/admin/setting/list', (ctx) => {
    ctx.body = success(settings.rows(groupsOf(ctx)))
  })

  routes.post('/api/admin/setting/default', (ctx) => {
    ctx.body = success(settings.defaults(groupsOf(ctx)))
  })

  routes.get('/api/admin/setting/get', (ctx) => {
    const { key, keys } = ctx.query
    const rows = new Map(settings.rows().map((row) => [row.key, row]))
    const named = (name: string) => {
      const row = rows.get(name)
      if (row === undefined) throw new WireError(400, 'record not found')
      return row
    }
    if (typeof key === 'string' && key !== '') ctx.body = success(named(key))
    else ctx.body = success((typeof keys === 'string' ? keys : '').split(',').map(named))
  })

  routes.post('/api/admin/setting/save', readFields(bodyLimit, 'settings'), async (ctx) => {
    const rows = parseFields(ctx, savedRows).settings
    if (rows.length === 0) throw new WireError(500, 'there is nothing to save')
    await settings.set(new Map(rows.map(({ key, value }) => [key, value])))
    ctx.body = success()
  })

  routes.post('/api/admin/setting/delete', async (ctx) => {
    const { key } = ctx.query
    try {
      await onRow(missing, () => settings.delete(typeof key === 'string' ? key : ''))
    } catch (error) {
      if (isGatewayError(error, 'invalid')) throw new WireError(500, error.reason)
      throw error
    }
    ctx.body = success()
  })

  routes.post('/api/admin/setting/reset_token', async (ctx) => {
    ctx.body = success(await settings.resetToken())
  })
}

/** `groups` wins over `group`; undefined without both. */
function groupsOf({ query }: Context): readonly number[] | undefined {
  const numbers = (text: string) => text.split(',').map((part) => integerOf(part.trim()))
  if (typeof query.groups === 'string' && query.groups !== '') return numbers(query.groups)
  if (typeof query.group === 'string' && query.group !== '') return [integerOf(query.group)]
  return undefined
}

function integerOf(text: string): number {
  const result = integerValue.safeParse(text)
  if (!result.success) throw new WireError(400, 'group: must be an integer')
  return result.data
}
