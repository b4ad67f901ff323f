/** Nodes that share a database: heartbeats, the end of dead nodes, and what a node may do meanwhile. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import { joinCluster } from '../../src/cluster/cluster.js'
import { isSilent, nodeStatuses } from '../../src/cluster/node-rows.js'
import { createLog } from '../../src/process/log.js'
import { openStore } from '../../src/database/store.js'
import { Events } from '../../src/storage/events.js'
import { lacks } from '../programs.js'
import { engines, thisServer } from '../database/engines.js'
import { storageRow } from '../database/store-rows.js'
import { until } from '../until.js'

const skip = lacks('postgres', 'initdb')
const times = { interval: 100, current: 400, dead: 800 }

interface Joining {
  /** How its work of taking over ends; at once by default. */
  readonly takingOver?: Promise<void>
  /** Whether the heartbeats of the node wait until `thaw` is called. */
  readonly isFrozen?: boolean
  readonly isOver?: (id: string) => boolean | undefined
  readonly runs?: (id: string) => boolean | undefined
}

const unknown = () => undefined

/** A node of the database, which records what its handlers are called for. */
async function join(t: Test, location: string, id: string, joining: Joining = {}) {
  const store = await openStore(location, { node: id })
  let { isFrozen = false } = joining
  const nodes = Object.assign(Object.create(store.nodes) as typeof store.nodes, {
    renew: async (...renewing: Parameters<typeof store.nodes.renew>) => {
      while (isFrozen) await wait(10)
      return store.nodes.renew(...renewing)
    },
  })
  const { isOver = unknown, runs = unknown } = joining
  const cluster = await joinCluster({
    store: { ...store, nodes },
    instance: { name: id, isOver, runs },
    ...{ name: id, events: new Events(), log: createLog('silent'), times },
  })
  const calls: string[] = []
  const start = () =>
    cluster.start({
      reload: async () => void calls.push('reload'),
      takeOver: async () => {
        calls.push('take over')
        await joining.takingOver
      },
      working: () => ({ tasks: 3 }),
      ended: () => void calls.push('ended'),
    })
  let isClosed = false
  const close = async () => {
    if (isClosed) return
    isClosed = true
    isFrozen = false
    await cluster.leave().catch(() => undefined)
    await store.close()
  }
  t.teardown(close)
  return {
    ...{ store, cluster, calls, start, close },
    freeze: () => void (isFrozen = true),
    thaw: () => void (isFrozen = false),
  }
}

const intent = (storageId: number) => ({ storageId, kind: 'backup', from: asPath('/a'), to: asPath('/b') }) as const

void t.test('living nodes do not touch the work of each other', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const [one, two] = [await join(t, location, 'one'), await join(t, location, 'two')]
  one.start()
  two.start()
  const { id } = await one.store.storages.insert(storageRow({}))
  const own = await one.store.intents.insert(intent(id))
  await wait(3 * times.dead)
  t.same([one.cluster.count, two.cluster.count], [2, 2])
  t.same(await two.store.intents.ofStorage(id), [])
  t.equal(await two.store.intents.get(own), undefined)
  await two.store.intents.drop(own)
  await two.store.intents.apply(own, asPath('/'))
  await t.rejects(two.store.intents.setKind(own, 'spare backup'), { code: 'unavailable' })
  t.match(await one.store.intents.ofStorage(id), [{ id: own, kind: 'backup' }])
  t.same([one.calls, two.calls], [[], []])
})

void t.test('the work of a node that leaves belongs to another soon', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const [one, two] = [await join(t, location, 'one'), await join(t, location, 'two')]
  one.start()
  two.start()
  const { id } = await one.store.storages.insert(storageRow({}))
  await one.store.intents.insert(intent(id))
  await one.close()
  await until(() => two.calls.length > 0)
  t.same(two.calls, ['take over'])
  t.equal((await two.store.intents.ofStorage(id)).length, 1)
  t.equal(two.cluster.instance.isOver('one'), true)
  t.equal(two.cluster.instance.isOver('two'), false)
  t.equal(two.cluster.instance.isOver('a stranger'), undefined)
})

void t.test('a node without heartbeats is ended, and can change nothing afterwards', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const silent = await join(t, location, 'silent', { isFrozen: true })
  silent.start()
  const { id } = await silent.store.storages.insert(storageRow({}))
  const own = await silent.store.intents.insert(intent(id))
  const other = await join(t, location, 'other')
  other.start()
  await wait(times.current)
  t.throws(() => silent.cluster.assertCurrent(), { code: 'unavailable', retryAfter: 1 })
  await until(() => other.calls.length > 0)
  t.same(other.calls, ['take over'])
  await t.rejects(silent.store.intents.setKind(own, 'spare backup'), { code: 'unavailable' })
  await silent.store.intents.drop(own)
  t.match(await other.store.intents.ofStorage(id), [{ id: own, kind: 'backup' }])
  silent.thaw()
  await until(() => silent.calls.length > 0)
  t.same(silent.calls, ['ended'])
  t.equal(silent.cluster.isCurrent, false)
})

void t.test('a node that renews its heartbeat in time reloads before it acts again', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const node = await join(t, location, 'late', { isFrozen: true })
  node.start()
  await wait(times.current + 50)
  t.equal(node.cluster.isCurrent, false)
  node.thaw()
  await until(() => node.cluster.isCurrent)
  // Several heartbeats may have waited.
  t.same([...new Set(node.calls)], ['reload'])
})

