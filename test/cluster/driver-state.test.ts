/**
 * What drivers store on several nodes: work that one node at a time does, options that a driver changes, and files in
 * memory.
 */
import { randomUUID } from 'node:crypto'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { asPath } from '../../src/base/path.js'
import { startGateway, startNodes, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'

const skip = lacks('postgres', 'initdb')

void t.test('work with one key is done by one node at a time', { skip }, async (t) => {
  const envs: DriverEnv[] = []
  const type: AnyDriverType = {
    name: 'Exclusive',
    fields: {},
    open: async (_options: never, env) => {
      envs.push(env)
      return new MemoryDriver(0)
    },
  }
  const store = await (await thisServer()).createDatabase()
  await startNodes(t, store, 2, { driver: { name: 'Exclusive' }, driverTypes: [type] })
  const [first, second] = envs
  if (!first || !second) throw new Error('a storage has not started')
  let running = 0
  let most = 0
  const work = async () => {
    most = Math.max(most, ++running)
    await wait(5)
    running--
  }
  const done = [...envs, ...envs, ...envs].map(({ state }) => state.exclusively('one', work))
  await Promise.all(done)
  t.equal(most, 1)
  const failure = new Error('the token is refused')
  await t.rejects(
    first.state.exclusively('one', () => Promise.reject(failure)),
    failure,
  )
  const inside = first.state.exclusively('one', async () => second.state.exclusively('another', async () => 'x'))
  t.equal(await inside, 'x', 'another key, and no lock is left')
})

void t.test('options that every node stores in a form of its own settle on one form', { skip }, async (t) => {
  const opened: string[] = []
  const type: AnyDriverType = {
    name: 'Saving',
    fields: { password: { type: 'string' } },
    open: async ({ password }: { readonly password: string }, env) => {
      opened.push(password)
      if (!password.startsWith('obscured')) await env.save({ password: `obscured ${randomUUID()}` })
      return new MemoryDriver(0)
    },
  }
  const store = await (await thisServer()).createDatabase()
  const nodes = await startNodes(t, store, 3, { driver: { name: 'Saving' }, driverTypes: [type] })
  const [one] = nodes
  const [row] = (await one?.gateway.store.storages.all()) ?? []
  if (!one || !row) throw new Error('no storage')
  const rows = () => nodes.map(({ gateway }) => gateway.mounts.rows()[0])
  for (let round = 0; round < 3; round++) {
    opened.length = 0
    const addition = JSON.stringify({ password: `typed ${round}` })
    await one.gateway.supervisor.apply(await one.gateway.store.storages.update(row.id, { addition }))
    const stored = async () => (await one.gateway.store.storages.all())[0]?.addition ?? ''
    while (rows().some((each) => each?.addition.includes('typed') !== false)) await wait(20)
    await wait(1000)
    t.same(new Set(rows().map((each) => each?.addition)), new Set([await stored()]))
    t.ok(opened.length <= 2 * nodes.length, `opened ${opened.length} times`)
  }
})

void t.test('a storage in memory runs on a node that is alone, and on no node otherwise', { skip }, async (t) => {
  const store = await (await thisServer()).createDatabase()
  const [one] = await startNodes(t, store, 1, { driver: { name: 'Memory' } })
  if (!one) throw new Error('no gateway')
  const statusOf = (node: RunningGateway) => node.gateway.mounts.rows()[0]?.status
  t.equal(statusOf(one), 'work')
  const two = await startGateway(t, { dataFolder: await mkdtemp(join(t.testdir(), 'two-')), store })
  t.match(statusOf(two), /several processes serve this tree/)
  // The row has the status that either node stored last.
  const refusal = () => {
    try {
      one.gateway.mounts.find(asPath('/x'))
      return ''
    } catch (error) {
      return String(error)
    }
  }
  while (!refusal().includes('several processes')) await wait(50)
  t.throws(() => one.gateway.mounts.find(asPath('/x')), { code: 'unavailable', reason: /several processes/ })
  await two.stop()
  while (refusal() !== '') await wait(50)
  t.equal(one.gateway.mounts.find(asPath('/x')).storage.mountPoint, '/')
})
