/** What storages can be made of. */
import { z } from 'zod'
import type { AnyDriverType } from '../../../src/driver.js'
import { driverTemplate, templateData } from '../driver-template.js'
import { endpoint } from '../endpoint.js'
import { WireError } from '../errors.js'
import { queryText } from '../fields.js'

export const adminDriverEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/driver/list',
    tag: 'Drivers',
    summary: 'The forms of all drivers, by name',
    access: 'admin',
    data: z.record(z.string(), templateData),
    answer: ({ door }) =>
      Object.fromEntries(byName(door.gateway.driverTypes).map((type) => [type.name, driverTemplate(type)])),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/driver/names',
    tag: 'Drivers',
    summary: 'The names of all drivers',
    access: 'admin',
    data: z.array(z.string()),
    answer: ({ door }) => byName(door.gateway.driverTypes).map(({ name }) => name),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/driver/info',
    tag: 'Drivers',
    summary: 'The form of one driver',
    access: 'admin',
    query: z.object({ driver: queryText.meta({ example: 'Local' }).describe('Its name.') }),
    data: templateData,
    refusals: [{ code: 404, text: 'driver […] not found' }],
    answer({ door, query }) {
      const type = door.gateway.driverTypes.find(({ name }) => name === query.driver)
      if (type === undefined) throw new WireError(404, `driver [${query.driver.slice(0, 100)}] not found`)
      return driverTemplate(type)
    },
  }),
]

function byName(types: readonly AnyDriverType[]): readonly AnyDriverType[] {
  return [...types].sort((one, other) => (one.name < other.name ? -1 : 1))
}
