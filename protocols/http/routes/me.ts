/** The user who asks, and the user's SSH keys. */
import { z } from 'zod'
import { GatewayError, isGatewayError } from '../../../src/errors.js'
import { keyObject, userObject } from '../account-objects.js'
import { onRow } from '../admin-rows.js'
import { principalOf } from '../authenticate.js'
import type { Context, Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { given, paging, parseFields, queryId, readFields, requiredText, text } from '../fields.js'
import { pageOf } from '../paging.js'

const keyPage = z.object(paging)
/** What is left out stays as it is; an empty password is none. */
const changes = z.object({ username: requiredText, password: text, sso_id: given(z.string()) })
const newKey = z.object({ title: text, key: text })

export function meRoutes(routes: Routes, door: Door): void {
  const { accounts } = door.gateway

  routes.get('/api/me', async (ctx) => {
    const { userId } = await principalOf(door, ctx.req)
    const user = accounts.users.get(userId)
    if (user === undefined) throw new GatewayError('unauthenticated')
    ctx.body = success({ ...userObject(user), otp: user.otpSecret !== '' })
  })

  routes.post('/api/me/update', readFields(), async (ctx) => {
    const { role, userId } = await principalOf(door, ctx.req)
    if (role === 'guest') throw new WireError(403, 'Guest user can not update profile')
    const { username, password, sso_id: ssoId } = parseFields(ctx, changes)
    const update = { username, ssoId, password: password === '' ? undefined : password }
    await onRow('failed get old user: record not found', () => accounts.users.update(userId, update))
    ctx.body = success()
  })

  async function ownerOfKeys(ctx: Context): Promise<number> {
    const { role, userId } = await principalOf(door, ctx.req)
    if (role === 'guest') throw new WireError(401, 'user invalid')
    return userId
  }

  routes.get('/api/me/sshkey/list', readFields(), async (ctx) => {
    const keys = accounts.keys.list(await ownerOfKeys(ctx))
    ctx.body = success({ content: pageOf(keys, parseFields(ctx, keyPage)).map(keyObject), total: keys.length })
  })

  routes.post('/api/me/sshkey/add', readFields(), async (ctx) => {
    const userId = await ownerOfKeys(ctx)
    const { title, key } = parseFields(ctx, newKey)
    if (title === '' || key === '') throw new WireError(400, 'request invalid')
    try {
      await accounts.keys.add(userId, title, key)
    } catch (error) {
      if (isGatewayError(error, 'invalid')) throw new WireError(400, 'provided key invalid')
      if (isGatewayError(error, 'exists')) throw new WireError(500, 'key with the same title already exists')
      throw error
    }
    ctx.body = success()
  })

  routes.post('/api/me/sshkey/delete', async (ctx) => {
    const userId = await ownerOfKeys(ctx)
    const id = queryId(ctx, 'id', 'id format invalid')
    try {
      await accounts.keys.delete(userId, id)
    } catch (error) {
      if (isGatewayError(error, 'not_found')) throw new WireError(404, 'failed to get public key')
      throw error
    }
    ctx.body = success()
  })
}
