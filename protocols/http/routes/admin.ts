/** Administration: who may, and the groups of routes that are not declared yet. */
import { principalOf } from '../authenticate.js'
import type { Door, Routes } from '../context.js'
import { WireError } from '../errors.js'

export function adminRoutes(routes: Routes, door: Door): void {
  const groups: readonly ((routes: Routes, door: Door) => void)[] = []
  if (groups.length === 0) return
  // Every route below this path passes here, those that are added later too.
  routes.use('/api/admin', async (ctx, next) => {
    const { role } = await principalOf(door, ctx.req)
    if (role !== 'admin') throw new WireError(403, 'You are not an admin')
    await next()
  })
  for (const add of groups) add(routes, door)
}
