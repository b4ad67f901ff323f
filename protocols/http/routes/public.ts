/** What anybody may ask. */
import type { Door, Routes } from '../context.js'
import { success } from '../envelope.js'

export function publicRoutes(routes: Routes, { gateway }: Door): void {
  routes.all('/api/public/settings', (ctx) => {
    ctx.body = success(gateway.settings.public())
  })
  // Clients ask for these two at their start and need a list; there are no tools and no archive formats.
  routes.all(['/api/public/offline_download_tools', '/api/public/archive_extensions'], (ctx) => {
    ctx.body = success([])
  })
}
