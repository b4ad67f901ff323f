/** The app passwords of the user who asks: an extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import { appPasswordDoors } from '../../../src/accounts/app-passwords.js'
import { isGatewayError } from '../../../src/errors.js'
import { appPasswordObject } from '../account-objects.js'
import { onRow } from '../admin-rows.js'
import { principalOf } from '../authenticate.js'
import type { Context, Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { flag, paging, parseFields, queryId, readFields, requiredText } from '../fields.js'
import { pageOf } from '../paging.js'

const page = z.object(paging)
const newAppPassword = z.object({
  name: requiredText,
  doors: z
    .array(z.enum(appPasswordDoors, { error: `must be one of ${appPasswordDoors.join(', ')}` }), {
      error: 'must be a list of doors',
    })
    .nullish()
    .transform((doors) => doors ?? appPasswordDoors),
  read_only: flag,
})

const missing = 'app password not found'

export function appPasswordRoutes(routes: Routes, door: Door): void {
  const { appPasswords } = door.gateway.accounts

  async function ownerOf(ctx: Context): Promise<number> {
    const { role, userId } = await principalOf(door, ctx.req)
    if (role === 'guest') throw new WireError(401, 'user invalid')
    return userId
  }

  routes.get('/api/me/app_password/list', readFields(), async (ctx) => {
    const all = appPasswords.list(await ownerOf(ctx))
    ctx.body = success({ content: pageOf(all, parseFields(ctx, page)).map(appPasswordObject), total: all.length })
  })

  routes.post('/api/me/app_password/add', readFields(), async (ctx) => {
    const userId = await ownerOf(ctx)
    const { name, doors, read_only: readOnly } = parseFields(ctx, newAppPassword)
    const { row, password } = await onRow(missing, () => appPasswords.add(userId, { name, doors, readOnly }))
    ctx.body = success({ ...appPasswordObject(row), password })
  })

  routes.post('/api/me/app_password/delete', async (ctx) => {
    const userId = await ownerOf(ctx)
    const id = queryId(ctx, 'id', 'id format invalid')
    try {
      await appPasswords.delete(userId, id)
    } catch (error) {
      if (isGatewayError(error, 'not_found')) throw new WireError(404, missing)
      throw error
    }
    ctx.body = success()
  })
}
