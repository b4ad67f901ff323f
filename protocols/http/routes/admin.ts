/** Administration: who may, and the groups of routes. */
import { principalOf } from '../authenticate.js'
import type { Door, Routes } from '../context.js'
import { WireError } from '../errors.js'
import { adminDriverRoutes } from './admin-driver.js'
import { adminMetaRoutes } from './admin-meta.js'
import { adminSettingRoutes } from './admin-setting.js'
import { adminStorageRoutes } from './admin-storage.js'
import { adminUserRoutes } from './admin-user.js'

export function adminRoutes(routes: Routes, door: Door): void {
  // Every route below this path passes here, those that are added later too.
  routes.use('/api/admin', async (ctx, next) => {
    const { role } = await principalOf(door, ctx.req)
    if (role !== 'admin') throw new WireError(403, 'You are not an admin')
    await next()
  })
  const groups = [adminUserRoutes, adminMetaRoutes, adminDriverRoutes, adminStorageRoutes, adminSettingRoutes]
  for (const add of groups) add(routes, door)
}
