/** Administration of accounts and of what belongs to them. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/errors.js'
import { appPasswordObject, keyObject, userObject } from '../account-objects.js'
import { onRow, rowThere } from '../admin-rows.js'
import type { Context, Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import {
  flag,
  flagValue,
  given,
  integer,
  integerValue,
  paging,
  parseFields,
  queryId,
  readFields,
  requiredText,
  text,
} from '../fields.js'
import { pageOf } from '../paging.js'

const roleValue = integerValue.pipe(z.literal([0, 1, 2], { error: 'must be 0, 1 or 2' }))

const page = z.object(paging)
const newUser = z.object({
  username: requiredText,
  password: text,
  base_path: text,
  role: roleValue.nullish().transform((role) => role ?? 0),
  permission: integer(0),
  disabled: flag,
  sso_id: text,
})
/** What is left out stays as it is: not every client knows every field. */
const changedUser = z.object({
  id: integerValue,
  username: requiredText,
  password: text,
  base_path: given(z.string()),
  role: given(roleValue),
  permission: given(integerValue),
  disabled: given(flagValue),
  sso_id: given(z.string()),
})

const missing = 'failed get old user: record not found'

export function adminUserRoutes(routes: Routes, { gateway: { accounts } }: Door): void {
  const { users, keys, appPasswords } = accounts

  routes.get('/api/admin/user/list', readFields(), (ctx) => {
    const all = users.list()
    ctx.body = success({ content: pageOf(all, parseFields(ctx, page)).map(userObject), total: all.length })
  })

  routes.get('/api/admin/user/get', (ctx) => {
    ctx.body = success(userObject(rowThere(users.get(queryId(ctx)), missing)))
  })

  routes.post('/api/admin/user/create', readFields(), async (ctx) => {
    const { base_path: basePath, sso_id: ssoId, ...user } = parseFields(ctx, newUser)
    await onRow(missing, () => users.create({ ...user, basePath, ssoId }))
    ctx.body = success()
  })

  routes.post('/api/admin/user/update', readFields(), async (ctx) => {
    const { id, password, base_path: basePath, sso_id: ssoId, ...user } = parseFields(ctx, changedUser)
    const changes = { ...user, basePath, ssoId, password: password === '' ? undefined : password }
    await onRow(missing, () => users.update(id, changes))
    ctx.body = success()
  })

  routes.post('/api/admin/user/delete', async (ctx) => {
    const id = queryId(ctx)
    try {
      await onRow(missing, () => users.delete(id))
    } catch (error) {
      if (isGatewayError(error, 'invalid')) throw new WireError(500, error.reason)
      throw error
    }
    ctx.body = success()
  })

  routes.post('/api/admin/user/cancel_2fa', async (ctx) => {
    const id = queryId(ctx)
    await onRow(missing, () => users.update(id, { otpSecret: '' }))
    ctx.body = success()
  })

  // Asked for after an account was changed behind the server's back.
  routes.post('/api/admin/user/del_cache', async (ctx) => {
    const { username } = ctx.query
    await accounts.reload()
    rowThere(typeof username === 'string' ? users.byName(username) : undefined, missing)
    ctx.body = success()
  })

  /** The account that the query names by `uid`. */
  function ownerOf(ctx: Context): number {
    const id = queryId(ctx, 'uid', 'user id format invalid')
    if (users.get(id) === undefined) throw new WireError(404, 'user invalid')
    return id
  }

  routes.get('/api/admin/user/sshkey/list', readFields(), (ctx) => {
    const all = keys.list(ownerOf(ctx))
    ctx.body = success({ content: pageOf(all, parseFields(ctx, page)).map(keyObject), total: all.length })
  })

  routes.post('/api/admin/user/sshkey/delete', async (ctx) => {
    const key = keys.get(queryId(ctx, 'id', 'id format invalid'))
    if (key !== undefined) await keys.delete(key.userId, key.id)
    ctx.body = success()
  })

  routes.get('/api/admin/user/app_password/list', readFields(), (ctx) => {
    const all = appPasswords.list(ownerOf(ctx))
    ctx.body = success({ content: pageOf(all, parseFields(ctx, page)).map(appPasswordObject), total: all.length })
  })

  routes.post('/api/admin/user/app_password/delete', async (ctx) => {
    const row = appPasswords.get(queryId(ctx, 'id', 'id format invalid'))
    if (row !== undefined) await appPasswords.delete(row.userId, row.id)
    ctx.body = success()
  })
}
