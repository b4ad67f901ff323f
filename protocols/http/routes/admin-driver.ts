/** What storages can be made of. */
import type { Door, Routes } from '../context.js'
import { driverTemplate } from '../driver-template.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'

export function adminDriverRoutes(routes: Routes, { gateway }: Door): void {
  const types = [...gateway.driverTypes].sort((one, other) => (one.name < other.name ? -1 : 1))

  routes.get('/api/admin/driver/list', (ctx) => {
    ctx.body = success(Object.fromEntries(types.map((type) => [type.name, driverTemplate(type)])))
  })

  routes.get('/api/admin/driver/names', (ctx) => {
    ctx.body = success(types.map(({ name }) => name))
  })

  routes.get('/api/admin/driver/info', (ctx) => {
    const { driver } = ctx.query
    const type = types.find(({ name }) => name === driver)
    if (type === undefined) {
      throw new WireError(404, `driver [${typeof driver === 'string' ? driver.slice(0, 100) : ''}] not found`)
    }
    ctx.body = success(driverTemplate(type))
  })
}
