/** Information about the available drivers. */
import { z } from 'zod'
import type { DriverDescription } from '../../../src/contract/driver-type.js'
import { driverTemplate, templateData } from '../compat/driver-template.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused } from '../api/errors.js'
import { requiredText } from '../api/fields.js'

const unknownDriver = (name: string): Refusal => ({
  code: 404,
  text: `driver [${name}] not found`,
  error: 'driver_unknown',
})

export const adminDriverEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/driver/list',
    tag: 'Drivers',
    summary: 'List the forms of all drivers, by name',
    access: 'admin',
    data: z.record(z.string(), templateData),
    answer: ({ api }) =>
      Object.fromEntries(byName(api.gateway.driverTypes).map((type) => [type.name, driverTemplate(type)])),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/driver/names',
    tag: 'Drivers',
    summary: 'List the names of all drivers',
    access: 'admin',
    data: z.array(z.string()),
    answer: ({ api }) => byName(api.gateway.driverTypes).map(({ name }) => name),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/driver/info',
    tag: 'Drivers',
    summary: 'Get the form of a driver',
    access: 'admin',
    query: z.object({ driver: requiredText.meta({ example: 'Local' }).describe('The name of the driver.') }),
    data: templateData,
    refusals: [unknownDriver('…')],
    answer({ api, query }) {
      const type = api.gateway.driverTypes.find(({ name }) => name === query.driver)
      if (type === undefined) throw refused(unknownDriver(query.driver.slice(0, 100)))
      return driverTemplate(type)
    },
  }),
]

function byName(types: readonly DriverDescription[]): readonly DriverDescription[] {
  return [...types].sort((one, other) => (one.name < other.name ? -1 : 1))
}
