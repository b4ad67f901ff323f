/** Administration of folder rules, which the API calls metas. */
import { z } from 'zod'
import { cleanPath } from '../../../src/path.js'
import type { FolderRule } from '../../../src/rules.js'
import { onRow, rowThere } from '../admin-rows.js'
import type { Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { flag, integerValue, paging, parseFields, queryId, readFields, requiredText, text } from '../fields.js'
import { pageOf } from '../paging.js'

const page = z.object(paging)
const userIds = z
  .array(integerValue)
  .nullish()
  .transform((ids) => ids ?? [])
const meta = z
  .object({
    path: requiredText,
    password: text,
    p_sub: flag,
    write: flag,
    w_sub: flag,
    hide: text,
    h_sub: flag,
    readme: text,
    r_sub: flag,
    header: text,
    header_sub: flag,
    read_users: userIds,
    read_users_sub: flag,
    write_users: userIds,
    write_users_sub: flag,
  })
  .transform((fields) => ({
    path: cleanPath(fields.path),
    password: fields.password,
    passwordSub: fields.p_sub,
    write: fields.write,
    writeSub: fields.w_sub,
    hide: fields.hide,
    hideSub: fields.h_sub,
    readme: fields.readme,
    readmeSub: fields.r_sub,
    header: fields.header,
    headerSub: fields.header_sub,
    readUsers: fields.read_users,
    readUsersSub: fields.read_users_sub,
    writeUsers: fields.write_users,
    writeUsersSub: fields.write_users_sub,
  }))
const metaId = z.object({ id: integerValue })

const missing = 'failed get old meta: record not found'

export function adminMetaRoutes(routes: Routes, { gateway: { rules } }: Door): void {
  routes.get('/api/admin/meta/list', readFields(), (ctx) => {
    const all = rules.list()
    ctx.body = success({ content: pageOf(all, parseFields(ctx, page)).map(metaObject), total: all.length })
  })

  routes.get('/api/admin/meta/get', (ctx) => {
    const id = queryId(ctx)
    const rule = rules.list().find((each) => each.id === id)
    ctx.body = success(metaObject(rowThere(rule, missing)))
  })

  routes.post('/api/admin/meta/create', readFields(), async (ctx) => {
    const rule = parseFields(ctx, meta)
    await onRow(missing, () => rules.create(rule))
    ctx.body = success()
  })

  routes.post('/api/admin/meta/update', readFields(), async (ctx) => {
    const { id } = parseFields(ctx, metaId)
    const rule = parseFields(ctx, meta)
    await onRow(missing, () => rules.update(id, rule))
    ctx.body = success()
  })

  routes.post('/api/admin/meta/delete', async (ctx) => {
    const id = queryId(ctx)
    await onRow(missing, () => rules.delete(id))
    ctx.body = success()
  })
}

function metaObject(rule: FolderRule): object {
  return {
    id: rule.id,
    path: rule.path,
    password: rule.password,
    p_sub: rule.passwordSub,
    write: rule.write,
    w_sub: rule.writeSub,
    hide: rule.hide,
    h_sub: rule.hideSub,
    readme: rule.readme,
    r_sub: rule.readmeSub,
    header: rule.header,
    header_sub: rule.headerSub,
    read_users: rule.readUsers,
    read_users_sub: rule.readUsersSub,
    write_users: rule.writeUsers,
    write_users_sub: rule.writeUsersSub,
  }
}
