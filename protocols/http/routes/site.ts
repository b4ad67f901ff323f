/** What browsers and crawlers ask of any site. */
import type { Door, Routes } from '../context.js'

export function siteRoutes(routes: Routes, { gateway: { settings } }: Door): void {
  routes.all('/ping', (ctx) => {
    ctx.body = 'pong'
  })
  routes.get('/favicon.ico', (ctx) => {
    const address = settings.get('favicon')
    if (address === '') ctx.status = 404
    else ctx.redirect(address)
  })
  routes.get('/robots.txt', (ctx) => {
    ctx.body = settings.get('robots_txt')
  })
}
