/** A setting that one node stores: the others apply it. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Log } from '../../src/base/log.js'
import { configSchema } from '../../src/installation/config.js'
import { Gateway } from '../../src/gateway/gateway.js'
import { EgressGuard } from '../../src/net/egress.js'
import { createLog } from '../../src/process/log.js'
import { protocols } from '../../protocols/index.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'
import { until } from '../until.js'

async function openNode(t: Test, data: string, store: string) {
  const errors: string[] = []
  const log: Log = Object.assign(createLog('silent'), {
    error: (_fields: object, message: string) => void errors.push(message),
  })
  const config = { ...configSchema(protocols).parse({}), data, store }
  const gateway = await Gateway.open({ config, log, drivers: [], protocols, admin: { password: 'x' } })
  t.teardown(() => gateway.close())
  return { gateway, errors, egress: new EgressGuard(() => gateway.settings.get('egress_networks')) }
}

void t.test('other nodes apply a setting', { skip: lacks('postgres', 'initdb') }, async (t) => {
  const store = await (await thisServer()).createDatabase()
  const folder = t.testdir()
  const nodes: Awaited<ReturnType<typeof openNode>>[] = []
  for (const name of ['one', 'two', 'three']) nodes.push(await openNode(t, join(folder, name), store))
  const [one, two] = nodes
  if (one === undefined || two === undefined) throw new Error('a node is missing')
  t.same(
    nodes.map(({ gateway }) => gateway.settings.get('token')),
    Array<string>(3).fill(one.gateway.settings.get('token')),
  )

  t.throws(() => two.egress.assertAllowed('10.0.0.1'), { code: 'denied' })
  await t.rejects(one.gateway.settings.set(new Map([['egress_networks', 'nowhere']])), { code: 'invalid' })
  const values = { egress_networks: '10.0.0.0/8', egress_proxy: '127.0.0.1:0', search_index: 'database' }
  await one.gateway.settings.set(new Map(Object.entries(values)))
  await until(() => nodes.every(({ gateway }) => gateway.settings.get('egress_networks') !== ''))
  two.egress.assertAllowed('10.0.0.1')
  t.equal(two.gateway.settings.get('egress_proxy'), '127.0.0.1:0')
  for (const { gateway } of nodes) await gateway.search.reader()
  t.same(
    nodes.map(({ errors }) => errors),
    [[], [], []],
  )
})

void t.test(
  'two nodes that make the permanent token at once agree on it',
  { skip: lacks('postgres', 'initdb') },
  async (t) => {
    const store = await (await thisServer()).createDatabase()
    const folder = t.testdir()
    const nodes = await Promise.all(['one', 'two'].map((name) => openNode(t, join(folder, name), store)))
    const [one, two] = nodes.map(
      ({ gateway }) =>
        () =>
          gateway.settings.get('token'),
    )
    await until(() => one?.() === two?.())
    t.pass()
  },
)
