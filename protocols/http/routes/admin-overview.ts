/** What the dashboard of admins shows. An extension of this gateway (docs/audit.md). */
import { z } from 'zod'
import { eventObject } from '../../../src/audit/forms.js'
import type { TrafficPeriod } from '../../../src/audit/traffic.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import { taskKinds, taskStates } from '../../../src/tasks/task.js'
import { endpoint } from '../api/endpoint.js'
import { timestamp } from '../api/schemas.js'
import { mountDetails, mountDetailsData } from '../compat/object.js'
import { eventData } from './admin-audit.js'

const trafficData = z
  .object({
    start: timestamp,
    bytes_in: z.int().describe('Content that clients have sent.'),
    bytes_out: z.int().describe('Content that clients have received through the gateway.'),
    changes: z.int(),
    refusals: z.int(),
  })
  .meta({ id: 'Traffic' })

const storageData = z
  .object({
    id: z.int(),
    mount_path: z.string(),
    driver: z.string(),
    status: z.string().describe('`work`, or why it does not work.'),
    disabled: z.boolean(),
    usage: mountDetailsData.nullable().describe('null if it reports none, or does not answer in time.'),
  })
  .meta({ id: 'StorageOverview' })

/** Maximum number of failed events that are shown: the newest. */
const maxErrors = 10
const errorTime = 7 * 24 * 3600_000

export const adminOverviewEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/overview',
    tag: 'Audit',
    summary: 'Get the traffic, the storages with their space, the numbers of tasks, and the last errors',
    description:
      'Of all nodes together; what other nodes have done in the last ten seconds can be missing. What tasks transfer ' +
      'between storages is none of the traffic.',
    access: 'admin',
    data: z.object({
      minutes: z.array(trafficData).readonly().describe('The last 60, with the current one.'),
      days: z.array(trafficData).readonly().describe('The last 31, of UTC, with the current one.'),
      storages: z.array(storageData).readonly(),
      tasks: z
        .object(Object.fromEntries(taskStates.map((state) => [state, z.int()])))
        .meta({ id: 'TaskCounts' })
        .describe('How many, by state.'),
      errors: z.array(eventData).readonly().describe('The newest events of the last week that failed, at most 10.'),
    }),
    async answer({ api: { gateway }, principal }) {
      const { audit } = gateway.records
      const [minutes, days, storages, states, failed] = await Promise.all([
        trafficOf(gateway, 'minute'),
        trafficOf(gateway, 'day'),
        Promise.all(gateway.storages.list().map((row) => storageOf(gateway, row))),
        Promise.all(taskKinds.map((kind) => gateway.tasks.list(principal, kind))),
        audit.list({ result: 'failed', from: Date.now() - errorTime }, maxErrors),
      ])
      const all = states.flat()
      const tasks = taskStates.map((state) => [state, all.filter((task) => task.state === state).length] as const)
      return { minutes, days, storages, tasks: Object.fromEntries(tasks), errors: failed.events.map(eventObject) }
    },
  }),
]

async function trafficOf({ records: { traffic } }: ProtocolGateway, period: TrafficPeriod) {
  return (await traffic.of(period)).map(({ start, bytesIn, bytesOut, changes, refusals }) => ({
    start: new Date(start).toISOString(),
    ...{ bytes_in: bytesIn, bytes_out: bytesOut, changes, refusals },
  }))
}

async function storageOf(
  { storages }: ProtocolGateway,
  { id, mountPath, driver, status, disabled }: ReturnType<ProtocolGateway['storages']['list']>[number],
) {
  const usage = await storages.usage(id)
  return { id, mount_path: mountPath, driver, status, disabled, usage: usage ? mountDetails(usage) : null }
}