void t.test('a node sends heartbeats from when it joins, however long its start takes', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const other = await join(t, location, 'other')
  other.start()
  const slow = await join(t, location, 'slow')
  await wait(3 * times.dead)
  t.ok(slow.cluster.isCurrent)
  t.same(other.calls, [])
  // Nodes that leave meanwhile have their work taken over when it has started.
  await other.close()
  await wait(2 * times.interval)
  slow.start()
  await until(() => slow.calls.length > 0)
  t.same(slow.calls, ['take over'])

  await (await join(t, location, 'third')).store.nodes.end('slow')
  await until(() => !slow.cluster.isCurrent)
  const next = await join(t, location, 'next', { isFrozen: true })
  await slow.store.nodes.end('next')
  next.thaw()
  await until(() => !next.cluster.isCurrent)
  t.throws(() => next.start(), { code: 'unavailable' }, 'a node that was ended during its start does not start')
})

void t.test('the work of a node that came and left between two heartbeats is taken over', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const one = await join(t, location, 'one')
  one.start()
  await wait(2 * times.interval)
  one.freeze()
  await wait(2 * times.interval)
  await (await join(t, location, 'short')).close()
  await one.cluster.publishAddresses({})
  one.thaw()
  await until(() => one.calls.includes('take over'))
  t.pass('taken over')
})

void t.test('a node sends heartbeats while it takes over work from a slow backend', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  let end: () => void = () => undefined
  const takingOver = new Promise<void>((resolve) => (end = resolve))
  const node = await join(t, location, 'node', { takingOver })
  node.start()
  await (await join(t, location, 'other')).close()
  // A busy machine may delay heartbeats, after which the node reloads.
  const takeOvers = () => node.calls.filter((call) => call === 'take over').length
  await until(() => takeOvers() > 0)
  const heartbeats = new Set<number>()
  while (heartbeats.size < 10) {
    for (const { id, heartbeat } of await node.store.nodes.all()) if (id === 'node') heartbeats.add(heartbeat)
    await wait(20)
  }
  t.equal(takeOvers(), 1)
  end()
  await (await join(t, location, 'third')).close()
  await until(() => takeOvers() > 1)
})

void t.test('a node that is not current any more says so', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const node = await join(t, location, 'node')
  const lapses: boolean[] = []
  const claims = [{ path: asPath('/a'), tree: false }]
  const onLost = () => void lapses.push(node.cluster.isCurrent)
  const release = await node.cluster.pathLocks(new Map()).acquire(claims, undefined, { onLost })
  node.start()
  for (let round = 0; round < 2; round++) {
    const before = lapses.length
    node.freeze()
    await until(() => lapses.length > before)
    node.thaw()
    await until(() => node.cluster.isCurrent)
  }
  release()
  t.notOk(lapses.includes(true), 'and only then')
})

void t.test('what looks like an earlier run is ended only if it is', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  // Copies of one machine look like earlier boots of each other.
  const copy = await join(t, location, 'copy')
  const killed = await join(t, location, 'killed')
  const silent = await join(t, location, 'silent', { isFrozen: true })
  await wait(times.current)
  const runs = (id: string) => (id === 'killed' ? false : undefined)
  const node = await join(t, location, 'node', { isOver: (id) => (id === 'node' ? false : true), runs })
  const ended = (await node.cluster.status()).filter((each) => each.ended !== undefined)
  t.same(ended.map(({ id }) => id).sort(), ['killed', 'silent'])
  t.ok(copy.cluster.isCurrent)
  await Promise.all([killed, silent].map((each) => each.close()))
})

void t.test('a node learns of changes of the number of nodes with its heartbeats', { skip }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const one = await join(t, location, 'one')
  one.start()
  const counts: number[] = []
  const unsubscribe = one.cluster.onCountChange(() => counts.push(one.cluster.count))
  const settings = { number: () => 6, onChange: () => () => undefined }
  const limits = one.cluster.limits(settings)
  let reported = 0
  limits.onChange(() => reported++)
  t.equal(limits.number('max_client_upload_speed'), 6)
  const two = await join(t, location, 'two')
  two.start()
  await until(() => counts.length > 0)
  t.equal(limits.number('max_client_upload_speed'), 3)
  t.equal(limits.number('copy_task_threads_num'), 3)
  t.equal(limits.number('transfer_files_at_once'), 6)
  await until(async () => (await one.cluster.status())[1]?.working.tasks === 3)
  await two.close()
  await until(() => counts.length > 1)
  t.same(counts, [2, 1])
  t.equal(reported, 2)
  t.match(await one.cluster.status(), [
    { id: 'one', state: 'current', ended: undefined, working: { tasks: 3 } },
    { id: 'two', state: 'ended', ended: Date },
  ])
  unsubscribe()
  const server = await thisServer()
  await server.query(`update nodes set ended = ended - 3600000 where id = 'two'`, location)
  t.equal((await one.cluster.status()).length, 1)
  one.freeze()
  await wait(2 * times.interval)
  await server.query(`update nodes set heartbeat = heartbeat - 20000`, location)
  t.match(await nodeStatuses(one.store.nodes, isSilent), [{ state: 'silent' }])
})

for (const engine of engines) {
  void t.test(
    `a node that starts owns what no living node owns, on ${engine.name}`,
    { skip: engine.skip },
    async (t) => {
      const location = await engine.newDatabase(t)
      const store = await openStore(location)
      const { id } = await store.storages.insert(storageRow({}))
      await store.intents.insert(intent(id))
      await store.close()
      const node = await join(t, location, 'next')
      t.equal((await node.store.intents.ofStorage(id)).length, 1)
      t.match(await node.cluster.status(), [{ id: 'next', ended: undefined }])
    },
  )
}
